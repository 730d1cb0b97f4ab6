"""Frames on their way to a line: how many may wait, and how fast they go. Pure.

- A line is slow, and what is not answered is sent again after T_retry. So no more may wait than the
  line takes in WAITING_S, or one frame; what comes beyond is refused.
- Boards with a small receive buffer need pauses: `gap_s` after each burst, which is a whole frame
  or `burst_bytes_max` of one, counted from when its last byte is on the line.
"""

from __future__ import annotations

from collections import deque

WAITING_S = 5.0  # half of T_retry
CHUNK_BYTES = 4096  # to one system call, where no pauses are asked for


class LineOutflow:
    """Its owner asks for the `next` bytes, writes them, and says how many were `taken`."""

    def __init__(self, bytes_per_s: float, *, burst_bytes_max: int = 0, gap_s: float = 0.0) -> None:
        """`burst_bytes_max`: 0 for whole frames."""
        self.waiting_bytes = 0
        self._bytes_per_s = bytes_per_s
        self._waiting_bytes_max = int(bytes_per_s * WAITING_S)
        self._burst_bytes_max = burst_bytes_max
        self._gap_s = gap_s
        self._frames: deque[bytes] = deque()
        self._begun = b""  # what `next` gave, less what was taken of it
        self._begun_frames = 0  # that end in it
        self._burst_bytes = 0  # of which `_begun` is the rest
        self._resume_at = 0.0

    def put(self, frame: bytes) -> bool:
        """False: too much is waiting already."""
        if self.waiting_bytes and self.waiting_bytes + len(frame) > self._waiting_bytes_max:
            return False
        self._frames.append(frame)
        self.waiting_bytes += len(frame)
        return True

    def next(self, now: float) -> bytes:
        """What may go to the line now; nothing while there is a pause."""
        if not self._begun and self._frames and now >= self._resume_at:
            self._begun = self._burst() if self._gap_s else self._chunk()
            self._burst_bytes = len(self._begun)
        return self._begun

    def taken(self, chunk: int, now: float) -> None:
        self._begun = self._begun[chunk:]
        self.waiting_bytes -= chunk
        if chunk and not self._begun and self._gap_s:
            self._resume_at = now + self._burst_bytes / self._bytes_per_s + self._gap_s

    def wait_s(self, now: float) -> float | None:
        """How long the pause lasts; None if nothing waits for its end."""
        if self._begun or not self._frames:
            return None
        return max(0.0, self._resume_at - now)

    def clear(self) -> int:
        """The line is gone: what waits goes nowhere. Returns how many frames that were."""
        count = len(self._frames) + (self._begun_frames if self._begun else 0)
        self._frames.clear()
        self._begun = b""
        self.waiting_bytes = 0
        self._resume_at = 0.0
        return count

    def _burst(self) -> bytes:
        frame = self._frames.popleft()
        most = self._burst_bytes_max or len(frame)
        self._begun_frames = int(len(frame) <= most)
        if len(frame) > most:
            self._frames.appendleft(frame[most:])
        return frame[:most]

    def _chunk(self) -> bytes:
        frames = [self._frames.popleft()]
        size = len(frames[0])
        while self._frames and size < CHUNK_BYTES:
            frames.append(self._frames.popleft())
            size += len(frames[-1])
        self._begun_frames = len(frames)
        return b"".join(frames)
