"""A micro:bit for tests: on a serial port of this machine, with a flash that outlasts its runs.

    with MicrobitBoard(folder) as board:
        board.start()
        serial.Serial(board.device, 115200)

Without a firmware of its own it has Debian's. Its flash is kept in the folder when the
power is cut, at the very instruction, and is what the next run begins with.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Self

from hil.boards.errors import BoardError
from hil.boards.microbit.wire import Wire

FIRMWARE = Path("/usr/share/firmware-microbit-micropython/firmware.hex")
QEMU = "qemu-system-arm"
PACKAGES = "qemu-system-arm firmware-microbit-micropython"
FLASH_BYTES = 0x40000
SCRIPT_PLACE = "addr=0x3e000,force-raw=on"
REAL_SPEED = ("-icount", "shift=6,sleep=on")  # 64 ns for each instruction
TIMEOUT_S = 20.0
POLL_S = 0.005


def why_not() -> str | None:
    """Why there can be no such board on this machine; None when there can."""
    missing = [] if shutil.which(QEMU) else ["qemu-system-arm"]
    missing += [] if FIRMWARE.exists() else ["firmware-microbit-micropython"]
    if not missing:
        return None
    are = "is" if len(missing) == 1 else "are"
    return f"{' and '.join(missing)} {are} not installed (sudo apt-get install -y {PACKAGES})"


class MicrobitBoard:
    def __init__(
        self,
        folder: Path,
        firmware: Path = FIRMWARE,
        script: Path | None = None,
        *,
        has_real_speed: bool = False,
    ) -> None:
        """`firmware`: Intel HEX, for a flash that is empty. `script`: what follows it there, as the
        micro:bit's editors append a program. `has_real_speed`: some 16 million instructions a
        second, as the chip's; else as many as this machine can do.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._flash = folder / "flash.bin"
        self._firmware = firmware
        self._script = script
        self._options = REAL_SPEED if has_real_speed else ()
        self.wire = Wire()
        self._qemu: _QemuProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Power and line are gone for good."""
        self._end()
        self.wire.close()

    @property
    def device(self) -> str:
        """Its serial port, which is there while it is off, too."""
        return self.wire.device

    @property
    def output(self) -> str:
        """All that it ever printed."""
        return bytes(self.wire.received).decode(errors="replace")

    def start(self) -> None:
        """Switch it on."""
        assert self._qemu is None, "it is on"
        has_flash = self._flash.exists()
        self._qemu = _QemuProcess(
            self._flash if has_flash else self._firmware,
            None if has_flash else self._script,
            self._options,
        )
        self.wire.connect(self._qemu.uart)

    def reset(self) -> None:
        """Its button."""
        assert self._qemu is not None
        self._qemu.execute("system_reset")

    def cut_power(self) -> None:
        """At this instant; its flash stays as it is."""
        qemu = self._qemu
        assert qemu is not None
        qemu.execute("stop")
        whole = {"val": 0, "size": FLASH_BYTES, "cpu-index": 0, "filename": str(self._flash)}
        qemu.execute("memsave", whole)
        self._end()

    def erase(self, firmware: Path) -> None:
        """What a programmer does: another firmware, and nothing of what was there."""
        self._end()
        self._flash.unlink(missing_ok=True)
        self._firmware = firmware

    def wait_for(self, pattern: str, timeout_s: float = TIMEOUT_S) -> re.Match[str]:
        """The first match in all that it printed."""
        deadline = time.monotonic() + timeout_s
        while (found := re.search(pattern, self.output)) is None:
            if time.monotonic() > deadline:
                raise BoardError(f"no {pattern!r} in what the board said:\n{self.output}")
            time.sleep(POLL_S)
        return found

    def _end(self) -> None:
        self.wire.disconnect()
        if self._qemu is not None:
            self._qemu.end()
            self._qemu = None


class _QemuProcess:
    """One process of QEMU; `uart` is the other end of the board's."""

    def __init__(self, flash: Path, script: Path | None, options: tuple[str, ...]) -> None:
        self.uart, uart_end = socket.socketpair()
        self._control, control_end = socket.socketpair()
        contents = f"loader,file={flash}"
        if flash.suffix == ".bin":
            contents += ",addr=0,force-raw=on"
        appended = () if script is None else ("-device", f"loader,file={script},{SCRIPT_PLACE}")
        self._process = subprocess.Popen(
            [
                QEMU,
                "-machine",
                "microbit",
                "-nodefaults",
                "-display",
                "none",
                "-device",
                contents,
                *appended,
                "-chardev",
                f"socket,id=uart,fd={uart_end.fileno()}",
                "-serial",
                "chardev:uart",
                "-chardev",
                f"socket,id=control,fd={control_end.fileno()}",
                "-mon",
                "chardev=control,mode=control",
                *options,
            ],
            pass_fds=[uart_end.fileno(), control_end.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        uart_end.close()
        control_end.close()
        self._control.settimeout(TIMEOUT_S)
        self._answers = self._control.makefile("rb")
        self._answers.readline()  # its greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str, arguments: dict[str, Any] | None = None) -> None:
        """Returns when it is done."""
        request = {"execute": command, "arguments": arguments or {}}
        try:
            self._control.sendall(json.dumps(request).encode())
            for line in self._answers:
                answer = json.loads(line)
                if "error" in answer:
                    raise BoardError(f"QEMU refused {command}: {answer['error']['desc']}")
                if "return" in answer:
                    return
        except ConnectionError:
            pass
        raise BoardError(f"QEMU ended: {self._error_output()}")

    def end(self) -> None:
        self._process.kill()
        self._error_output()
        self._answers.close()
        self._control.close()

    def _error_output(self) -> str:
        return self._process.communicate()[1].decode(errors="replace").strip()
