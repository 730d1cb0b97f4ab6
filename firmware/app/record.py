"""One small value in one file, which a power cut leaves as it was or makes what it is to be.

It is written beside the old one and takes its place by `rename`, which LittleFS does at once. FAT
takes the old one away first, so what is beside counts when there is no good one. A check tells.
"""

from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHECK_OCTETS = 4
_BESIDE = ".new"


def save(files: "Any", path: str, value: bytes) -> None:
    """Raises OSError; the old value is there then."""
    with files.open(path + _BESIDE, "wb") as file:
        file.write(value + crc32(value).to_bytes(_CHECK_OCTETS, "big"))
    files.rename(path + _BESIDE, path)


def load(files: "Any", path: str) -> bytes | None:
    for name in (path, path + _BESIDE):
        try:
            with files.open(name, "rb") as file:
                kept = file.read()
        except OSError:
            continue
        value = kept[:-_CHECK_OCTETS]
        if len(kept) >= _CHECK_OCTETS and crc32(value).to_bytes(4, "big") == kept[len(value) :]:
            return bytes(value)
    return None


def forget(files: "Any", path: str) -> None:
    for name in (path + _BESIDE, path):
        try:
            files.remove(name)
        except OSError:
            pass
