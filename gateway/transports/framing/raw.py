"""MQTT-SN as it is, one message behind the other: the length in front of each is all there is.

Rules that hold here:

- A line that was silent for `gap_s` is between two messages. A message that was not whole by then
  is given up, and the next byte begins another. Bytes that are fetched late look the same: if they
  make the message whole, and are none by themselves, they are its rest.
- What begins no message or does not decode is damage. From there on everything is collected up to
  the gap, or up to the largest message, and then searched for messages.
- A search must not find what is not there, and a single message proves little: the end of a cut
  PUBLISH looks like one in two cases of a hundred. So two in a row are asked for, up to the end,
  or one that has only text in front.

There is no check: a wrong byte that leaves length and layout intact is not noticed, and one in a
length costs what comes up to the next gap. docs/serial.md says so.
"""

from __future__ import annotations

from collections.abc import Container
from enum import Enum, auto
from typing import NamedTuple

from gateway.transports.framing.chatter import OnLine, emit_lines, is_text
from gateway.transports.framing.counters import Fault, FramingCounters
from gateway.transports.framing.messages import beginnings, declared_length, is_message

# 500 bytes at 115,200 baud, and more than USB adapters hold back (16 ms).
GAP_S = 0.05

_IN_A_ROW_MIN = 2  # messages that prove that a search has found any


class _Stop(Enum):
    END = auto()  # of the bytes and of a message
    MORE = auto()  # a message has begun that is not whole
    DAMAGE = auto()
    TOO_LONG = auto()


_FAULTS: dict[_Stop, Fault] = {_Stop.DAMAGE: "bad_check", _Stop.TOO_LONG: "too_long"}


class _Run(NamedTuple):
    """Messages one behind the other. `end` is where they stop, `stop` says at what."""

    messages: list[bytes]
    starts: list[int]
    end: int
    stop: _Stop
    needed_bytes: int  # of the message that is not whole


class RawFraming:
    def __init__(self, message_bytes_max: int, gap_s: float, chatter: OnLine | None) -> None:
        self.counters = FramingCounters()
        self._message_bytes_max = message_bytes_max
        self._gap_s = gap_s
        self._chatter = chatter
        self._is_lost = False  # the last that came was no message
        self._held = bytearray()
        self._needed_bytes = 0  # in `_held` before there can be a message
        self._fault: Fault | None = None  # of what is held; then it is to be searched
        self._is_counted = False  # that fault
        self._received_at = 0.0

    @property
    def held_bytes(self) -> int:
        return len(self._held)

    def reset(self) -> None:
        self._held.clear()
        self._needed_bytes = 0
        self._fault = None
        self._is_counted = False

    def wrap(self, message: bytes) -> bytes:
        return message

    def wait_s(self, now: float) -> float | None:
        return max(0.0, self._received_at + self._gap_s - now) if self._is_amid() else None

    def feed(self, chunk: bytes, now: float) -> list[bytes]:
        messages = []
        # The sum of `wait_s`, for a difference may come out a little smaller.
        if self._is_amid() and now >= self._received_at + self._gap_s:
            messages += self._after_gap(chunk)
        for at in range(0, len(chunk), self._message_bytes_max):
            self._received_at = now
            self._held += chunk[at : at + self._message_bytes_max]
            if len(self._held) >= self._needed_bytes:
                messages += self._found()
        if messages:
            self.counters.good += len(messages)
        return messages

    def _is_amid(self) -> bool:
        return bool(self._held) or self._fault is not None

    def _after_gap(self, chunk: bytes) -> list[bytes]:
        held = bytes(self._held)
        if self._fault is None and chunk:
            is_late_rest = self._run(held + chunk).stop is _Stop.END
            if is_late_rest and self._run(chunk).stop is not _Stop.END:
                return []
        run = self._search(held, self._fault or "bad_check", is_over=True)
        self.reset()
        if run is None:
            return []
        self._take(run)
        return run.messages

    def _found(self) -> list[bytes]:
        """What is in the bytes held, of which there are as many as were needed."""
        messages: list[bytes] = []
        if self._fault is None:
            run = self._run(bytes(self._held))
            self._take(run)
            messages = run.messages
        if self._fault is not None and len(self._held) >= self._message_bytes_max:
            held, fault = bytes(self._held), self._fault
            self._held.clear()
            found = self._search(held, fault, is_over=False)
            if found is not None:
                self._held += held
                self._take(found)
                messages += found.messages
        return messages

    def _take(self, run: _Run) -> None:
        """Goes on where the run stopped."""
        del self._held[: run.end]
        self._needed_bytes = run.needed_bytes
        self._fault = _FAULTS.get(run.stop)
        self._is_counted = False
        if self._fault is not None:
            self._needed_bytes = self._message_bytes_max
        if run.messages and self._is_lost:
            self._is_lost = False
            self.counters.resyncs += 1

    def _search(self, chunk: bytes, fault: Fault, *, is_over: bool) -> _Run | None:
        """The first run that is accepted; what is in front of it, or all, is discarded.

        `is_over`: the line was silent afterwards, so that a run must lead to the very end.
        """
        seen: set[int] = set()  # so that each place is decoded once
        for at in beginnings(chunk):
            run = self._run(chunk, at, seen)
            if self._is_accepted(run, chunk, at, is_over=is_over):
                self._discard(chunk[:at], fault)
                return run
            seen.update(run.starts)
        self._discard(chunk, fault)
        return None

    def _is_accepted(self, run: _Run, chunk: bytes, at: int, *, is_over: bool) -> bool:
        if run.stop is not _Stop.END and (is_over or run.stop is not _Stop.MORE):
            return False
        if len(run.messages) >= _IN_A_ROW_MIN:
            return True
        is_after_text = not self._is_counted and is_text(chunk[:at])
        return is_over and len(run.messages) == 1 and is_after_text

    def _run(self, chunk: bytes, at: int = 0, seen: Container[int] = ()) -> _Run:
        """`seen`: where no message is to be looked for."""
        messages: list[bytes] = []
        starts: list[int] = []
        stop, needed = _Stop.END, 0
        while at < len(chunk):
            declared = declared_length(chunk, at)
            left = len(chunk) - at
            if (left if declared is None else declared) > self._message_bytes_max:
                stop = _Stop.TOO_LONG
                break
            if declared is None or declared > left:
                stop, needed = _Stop.MORE, declared or 0
                break
            message = chunk[at : at + declared]
            if at in seen or not is_message(message):
                stop = _Stop.DAMAGE
                break
            messages.append(message)
            starts.append(at)
            at += declared
        return _Run(messages=messages, starts=starts, end=at, stop=stop, needed_bytes=needed)

    def _discard(self, chunk: bytes, fault: Fault) -> None:
        if chunk and is_text(chunk):
            self.counters.chatter_bytes += len(chunk)
            if self._chatter is not None:
                emit_lines(chunk, self._chatter)
        elif chunk and not self._is_counted:
            self.counters.add(fault)
            self._is_counted = self._is_lost = True
