"""Many datagrams in one system call: recvmmsg and sendmmsg through ctypes.

The kernel fills (and reads) the same slots every time; Python sees only two slices per datagram,
its address and its bytes. Nothing here is converted: an address is the kernel's own bytes. Offsets
come from ctypes, never from a table, because 32-bit ARM lays `msghdr` out differently. musl
declares narrower fields with padding, in the kernel's places, so that one layout serves both C
libraries.

Which design lost: asyncio's datagram endpoint (16.9 us of CPU per echoed datagram, one per loop
turn) and a recvfrom loop (2.3 us); this costs 1.9 us, of which 1.0 us is the kernel.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

DATAGRAMS_PER_CALL = 64

_MSG_DONTWAIT = 0x40  # the same on every Linux architecture


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
    size, pointer = ctypes.c_uint, ctypes.c_void_p
    receive.argtypes = (ctypes.c_int, pointer, size, ctypes.c_int, pointer)
    send.argtypes = (ctypes.c_int, pointer, size, ctypes.c_int)
    return receive, send


_CALLS = _system_calls()


def available() -> bool:
    """Whether this C library has both calls."""
    return _CALLS is not None


class _Slots:
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
        self.table = ctypes.addressof(self._entries)
        self.received_bytes = _column(memoryview(self._entries), BatchEntry.len)
        self.bytes_to_send = _column(memoryview(self._vectors), IoVector.len)
        self.starts = [index * slot_bytes for index in range(count)]


class BatchedDatagrams:
    """One socket, up to 64 datagrams a call; `key_bytes` of each address identify the peer."""

    def __init__(
        self, socket_: socket.socket, *, name_bytes: int, key_bytes: int, datagram_bytes_max: int
    ) -> None:
        assert _CALLS is not None
        self.truncated = 0
        self.receive_failed = 0
        self._recvmmsg, self._sendmmsg = _CALLS
        self._descriptor = socket_.fileno()
        self._bytes_max = datagram_bytes_max
        # One byte more than allowed: a datagram that needs it was too long, whether cut or not.
        self._in = _Slots(name_bytes, datagram_bytes_max + 1)
        self._out = _Slots(name_bytes, datagram_bytes_max)
        self._sizes = [datagram_bytes_max] * DATAGRAMS_PER_CALL  # of what is in these
        key = f"{key_bytes}s{name_bytes - key_bytes}x"
        self._keys = [struct.Struct(key * count) for count in range(DATAGRAMS_PER_CALL + 1)]

    def receive(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """How many datagrams there were, and those of them that are whole."""
        slots = self._in
        count = self._recvmmsg(
            self._descriptor, slots.table, DATAGRAMS_PER_CALL, _MSG_DONTWAIT, None
        )
        if count <= 0:
            if count < 0 and ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
                self.receive_failed += 1
            return 0, []
        lengths = slots.received_bytes[:count].tolist()
        data = slots.bytes
        datagrams = [
            data[start : start + length]
            for start, length in zip(slots.starts, lengths, strict=False)
        ]
        batch = list(zip(self._keys[count].unpack_from(slots.names), datagrams, strict=True))
        if max(lengths) > self._bytes_max:
            batch = [entry for entry in batch if len(entry[1]) <= self._bytes_max]
            self.truncated += count - len(batch)
        return count, batch

    def send(self, batch: Sequence[tuple[bytes, bytes]]) -> tuple[int, int]:
        """How many the kernel took, and the errno of the next one if it took none. At most 64; one
        longer than `datagram_bytes_max` fits no slot and never reaches the kernel.
        """
        slots, bytes_max, sizes = self._out, self._bytes_max, self._sizes
        data, lengths = slots.bytes, slots.bytes_to_send
        names: list[bytes] = []
        for (address, datagram), start in zip(batch, slots.starts, strict=False):
            size = len(datagram)
            if size > bytes_max:
                break
            data[start : start + size] = datagram
            index = len(names)
            if sizes[index] != size:  # most are as long as what was there before
                sizes[index] = lengths[index] = size
            names.append(address)
        if not names:
            return 0, errno.EMSGSIZE
        self._keys[len(names)].pack_into(slots.names, 0, *names)
        taken = self._sendmmsg(self._descriptor, slots.table, len(names), _MSG_DONTWAIT)
        return (taken, 0) if taken > 0 else (0, ctypes.get_errno())


def _address_of_memory(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _column(table: memoryview, field: _Field) -> memoryview:
    """One unsigned field of every row of a table, as a view that is read and written by index."""
    code: Literal["I", "Q"] = "I" if field.size == struct.calcsize("I") else "Q"
    assert field.offset % field.size == 0
    assert table.itemsize % field.size == 0
    first, step = field.offset // field.size, table.itemsize // field.size
    return table.cast("B").cast(code)[first::step]
