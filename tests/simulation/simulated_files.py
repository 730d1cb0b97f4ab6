"""A file system in memory that loses power: the journal's `Files`, decided by one seed.

Rule 1: every call goes through `_tick`, so the machine can stop at any of them, before or after
        its effect, and something else can happen meanwhile.
Rule 2: programs see what was written (the page cache). The disk has what was synced, and of the
        rest what the dice let through: by sectors of 512 octets, a sector never going back behind
        what it was; creations, renames and removals one by one, but a file's own in their order.
Rule 3: as on Linux, a sync that fails tells so once. Nothing of what it could not write is ever
        written later, though the page cache goes on showing it until it is evicted.

The model of a rename is one that happens whole or not at all, as on any file system with a journal
of its own. Folders themselves are there at once.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

from gateway.storage.journal.file_identity import Identity
from gateway.storage.journal.files import Entry
from tests.simulation.simulated_disk import (
    BLOCK_BYTES,
    Content,
    Dirty,
    Step,
    Survival,
    apply_write,
    blocks_of,
    surviving_entries,
    write_back,
)

T = TypeVar("T")

DEVICE = 1
FOLDER_INODE = 0  # of all of them; files have others
FOLDER_FILE = 0  # the descriptor of any folder


class PowerCutError(BaseException):
    """The program is gone. Not an Exception: nothing in a program can catch this."""


@dataclass(slots=True)
class Faults:
    """How often a call goes wrong, 0..1."""

    short_read: float = 0.0
    short_write: float = 0.0
    write_fails: float = 0.0
    sync_fails: float = 0.0
    sync_folder_fails: float = 0.0
    open_fails: float = 0.0
    rename_fails: float = 0.0

    def fail(self, is_failing: bool) -> None:
        """All that writes, or nothing."""
        often = float(is_failing)
        self.write_fails = self.sync_fails = self.sync_folder_fails = self.rename_fails = often


class SimulatedFiles:
    def __init__(self, dice: Random, capacity_bytes: int = 1 << 40) -> None:
        self.faults = Faults()
        self.capacity_bytes = capacity_bytes
        self.calls = 0
        self.failed = 0  # calls that a fault or the capacity made fail
        self.meanwhile: Callable[[], None] | None = None  # happens before a call's effect
        self.trace: Callable[[str], None] | None = None
        self._dice = dice
        self._entries: dict[str, Content] = {}
        self._durable_entries: dict[str, Content] = {}
        self._steps: list[Step] = []  # of folders, not synced
        self._folders: set[str] = set()
        self._files: dict[int, Content] = {}
        self._next_file = 3
        self._order = 0
        self._used_blocks = 0
        self._stop_in: int | None = None
        self._stop_call = ""
        self._stops_before = True
        self._is_stopped = False

    # What the schedules decide

    def stop_in(self, calls: int | None, call: str = "", *, before: bool = True) -> None:
        """The power goes at the last of so many calls from here on, or never. `call`: only those
        count.
        """
        self._stop_in, self._stop_call, self._stops_before = calls, call, before

    def crash(self, survival: Survival | None = None) -> None:
        """The power was cut: what is on the disk now is all there is."""
        survival = survival or self._dice.choice(list(Survival))
        before = self._durable_entries
        self._entries = surviving_entries(before, self._steps, survival, self._dice)
        self._durable_entries = dict(self._entries)
        self._steps.clear()
        for content in self._entries.values():
            write_back(content, survival, self._dice)
            content.evict()
        self._start_over()

    def kill(self) -> None:
        """The program ended without a word; the machine, and so the page cache, lives."""
        for content in self._entries.values():
            if content.has_lost and self._dice.random() < 0.5:
                content.evict()
        self._start_over()

    def _start_over(self) -> None:
        self._files.clear()
        self._stop_in, self._is_stopped = None, False
        for content in self._entries.values():
            content.opened = 0
        self._used_blocks = sum(len(content.blocks) for content in self._entries.values())

    def flip_bit(self, path: Path, bit: int) -> None:
        """Rot: on the disk, and so for the next who reads."""
        content = self._entries[os.fspath(path)]
        for octets in (content.cached, content.durable):
            if bit // 8 < len(octets):
                octets[bit // 8] ^= 1 << bit % 8

    def spoil(self, path: Path, offset: int) -> None:
        """The block at `offset` cannot be read any more, until it is written to."""
        self._entries[os.fspath(path)].unreadable.add(offset // BLOCK_BYTES)

    @property
    def used_bytes(self) -> int:
        return self._used_blocks * BLOCK_BYTES

    def sizes(self) -> dict[str, int]:
        """Of all files, by their paths."""
        return {name: len(content.cached) for name, content in self._entries.items()}

    # Files

    def make_folder(self, folder: Path) -> None:
        def effect() -> None:
            self._folders.update(os.fspath(one) for one in (folder, *folder.parents))

        self._tick(f"make_folder {folder}", effect)

    def names(self, folder: Path) -> list[str]:
        def effect() -> list[str]:
            if os.fspath(folder) not in self._folders:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(folder))
            inside = [name for name in self._entries if os.path.dirname(name) == os.fspath(folder)]  # noqa: PTH120
            names = [os.path.basename(name) for name in inside]  # noqa: PTH119
            self._dice.shuffle(names)
            return names

        return self._tick("names", effect)

    def open(self, path: Path, *, create: bool = False) -> int:
        return self._tick(f"open {path.name}", lambda: self._open(path, create))

    def _open(self, path: Path, create: bool) -> int:
        self._maybe_fail(self.faults.open_fails, errno.EIO)
        name = os.fspath(path)
        content = self._entries.get(name)
        if create:
            if content is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
            content = Content()
            self._step(content, None, name)
        elif content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        content.opened += 1
        self._next_file += 1
        self._files[self._next_file] = content
        return self._next_file

    def open_to_read(self, path: Path) -> int:
        return self.open(path)

    def entry(self, path: Path) -> Entry | None:
        """Changes nothing and takes no time, so the power does not go just then."""
        name = os.fspath(path)
        if name in self._folders:
            return Entry(DEVICE, FOLDER_INODE, False, 0, 0)
        content = self._entries.get(name)
        return None if content is None else _entry(content)

    def identity(self, path: Path) -> Identity | None:
        entry = self.entry(path)
        return None if entry is None else entry.identity

    def entry_of(self, file: int) -> Entry:
        if file == FOLDER_FILE:
            return Entry(DEVICE, FOLDER_INODE, False, 0, 0)
        return _entry(self._files[file])

    def open_folder(self, folder: Path) -> int:
        if self.entry(folder) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(folder))
        return FOLDER_FILE

    def read(self, file: int, size: int, offset: int) -> bytes:
        return self._tick(f"read {file} {size}@{offset}", lambda: self._read(file, size, offset))

    def _read(self, file: int, size: int, offset: int) -> bytes:
        content = self._files[file]
        if size > 1 and self._dice.random() < self.faults.short_read:
            size = self._dice.randrange(1, size)
        octets = bytes(content.cached[offset : offset + size])
        if content.unreadable and not content.unreadable.isdisjoint(blocks_of(offset, len(octets))):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return octets

    def write(self, file: int, octets: bytes, offset: int) -> int:
        what = f"write {file} {len(octets)}@{offset}"
        return self._tick(what, lambda: self._write(self._files[file], bytes(octets), offset))

    def _write(self, content: Content, octets: bytes, offset: int) -> int:
        self._maybe_fail(self.faults.write_fails, errno.EIO)
        if len(octets) > 1 and self._dice.random() < self.faults.short_write:
            octets = octets[: self._dice.randrange(1, len(octets))]
        octets = octets[: self._with_space(content, len(octets), offset)]
        if content.unreadable:
            content.unreadable.difference_update(blocks_of(offset, len(octets)))
        self._order += 1
        content.dirty.append(Dirty(self._order, offset, octets))
        apply_write(content.cached, offset, octets)
        return len(octets)

    def _with_space(self, content: Content, size: int, offset: int) -> int:
        """How many of the bytes have space. Overwriting needs none, filling a hole does."""
        for block in blocks_of(offset, size):
            if block in content.blocks:
                continue
            if (self._used_blocks + 1) * BLOCK_BYTES > self.capacity_bytes:
                size = block * BLOCK_BYTES - offset
                if size <= 0:
                    self._fail(errno.ENOSPC)
                break
            content.blocks.add(block)
            self._used_blocks += 1
        return size

    def sync_data(self, file: int) -> None:
        self._tick(f"sync_data {file}", lambda: self._sync(self._files[file]))

    def sync(self, file: int) -> None:
        self._tick(f"sync {file}", lambda: self._sync(self._files[file]))

    def _sync(self, content: Content) -> None:
        if self._dice.random() < self.faults.sync_fails:
            content.has_lost = content.has_lost or bool(content.dirty)
            write_back(content, self._dice.choice(list(Survival)), self._dice)
            self._fail(errno.EIO)
        write_back(content, Survival.ALL, self._dice)

    def truncate(self, file: int, size: int) -> None:
        def effect() -> None:
            content = self._files[file]
            self._order += 1
            content.dirty.append(Dirty(self._order, size, None))
            apply_write(content.cached, size, None)
            kept = {block for block in content.blocks if block * BLOCK_BYTES < size}
            self._used_blocks -= len(content.blocks) - len(kept)
            content.blocks = kept

        self._tick(f"truncate {file} {size}", effect)

    def close(self, file: int) -> None:
        def effect() -> None:
            content = self._files.pop(file)
            content.opened -= 1
            self._forget_if_unused(content)

        if file != FOLDER_FILE:
            self._tick(f"close {file}", effect)

    # Folders

    def rename(self, old: Path, new: Path) -> None:
        def effect() -> None:
            self._maybe_fail(self.faults.rename_fails, errno.EIO)
            self._step(self._existing(old), os.fspath(old), os.fspath(new))

        self._tick(f"rename {old.name} {new.name}", effect)

    def remove(self, path: Path) -> None:
        def effect() -> None:
            content = self._existing(path)
            self._step(content, os.fspath(path), None)
            self._forget_if_unused(content)

        self._tick(f"remove {path.name}", effect)

    def sync_folder(self, folder: Path) -> None:
        self._tick("sync_folder", lambda: self._sync_folder(os.fspath(folder)))

    def _sync_folder(self, folder: str) -> None:
        self._maybe_fail(self.faults.sync_folder_fails, errno.EIO)
        rest: list[Step] = []
        for step in self._steps:
            if any(os.path.dirname(name) == folder for name in step.names()):  # noqa: PTH120
                step.apply(self._durable_entries)
            else:
                rest.append(step)
        self._steps = rest

    def _existing(self, path: Path) -> Content:
        content = self._entries.get(os.fspath(path))
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
        return content

    def _step(self, content: Content, old: str | None, new: str | None) -> None:
        replaced = None if new is None else self._entries.get(new)
        self._order += 1
        step = Step(self._order, content, old, new, replaced)
        step.apply(self._entries)
        self._steps.append(step)
        if replaced is not None:
            self._forget_if_unused(replaced)

    def _forget_if_unused(self, content: Content) -> None:
        """Its space is free once it has no name and nobody has it open."""
        if not content.opened and all(content is not one for one in self._entries.values()):
            # It keeps its blocks: a power cut may bring it back.
            self._used_blocks -= len(content.blocks)

    # Every call

    def _tick(self, what: str, effect: Callable[[], T]) -> T:
        self.calls += 1
        if self.trace is not None:
            self.trace(f"{self.calls} {what}")
        is_last = False
        if self._stop_in is not None and what.startswith(self._stop_call):
            self._stop_in -= 1
            is_last = self._stop_in <= 0
        if self._is_stopped or (is_last and self._stops_before):
            self._is_stopped = True
            raise PowerCutError
        if self.meanwhile is not None:
            self.meanwhile()
        result = effect()
        if is_last:
            self._is_stopped = True
            raise PowerCutError
        return result

    def _maybe_fail(self, chance: float, number: int) -> None:
        if self._dice.random() < chance:
            self._fail(number)

    def _fail(self, number: int) -> None:
        self.failed += 1
        if self.trace is not None:
            self.trace(f"  {errno.errorcode[number]}")
        raise OSError(number, os.strerror(number))


def _entry(content: Content) -> Entry:
    allocated_bytes = len(content.blocks) * BLOCK_BYTES
    return Entry(DEVICE, content.inode, True, len(content.cached), allocated_bytes)


class LyingFiles(SimulatedFiles):
    """A card that says "synced" and keeps the last `forgets` writes in a memory of its own."""

    def __init__(self, dice: Random, forgets: int) -> None:
        super().__init__(dice)
        self._forgets = forgets

    def _sync(self, content: Content) -> None:
        self._settle()

    def _sync_folder(self, folder: str) -> None:
        self._settle()

    def _settle(self) -> None:
        """What is old enough goes to the disk, in the order in which it came."""
        until = self._order - self._forgets
        while self._steps and self._steps[0].order <= until:
            self._steps.pop(0).apply(self._durable_entries)
        for content in {*self._entries.values(), *self._durable_entries.values()}:
            while content.dirty and content.dirty[0].order <= until:
                oldest = content.dirty.pop(0)
                apply_write(content.durable, oldest.offset, oldest.octets)
