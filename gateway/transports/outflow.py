"""Bytes on their way into a transport, in an amount that is known.

A TLS transport does not tell what the TCP transport under it still holds, and takes megabytes in
one write without a word. So it is fed in pieces, as long as it does not ask to pause; the rest
waits here and is counted. What stays unseen is at most two pieces.
"""

from __future__ import annotations

import asyncio
from collections import deque

PIECE_BYTES = 64 << 10


class Outflow:
    """The writing side of one connection. Its owner bounds it by `unsent_bytes`."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._paused = False

    @property
    def unsent_bytes(self) -> int:
        return self._waiting_bytes + self._transport.get_write_buffer_size()

    def write(self, joined: bytes) -> None:
        if not self._paused and len(joined) <= PIECE_BYTES:
            self._transport.write(joined)
            return
        view = memoryview(joined)
        for start in range(0, len(joined), PIECE_BYTES):
            self._waiting.append(view[start : start + PIECE_BYTES])
        self._waiting_bytes += len(joined)
        self._pour()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._pour()

    def close(self) -> None:
        """The transport sends all that was written, and then closes."""
        self._paused = False
        while self._waiting:
            self._transport.write(self._waiting.popleft())
        self._waiting_bytes = 0
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def _pour(self) -> None:
        # Whatever is waiting implies that the transport is paused when this returns.
        while self._waiting and not self._paused:
            piece = self._waiting.popleft()
            self._waiting_bytes -= len(piece)
            self._transport.write(piece)
