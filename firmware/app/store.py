"""Readings that are not sent yet, in the board's flash, where a power cut takes none of them.

    store = Store(files, "/store")
    sequence = store.append(reading)       # returned: it is on the flash
    sequence, reading = store.oldest()     # what to send next; None: nothing
    store.sent(sequence)                   # the gateway has it

Rules
- A reading that `append` returned for is given by `oldest`, whole, until `sent` is called for it or
  it is dropped for newer ones. What is not whole is never given.
- After a power cut those sent since the last `append` are given once more: that they were sent is
  written with the next reading, because a write of its own would wear the flash and the battery
  twice as fast. The sequence number tells the consumer that it knows them.
- A torn or damaged record is passed over by looking for the next good one, byte by byte.

Layout: files of SEGMENT_OCTETS at most, named by the first sequence number in them. A record is,
big-endian: mark, length, sequence, oldest unsent sequence, reading, CRC-32 of all that.

Limits: `segments` files (64 KiB); with one more the oldest is dropped and `dropped` counts its
unsent readings. READING_OCTETS_MAX for one reading. A flash without room loses the oldest as well.
"""

from binascii import crc32
from struct import pack, unpack_from

try:
    from micropython import const
except ImportError:
    from ..mqttsn.cpython import const

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SEGMENT_OCTETS = 4096  # a block of most boards' flash
SEGMENTS = 16
READING_OCTETS_MAX = 512

_MARK = const(0xA7)
_HEAD = const(">BHII")
_HEAD_OCTETS = const(11)
_CHECK_OCTETS = const(4)
_NO_SPACE = const(28)  # ENOSPC, on every port


class Store:
    def __init__(self, files: "Any", folder: str, segments: int = SEGMENTS) -> None:
        """Raises OSError where the flash cannot be read."""
        self.dropped = 0  # unsent readings, in this life
        self._files = files
        self._folder = folder
        self._segments_max = segments
        try:
            files.mkdir(folder)
        except OSError:
            pass  # it is there; if it is not, the next line says so
        self._segments = sorted(name for name in files.listdir(folder) if len(name) == 8)
        self.oldest_unsent = self.next = 1
        self._size = 0  # of the newest segment
        self._at = 0  # where reading goes on, in the segment of that name
        self._reading = ""
        self._recover()

    # For the application

    def append(self, reading: bytes) -> int:
        """Raises OSError if the flash does not take it, even without all older ones."""
        if len(reading) > READING_OCTETS_MAX:
            raise ValueError("reading of more than 512 bytes")
        record = pack(_HEAD, _MARK, len(reading), self.next, self.oldest_unsent) + reading
        record += crc32(record).to_bytes(_CHECK_OCTETS, "big")
        while True:
            try:
                self._write(record)
                break
            except OSError as error:
                if error.args[0] != _NO_SPACE or len(self._segments) < 2:
                    raise
                self._drop_oldest()
        self.next += 1
        return self.next - 1

    def oldest(self) -> tuple[int, bytes] | None:
        while self.oldest_unsent < self.next:
            name = ""
            for each in self._segments:
                if not name or int(each, 16) <= self.oldest_unsent:
                    name = each
            found = self._next_in(name)
            if found:
                self._skip_to(found[0])  # what is between them is damaged
                return found
            behind = [each for each in self._segments if each > self._reading]
            self._skip_to(int(behind[0], 16) if behind else self.next)
        return None

    def sent(self, sequence: int) -> None:
        self.oldest_unsent = max(self.oldest_unsent, min(sequence + 1, self.next))

    @property
    def waiting(self) -> int:
        return self.next - self.oldest_unsent

    # Writing

    def _write(self, record: bytes) -> None:
        name = self._segments[-1] if self._segments else ""
        if not name or self._size + len(record) > SEGMENT_OCTETS:
            name = self._make_room()
            self._size = 0
        try:
            with self._files.open(f"{self._folder}/{name}", "ab") as file:
                if file.write(record) != len(record):
                    raise OSError(_NO_SPACE)
        except OSError:
            if name not in self._segments:
                self._remove(name)
            raise
        if name not in self._segments:
            self._segments.append(name)
        self._size += len(record)

    def _make_room(self) -> str:
        """The name of a new segment."""
        while len(self._segments) > 1 and int(self._segments[1], 16) <= self.oldest_unsent:
            self._remove_oldest()
        while len(self._segments) >= self._segments_max:
            self._drop_oldest()
        name = f"{self.next:08x}"
        if name in self._segments:  # all that it has is torn
            self._segments.remove(name)
            self._remove(name)
        return name

    def _drop_oldest(self) -> None:
        behind = int(self._segments[1], 16) if len(self._segments) > 1 else self.next
        self._skip_to(behind)
        self._remove_oldest()

    def _remove_oldest(self) -> None:
        self._remove(self._segments[0])
        del self._segments[0]

    def _remove(self, name: str) -> None:
        try:
            self._files.remove(f"{self._folder}/{name}")
        except OSError:
            pass  # a file that is not there, or one that the flash keeps: no more than room is lost

    def _skip_to(self, sequence: int) -> None:
        self.dropped += max(0, sequence - self.oldest_unsent)
        self.oldest_unsent = max(sequence, self.oldest_unsent)

    # Reading

    def _recover(self) -> None:
        """The numbers, from the newest segment that has a good record."""
        for name in reversed(self._segments):
            with self._files.open(f"{self._folder}/{name}", "rb") as file:
                at = last = 0
                while _find(file, at):
                    at, size, last, self.oldest_unsent = _find(file, at)
                    at += size
            if last:
                self.next = last + 1
                break
        if self._segments:
            self.oldest_unsent = max(self.oldest_unsent, int(self._segments[0], 16))
            self.next = max(self.next, int(self._segments[-1], 16), self.oldest_unsent)
            with self._files.open(f"{self._folder}/{self._segments[-1]}", "rb") as file:
                self._size = file.seek(0, 2)

    def _next_in(self, name: str) -> tuple[int, bytes] | None:
        """The next one in this segment, or in the one behind it where reading goes on."""
        if name > self._reading:
            self._reading, self._at = name, 0
        with self._files.open(f"{self._folder}/{self._reading}", "rb") as file:
            while True:
                found = _find(file, self._at)
                if not found:
                    return None
                self._at, size, sequence, _ = found
                if sequence >= self.oldest_unsent:
                    file.seek(self._at + _HEAD_OCTETS)
                    return sequence, file.read(size - _HEAD_OCTETS - _CHECK_OCTETS)
                self._at += size


def _find(file: "Any", at: int) -> tuple[int, ...]:
    """The first good record from there: where, its size, its sequence, its oldest unsent one."""
    while True:
        file.seek(at)
        head = file.read(_HEAD_OCTETS)
        if len(head) < _HEAD_OCTETS:
            return ()
        mark, length, sequence, oldest_unsent = unpack_from(_HEAD, head)
        if mark == _MARK and length <= READING_OCTETS_MAX:
            rest = file.read(length + _CHECK_OCTETS)
            check = crc32(head + rest[:length]).to_bytes(_CHECK_OCTETS, "big")
            if check == rest[length:]:
                return at, _HEAD_OCTETS + len(rest), sequence, oldest_unsent
        at += 1
