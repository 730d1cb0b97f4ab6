"""The Debian package from installation to purge, in a Debian of its own, without a network.

`make deb-test` builds the package and runs this. Slow: making a Debian takes half a minute.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import revision_before
from tests.support.debian_folder import REPOSITORY, DebianFolder, run, why_no_boot, why_not

pytestmark = pytest.mark.soak

SUITES = ("bookworm", "trixie")
INSTALL = "apt-get install -y --no-install-recommends"
STATUS = "systemctl status tidegate --no-pager --full"
# Lower than the version of any release that comes after it.
VERSION_BEFORE = "0~before"
SENSORS = 4
SIMULATED = (
    f"tidegate simulate --sensors {SENSORS} --keep-sessions --name field --qos 1,2 --interval 1"
)


@pytest.fixture(scope="module")
def package() -> Path:
    """The one of this machine, as `make deb` has built it last."""
    architecture = run("dpkg", "--print-architecture").strip()
    found = sorted((REPOSITORY / "dist").glob(f"tidegate_*_{architecture}.deb"))
    if not found:
        run(".venv/bin/python", REPOSITORY / ".ci/deb.py")
        found = sorted((REPOSITORY / "dist").glob(f"tidegate_*_{architecture}.deb"))
    return max(found, key=lambda path: path.stat().st_mtime)


@pytest.fixture(scope="module")
def newer(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a later release."""
    folder = tmp_path_factory.mktemp("newer")
    run("dpkg-deb", "-R", package, folder / "tree")
    control = folder / "tree" / "DEBIAN" / "control"
    control.write_text(re.sub(r"(?m)^Version: .*$", "Version: 99.0", control.read_text()))
    run(
        "dpkg-deb", "--root-owner-group", "-Znone", "--build", folder / "tree", folder / "newer.deb"
    )
    return folder / "newer.deb"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the revision before, built by its own script; it fetches its wheels."""
    reason = revision_before.why_not()
    if reason is not None:
        pytest.skip(f"not run: {reason}")
    tree = revision_before.unpack_before(tmp_path_factory.mktemp("before"))
    build = f"cd {tree} && {sys.executable} .ci/deb.py --version {VERSION_BEFORE}"
    run("sh", "-c", build)
    (built,) = (tree / "dist").glob("*.deb")
    return built


@pytest.fixture(params=SUITES)
def debian(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DebianFolder]:
    reason = why_not()
    if reason is not None:
        pytest.skip(f"not run: no Debian in a folder, {reason}")
    with DebianFolder(request.param, tmp_path) as made:
        yield made


def put(debian: DebianFolder, package: Path, name: str) -> str:
    shutil.copy(package, debian.root / "opt" / name)
    return f"/opt/{name}"


def left(debian: DebianFolder) -> set[str]:
    """What has our name, outside of what the package manager and the user database keep."""
    found = debian.do("find / -xdev -name '*tidegate*' -not -path '/opt/*' -not -path '/proc/*'")
    logs = ("/var/log/", "/var/lib/dpkg/", "/var/cache/", "/run/")
    return {path for path in found.split() if not path.startswith(logs)}


def test_it_installs_without_a_network_and_purges_without_a_trace(
    debian: DebianFolder, package: Path
) -> None:
    before = left(debian)
    debian.do(f"{INSTALL} {put(debian, package, 'tidegate.deb')}")
    assert "groups=" in debian.do("id tidegate")
    assert re.search(r"\(dialout\).*\(plugdev\)", debian.do("id tidegate"))
    assert debian.do("tidegate --version").startswith("tidegate ")
    assert debian.do("tidegate check /etc/tidegate/config.toml") == "ok\n"
    assert "SYNOPSIS" in debian.do("man tidegate")
    assert debian.do("dpkg --verify tidegate") == "", "nothing was changed by the installation"
    compiled = debian.do("find /usr/lib/tidegate/gateway -name 'daemon.*.pyc'")
    assert compiled.strip(), "or each start would compile all of it"
    debian.do("mkdir -p /var/lib/tidegate/journal && touch /var/lib/tidegate/state.db")
    debian.do("apt-get remove -y tidegate")
    assert debian.do("ls /usr/lib/tidegate 2>&1", check=False).count("No such file") == 1
    assert debian.do("ls /var/lib/tidegate /etc/tidegate").split() == [
        "/etc/tidegate:",
        "config.toml",
        "/var/lib/tidegate:",
        "journal",
        "state.db",
    ]
    debian.do("apt-get purge -y tidegate")
    assert left(debian) == before


def test_it_runs_under_systemd_in_its_sandbox(debian: DebianFolder, package: Path) -> None:
    reason = why_no_boot()
    if reason is not None:
        pytest.skip(f"not run: {reason}")
    debian.do(f"{INSTALL} {put(debian, package, 'tidegate.deb')}")
    debian.do("install -d -m 0700 /etc/credstore")
    debian.do("echo tide >/etc/credstore/tidegate.upstream.password")
    debian.do("chmod 0600 /etc/credstore/tidegate.upstream.password")
    secret = "username = 'g'\\npassword_file = 'credential:tidegate.upstream.password'"
    debian.do(f'sed -i "s/^\\[upstream\\]/&\\n{secret}/" /etc/tidegate/config.toml')
    debian.do("sed -i 's/^\\[gateway\\]/&\\nscheduling = \"batch\"/' /etc/tidegate/config.toml")
    debian.boot()
    debian.wait_for(STATUS, 'Status: "0 sensors, broker away')
    pid = debian.do("systemctl show -p MainPID --value tidegate").strip()
    status = debian.do(f"cat /proc/{pid}/status")
    assert re.search(r"CapEff:\s+0{16}\n", status)
    assert re.search(r"NoNewPrivs:\s+1\n", status)
    assert re.search(r"Seccomp:\s+2\n", status)
    # Past the sandbox: `batch` of gateway.scheduling, set above.
    policies = debian.do(f"chrt --all-tasks --pid {pid}")
    assert re.findall(r"policy: (\w+)", policies) == ["SCHED_BATCH"] * policies.count("policy:")
    assert "SCHED_BATCH" in policies
    assert "tidegate" in debian.do("stat -c %U /var/lib/tidegate/state.db")
    assert "journal     ok" in debian.do("tidegate status")
    exposure = debian.do("systemd-analyze security tidegate.service --no-pager | tail -n 1")
    assert float(re.findall(r"[0-9.]+", exposure)[-1]) <= 2.0
    found = json.loads(debian.do("tidegate doctor --only units --json"))
    assert found["ok"] is True
    assert found["units"]["service"]["ActiveState"] == "active"
    assert found["units"]["findings"] == []
    # A backup while it runs in its sandbox, and its return.
    debian.do("tidegate backup /opt/b --with-secrets")
    assert "files       upstream.password_file, with secrets" in debian.do(
        "tidegate restore --list /opt/b"
    )
    # A reload that is right, one that is wrong.
    debian.do(r"sed -i 's/^\[log\]/&\nlevel = \"debug\"/' /etc/tidegate/config.toml")
    debian.do("systemctl reload tidegate || { journalctl -u tidegate >&2; exit 1; }")
    debian.wait_for("journalctl -u tidegate", "reload: in force now: log.level")
    debian.do(r"sed -i 's/^level = .*/level = 7/' /etc/tidegate/config.toml")
    assert "failed" in debian.do("systemctl reload tidegate", check=False)
    assert "log.level: expected" in debian.do("journalctl -u tidegate")
    assert debian.do("systemctl show -p MainPID --value tidegate").strip() == pid
    debian.do(r"sed -i '/^level = 7/d' /etc/tidegate/config.toml")
    # A process that hangs is started anew.
    debian.do(f"kill -STOP {pid}")
    debian.wait_for("journalctl -u tidegate", "Watchdog timeout")
    debian.do("kill -CONT " + pid, check=False)
    debian.wait_for("systemctl show -p NRestarts --value tidegate", "1")
    debian.wait_for(STATUS, 'Status: "0 sensors, broker away')
    debian.do("systemctl stop tidegate")
    assert "ExecMainStatus=0" in debian.do("systemctl show -p ExecMainStatus tidegate")
    debian.do("rm -r /var/lib/tidegate /etc/tidegate/config.toml /etc/credstore")
    debian.do("tidegate restore /opt/b")
    assert debian.do("stat -c %U /var/lib/tidegate/state.db").strip() == "tidegate"
    assert debian.do("cat /etc/credstore/tidegate.upstream.password") == "tide\n"
    debian.do("systemctl start tidegate")
    debian.wait_for(STATUS, 'Status: "0 sensors, broker away')
    debian.do("systemctl disable --now tidegate")
    found = json.loads(debian.do("tidegate doctor --only units --json"))
    commands = [each["command"] for each in found["units"]["findings"]]
    assert commands == ["systemctl enable --now tidegate"]  # root, and no sudo there


def test_an_upgrade_keeps_state_and_configuration_and_restarts_the_service(
    debian: DebianFolder, package: Path, newer: Path
) -> None:
    reason = why_no_boot()
    if reason is not None:
        pytest.skip(f"not run: {reason}")
    debian.do(f"{INSTALL} {put(debian, package, 'tidegate.deb')}")
    new = put(debian, newer, "newer.deb")
    debian.boot()
    debian.wait_for(STATUS, 'Status: "0 sensors, broker away')
    debian.do(r"sed -i 's/^\[log\]/&\nlevel = \"debug\"/' /etc/tidegate/config.toml")
    debian.do("echo kept >/var/lib/tidegate/witness")
    pid = debian.do("systemctl show -p MainPID --value tidegate").strip()
    debian.do(f"{INSTALL} {new}")
    debian.wait_for(STATUS, 'Status: "0 sensors, broker away')
    assert debian.do("systemctl show -p MainPID --value tidegate").strip() != pid
    assert debian.do("dpkg-query -W -f '${Version}' tidegate") == "99.0"
    assert debian.do("cat /var/lib/tidegate/witness") == "kept\n"
    assert 'level = "debug"' in debian.do("cat /etc/tidegate/config.toml")
    epochs = debian.do("journalctl -u tidegate | grep -c 'listening for sensors'")
    assert int(epochs) == 2, "started twice, and served both times"
    # What is stopped stays stopped.
    debian.do("systemctl stop tidegate")
    debian.do(f"{INSTALL} --reinstall {new}")
    assert debian.do("systemctl is-active tidegate", check=False).strip() == "inactive"
    debian.do("apt-get purge -y tidegate")
    assert "could not be found" in debian.do(STATUS, check=False)


def test_the_package_of_the_revision_before_is_upgraded_in_place(
    debian: DebianFolder, before: Path, package: Path
) -> None:
    """Its sessions are there, and the readings that wait for the broker; it goes on with both."""
    reason = why_no_boot()
    if reason is not None:
        pytest.skip(f"not run: {reason}")
    debian.do(f"{INSTALL} {put(debian, before, 'before.deb')}")
    new = put(debian, package, "tidegate.deb")
    debian.boot()
    debian.wait_for(STATUS, 'Status: "0 sensors, broker away')
    debian.do(f"{SIMULATED} --seconds 6")
    waiting, sessions = what_waits(debian), sessions_of(debian)
    assert len(waiting) > SENSORS
    assert len(sessions) == SENSORS
    pid = debian.do("systemctl show -p MainPID --value tidegate").strip()
    debian.do(f"{INSTALL} {new}")
    status = debian.wait_for(STATUS, f'Status: "{SENSORS} sensors, broker away')
    assert f"{len(waiting)} readings wait on disk" in status
    assert debian.do("systemctl show -p MainPID --value tidegate").strip() != pid
    assert debian.do("dpkg-query -W -f '${Version}' tidegate") != VERSION_BEFORE
    assert what_waits(debian) == waiting
    assert sessions_of(debian) == sessions
    assert stray_files(debian) == set()
    debian.do(f"{SIMULATED} --seconds 4")
    assert what_waits(debian)[: len(waiting)] == waiting
    assert len(what_waits(debian)) > len(waiting)
    assert sessions_of(debian) == sessions


def what_waits(debian: DebianFolder) -> list[dict[str, object]]:
    """All of each reading but its age."""
    found = json.loads(debian.do("tidegate buffer --json peek -n 1000"))["readings"]
    return [{key: value for key, value in each.items() if key != "age_s"} for each in found]


def sessions_of(debian: DebianFolder) -> dict[str, object]:
    """Topic ids and subscriptions of each."""
    listed = json.loads(debian.do("tidegate clients --json"))["clients"]
    found: dict[str, object] = {}
    for name in (each["id"] for each in listed):
        (shown,) = json.loads(debian.do(f"tidegate clients --json {name}"))["clients"]
        found[name] = shown["topic_ids"], shown["subscribed"]
    return found


def stray_files(debian: DebianFolder) -> set[str]:
    """In the package's folder, but in no package; what Python has compiled aside."""
    found = debian.do("find /usr/lib/tidegate -not -name '*.pyc' -not -name __pycache__")
    return set(found.split()) - set(debian.do("dpkg-query -L tidegate").split())
