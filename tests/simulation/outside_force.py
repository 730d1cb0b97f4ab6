"""What somebody else does to the journal's files: an operator, a script, a repair after a crash.

Between runs the files that hold no reading (spares, `making`) are cut, grown, emptied, given holes,
removed, or a folder lies in their place; files with names like ours lie beside them. While the
gateway runs segments are removed or replaced by copies, and the folder is moved away, emptied, and
put back. None of that needs a sync, and none of it can be undone by a power cut.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from gateway.storage.journal.files import Entry
from gateway.storage.journal.segment import MAKING_NAME, SEGMENT_NAME, SPARE_NAME
from tests.simulation.simulated_disk import BLOCK_BYTES, Content, apply_write
from tests.simulation.simulated_files import DEVICE, SimulatedFiles

FOLDER_FILES = -1  # descriptors of folders, downwards
ZEROS_MIN = 512  # a write of so many zeros is how a file is preallocated
STRAY_BYTES_MAX = 3000


@dataclass(slots=True)
class Moved:
    """A folder that lies elsewhere."""

    inode: int
    entries: dict[str, Content]


class MeddledFiles(SimulatedFiles):
    def __init__(self, dice: Random, meddler: Random, capacity_bytes: int = 1 << 40) -> None:
        """`meddler`: of what is done from outside, so that the rest is as it would be without."""
        super().__init__(dice, capacity_bytes)
        self.strays: set[str] = set()  # names of what only looks like ours
        self.refuses_zeros = 0  # an error number: no file can be preallocated
        self._meddler = meddler
        self._inodes: dict[str, int] = {}  # of folders that are not the first of their name
        self._folders_open: dict[int, int] = {}
        self._moved: dict[str, Moved] = {}

    # The file system, where folders matter

    def names(self, folder: Path) -> list[str]:
        inside = [one for one in self._folders if os.path.dirname(one) == os.fspath(folder)]  # noqa: PTH120
        return super().names(folder) + sorted(Path(one).name for one in inside)

    def make_folder(self, folder: Path) -> None:
        if os.fspath(folder) not in self._folders:
            self._renew(os.fspath(folder))
        super().make_folder(folder)

    def entry(self, path: Path) -> Entry | None:
        name = os.fspath(path)
        if name in self._folders:
            return Entry(DEVICE, self._inodes.get(name, 0), False, 0, 0)
        return super().entry(path)

    def entry_of(self, file: int) -> Entry:
        if file in self._folders_open:
            return Entry(DEVICE, self._folders_open[file], False, 0, 0)
        return super().entry_of(file)

    def open_folder(self, folder: Path) -> int:
        entry = self.entry(folder)
        if entry is None:
            raise _error(errno.ENOENT, folder)
        file = FOLDER_FILES - len(self._folders_open)
        self._folders_open[file] = entry.inode
        return file

    def close(self, file: int) -> None:
        if file not in self._folders_open:
            super().close(file)

    def _open(self, path: Path, create: bool) -> int:
        if create and os.fspath(path.parent) not in self._folders:
            raise _error(errno.ENOENT, path)
        if os.fspath(path) in self._folders:
            raise _error(errno.EEXIST if create else errno.EISDIR, path)
        return super()._open(path, create)

    def rename(self, old: Path, new: Path) -> None:
        old_name, new_name = os.fspath(old), os.fspath(new)
        if old_name in self._folders:
            if new_name in self._folders or new_name in self._entries:
                raise _error(errno.ENOTEMPTY, new)
            self._folders.remove(old_name)
            self._folders.add(new_name)
            return
        if new_name in self._folders:
            raise _error(errno.EISDIR, new)
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        if os.fspath(path) in self._folders:
            raise _error(errno.EISDIR, path)
        super().remove(path)

    def sync_folder(self, folder: Path) -> None:
        if os.fspath(folder) not in self._folders:
            raise _error(errno.ENOENT, folder)
        super().sync_folder(folder)

    def _write(self, content: Content, octets: bytes, offset: int) -> int:
        if self.refuses_zeros and len(octets) >= ZEROS_MIN and not any(octets):
            self._fail(self.refuses_zeros)
        return super()._write(content, octets, offset)

    # Between runs

    def meddle(self, folder: Path) -> str:
        """Something is done to a file that holds no reading; says what."""
        dice = self._meddler
        name = self._idle_name(folder)
        acts: list[Callable[[Path], str]] = [self._stray, self._lay_folder]
        if os.fspath(folder / name) in self._entries:
            acts += [self._cut, self._cut, self._cut, self._cut_to_half, self._grow]
            acts += [self._make_sparse, self._take, self._lay_folder_in_place]
        return dice.choice(acts)(folder / name)

    def _idle_name(self, folder: Path) -> str:
        names = [Path(one).name for one in self._entries if Path(one).parent == folder]
        idle = sorted(one for one in names if SPARE_NAME.fullmatch(one) or one == MAKING_NAME)
        return self._meddler.choice(idle) if idle else MAKING_NAME

    def _cut(self, path: Path) -> str:
        return self._resize(path, self._meddler.choice((0, 1, self._meddler.randrange(1 << 14))))

    def _cut_to_half(self, path: Path) -> str:
        size = len(self._entries[os.fspath(path)].cached)
        return self._resize(path, size >> self._meddler.randint(1, 4))

    def _grow(self, path: Path) -> str:
        size = len(self._entries[os.fspath(path)].cached)
        return self._resize(path, size * self._meddler.choice((2, 3, 5)))

    def _resize(self, path: Path, size: int) -> str:
        content = self._entries[os.fspath(path)]
        for octets in (content.cached, content.durable):
            apply_write(octets, min(size, len(octets)), None)
            octets.extend(bytes(size - len(octets)))
        content.dirty.clear()
        content.blocks = {one for one in content.blocks if one * BLOCK_BYTES < size}
        self._count_blocks()
        return f"{path.name} has {size} bytes now"

    def _make_sparse(self, path: Path) -> str:
        self._entries[os.fspath(path)].blocks.clear()
        self._count_blocks()
        return f"{path.name} has no blocks"

    def _take(self, path: Path) -> str:
        self._forget(os.fspath(path))
        return f"{path.name} is gone"

    def _lay_folder_in_place(self, path: Path) -> str:
        self._forget(os.fspath(path))
        self._folders.add(os.fspath(path))
        return f"{path.name} is a folder now"

    def _lay_folder(self, path: Path) -> str:
        name = f"spare-{self._meddler.randrange(40):010d}"
        other = path.with_name(self._meddler.choice((MAKING_NAME, name)))
        if os.fspath(other) in self._entries:
            return "nothing"
        self._folders.add(os.fspath(other))
        return f"a folder {other.name}"

    def _stray(self, path: Path) -> str:
        """A file with a name like ours and nothing of ours in it."""
        dice = self._meddler
        numbers = dice.choice((0, dice.randrange(1 << 20))), dice.randrange(1 << 16)
        segment = f"{numbers[0]:020d}-{numbers[1]:010d}-{dice.getrandbits(32):08x}.segment"
        assert SEGMENT_NAME.fullmatch(segment)
        names = (segment, segment, f"{segment}.bak", "x.segment", "spare-1", MAKING_NAME)
        stray = path.with_name(dice.choice(names))
        size = dice.choice((0, 1, dice.randrange(STRAY_BYTES_MAX)))
        octets = bytes(size) if dice.random() < 0.5 else dice.randbytes(size)
        if os.fspath(stray) not in self._folders:
            self.strays.add(stray.name)
            self._lay(os.fspath(stray), octets)
        return f"{stray.name} with {size} bytes"

    def _lay(self, name: str, octets: bytes) -> None:
        self._forget(name)
        content = Content(bytearray(octets), bytearray(octets))
        content.blocks = set(range(-(-len(octets) // BLOCK_BYTES)))
        self._entries[name] = self._durable_entries[name] = content
        self._count_blocks()

    # While the gateway runs

    def take_segment(self, folder: Path) -> str:
        """One is removed; whoever has it open goes on with it."""
        names = self._segments(folder)
        if not names:
            return "nothing"
        name = self._meddler.choice(names)
        self._forget(name)
        return f"{Path(name).name} is removed"

    def replace_segment(self, folder: Path) -> str:
        """One is replaced by a copy of it, as an editor or a restored backup does."""
        names = self._segments(folder)
        if not names:
            return "nothing"
        name = self._meddler.choice(names)
        self._lay(name, bytes(self._entries[name].cached))
        return f"{Path(name).name} is replaced by a copy"

    def empty(self, folder: Path) -> str:
        """The folder is removed with all that is in it, and made again."""
        for name in self._inside(folder):
            self._forget(name)
        self._renew(os.fspath(folder))
        return "the folder is another one, and empty"

    def move_away(self, folder: Path) -> str:
        name = os.fspath(folder)
        entries = {each: self._entries[each] for each in self._inside(folder)}
        self._moved[name] = Moved(self._inodes.get(name, 0), entries)
        for each in entries:
            self._forget(each)
        self._folders.discard(name)
        return "the folder is moved away"

    def put_back(self, folder: Path) -> str:
        """If nobody has made another one meanwhile."""
        name = os.fspath(folder)
        moved = self._moved.pop(name, None)
        if moved is None or name in self._folders:
            return "nothing"
        self._folders.add(name)
        self._inodes[name] = moved.inode
        self._entries |= moved.entries
        self._durable_entries |= moved.entries
        self._count_blocks()
        return "the folder is back"

    def _segments(self, folder: Path) -> list[str]:
        inside = self._inside(folder)
        return sorted(one for one in inside if SEGMENT_NAME.fullmatch(Path(one).name))

    def _inside(self, folder: Path) -> list[str]:
        return [name for name in self._entries if Path(name).parent == folder]

    def _renew(self, name: str) -> None:
        """A folder of this name, with an inode of its own."""
        self._folders.add(name)
        self._inodes[name] = 1 + max(self._inodes.values(), default=0)

    def _forget(self, name: str) -> None:
        """Nothing brings back what has this name, nor what it was called before."""
        content = self._entries.pop(name, None)
        for old in [each for each, one in self._durable_entries.items() if one is content]:
            del self._durable_entries[old]
        self._durable_entries.pop(name, None)
        self._steps = [
            step for step in self._steps if step.content is not content and name not in step.names()
        ]
        self._count_blocks()

    def _count_blocks(self) -> None:
        contents = {id(one): one for one in (*self._entries.values(), *self._files.values())}
        self._used_blocks = sum(len(content.blocks) for content in contents.values())


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), os.fspath(path))
