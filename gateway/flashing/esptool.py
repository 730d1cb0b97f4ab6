"""esptool, the program that speaks to the loader in every ESP32. It is GPL, and the user's: it is
run, and never imported. What it prints is read where it has been the same since version 4.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from gateway.flashing.errors import Failure, FlashError, busy
from gateway.flashing.kinds import Kind
from gateway.flashing.programs import Ended, needed_program, run
from gateway.flashing.report import Report
from gateway.transports.port_owner import device_owner
from gateway.transports.serial.faults import busy_text, permission_text

ASK_S_MAX = 60.0
WRITE_S_MAX = 900.0  # a flash of 16 MiB that is erased first
_FIRST_WITH_DASHES = 5

_CHIP = re.compile(r"(?:Chip type:\s*|Chip is |Detecting chip type\.\.\. )(ESP32[\w-]*)")
_MAC = re.compile(r"MAC:\s*((?:[0-9a-f]{2}:){5}[0-9a-f]{2})", re.IGNORECASE)
_SHARE = re.compile(r"(\d+)(?:\.\d+)?\s?%")
_FAMILIES = re.compile(r"esp32(?:[scph]\d+)?")
_VERIFIED = "Hash of data verified"


class Esptool:
    def __init__(self, port: str) -> None:
        """Raises FlashError when it is not installed."""
        self.port = port
        self._program = needed_program("esptool")
        told = run([self._program, "version"], timeout_s=ASK_S_MAX)
        found = re.search(r"(\d+)\.\d+", " ".join(told.lines))
        self._has_dashes = found is None or int(found.group(1)) >= _FIRST_WITH_DASHES

    def chip(self) -> tuple[str, str]:
        """Family, as `Kind.chip` has it, and MAC. Raises FlashError."""
        heard: list[str] = []
        ended = self._run(["read-mac"], heard.append, ASK_S_MAX)
        text = "\n".join(heard)
        chip, mac = _CHIP.search(text), _MAC.search(text)
        if ended.code or chip is None:
            raise self._why(ended, "asking the loader")
        return family_of(chip.group(1)), mac.group(1) if mac else ""

    def write(self, kind: Kind, image: bytes, report: Report) -> None:
        """The whole flash again, verified by the loader's own hash. Raises FlashError."""
        is_verified = False

        def hear(line: str) -> None:
            nonlocal is_verified
            is_verified = is_verified or _VERIFIED in line
            share = _SHARE.search(line)
            if share and "riting" in line:
                report.at("writing", int(share.group(1)), 100)
            elif line.startswith("Erasing flash") or "erase" in line.lower():
                report.at("erasing", 0, 100)

        with tempfile.NamedTemporaryFile(suffix=".bin") as file:
            file.write(image)
            file.flush()
            options = ["--chip", kind.chip, "--baud", str(kind.install.baud)]
            what = ["write-flash", "--erase-all", hex(kind.install.offset), file.name]
            ended = self._run(what, hear, WRITE_S_MAX, options)
        report.at("writing", 100, 100)
        if ended.code:
            raise self._why(ended, "writing")
        if not is_verified:
            raise FlashError(
                Failure.CUT, f"esptool did not verify what it wrote: {ended.last_words}"
            )

    def _run(
        self,
        what: list[str],
        hear: Callable[[str], None],
        timeout_s: float,
        options: list[str] | None = None,
    ) -> Ended:
        if not self._has_dashes:
            what = [what[0].replace("-", "_"), *what[1:]]
        return run(
            [self._program, "--port", self.port, *(options or []), *what], hear, timeout_s=timeout_s
        )

    def _why(self, ended: Ended, doing: str) -> FlashError:
        text = "\n".join(ended.lines)
        if found := re.search(r"This chip is (\S+?),? not (\S+?)\.", text):
            return FlashError(
                Failure.WRONG,
                f"the board is an {found.group(1)}, and --board says {found.group(2)}: leave "
                "--board out, or take the right one",
            )
        if "ermission denied" in text:
            return FlashError(Failure.PERMISSION, permission_text(self.port))
        if "port is busy" in text or "exclusively lock" in text or "EBUSY" in text:
            return busy(busy_text(self.port, device_owner(self.port)), self.port)
        if not Path(self.port).exists():
            return FlashError(
                Failure.CUT, f"{self.port} went away while {doing}: plug it in, again"
            )
        if "Failed to connect" in text or "No serial data received" in text:
            return FlashError(
                Failure.ABSENT,
                f"no ESP32's loader answers on {self.port}: hold BOOT, press RESET, let go of both "
                "and try again; or it is another board",
            )
        return FlashError(Failure.CUT, f"{doing} broke off: {ended.last_words}; begin again")


def family_of(chip: str) -> str:
    """`ESP32-D0WD-V3` is esp32, `ESP32-S3` and `ESP32-S3FN8` are esp32s3."""
    found = _FAMILIES.match(chip.lower().replace("-", "", 1))
    return found.group(0) if found else chip.lower()
