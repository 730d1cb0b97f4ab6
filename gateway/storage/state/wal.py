"""SQLite's write-ahead log, read without SQLite: which commits count, and which it would leave out.

SQLite ends at the first frame whose checksum is wrong and says nothing: after a crash that is the
commit that was being written, which nothing relied on. On a card that spoils what it had taken, it
is everything behind the spoilt place as well. The two can be told apart, because each commit is
durable before the next one begins: where whole commits follow the bad frame, what is left out was
relied on. Of the last commit the log alone cannot tell; see commit_notes.py.

Pure: bytes in, values out. Format: https://www.sqlite.org/fileformat2.html#walformat
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

HEADER_BYTES, FRAME_HEAD_BYTES = 32, 24
_HEADER = struct.Struct(">8I")  # magic, version, page size, checkpoint, salts, checksums
_FRAME = struct.Struct(">6I")  # page, pages of the database if it ends a commit, salts, checksums
_ORDER = {0x377F0682: "<", 0x377F0683: ">"}  # of the words that are summed, by the magic number
_WORD = 0xFFFF_FFFF
_PAGE_BYTES_MAX = 65536
# Of the database's header: 2 for a write-ahead log, 1 for none, to write and to read.
_VERSIONS = slice(18, 20)

Salts = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Wal:
    """`frames`: up to the end of the last commit that counts; `pages`: what they hold, by number;
    `pages_count`: of the database after them. `salts`: None where nothing of it can be used.
    `left_out`: commits behind a damaged place that were durable once.
    """

    salts: Salts | None = None
    frames: int = 0
    pages: dict[int, memoryview] = field(default_factory=dict)
    pages_count: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class _Frame:
    page: int
    pages_count: int
    salts: Salts
    sums: tuple[int, int]
    head: memoryview
    content: memoryview


def read_wal(content: bytes, page_bytes: int) -> Wal:
    """Any bytes are read; `page_bytes` is used where the header cannot be."""
    header = _header(content)
    if header is None:
        frames = list(_frames(content, page_bytes))
        # A clean close, or a file that was never used: see room.py.
        is_unused = not any(content[:HEADER_BYTES])
        return Wal(left_out=0 if is_unused or not frames else _durable(frames, frames[0].salts))
    order, page_bytes, salts, sums = header
    frames = list(_frames(content, page_bytes))
    if frames and frames[0].salts[0] == salts[0] + 1 & _WORD:
        # The log was begun again after this header, which the disk had taken by then.
        return Wal(salts=salts, left_out=_durable(frames, frames[0].salts))
    end = pages_count = 0
    pages: dict[int, memoryview] = {}
    pending: dict[int, memoryview] = {}
    for count, frame in enumerate(frames, 1):
        if frame.salts != salts or not frame.page:
            break
        sums = _sums(frame.content, order, _sums(frame.head, order, sums))
        if frame.sums != sums:
            break
        pending[frame.page] = frame.content
        if frame.pages_count:
            end, pages_count = count, frame.pages_count
            pages.update(pending)
            pending.clear()
    else:
        return Wal(salts, end, pages, pages_count)
    # What is left of an earlier use has other salts.
    rest = frames[end:]
    is_torn = all(frame.salts != salts or not frame.pages_count for frame in rest)
    return Wal(salts, end, pages, pages_count, 0 if is_torn else _durable(rest, salts))


def with_pages(database: bytes, wal: Wal) -> bytes:
    """The database as SQLite would read it, as one that has no log."""
    found = bytearray(database)
    if wal.pages:
        page_bytes = len(next(iter(wal.pages.values())))
        size = wal.pages_count * page_bytes
        found += bytes(max(0, size - len(found)))
        del found[size:]
        for page, content in wal.pages.items():
            found[(page - 1) * page_bytes : page * page_bytes] = content
        del found[size:]
    found[_VERSIONS] = b"\1\1"
    return bytes(found)


def salts_of(head: bytes) -> Salts | None:
    """Of the first bytes of a log; None where they are no header."""
    header = _header(head)
    return None if header is None else header[2]


def frame_end(head: bytes) -> tuple[Salts, bool]:
    """Of the head of a frame: its salts, and whether it ends a commit."""
    _, pages_count, first, second, _, _ = _FRAME.unpack(head)
    return (first, second), pages_count > 0


def _header(content: bytes) -> tuple[str, int, Salts, tuple[int, int]] | None:
    if len(content) < HEADER_BYTES:
        return None
    magic, _, page_bytes, _, first, second, *sums = _HEADER.unpack_from(content)
    order = _ORDER.get(magic)
    if order is None or not 512 <= page_bytes <= _PAGE_BYTES_MAX or page_bytes & page_bytes - 1:
        return None
    found = _sums(content[: HEADER_BYTES - 8], order, (0, 0))
    return (order, page_bytes, (first, second), found) if list(found) == sums else None


def _frames(content: bytes, page_bytes: int) -> Iterator[_Frame]:
    size = FRAME_HEAD_BYTES + page_bytes
    view = memoryview(content)
    for start in range(HEADER_BYTES, len(content) - size + 1, size):
        page, pages_count, *rest = _FRAME.unpack_from(content, start)
        head = view[start : start + 8]
        held = view[start + FRAME_HEAD_BYTES : start + size]
        yield _Frame(page, pages_count, (rest[0], rest[1]), (rest[2], rest[3]), head, held)


def _sums(content: bytes | memoryview, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second


def _durable(frames: list[_Frame], salts: Salts) -> int:
    """Of the commits among them, those that had to be durable before what follows was written."""
    if not any(salts):
        return 0
    current = [frame.pages_count > 0 for frame in frames if frame.salts == salts]
    return sum(current) - (1 if current and current[-1] else 0)
