"""What HDLC-like framing and SLIP have in common: a byte that stands between frames only.

Rules that hold here:

- All between two marks is one piece: nothing, a frame, text, or damage. What it is, is decided when
  its end is there, so that no split of the stream changes what is received.
- One piece is held, and of that at most `piece_bytes_max`. A longer one is text, which is let go,
  or it is skipped up to the next mark.
- Text is handed out line by line while its piece still lasts: a board that has fallen back to its
  console may never send a mark again. The bytes are kept all the same, for they could still turn
  out to be a frame.
"""

from __future__ import annotations

from typing import Protocol

from gateway.transports.framing.chatter import OnLine, emit_lines, is_text, may_become_text
from gateway.transports.framing.counters import Fault, FramingCounters


class Frames(Protocol):
    """How a message becomes a frame and a piece a message; no state of the line."""

    mark: bytes
    piece_bytes_max: int

    def wrap(self, message: bytes) -> bytes: ...

    def message_in(self, piece: bytes) -> bytes | Fault | None:
        """None: the piece, which is not empty, has no meaning."""


class DelimitedFraming:
    def __init__(self, frames: Frames, chatter: OnLine | None) -> None:
        self.counters = FramingCounters()
        self.wrap = frames.wrap
        self._message_in = frames.message_in
        self._mark = frames.mark
        self._piece_bytes_max = frames.piece_bytes_max
        self._chatter = chatter
        self._is_lost = False  # the last frame was none
        # Of the piece whose end is not there yet:
        self._held = bytearray()
        self._is_skipped = False
        self._may_be_text = True
        self._emitted_bytes = 0  # handed out as lines of text

    @property
    def held_bytes(self) -> int:
        return len(self._held)

    def reset(self) -> None:
        self._held.clear()
        self._is_skipped = False
        self._may_be_text = True
        self._emitted_bytes = 0

    def feed(self, chunk: bytes, now: float) -> list[bytes]:
        first, *others = chunk.split(self._mark)
        if not others:
            self._hold(first)
            return []
        rest = others.pop()
        found = [self._end(first)]
        found += [self._read(piece) for piece in others if piece]
        if rest:
            self._hold(rest)
        return [message for message in found if message is not None]

    def wait_s(self, now: float) -> float | None:
        return None

    def _end(self, piece: bytes) -> bytes | None:
        """The mark that ends the piece came; `piece` is the last of it."""
        if self._is_skipped:
            self.reset()
            return None
        emitted_bytes = self._emitted_bytes
        if self._held:
            self._held += piece
            piece = bytes(self._held)
            self.reset()
        return self._read(piece, emitted_bytes) if piece else None

    def _read(self, piece: bytes, emitted_bytes: int = 0) -> bytes | None:
        found = self._message_in(piece)
        if isinstance(found, bytes):
            self.counters.good += 1
            if self._is_lost:
                self._is_lost = False
                self.counters.resyncs += 1
            return found
        if found is not None:
            if is_text(piece):
                self._emit_text(piece, emitted_bytes)
            else:
                self._lose(found)
        return None

    def _hold(self, chunk: bytes) -> None:
        if self._is_skipped:
            return
        self._may_be_text = self._may_be_text and may_become_text(chunk)
        self._held += chunk
        if len(self._held) > self._piece_bytes_max:
            self._overflow()
        elif self._may_be_text and b"\n" in chunk:
            self._emit_lines_so_far()

    def _overflow(self) -> None:
        # Text is cut where a line ends, which is never inside a character, if that is near enough.
        end = self._held.rfind(b"\n") + 1
        if len(self._held) - end > self._piece_bytes_max or end == 0:
            end = len(self._held)
        chunk, rest = bytes(self._held[:end]), bytes(self._held[end:])
        emitted_bytes, may_be_text = self._emitted_bytes, self._may_be_text
        self.reset()
        if may_be_text and is_text(chunk):
            self._emit_text(chunk, emitted_bytes)
            self._held += rest
        else:
            self._lose("too_long")
            self._is_skipped = True

    def _lose(self, fault: Fault) -> None:
        self.counters.add(fault)
        self._is_lost = True

    def _emit_text(self, text: bytes, emitted_bytes: int) -> None:
        self.counters.chatter_bytes += len(text)
        if self._chatter is not None:
            emit_lines(text[emitted_bytes:], self._chatter)

    def _emit_lines_so_far(self) -> None:
        end = self._held.rfind(b"\n") + 1
        lines = bytes(self._held[self._emitted_bytes : end])
        if self._chatter is not None and is_text(lines):
            emit_lines(lines, self._chatter)
            self._emitted_bytes = end
