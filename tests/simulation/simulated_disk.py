"""What a power cut leaves of files: the disk's side of simulated_files.py.

A sector of 512 octets reaches the disk as it was after some of the writes to it, and never goes
back behind that. A change of folder entries happens whole or not at all, and never without those
before it on the same file or name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from random import Random

SECTOR_BYTES = 512
BLOCK_BYTES = 4096  # what space is given out in


class Survival(Enum):
    """How much of what was not synced a power cut leaves. The numbers are chances of a sector."""

    NOTHING = 0.0
    FEW = 0.1
    HALF = 0.5
    MOST = 0.9
    ALL = 1.0
    PREFIX = "the first writes"
    TORN = "the first writes, and the beginning of the next"


@dataclass(slots=True)
class Dirty:
    """A write that was not synced; without bytes the file was cut or grown to `offset`."""

    order: int
    offset: int
    octets: bytes | None


@dataclass(slots=True, eq=False)
class Content:
    """A file without its name: as programs see it, and as the disk has it."""

    cached: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    dirty: list[Dirty] = field(default_factory=list)
    blocks: set[int] = field(default_factory=set)  # that have space on the disk
    unreadable: set[int] = field(default_factory=set)  # blocks
    opened: int = 0
    inode: int = field(default_factory=count(1).__next__)
    has_lost: bool = False  # the cache shows what the disk will never have

    def evict(self) -> None:
        """The page cache forgets what it need not keep."""
        self.cached = bytearray(self.durable)
        for one in self.dirty:
            apply_write(self.cached, one.offset, one.octets)
        self.has_lost = False
        self.blocks = {block for block in self.blocks if block * BLOCK_BYTES < len(self.cached)}


@dataclass(slots=True)
class Step:
    """A change of folder entries: `old` goes (or None), `new` comes (or None), for `content`;
    `replaced` had the name `new` before.
    """

    order: int
    content: Content
    old: str | None
    new: str | None
    replaced: Content | None = None

    def names(self) -> set[str]:
        return {name for name in (self.old, self.new) if name is not None}

    def apply(self, entries: dict[str, Content]) -> None:
        if self.old is not None:
            entries.pop(self.old, None)
        if self.new is not None:
            entries[self.new] = self.content


def apply_write(octets: bytearray, offset: int, written: bytes | None) -> None:
    """A gap before `offset` reads as zeros."""
    missing = offset - len(octets)
    if missing > 0:
        octets.extend(bytes(missing))
    if written is None:
        del octets[offset:]
    else:
        octets[offset : offset + len(written)] = written


def blocks_of(offset: int, size: int) -> range:
    return range(offset // BLOCK_BYTES, -(-(offset + size) // BLOCK_BYTES))


def write_back(content: Content, survival: Survival, dice: Random) -> None:
    """What of the dirty pages reaches the disk; the rest never will."""
    dirty, content.dirty = content.dirty, []
    match survival:
        case Survival.ALL:
            _write_first(content, dirty, len(dirty))
        case Survival.PREFIX:
            _write_first(content, dirty, dice.randint(0, len(dirty)))
        case Survival.TORN:
            count = dice.randint(0, len(dirty))
            _write_first(content, dirty, count)
            _write_beginning(content, dirty[count : count + 1], dice)
        case Survival.NOTHING:
            pass
        case _:
            _write_some(content, dirty, float(survival.value), dice)


def _write_first(content: Content, dirty: list[Dirty], count: int) -> None:
    for one in dirty[:count]:
        apply_write(content.durable, one.offset, one.octets)


def _write_beginning(content: Content, next_one: list[Dirty], dice: Random) -> None:
    for one in next_one:
        if one.octets is None:
            continue
        before = one.offset % SECTOR_BYTES
        sectors = (before + len(one.octets)) // SECTOR_BYTES
        cut = dice.randint(0, sectors) * SECTOR_BYTES - before
        if cut > 0:
            apply_write(content.durable, one.offset, one.octets[:cut])


def _write_some(content: Content, dirty: list[Dirty], chance: float, dice: Random) -> None:
    left_behind: set[int] = set()
    for one in dirty:
        if one.octets is None:
            if dice.random() < chance:
                apply_write(content.durable, one.offset, None)
            continue
        end = one.offset + len(one.octets)
        for sector in range(one.offset // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            if sector in left_behind or dice.random() >= chance:
                left_behind.add(sector)
                continue
            start = max(one.offset, sector * SECTOR_BYTES)
            part = one.octets[start - one.offset : (sector + 1) * SECTOR_BYTES - one.offset]
            apply_write(content.durable, start, part)
        if len(content.durable) < end and dice.random() < 0.3:
            # The file grew, its data did not come.
            content.durable.extend(bytes(end - len(content.durable)))


def surviving_entries(
    durable: dict[str, Content], steps: list[Step], survival: Survival, dice: Random
) -> dict[str, Content]:
    entries = dict(durable)
    count = dice.randint(0, len(steps))
    stopped: set[int | str] = set()
    for place, step in enumerate(steps):
        concerned: set[int | str] = {*step.names(), id(step.content), id(step.replaced)}
        concerned.discard(id(None))
        if survival in (Survival.PREFIX, Survival.TORN):
            is_done = place < count
        else:
            is_done = dice.random() < float(survival.value)
        if is_done and stopped.isdisjoint(concerned):
            step.apply(entries)
        else:
            stopped |= concerned
    return entries
