"""A place in files that the disk cannot read any more, for the process that asks for it.

The kernel itself answers with EIO, by a seccomp filter, which nobody can take off again: for a
process of its own. It knows no file names, so it is any file's place at `offset`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

# By machine: its name for seccomp, and the number of pread64, whose fourth argument is the offset.
CALLS = {"x86_64": (0xC000003E, 17), "aarch64": (0xC00000B7, 67)}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000 | errno.EIO
# Where these are in what the filter is shown; of the offset the low half, the high one being 0.
NUMBER, MACHINE, OFFSET = 0, 4, 16 + 3 * 8


def spoil(offset: int) -> None:
    """From now on nothing in this process reads at this offset."""
    machine, pread = CALLS[platform.machine()]
    steps = b""
    checks = ((MACHINE, machine), (NUMBER, pread), (OFFSET, offset))
    for left, (place, value) in zip((2, 1, 0), checks, strict=True):
        steps += struct.pack("=HBBI", LOAD, 0, 0, place)
        steps += struct.pack("=HBBI", JUMP_IF_EQUAL, 0, 2 * left + 1, value)
    steps += struct.pack("=HBBI", RETURN, 0, 0, FAIL) + struct.pack("=HBBI", RETURN, 0, 0, ALLOW)
    room = ctypes.create_string_buffer(steps, len(steps))
    program = struct.pack("@HP", len(steps) // 8, ctypes.addressof(room))
    libc = ctypes.CDLL(None, use_errno=True)
    for option in ((PR_SET_NO_NEW_PRIVS, 1, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program)):
        if libc.prctl(*option, 0, 0):
            number = ctypes.get_errno()
            raise OSError(number, f"no seccomp filter here: {os.strerror(number)}")
