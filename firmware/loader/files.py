"""The board's file system, and small values in it that no power cut harms.

Such a value is written beside the old one and takes its place by `rename`, which LittleFS does at
once. FAT takes the old one away first, so what is beside counts when there is no good one. CRC-32
behind the value tells which is good.
"""

import os
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHECK_OCTETS = 4
_BESIDE = ".new"


class Files:
    """Tests hand the application another one, with a file system that loses its power."""

    def open(self, path: str, mode: str) -> "Any":
        return open(path, mode)  # noqa: PTH123, handed on

    def listdir(self, folder: str) -> list[str]:
        return os.listdir(folder)  # noqa: PTH208

    def mkdir(self, folder: str) -> None:
        os.mkdir(folder)  # noqa: PTH102

    def remove(self, path: str) -> None:
        os.remove(path)  # noqa: PTH107

    def rename(self, path: str, to: str) -> None:
        os.rename(path, to)  # noqa: PTH104

    # Small values

    def save(self, path: str, value: bytes) -> None:
        """Raises OSError; the old value is there then."""
        with self.open(path + _BESIDE, "wb") as file:
            file.write(value + crc32(value).to_bytes(_CHECK_OCTETS, "big"))
        self.rename(path + _BESIDE, path)

    def load(self, path: str) -> bytes | None:
        for name in (path, path + _BESIDE):
            try:
                with self.open(name, "rb") as file:
                    kept = file.read()
            except OSError:
                continue
            value = kept[:-_CHECK_OCTETS]
            check = crc32(value).to_bytes(_CHECK_OCTETS, "big")
            if len(kept) >= _CHECK_OCTETS and check == kept[-_CHECK_OCTETS:]:
                return bytes(value)
        return None

    def forget(self, path: str) -> None:
        for name in (path + _BESIDE, path):
            try:
                self.remove(name)
            except OSError:
                pass
