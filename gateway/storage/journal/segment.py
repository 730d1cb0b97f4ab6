"""A segment file's name and header.

```
 0 magic "TIDEJRNL"    8 version u16   10 algorithm u8   11 zero u8   12 salt u32
16 first record u64   24 bound u64    32 done below u64  40 serial u64
48 boot id (16)       64 CRC-32 of the 64 octets before (zlib's, in every version)
```
Rule 1: a segment holds the readings `first` and up. Readings numbered `bound` and up in segments
        before it do not count: their write failed, they went here or nowhere.
Rule 2: every reading numbered below `done below` was finished when the segment began.
Rule 3: `serial` counts the segments of this journal, so that two with the same `first` (nothing
        durable came into the older one) have an order.
Rule 4: header and name are durable before the first record is written. The name repeats what is
        needed to read the records when the header is damaged.
Rule 5: the header has these 68 bytes in every later version, so that an older release can say
        what it met. Format 2 has records that format 1 had not (RECEIVED, SESSION, MARKS). All
        formats are read; the newest segment of an older one is made one of this format at the
        start, the others stay what they are until they are used again.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass

from gateway.storage.journal.checksums import CHECKSUMS
from gateway.storage.journal.options import JournalError

MAGIC = b"TIDEJRNL"
VERSION = 2
HEADER_BYTES = 68

# Names in the journal's folder; what has none of these forms is not ours and stays as it is.
SEGMENT_NAME = re.compile(r"(\d{20})-(\d{10})-([0-9a-f]{8})\.segment")
SPARE_NAME = re.compile(r"spare-(\d{10})")
DAMAGED_SUFFIX = ".damaged"
MAKING_NAME = "making"

_LAYOUT = struct.Struct(">8sHBBIQQQQ16s")
_CHECKSUM = struct.Struct(">I")
NO_BOOT = bytes(16)


@dataclass(frozen=True, slots=True)
class Header:
    algorithm: int
    salt: int
    first: int
    bound: int
    done_below: int
    serial: int
    boot_id: bytes

    @property
    def name(self) -> str:
        return f"{self.first:020d}-{self.serial:010d}-{self.salt:08x}.segment"

    def encode(self) -> bytes:
        octets = _LAYOUT.pack(
            MAGIC,
            VERSION,
            self.algorithm,
            0,
            self.salt,
            self.first,
            self.bound,
            self.done_below,
            self.serial,
            self.boot_id,
        )
        return octets + _CHECKSUM.pack(zlib.crc32(octets))


def spare_name(number: int) -> str:
    return f"spare-{number:010d}"


def decode_header(octets: bytes) -> Header | None:
    """None if it is damaged. Raises JournalError if a newer release wrote it."""
    if len(octets) < HEADER_BYTES:
        return None
    (checksum,) = _CHECKSUM.unpack_from(octets, _LAYOUT.size)
    if zlib.crc32(octets[: _LAYOUT.size]) != checksum:
        return None
    magic, version, algorithm, _, *numbers, boot_id = _LAYOUT.unpack_from(octets)
    if magic != MAGIC:
        return None
    if version > VERSION or algorithm not in CHECKSUMS:
        raise JournalError(
            0,
            f"the journal was written by a newer release (format {version}, checksum {algorithm}; "
            f"this one reads format {VERSION}): install that release again, let it drain the "
            "journal, then go back; or move the journal's folder away and lose what is in it",
        )
    salt, first, bound, done_below, serial = numbers
    return Header(
        algorithm=algorithm,
        salt=salt,
        first=first,
        bound=bound,
        done_below=done_below,
        serial=serial,
        boot_id=boot_id,
    )


def header_of_name(name: str, algorithm: int) -> Header | None:
    """What a segment's name tells when its header is damaged."""
    match = SEGMENT_NAME.fullmatch(name)
    if match is None:
        return None
    first, serial, salt = int(match[1]), int(match[2]), int(match[3], 16)
    return Header(
        algorithm=algorithm,
        salt=salt,
        first=first,
        bound=first,
        done_below=0,
        serial=serial,
        boot_id=NO_BOOT,
    )
