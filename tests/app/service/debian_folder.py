"""A Debian of its own in a folder, thrown away afterwards, and booted with a systemd of its own.

The base is made once for each release by debootstrap and kept in build/; each use is a layer over
it. Booting needs systemd-nspawn and the right to use it; what needs more than a folder asks for it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

REPOSITORY = Path(__file__).resolve().parents[3]
BASES = REPOSITORY / "build" / "debian"
# All that the package depends on, so that its installation can be done without a network.
INCLUDED = "systemd,systemd-sysv,dbus,python3,init-system-helpers,man-db"
BOOT_S = 90.0
COMMAND_S = 300.0


def why_not() -> str | None:
    """Why there is no Debian in a folder here, or None."""
    if os.geteuid() != 0:
        return "it needs root"
    missing = [name for name in ("debootstrap", "unshare", "dpkg-deb") if not shutil.which(name)]
    return f"{', '.join(missing)} missing" if missing else None


def why_no_boot() -> str | None:
    return None if shutil.which("systemd-nspawn") else "systemd-nspawn is missing"


def base(suite: str) -> Path:
    folder = BASES / suite
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        run("debootstrap", "--variant=minbase", f"--include={INCLUDED}", suite, folder / "root")
        (folder / "complete").touch()
    return folder / "root"


def run(*command: str | Path, check: bool = True) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=COMMAND_S * 4,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
    )
    said = done.stdout + done.stderr
    assert not check or done.returncode == 0, f"{command}: {said}"
    return said


class DebianFolder:
    def __init__(self, suite: str, folder: Path) -> None:
        self.root = folder / "root"
        self._layers = [folder / name for name in ("upper", "work")]
        for path in (self.root, *self._layers):
            path.mkdir()
        self._base = base(suite)
        self._container: subprocess.Popen[bytes] | None = None
        self._init = 0

    def __enter__(self) -> Self:
        upper, work = self._layers
        options = f"lowerdir={self._base},upperdir={upper},workdir={work}"
        run("mount", "-t", "overlay", "overlay", "-o", options, self.root)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._container is not None:
            # All in it end with its init; with systemd-nspawn alone none of them would.
            if self._init:
                with suppress(ProcessLookupError):
                    os.kill(self._init, signal.SIGKILL)
            else:
                self._container.kill()
            self._container.wait(COMMAND_S)
        run("umount", self.root)

    def do(self, command: str, *, check: bool = True) -> str:
        """In the folder, or in what was booted from it; without a network in either case."""
        if self._container is not None:
            where: tuple[str, ...] = ("nsenter", "-t", str(self._init), "-a")
        else:
            where = ("unshare", "-n", "chroot", str(self.root))
        return run(*where, "sh", "-c", command, check=check)

    def boot(self) -> None:
        options = ("--register=no", "--keep-unit", "--boot", "--private-network", "--quiet")
        self._container = subprocess.Popen(
            ["systemd-nspawn", f"--directory={self.root}", "--machine=tidegate-test", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait(self._is_up, "the boot")

    def wait_for(self, command: str, what: str) -> str:
        """Until the command says so."""
        self._wait(lambda: what in self.do(command, check=False), f"{what!r} from {command}")
        return self.do(command, check=False)

    def _is_up(self) -> bool:
        assert self._container is not None
        children = run("pgrep", "-P", str(self._container.pid), check=False).split()
        if not children:
            return False
        self._init = int(children[0])
        state = self.do("systemctl is-system-running", check=False).strip()
        return state in ("running", "degraded")

    def _wait(self, condition: object, what: str) -> None:
        assert callable(condition)
        deadline = time.monotonic() + BOOT_S
        while not condition():
            assert time.monotonic() < deadline, f"no {what}"
            time.sleep(0.2)
