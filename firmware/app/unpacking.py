"""What is needed of an update when there is one: it is checked, and put in the other slot.

It is no part of ota.py because it takes 2 KiB of a heap that has an update once in a year.
"""

from hashlib import sha256
from struct import unpack_from

try:
    from micropython import const
except ImportError:
    from ..mqttsn.cpython import const

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..loader.files import Files

_IMAGE_MARK = b"TGI1"
_BLOCK = const(512)
_SHA_BLOCK = const(64)
_EIO = const(5)
_EINVAL = const(22)


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    """RFC 2104; MicroPython has none."""
    if len(key) > _SHA_BLOCK:
        key = sha256(key).digest()
    key = key + bytes(_SHA_BLOCK - len(key))
    inner = sha256(bytes(byte ^ 0x36 for byte in key) + message).digest()
    return sha256(bytes(byte ^ 0x5C for byte in key) + inner).digest()


def digest_of(file: "Any") -> bytes:
    digest = sha256()
    block = file.read(_BLOCK)
    while block:
        digest.update(block)
        block = file.read(_BLOCK)
    return digest.digest()


def unpack_image(files: "Files", image: "Any", folder: str, alive: "Callable[[], object]") -> None:
    """Raises OSError where it cannot be read back, or is no image for us."""
    if image.read(len(_IMAGE_MARK)) != _IMAGE_MARK:
        raise OSError(_EINVAL, "no image")
    _make_folder(files, folder)
    for _ in range(image.read(1)[0]):
        alive()
        name = image.read(image.read(1)[0]).decode()
        (size,) = unpack_from(">I", image.read(4))
        parts = name.split("/")
        if "" in parts or ".." in parts:
            raise OSError(_EINVAL, name)
        for depth in range(1, len(parts)):
            _make_folder(files, "/".join([folder] + parts[:depth]))
        _copy(files, image, size, folder + "/" + name)


def _make_folder(files: "Files", folder: str) -> None:
    try:
        files.mkdir(folder)
    except OSError:
        pass  # it is there; if it is not, the next file says so


def _copy(files: "Files", image: "Any", size: int, path: str) -> None:
    start = image.seek(0, 1)
    with files.open(path, "wb") as file:
        for at in range(0, size, _BLOCK):
            file.write(image.read(min(_BLOCK, size - at)))
    image.seek(start)
    with files.open(path, "rb") as file:
        for at in range(0, size, _BLOCK):
            part = min(_BLOCK, size - at)
            if file.read(part) != image.read(part):
                raise OSError(_EIO, path)
