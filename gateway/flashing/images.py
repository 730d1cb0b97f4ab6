"""The file with MicroPython: the one that was given, or the newest in the cache for this board.

Nothing is fetched from the network. What is wrong with a file is said before a board is touched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.intel_hex import with_script
from gateway.flashing.kinds import Kind
from gateway.flashing.uf2 import check_uf2

IMAGE_OCTETS_MAX = 32 << 20
_VERSION = re.compile(r"v(\d+)\.(\d+)(?:\.(\d+))?")
_ESP_BEGIN = 0xE9
# esp_image_header_t: the chip's number, at byte 12.
_ESP_CHIPS = {
    0: "esp32", 2: "esp32s2", 5: "esp32c3", 9: "esp32s3", 12: "esp32c2", 13: "esp32c6",
    16: "esp32h2", 18: "esp32p4", 23: "esp32c5",
}  # fmt: skip


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "/")) / ".cache")
    return Path(base) / "tidegate" / "firmware"


def image_path(kind: Kind, given: Path | None, cache: Path) -> Path:
    """Raises FlashError that says where to get one."""
    if given is not None:
        return given
    found = sorted(_fitting(kind, cache), key=lambda path: (*version_of(path.name), path.name))
    found = found or [place for place in kind.places if place.exists()]
    if not found:
        text = (
            f"no MicroPython for {kind.title} in {cache}: get one at {kind.download}, and put it "
            "there, or name it with --firmware"
        )
        raise FlashError(Failure.ABSENT, text)
    return found[-1]


def _fitting(kind: Kind, cache: Path) -> Iterator[Path]:
    for pattern in kind.files:
        yield from (path for path in cache.glob(pattern) if "preview" not in path.name)


def version_of(name: str) -> tuple[int, ...]:
    """Of `ESP32_GENERIC-20251209-v1.27.0.bin`: (1, 27, 0)."""
    found = _VERSION.search(name)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def read_image(kind: Kind, path: Path) -> bytes:
    """Checked to be for this board. Raises FlashError."""
    try:
        with path.open("rb") as file:
            octets = file.read(IMAGE_OCTETS_MAX + 1)
    except OSError as error:
        raise FlashError(Failure.ABSENT, f"{path} cannot be read: {error.strerror}") from None
    if len(octets) > IMAGE_OCTETS_MAX:
        raise FlashError(Failure.WRONG, f"{path} is larger than any MicroPython")
    if kind.install.method == "uf2":
        check_uf2(octets, kind.install.family, path.name)
    elif kind.install.method == "hex":
        with_script(octets.decode("ascii", "replace"), b"", path.name)
    else:
        _check_esp(octets, kind, path.name)
    return octets


def _check_esp(octets: bytes, kind: Kind, name: str) -> None:
    if len(octets) < 24 or octets[0] != _ESP_BEGIN:
        raise FlashError(Failure.WRONG, f"{name} is no image for an ESP32 of any kind")
    chip = _ESP_CHIPS.get(int.from_bytes(octets[12:14], "little"), "another chip")
    if chip != kind.chip:
        raise FlashError(Failure.WRONG, f"{name} is for {chip}, and the board is {kind.chip}")
