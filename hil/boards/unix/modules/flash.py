"""The board's flash: blocks in the file /host/flash, with LittleFS as ESP32 mounts it.

Where the file /host/cut_at has a number, the power goes in the middle of that write or erasure of
this life. /host/writes is how many there were.
"""

import ffi
import vfs

BLOCK = 4096
UNIT = 32  # bytes that are read or programmed at once, as the ESP32's port says
KILL = 9
_COUNT, _SIZE, _ERASE = 4, 5, 6

_libc = ffi.open("libc.so.6")
_getpid = _libc.func("i", "getpid", "")
_kill = _libc.func("i", "kill", "ii")


def _number(name):
    try:
        with open("/host/" + name) as file:
            return int(file.read())
    except OSError:
        return 0


class Flash:
    def __init__(self):
        self._file = open("/host/flash", "r+b")
        self._blocks = self._file.seek(0, 2) // BLOCK
        self._cut_at = _number("cut_at")
        self.writes = 0

    def readblocks(self, block, buffer, offset=0):
        self._file.seek(block * BLOCK + offset)
        self._file.readinto(buffer)

    def writeblocks(self, block, buffer, offset=0):
        self._put(block * BLOCK + offset, buffer)

    def ioctl(self, request, argument):
        if request == _COUNT:
            return self._blocks
        if request == _SIZE:
            return BLOCK
        if request == _ERASE:
            self._put(argument * BLOCK, b"\xff" * BLOCK)
        return 0

    def _put(self, at, octets):
        self.writes += 1
        self._file.seek(at)
        if self.writes == self._cut_at:
            self._file.write(octets[: len(octets) // 2])
            _kill(_getpid(), KILL)
        self._file.write(octets)


def file_system():
    return vfs.VfsLfs2(device, readsize=UNIT, progsize=UNIT, lookahead=UNIT)


device = Flash()
