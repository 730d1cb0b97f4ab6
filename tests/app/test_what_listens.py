"""What listens: docs/security.md has a list, and there is nothing more. As `ss` and nmap see it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from gateway.config.settings import OF_THE_SERVICE, Settings
from hil.rig.gateway import GatewayProcess
from hil.rig.logged_process import LoggedProcess
from hil.rig.mosquitto import free_tcp_port

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "security.md"
LISTEN, ACCEPTS = "0A", 0x10000  # of /proc/net/tcp, and SO_ACCEPTCON of /proc/net/unix


def sockets_of(pid: int) -> set[str]:
    """The inodes of all that it has open."""
    found = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = re.fullmatch(r"socket:\[(\d+)\]", str(each.readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
        if target is not None:
            found.add(target[1])
    return found


def listening(pid: int) -> list[str]:
    """Such as `tcp 0100007F:1F90`, `udp 00000000:075B`, `unix /run/tidegate/admin.sock`."""
    ours, found = sockets_of(pid), []
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]:
            _, local, remote, state, *rest = line.split()
            is_connected = not remote.endswith(":0000")
            if rest[5] in ours and (state == LISTEN if "tcp" in kind else not is_connected):
                found.append(f"{kind} {local}")
    for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]:
        _, _, _, flags, _, _, inode, *path = line.split(maxsplit=7)
        if inode in ours and int(flags, 16) & ACCEPTS:
            found.append(f"unix {' '.join(path)}")
    return sorted(found)


@pytest.mark.skipif(not Path("/proc/net/unix").exists(), reason="needs /proc")
def test_by_default_this_listens_and_nothing_more(tmp_path: Path) -> None:
    page = free_tcp_port()
    config = f'[admin]\nlisten = "127.0.0.1:{page}"\n'
    with GatewayProcess(tmp_path, "mqtt://127.0.0.1:1", config) as gateway:
        gateway.wait_for_log("status page on ")
        found = listening(gateway.pid)
    assert len(found) == 3, found
    assert found[0] == f"tcp 0100007F:{page:04X}"
    assert found[1].startswith("udp ")
    assert found[2].startswith("unix ")
    assert found[2].endswith("/admin.sock")


ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
OVERRIDES = (
    "gateway.state_dir=state", "upstream.url=mqtt://127.0.0.1:1", "udp.0.listen=127.0.0.1:0",
)  # fmt: skip


class Example(LoggedProcess):
    def __init__(self, folder: Path, command: list[str]) -> None:
        super().__init__(folder / "gateway.log")
        self._folder, self._command = folder, command

    def start(self) -> None:
        self.launch(self._command, folder=self._folder, environment={"PYTHONPATH": str(ROOT)})


@pytest.mark.skipif(not Path("/proc/net/unix").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    "example", ["home_assistant.toml", "secure_broker/gateway.toml", "compose/tidegate/config.toml"]
)
def test_with_the_examples_of_the_documents_as_well(tmp_path: Path, example: str) -> None:
    """Ports, folders and files of passwords are those of the test."""
    text = (EXAMPLES / example).read_text()
    for each in re.findall(r'_file = "([^"/]+)"', text):
        (tmp_path / each).write_text("a password\n")
    text = re.sub(r"(?m)^ca_file = .*\n", "", text)
    (tmp_path / "config.toml").write_text(text)
    page = free_tcp_port()
    command = [sys.executable, "-m", "gateway", "run", "--config", "config.toml"]
    for each in (*OVERRIDES, f"admin.listen=127.0.0.1:{page}"):
        command += ["--set", each]
    with Example(tmp_path, command) as gateway:
        gateway.wait_for_log("status page on ", timeout_s=60.0)
        kinds = [each.partition(" ")[0] for each in listening(gateway.pid)]
    assert kinds == ["tcp", "udp", "unix"]


def test_the_document_has_the_defaults() -> None:
    settings = Settings()
    (udp,) = settings.udp
    _, _, rest = DOCUMENT.read_text().partition("### What listens\n")
    rows = [line for line in rest.partition("\n\nWith")[0].splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + 3
    assert f"UDP `{udp.listen}`" in rows[2]
    assert f"TCP `{settings.admin.listen}`" in rows[3]
    assert f"`{OF_THE_SERVICE}`" in rows[4]
    assert udp.multicast is None
