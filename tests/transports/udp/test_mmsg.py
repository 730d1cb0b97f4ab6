"""The layout of the kernel's structures, and a batch that the kernel takes only in part."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Iterator

import pytest

from gateway.transports.udp.datagrams import BatchedDatagrams
from gateway.transports.udp.mmsg import (
    DATAGRAMS_PER_CALL,
    BatchEntry,
    IoVector,
    MessageHeader,
    available,
)

# sizes: iovec, msghdr, mmsghdr; offsets: iov, iovlen, msg_len. From the kernel's headers, by
# pointer size.
LAYOUTS = {8: (16, 56, 64, 16, 24, 56), 4: (8, 28, 32, 8, 12, 28)}


def test_the_layout_is_the_kernels() -> None:
    assert (
        ctypes.sizeof(IoVector),
        ctypes.sizeof(MessageHeader),
        ctypes.sizeof(BatchEntry),
        MessageHeader.iov.offset,
        MessageHeader.iovlen.offset,
        BatchEntry.len.offset,
    ) == LAYOUTS[ctypes.sizeof(ctypes.c_void_p)]


def test_this_system_has_the_calls() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        assert available(opened.fileno())


# Unix datagram sockets queue few datagrams and then refuse: the way to see a full buffer on
# loopback.
NAME = b"\0t" + os.urandom(4)
ADDRESS = socket.AF_UNIX.to_bytes(2, "little") + NAME


@pytest.fixture
def full_soon() -> Iterator[tuple[socket.socket, BatchedDatagrams]]:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(NAME + bytes(8))
        receiver.setblocking(False)
        yield (
            receiver,
            BatchedDatagrams(sender, name_bytes=16, key_bytes=8, datagram_bytes_max=100),
        )


def test_what_the_kernel_did_not_take_can_be_sent_again(
    full_soon: tuple[socket.socket, BatchedDatagrams],
) -> None:
    receiver, sender = full_soon
    rest = [(ADDRESS, bytes([number])) for number in range(DATAGRAMS_PER_CALL)]
    received, refusals = [], 0
    while rest:
        taken, error = sender.send(rest)
        if error:
            assert (taken, error) == (0, errno.EAGAIN)
            refusals += 1
        rest = rest[taken:]
        if error or not rest:
            received += drained(receiver)
    assert refusals > 0
    assert received == [bytes([number]) for number in range(DATAGRAMS_PER_CALL)]


def drained(receiver: socket.socket) -> list[bytes]:
    received = []
    try:
        while True:
            received.append(receiver.recv(100))
    except BlockingIOError:
        return received
