"""Builds dist/tidegate_VERSION_ARCHITECTURE.deb: the gateway with the Python packages it needs.

    python .ci/deb.py [--arch amd64|arm64|armhf] [--compile] [--version VERSION]

Rules
- The versions inside are the tested ones, by .ci/requirements-gateway.lock and the hashes that it
  has; Debian's own are older than pyproject.toml allows, or missing (mqtt5, microdot). So nothing
  is downloaded at installation, and nothing of Debian's can change under it.
- Compiled packages are inside once for each Python of PYTHONS, side by side: the package survives
  the upgrade of Debian 12 to 13. Wheels are downloaded, never compiled, so that any machine builds
  for all architectures.
- What every message goes through is inside compiled too, if it was compiled here: for this Python
  and machine. With --compile it is compiled for that architecture and the Pythons of Debian, by a
  cross-compiler (.ci/setup-cross.sh). For others, and if it cannot be loaded there, the sources
  run.
- Two files of one name must be the same file, or the build stops.
- One commit gives one file, byte for byte, wherever and whenever it is built: its times are that of
  the commit, or SOURCE_DATE_EPOCH.
"""

import argparse
import gzip
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from gateway.host.compiled import PACKAGE, Form, folder_of, found  # noqa: E402

SCRIPTS = Path(__file__).resolve().parent / "deb"
LOCK = Path(__file__).resolve().parent / "requirements-gateway.lock"
DIST = REPOSITORY / "dist"
PYTHONS = (
    "3.11",
    "3.12",
    "3.13",
)  # Debian 12, Ubuntu 24.04, Debian 13; .ci/deb/control says so too
DEBIANS = {"3.11": "bookworm", "3.13": "trixie"}  # which has its headers for all architectures
MACHINES = {"amd64": "x86_64", "arm64": "aarch64", "armhf": "armv7l"}
# glibc of Debian 12 is 2.36.
PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_31")
MAINTAINER = os.environ.get("DEB_MAINTAINER", "Tidegate <tidegate@localhost>")
INSIDE = Path("usr/lib/tidegate")
CONFIG = Path("etc/tidegate/config.toml")
DATE = "SOURCE_DATE_EPOCH"  # read by hatchling, dpkg-deb and `tidegate man`
OWN_PER_WHEEL = ("RECORD", "WHEEL")  # of each wheel's own, and of no use to anybody here
# Sources of what is compiled, and what belongs on the host of the tables.
LEFT_OUT = (".c", ".h", ".pyx", ".pxd", ".pxi", ".pyi")
LEFT_OUT_FOLDER = "spark_ingest/"


class BuildError(Exception):
    """What went wrong, in a sentence."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the Debian package.")
    parser.add_argument("--arch", choices=MACHINES, default=this_architecture())
    parser.add_argument("--compile", action="store_true", help="for all Pythons of Debian")
    parser.add_argument("--version", default=project()["version"])
    parser.add_argument("--into", type=Path, default=DIST, metavar="FOLDER")
    arguments = parser.parse_args()
    try:
        os.environ.setdefault(DATE, commit_date())
        built = build(
            arguments.arch, arguments.version, arguments.into, with_compiled=arguments.compile
        )
    except BuildError as error:
        print(f"deb: {error}", file=sys.stderr)
        return 1
    shown = built.relative_to(REPOSITORY) if built.is_relative_to(REPOSITORY) else built
    print(f"{shown}, {built.stat().st_size / 1e6:.1f} MB")
    return 0


def project() -> dict[str, object]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def this_architecture() -> str:
    """Of the programs here, not of the kernel, which may have more bits."""
    if shutil.which("dpkg"):
        return run("dpkg", "--print-architecture").strip()
    return {machine: name for name, machine in MACHINES.items()}.get(platform.machine(), "amd64")


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-1000:]}")
    return done.stdout


def commit_date() -> str:
    """Seconds since 1970 of the last commit; without git what hatchling takes then."""
    if (REPOSITORY / ".git").exists() and shutil.which("git"):
        return run("git", "-c", "safe.directory=*", "log", "-1", "--format=%ct").strip()
    return "1580601600"


def build(architecture: str, version: str, into: Path, *, with_compiled: bool = False) -> Path:
    if shutil.which("dpkg-deb") is None:
        raise BuildError("dpkg-deb is missing; it is there on every Debian")
    with TemporaryDirectory(prefix="tidegate-deb-") as temporary:
        root, work = Path(temporary, "root"), Path(temporary, "work")
        root.mkdir()
        for wheel in wheels(architecture, work):
            unpack(wheel, root / INSIDE)
        if with_compiled:
            compile_for(architecture, work, root / INSIDE)
        else:
            add_compiled(root / INSIDE, architecture)
        add_files(root)
        add_control(root, architecture, version)
        into.mkdir(parents=True, exist_ok=True)
        built = into.resolve() / f"tidegate_{version}_{architecture}.deb"
        set_modes_and_times(root)
        # More than one thread cuts what is packed into other blocks.
        run(
            "env",
            "DPKG_DEB_THREADS_MAX=1",
            "dpkg-deb",
            "--root-owner-group",
            "-Zxz",
            "--build",
            root,
            built,
        )
        return built


# What is inside


def wheels(architecture: str, work: Path) -> Iterator[Path]:
    own = work / "own"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", own)
    yield from sorted(own.glob("*.whl"))
    pinned = work / "pinned.txt"
    pinned.write_text("".join(f"{pin}\n" for pin in pins(MACHINES[architecture])))
    for python in PYTHONS:
        folder = work / python
        run(*download(folder, architecture, python), "-r", pinned)
        yield from sorted(folder.glob("*.whl"))


def download(folder: Path, architecture: str, python: str) -> Iterator[str]:
    abi = f"cp{python.replace('.', '')}"
    yield from (*pip(), "download", "--quiet", "--no-deps", "-d", str(folder))
    yield from ("--only-binary=:all:", "--implementation", "cp", "--python-version", python)
    for tag in (abi, "abi3", "none"):
        yield from ("--abi", tag)
    for tag in PLATFORMS:
        yield from ("--platform", f"{tag}_{MACHINES[architecture]}")


def pip() -> tuple[str, ...]:
    """An environment that uv has made has none of its own."""
    if importlib.util.find_spec("pip") is not None:
        return sys.executable, "-m", "pip"
    if shutil.which("uv"):
        return "uv", "tool", "run", "pip"
    raise BuildError(f"pip is missing:  {sys.executable} -m ensurepip")


def pins(machine: str) -> list[str]:
    """What the gateway needs on such a machine, as pip reads it, which then insists on the hashes.
    A 32-bit Raspberry Pi OS builds without them: its index has wheels of its own.
    """
    environment = {"platform_machine": machine, "extra": ""}
    found = []
    for requirement, hashes in locked():
        if requirement.marker is None or requirement.marker.evaluate(environment):
            kept = [] if this_architecture() == "armhf" else hashes
            options = (f"--hash={each}" for each in kept)
            found.append(" ".join([f"{requirement.name}{requirement.specifier}", *options]))
    return found


def locked() -> Iterator[tuple[Requirement, list[str]]]:
    """What the gateway needs on any machine, each with the hashes of its files."""
    for line in LOCK.read_text().replace("\\\n", "").splitlines():
        pin, *hashes = line.partition("#")[0].split("--hash=")
        if pin.strip():
            yield Requirement(pin), [each.strip() for each in hashes]


def unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            target = folder / name
            is_own = Path(name).parent.suffix == ".dist-info" and target.name in OWN_PER_WHEEL
            # `pip uninstall` cannot be for files of a package; other packages' commands neither.
            is_unneeded = target.suffix in LEFT_OUT or name.startswith(LEFT_OUT_FOLDER)
            is_sensor = name.startswith("gateway/")  # `tidegate flash` has C for some boards
            if name.endswith("/") or is_own or ".data/" in name or (is_unneeded and not is_sensor):
                continue
            octets = archive.read(name)
            if target.exists() and target.read_bytes() != octets:
                raise BuildError(f"{wheel.name} has another {name} than the wheel before it")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(octets)


def add_compiled(inside: Path, architecture: str) -> None:
    if architecture == this_architecture() and found({})[0] is Form.COMPILED:
        folder = folder_of(PACKAGE)
        shutil.copytree(folder, inside / folder.relative_to(PACKAGE.parent))


def compile_for(architecture: str, work: Path, inside: Path) -> None:
    """For each Python of Debian there; what was compiled here is neither looked at nor changed."""
    place = inside / folder_of(PACKAGE).parent.relative_to(PACKAGE.parent)
    for python, release in DEBIANS.items():
        headers = work / "headers" / python
        run("bash", SCRIPTS.parent / "setup-cross.sh", architecture, release, python, headers)
        compiling = (sys.executable, SCRIPTS.parent / "compile.py")
        run(*compiling, "--headers", headers / "root", "--into", place)


def add_files(root: Path) -> None:
    tidegate = (sys.executable, "-m", "gateway")
    made = {
        "usr/bin/tidegate": (SCRIPTS / "launcher").read_text(),
        "usr/share/python3/runtime.d/tidegate.rtupdate": (SCRIPTS / "rtupdate").read_text(),
        "usr/lib/systemd/system/tidegate.service": run(*tidegate, "unit", "--debian"),
        "usr/lib/sysusers.d/tidegate.conf": run(*tidegate, "unit", "--debian", "--sysusers"),
        str(CONFIG): run(*tidegate, "init"),
        "usr/share/bash-completion/completions/tidegate": run(*tidegate, "completion", "bash"),
        "usr/share/zsh/vendor-completions/_tidegate": run(*tidegate, "completion", "zsh"),
        "usr/share/fish/vendor_completions.d/tidegate.fish": run(*tidegate, "completion", "fish"),
        "usr/share/doc/tidegate/copyright": copyright_text(root),
    }
    for name, text in made.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    compressed = {
        "usr/share/man/man1/tidegate.1.gz": run(*tidegate, "man"),
        "usr/share/doc/tidegate/changelog.gz": (REPOSITORY / "CHANGELOG.md").read_text(),
    }
    for name, text in compressed.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def copyright_text(root: Path) -> str:
    """Ours, and that of each package inside, as their wheels say it."""
    parts = ["Tidegate is under the Apache License 2.0, /usr/share/common-licenses/Apache-2.0."]
    for folder in sorted((root / INSIDE).glob("*.dist-info")):
        head, *_ = (folder / "METADATA").read_text().partition("\n\n")
        said = dict(line.partition(": ")[::2] for line in head.splitlines() if ": " in line)
        licence = said.get("License-Expression") or said.get("License") or "see its files"
        parts.append(f"{said['Name']} {said['Version']}: {licence}; /{INSIDE}/{folder.name}")
    return "\n".join(parts) + "\n"


def add_control(root: Path, architecture: str, version: str) -> None:
    debian = root / "DEBIAN"
    debian.mkdir()
    files = sorted(path for path in root.rglob("*") if path.is_file())
    kib = sum(path.stat().st_size for path in files) // 1024
    control = (SCRIPTS / "control").read_text()
    for name, value in {
        "VERSION": version,
        "ARCHITECTURE": architecture,
        "MAINTAINER": MAINTAINER,
        "KIB": str(kib),
    }.items():
        control = control.replace(f"@{name}@", value)
    (debian / "control").write_text(control)
    (debian / "conffiles").write_text(f"/{CONFIG}\n")
    (debian / "md5sums").write_text(
        "".join(
            f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n"
            for path in files
            if path.relative_to(root) != CONFIG
        )
    )
    for name in ("preinst", "postinst", "prerm", "postrm"):
        (debian / name).write_text((SCRIPTS / name).read_text())


def set_modes_and_times(root: Path) -> None:
    scripts = {root / "DEBIAN" / name for name in ("preinst", "postinst", "prerm", "postrm")}
    scripts |= {root / "usr/bin/tidegate", root / "usr/share/python3/runtime.d/tidegate.rtupdate"}
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path in scripts else 0o644)
        os.utime(path, (int(os.environ[DATE]),) * 2)


if __name__ == "__main__":
    sys.exit(main())
