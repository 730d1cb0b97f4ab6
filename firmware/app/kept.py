"""What a node knows from one wake to the next, in RTC memory or wherever its board keeps it.

It is taken away when it is read (`node.py`), and written again before the next sleep: after a life
that ended otherwise a node begins again, with other message ids. The former ones may be known to
the gateway, which would take a new reading under one of them for a copy of an old one.

Layout: big-endian fields of `_HEAD`; for each last value its name's length, name, digits, places;
the session as mqttsn.snapshot wrote it; CRC-32. Bytes that are damaged, or of another version, are
nothing. Limits: OCTETS_MAX, what ESP32 has; where that is not enough the last values are left out,
then the session.
"""

from binascii import crc32
from struct import calcsize, pack, unpack_from

try:
    from micropython import const
except ImportError:
    from ..mqttsn.cpython import const

OCTETS_MAX = 2048
_VERSION = const(1)
_HEAD = const(">BHiBIIIIIIBHHHIB")
_COUNT_MAX = const(0xFFFF)


class Kept:
    def __init__(self) -> None:
        self.era = 0  # of the board's clock; 0: none yet
        self.offset_s: int | None = None  # to Unix time
        self.learnt_at = self.seconds = 0  # by the board's clock: when that was said, and now
        self.reported_at = self.told_at = 0  # the last reading, the last state
        self.oldest_unsent = 0
        self.trying = 0  # CRC-32 of the payload that nobody has answered
        self.silent = 0  # wakes without any answer, in a row
        self.skip = 0  # wakes to come that leave the network alone
        self.listen_in = self.ask_in = 0  # wakes
        self.told = 0  # check of the state that was told; 0: none
        self.last: dict[str, tuple[int, int]] = {}  # values of the last reading
        self.session = b""

    def take(self) -> bytes:
        head = pack(
            _HEAD, _VERSION, self.era, self.offset_s or 0, self.offset_s is not None,
            self.learnt_at, self.seconds, self.reported_at, self.told_at,
            self.oldest_unsent, self.trying, min(self.silent, 255), min(self.skip, _COUNT_MAX),
            min(self.listen_in, _COUNT_MAX), min(self.ask_in, _COUNT_MAX), self.told,
            len(self.last),
        )  # fmt: skip
        parts = [head]
        for name, (value, places) in self.last.items():
            octets = name.encode()
            parts.append(pack(">B", len(octets)) + octets + pack(">iB", value, places))
        parts.append(self.session)
        kept = b"".join(parts)
        if len(kept) + 4 > OCTETS_MAX:
            if not self.last:
                self.session = b""
            self.last = {}
            return self.take()
        return kept + pack(">I", crc32(kept))

    def put_back(self, kept: bytes) -> bool:
        """False: there is nothing."""
        size = len(kept) - 4
        if size < calcsize(_HEAD) or unpack_from(">I", kept, size)[0] != crc32(kept[:size]):
            return False
        if kept[0] != _VERSION:
            return False
        (
            _, self.era, offset_s, has_offset, self.learnt_at, self.seconds, self.reported_at,
            self.told_at, self.oldest_unsent, self.trying, self.silent, self.skip,
            self.listen_in, self.ask_in, self.told, count,
        ) = unpack_from(_HEAD, kept)  # fmt: skip
        self.offset_s = offset_s if has_offset else None
        at = calcsize(_HEAD)
        for _ in range(count):
            end = at + 1 + kept[at]
            self.last[kept[at + 1 : end].decode()] = unpack_from(">iB", kept, end)
            at = end + 5
        self.session = bytes(kept[at:size])
        return True
