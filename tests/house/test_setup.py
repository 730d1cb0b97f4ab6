"""`make setup` on machines that lack something, with the programs that it calls stood in for.

The stand-ins are scripts early on PATH; the set-up script is the real one, in a small copy of the
repository. That it works with the real programs is what every run of `make test` begins with.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.house import house_rules
from tests.support.samples import sample

REPOSITORY = Path(__file__).resolve().parents[2]

# Answers questions about itself as a Python does; makes environments that hold a copy of itself;
# its pip fails with what the file `fault` says, or writes down that it was called.
PYTHON = f"""#!/bin/sh
case "$*" in
"-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip --version") ;;
*"import mypyc"*) echo ../programs ;;
"-m pip install "*)
    if [ -e fault ]; then cat fault; exit 1; fi
    echo "$*" >>installed
    case "$*" in *--editable*) cp /bin/true .venv/bin/tidegate ;; esac ;;
*ensurepip*) [ ! -e no-ensurepip ] ;;
*) exec {sys.executable} "$@" ;;
esac
"""
OLD_PYTHON = '#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2\nexit 1\n'
FULL_DISK = "#!/bin/sh\necho header\necho disk 100 99 20480 99% /\n"
DEBIAN = '#!/bin/sh\necho "$*" >>apt-calls\necho Filename: pool\n'
PASS_ON = '#!/bin/sh\nshift\nexec "$@"\n'


class Machine:
    """A repository, and the programs that `.ci/setup.sh` finds before the real ones."""

    def __init__(self, root: Path) -> None:
        self.repository = root / "tidegate"
        self.programs = root / "programs"
        self.programs.mkdir()
        shutil.copytree(REPOSITORY / ".ci", self.repository / ".ci")
        shutil.copy(REPOSITORY / "pyproject.toml", self.repository)
        self.has("python3", PYTHON)
        self.has("qemu-system-arm", "")
        for each in ("gcc", "Python.h"):
            self.has(each, "")
        self.microbit_firmware = self.programs / "qemu-system-arm"  # any file that is there
        self.python = ""  # that was asked for
        self.compile = "no"

    def has(self, name: str, script: str) -> None:
        (self.programs / name).write_text(script)
        (self.programs / name).chmod(0o755)

    def set_up(
        self, script: str = ".ci/setup.sh", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", script],
            cwd=self.repository,
            env={
                "PATH": f"{self.programs}:/usr/bin:/bin",
                "HOME": os.environ.get("HOME", "/"),
                "MICROBIT_FIRMWARE": str(self.microbit_firmware),
                "SYSTEM_PYTHON": str(self.programs / "system-python3"),
                "PYTHON": self.python,
                "COMPILE": self.compile,
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def calls_of_pip(self) -> list[str]:
        log = self.repository / "installed"
        return log.read_text().splitlines() if log.exists() else []

    def installations(self) -> int:
        return sum(".ci/requirements.lock" in call for call in self.calls_of_pip())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_first_run_says_each_step_and_leaves_the_command(machine: Machine) -> None:
    run = machine.set_up()
    assert run.returncode == 0, run.stderr
    steps = [line.split()[1] for line in run.stdout.splitlines()]
    assert steps == ["making", "installing", "ready"]
    assert os.access(machine.repository / ".venv/bin/tidegate", os.X_OK)


def test_the_second_run_does_and_says_nothing_and_needs_no_network(machine: Machine) -> None:
    machine.set_up()
    (machine.repository / "fault").write_text("Network is unreachable")
    run = machine.set_up()
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "name", [".ci/requirements.lock", ".ci/requirements-build.lock", "pyproject.toml"]
)
def test_a_changed_dependency_is_installed_into_the_environment_that_is_there(
    machine: Machine, name: str
) -> None:
    machine.set_up()
    with (machine.repository / name).open("a") as changed:
        changed.write("# changed\n")
    run = machine.set_up()
    assert machine.installations() == 2
    assert "making" not in run.stdout


def test_a_moved_repository_gets_a_new_environment(machine: Machine) -> None:
    machine.set_up()
    machine.repository = machine.repository.rename(machine.repository.with_name("moved"))
    assert "making" in machine.set_up().stdout


def test_an_environment_whose_python_is_gone_is_made_anew(machine: Machine) -> None:
    machine.has("system-python3", PYTHON)
    machine.set_up()
    (machine.programs / "system-python3").unlink()
    assert f"({machine.programs}/python3)" in machine.set_up().stdout


def test_an_interrupted_run_is_done_again(machine: Machine) -> None:
    machine.set_up()
    (machine.repository / ".venv/.ready").unlink()
    assert "ready" in machine.set_up().stdout
    assert machine.installations() == 2


def test_a_python_too_old_is_named_with_what_to_do(machine: Machine) -> None:
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        machine.has(name, OLD_PYTHON)
    run = machine.set_up()
    assert run.returncode == 69
    assert "3.11 or newer is needed; python3 here is Python 3.9.2" in run.stderr
    assert "make setup PYTHON=" in run.stderr


def test_the_systems_python_comes_before_another_on_path(machine: Machine) -> None:
    machine.has("system-python3", PYTHON)
    assert f"({machine.programs}/system-python3)" in machine.set_up().stdout


@pytest.mark.parametrize("why", ["it is too old", "it makes no environment", "another is wanted"])
def test_the_systems_python_is_passed_over_where(machine: Machine, why: str) -> None:
    no_venv = PYTHON.replace("[ ! -e no-ensurepip ]", "false")
    scripts = {"it is too old": OLD_PYTHON, "it makes no environment": no_venv}
    machine.has("system-python3", scripts.get(why, PYTHON))
    if why == "another is wanted":
        machine.python = "python3"
    run = machine.set_up()
    assert run.returncode == 0, run.stderr
    assert f"({machine.programs}/python3)" in run.stdout


def test_another_python_makes_the_environment_anew_and_once(machine: Machine) -> None:
    machine.set_up()
    machine.has("another-python", PYTHON)
    machine.python = "another-python"
    assert f"({machine.programs}/another-python)" in machine.set_up().stdout
    assert machine.set_up().stdout == ""
    machine.python = ""
    assert machine.set_up().stdout == "", "and it stays"


def test_a_board_that_is_too_old_is_said_before_anything_is_written(machine: Machine) -> None:
    machine.has("uname", "#!/bin/sh\necho armv6l\n")
    run = machine.set_up()
    assert run.returncode == 69
    assert "this board (ARMv6: Raspberry Pi 1, Zero, Zero W) cannot run Tidegate" in run.stderr
    assert "Any Raspberry Pi from 2 on, and the Zero 2 W, can." in run.stderr
    assert not (machine.repository / ".venv").exists()


def test_a_board_that_is_too_old_builds_nothing_of_it(tmp_path: Path) -> None:
    """As pip, pipx and uv do before they look for what it needs."""
    code = (
        "import platform, sys; platform.machine = lambda: 'armv6l'; "
        f"sys.argv = ['hatchling', 'build', '-t', 'wheel', '-d', {str(tmp_path)!r}]; "
        "from hatchling.cli import hatchling; hatchling()"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("tidegate: this board (ARMv6: Raspberry Pi 1, Zero, Zero W)")
    assert not list(tmp_path.iterdir())


def test_too_little_disk_is_said_before_anything_is_written(machine: Machine) -> None:
    machine.has("df", FULL_DISK)
    run = machine.set_up()
    assert run.returncode == 73
    assert "20 MiB are free here, 720 are needed" in run.stderr
    assert not (machine.repository / ".venv").exists()


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        ("Temporary failure in name resolution", 69, "the network or the package index"),
        ("[Errno 101] Network is unreachable", 69, "the network or the package index"),
        ("OSError: [Errno 28] No space left on device", 73, "the disk is full"),
        ("certificate verify failed: certificate is not yet valid", 69, "the clock may be wrong"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES FROM", 69, "has not the hash that the lock file"),
        ("Hash mismatch for `cbor2==6.1`", 69, "has not the hash that the lock file"),
        ("something nobody foresaw", 69, "the whole output is in .venv/setup.log"),
        ("Collecting pytest-timeout\nsomething else", 69, "the whole output is in .venv/setup.log"),
    ],
)
def test_a_failed_installation_says_why_and_is_done_again(
    machine: Machine, fault: str, code: int, message: str
) -> None:
    (machine.repository / "fault").write_text(fault)
    run = machine.set_up()
    assert run.returncode == code
    assert message in run.stderr
    assert fault.splitlines()[-1] in run.stderr
    (machine.repository / "fault").unlink()
    assert machine.set_up().returncode == 0


def test_what_is_installed_must_have_the_hashes_of_the_lock(machine: Machine) -> None:
    machine.has("uname", "#!/bin/sh\necho aarch64\n")
    assert machine.set_up().returncode == 0
    build, rest, _ = machine.calls_of_pip()
    for call, lock in ((build, "-build"), (rest, "")):
        assert (
            f"--require-hashes --no-deps --no-build-isolation -r .ci/requirements{lock}.lock"
            in call
        )


def test_on_32_bit_arm_the_same_versions_are_installed_whatever_their_hashes(
    machine: Machine,
) -> None:
    machine.has("uname", "#!/bin/sh\necho armv7l\n")
    assert machine.set_up().returncode == 0
    versions, _ = machine.calls_of_pip()
    assert "--require-hashes" not in versions
    assert "-r .venv/requirements.txt" in versions
    plain = list(house_rules.pins_in(machine.repository / ".venv/requirements.txt"))
    locked = house_rules.pins_in(REPOSITORY / house_rules.LOCK)
    assert plain == [(pin, []) for pin, _ in locked]


@pytest.mark.parametrize("is_right", sample((False, True), 1))
def test_a_file_with_another_hash_is_refused_by_the_real_installer(
    machine: Machine, is_right: bool
) -> None:
    """By pip, or uv, from a folder: a package whose hash in the lock is right, or is not."""
    if importlib.util.find_spec("ensurepip") is None:
        pytest.skip("not run: this Python makes no environments with pip")
    folder = machine.repository / "wheels"
    folder.mkdir()
    wheel = made_wheel(folder)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest() if is_right else "0" * 64
    (machine.repository / house_rules.BUILD_LOCK).write_text("# Nothing.\n")
    (machine.repository / house_rules.LOCK).write_text(
        f"made==1.0 \\\n    --hash=sha256:{digest}\n"
    )
    machine.has("uname", "#!/bin/sh\necho x86_64\n")
    machine.python = sys.executable
    of_pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}
    run = machine.set_up(**of_pip, UV_NO_INDEX="1", UV_FIND_LINKS=str(folder))
    site = machine.repository / f".venv/lib/python3.{sys.version_info.minor}/site-packages"
    assert (site / "made.py").exists() == is_right
    # With nothing to build it by, the gateway itself is not installed in either case.
    assert run.returncode == 69
    assert ("Installing tidegate failed" in run.stderr) == is_right
    if not is_right:
        assert (
            "Installing the Python packages failed: a file that came has not the hash" in run.stderr
        )
        assert "made" in run.stderr
        assert "0" * 64 in run.stderr


def made_wheel(folder: Path) -> Path:
    path = folder / "made-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("made.py", "")
        archive.writestr(
            "made-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: made\nVersion: 1.0\n"
        )
        wheel = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr("made-1.0.dist-info/WHEEL", wheel)
        archive.writestr("made-1.0.dist-info/RECORD", "")
    return path


def test_a_missing_venv_module_comes_from_debian_once(machine: Machine) -> None:
    for name in ("apt-get", "apt-cache"):
        machine.has(name, DEBIAN)
    machine.has("sudo", PASS_ON)
    (machine.repository / "no-ensurepip").touch()
    run = machine.set_up()
    assert run.returncode == 0, run.stderr
    package = f"python3.{sys.version_info.minor}-venv"
    assert f"setup: installing {package} with apt-get" in run.stdout
    calls = (machine.repository / "apt-calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["show", "install"]
    assert calls[1].endswith(package)
    machine.set_up()
    assert len((machine.repository / "apt-calls").read_text().splitlines()) == 2


def test_the_micro_bit_of_the_tests_comes_from_debian(machine: Machine) -> None:
    for name in ("apt-get", "apt-cache"):
        machine.has(name, DEBIAN)
    machine.has("sudo", PASS_ON)
    machine.microbit_firmware = machine.programs / "absent"
    run = machine.set_up()
    assert run.returncode == 0, run.stderr
    packages = "qemu-system-arm firmware-microbit-micropython"
    assert f"setup: installing {packages} with apt-get, for tests" in run.stdout
    calls = (machine.repository / "apt-calls").read_text().splitlines()
    assert calls[-1].startswith("install")
    assert calls[-1].endswith(packages)


def test_without_a_micro_bit_the_set_up_is_done_all_the_same(machine: Machine) -> None:
    machine.has("apt-get", "#!/bin/sh\necho Unable to locate package\nexit 100\n")
    machine.has("apt-cache", "#!/bin/sh\n")
    machine.has("sudo", PASS_ON)
    machine.microbit_firmware = machine.programs / "absent"
    run = machine.set_up()
    assert run.returncode == 0, run.stderr
    assert "tests on a micro:bit will not be run" in run.stdout
    assert (machine.repository / ".venv/.ready").exists()
    assert (machine.set_up().stdout, machine.set_up().stderr) == ("", "")


def test_what_cannot_be_compiled_runs_as_it_is(machine: Machine) -> None:
    machine.compile = ""  # as it is by itself
    (machine.repository / ".ci/compile.py").write_text("raise SystemExit(1)\n")
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert "compiling what every message goes through" in done.stdout
    assert "that failed (.venv/setup.log says why): it runs as it is" in done.stdout
    assert "tidegate" in done.stdout.splitlines()[-1]


def test_where_it_must_be_compiled_it_is_an_error_that_it_cannot_be(machine: Machine) -> None:
    assert machine.set_up().returncode == 0
    (machine.repository / ".ci/compile.py").write_text("raise SystemExit('mypyc refused it')\n")
    done = machine.set_up(COMPILE="must")
    assert done.returncode == 1
    assert "cannot be compiled, though gcc and Python's headers are here" in done.stderr
    assert "mypyc refused it" in done.stderr
    (machine.repository / ".ci/compile.py").write_text("")
    assert machine.set_up(COMPILE="must").returncode == 0


def test_where_there_is_no_compiler_nothing_must_be_compiled(machine: Machine) -> None:
    no_mypyc = PYTHON.replace("echo ../programs", "exit 1")
    machine.has("python3", no_mypyc)
    machine.set_up()
    (machine.repository / ".ci/compile.py").write_text("raise SystemExit('mypyc refused it')\n")
    done = machine.set_up(COMPILE="must")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("code", "fails"), [(0, False), (1, True)])
def test_a_run_of_ci_fails_by_what_cannot_be_compiled(
    machine: Machine, code: int, fails: bool
) -> None:
    passed = "echo ============ 3 passed in 0.10s ============"
    machine.has("make", f'#!/bin/sh\n[ "$1" != test ] || {passed}\n')
    (machine.repository / ".ci/setup.sh").write_text(f'[ "$COMPILE" = must ] && exit {code}\n')
    done = machine.set_up(".ci/run")
    assert done.returncode == int(fails)
    assert ("the modules of .ci/compile.py could not be compiled" in done.stdout) == fails
    assert done.stdout.splitlines()[-1] == "3 passed, 0 failed"


@pytest.mark.parametrize(
    ("wanted", "code", "fails"), [("yes", 0, False), ("yes", 2, True), ("no", 2, False)]
)
def test_a_run_of_ci_fails_by_a_site_that_is_asked_for_and_cannot_be_built(
    machine: Machine, wanted: str, code: int, fails: bool
) -> None:
    passed = "echo ============ 3 passed in 0.10s ============"
    machine.has("make", f"#!/bin/sh\ncase $1 in docs) exit {code} ;; test) {passed} ;; esac\n")
    (machine.repository / ".ci/setup.sh").write_text("")
    done = machine.set_up(".ci/run", DOCS=wanted)
    assert done.returncode == int(fails)
    assert ("the documentation site could not be built" in done.stdout) == fails


def test_whoever_does_not_want_it_compiled_waits_for_no_compiler(machine: Machine) -> None:
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert "compil" not in done.stdout
