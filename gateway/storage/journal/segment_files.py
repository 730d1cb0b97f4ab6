"""The worker's side: the files themselves. One segment is written to, one or two stand ready.

Rule 1: a file on which a write or a sync failed is never written to again, and never synced again:
        Linux forgets what it could not write and says "fine" the next time. All that was not yet
        synced in it goes into another segment.
Rule 2: a new file is zero-filled and synced, and has its name, before it is of any use; so a group
        costs one write and one fdatasync, nothing of it moves the file's end.
Rule 3: what a segment was stays what it was until its new name (`spare-...`) is durable; only then
        is its header overwritten.
Rule 4: a file is what it is, not what the settings say: spares have any size (the disk had no room
        for a whole one, or `size_max` was another), and the smallest is the last to be used.
Rule 5: what is durable in a file that is no longer in its place (removed, moved, replaced, its file
        system taken away) would not come back. So the place is looked at after each sync, before
        anything counts as stored.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from gateway.host.causes import brief
from gateway.storage.journal.checksums import CHECKSUMS
from gateway.storage.journal.commit_group import CommitGroup, Mark, PathCheck
from gateway.storage.journal.file_identity import Identity
from gateway.storage.journal.files import Files
from gateway.storage.journal.held_files import HeldFiles
from gateway.storage.journal.options import SEGMENT_BYTES_MIN, GoneError, JournalOptions
from gateway.storage.journal.records import (
    Kind,
    encode_reading,
    encode_record,
    number_body,
    with_durable_before,
)
from gateway.storage.journal.segment import (
    DAMAGED_SUFFIX,
    HEADER_BYTES,
    MAKING_NAME,
    Header,
    spare_name,
)
from gateway.storage.journal.segment_index import BegunSegment, Segment

SPARES_MAX = 2  # beyond these a drained segment's room goes back to the file system
ZERO_BYTES = bytes(1 << 16)

# The disk has no room, the owner none of his quota, or the process may not write so large a file.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(slots=True)
class Spare:
    path: Path
    size: int


@dataclass(slots=True)
class Writing:
    """The segment that is written to."""

    header: Header
    file: int
    path: Path
    size: int
    end: int  # of what is written
    synced: int  # the end of what is known to be durable
    unsynced: list[Mark] = field(default_factory=list)
    identity: Identity | None = None  # None where the file system's numbers are not stable


class SegmentFiles:
    def __init__(self, folder: Path, files: Files, options: JournalOptions) -> None:
        self.writing: Writing | None = None
        self.spares: list[Spare] = []  # the largest last
        self.next_serial = 1
        self.next_spare = 0
        self._folder = folder
        self._files = files
        self._options = options
        self.held = HeldFiles(folder, files)  # of segments that are not written to any more
        self._is_folder_synced = True
        self._carried: list[Mark] = []  # written before, but lost with their segment's last sync
        self._folder_file: int | None = None
        self._folder_identity: Identity | None = None  # None where numbers are not stable

    # Groups

    def write(self, group: CommitGroup) -> None:
        """All of it durable, here or in another segment; or OSError."""
        if self.writing is None and not group.needs_segment:
            return
        try:
            if group.starts_segment:
                self._start(group)
            self._append(group)
        except OSError:
            group.failures += 1
            self._abandon(group.abandoned)
            try:
                self._start(group)
                self._append(group)
            except OSError:
                group.failures += 1
                self._abandon(group.abandoned)
                raise

    def _append(self, group: CommitGroup) -> None:
        writing = self.writing
        if writing is None:
            raise OSError(errno.ENOSPC, "no segment to write to")
        marks = self._carried + group.marks
        if group.session and writing.end == HEADER_BYTES:
            marks.insert(0, (Kind.SESSION, number_body(group.session)))
        octets = self._encode(marks, group, writing)
        if writing.end + len(octets) > writing.size:
            raise OSError(errno.EFBIG, "the group is larger than its segment")
        if octets:
            # A call that fails has written nothing; after one that has not, nobody knows.
            written = self._files.write(writing.file, octets, writing.end)
            group.was_tried = True
            if written < len(octets):
                self._write_all(writing.file, octets[written:], writing.end + written)
            writing.end += len(octets)
            group.bytes_written += len(octets)
        if group.is_lazy:
            writing.unsynced += marks
        elif writing.end > writing.synced:
            group.syncs += 1
            self._files.sync_data(writing.file)
            self._check_place(writing)
            writing.synced = writing.end
            writing.unsynced.clear()
        self._carried.clear()
        group.landed, group.end = writing.header, writing.end

    def _encode(self, marks: list[Mark], group: CommitGroup, writing: Writing) -> bytes:
        header = writing.header
        salt, first, extend = header.salt, header.first, CHECKSUMS[header.algorithm]
        records = [encode_record(kind, body, salt, extend) for kind, body in marks]
        records += [
            encode_reading(reading.record - first, flags, body, salt, extend)
            for reading, flags, body in group.readings
        ]
        if records and writing.end == writing.synced:
            records[0] = with_durable_before(records[0], salt, extend)
        return b"".join(records)

    def _abandon(self, serials: set[int]) -> None:
        """Never write to this file again; what it holds beyond its last sync is written again."""
        writing, self.writing = self.writing, None
        if writing is None:
            return
        self._carried = writing.unsynced + self._carried
        serials.add(writing.header.serial)
        self._close(writing.file)

    # Segments

    def _start(self, group: CommitGroup) -> None:
        """Begin a new segment in a spare."""
        self._check_folder()
        if not self.spares:
            raise OSError(errno.ENOSPC, "no spare segment")
        spare = self.spares.pop()
        header = replace(group.header, salt=self._options.salt(), serial=self.next_serial)
        self.next_serial += 1
        file = self._name(spare, header)
        group.bytes_written += HEADER_BYTES
        former = self.writing
        if former is not None:
            self._carried = former.unsynced + self._carried
            self.held.hold(former.header.name, former.file)
        group.started.append(BegunSegment(header, spare.size, bool(self._carried)))
        path = self._folder / header.name
        self.writing = Writing(
            header=header,
            file=file,
            path=path,
            size=spare.size,
            end=HEADER_BYTES,
            synced=HEADER_BYTES,
        )
        self.writing.identity = self._identity_of(self.writing)
        self._sync_folder()

    def _name(self, spare: Spare, header: Header) -> int:
        """The spare becomes a segment; returns the file."""
        try:
            file = self._files.open(spare.path)
        except OSError:
            self._discard(spare.path)
            raise
        try:
            if self._files.entry_of(file).size < spare.size:
                raise OSError(errno.EIO, f"{spare.path} was cut")
            self._write_all(file, header.encode(), 0)
            self._files.sync(file)
            self._files.rename(spare.path, self._folder / header.name)
        except OSError:
            self._close(file)
            self._discard(spare.path)
            raise
        return file

    def resume(self, writing: Writing) -> None:
        """Go on in a segment of the run before."""
        writing.identity = self._identity_of(writing)
        self.writing = writing

    def carry(self, mark: Mark) -> None:
        """Write it before anything else."""
        self._carried.append(mark)

    def close(self) -> None:
        writing, self.writing = self.writing, None
        if writing is not None:
            self._close(writing.file)
        self.held.close()
        folder, self._folder_file = self._folder_file, None
        if folder is not None:
            self._close(folder)

    # Room

    def make_room(self, group: CommitGroup) -> None:
        """Free what is to be freed, one after the other: a segment with marks about another must
        not be gone for good while the other can still come back.
        """
        try:
            if not self._is_folder_synced:
                self._sync_folder()
            for segment in group.frees:
                self._free(segment)
                group.freed.append(segment)
                self._sync_folder()
            if group.spare_bytes:
                self._check_folder()
                self._make_spare(group.spare_bytes, group.spare_bytes_min)
        except OSError as error:
            group.room_error = error

    def _free(self, segment: Segment) -> None:
        path = self._folder / segment.name
        self.held.let_go(segment.name)
        # A small one is worth keeping only where there is no other, or none could become whole.
        is_small = segment.size < self._options.segment_bytes and bool(self.spares)
        try:
            if segment.is_suspect or is_small or len(self.spares) >= SPARES_MAX:
                self._files.remove(path)
            else:
                spare = Spare(self._spare_path(), segment.size)
                self._files.rename(path, spare.path)
                self._keep_spare(spare)
        except FileNotFoundError:
            self._check_folder()  # else somebody has removed the file, and it is free
        self._is_folder_synced = False

    def _keep_spare(self, spare: Spare) -> None:
        """Cut to the usual size, if it has more."""
        if spare.size > self._options.segment_bytes:
            with suppress(OSError):  # then it stays as large as it is
                self._cut(spare)
        self.spares.append(spare)
        self.spares.sort(key=lambda each: each.size)

    def _cut(self, spare: Spare) -> None:
        file = self._files.open(spare.path)
        try:
            self._files.truncate(file, self._options.segment_bytes)
            spare.size = self._options.segment_bytes
            self._files.sync(file)
        finally:
            self._close(file)

    def adopt(self, name: str, number: int) -> None:
        """Take a spare that was found at the start (Rule 4). Too small, it goes; with holes, which
        a full disk could not fill when it matters, it is filled now or goes.
        """
        self.next_spare = max(self.next_spare, number)
        spare = Spare(self._folder / name, 0)
        file = self._files.open(spare.path)
        try:
            entry = self._files.entry_of(file)
            spare.size = entry.size
            if entry.allocated_bytes < entry.size <= self._options.segment_bytes:
                self._fill(file, entry.size)
        except OSError:
            spare.size = 0
        finally:
            self._close(file)
        if spare.size < SEGMENT_BYTES_MIN:
            self._files.remove(spare.path)
        else:
            self._keep_spare(spare)

    def _make_spare(self, size: int, least: int) -> None:
        """As large as asked, or as the disk has room for, if it is enough."""
        least = max(least, SEGMENT_BYTES_MIN)
        while True:
            try:
                return self._make(size)
            except OSError as error:
                if error.errno not in NO_ROOM or size // 2 < least:
                    raise
                size //= 2

    def _fill(self, file: int, size: int) -> None:
        for offset in range(0, size, len(ZERO_BYTES)):
            self._write_all(file, ZERO_BYTES[: size - offset], offset)
        self._files.sync(file)

    def clear_making(self) -> None:
        """Of what was being made when the process ended; what is no file is put aside."""
        path = self._folder / MAKING_NAME
        try:
            self._files.remove(path)
        except FileNotFoundError:
            return
        except OSError:
            self._files.rename(path, self._free_path(f"{MAKING_NAME}-%d{DAMAGED_SUFFIX}"))

    def _make(self, size: int) -> None:
        path = self._folder / MAKING_NAME
        try:
            file = self._files.open(path, create=True)
        except FileExistsError:
            self.clear_making()
            file = self._files.open(path, create=True)
        try:
            self._fill(file, size)
        except OSError:
            self._close(file)
            self._discard(path)
            raise
        self._close(file)
        spare = Spare(self._spare_path(), size)
        try:
            self._files.rename(path, spare.path)
        except OSError:
            self._discard(path)
            raise
        self._keep_spare(spare)
        self._sync_folder()

    # Where the files are

    def settle_in(self) -> None:
        """From now on the folder is this one. It stays open, as some user-space file systems give
        one that is not open another number at any time.
        """
        self._folder_file = self._files.open_folder(self._folder)
        identity = self._files.entry_of(self._folder_file).identity
        if self._files.identity(self._folder) == identity:
            self._folder_identity = identity

    def look(self, look: PathCheck) -> None:
        """Is all in its place? What is written to is abandoned if it is not."""
        try:
            self._check_folder()
            if self.writing is not None:
                self._check_place(self.writing)
        except OSError as error:
            look.error = error
            self._abandon(look.abandoned)
        for name in look.names:
            try:
                if self._files.identity(self._folder / name) is None:
                    raise FileNotFoundError(errno.ENOENT, "removed or moved")
                if name in look.tried:
                    self.open_segment(name)
            except OSError as error:
                look.problems[name] = f"{name}: {brief(error)}"

    def open_segment(self, name: str) -> int:
        """To read from it; stays open here. Raises OSError."""
        writing = self.writing
        if writing is not None and writing.header.name == name:
            return writing.file
        return self.held.open(name)

    def _check_folder(self) -> None:
        identity = self._files.identity(self._folder)
        if identity is None:
            raise GoneError(errno.ENOENT, f"{self._folder} is gone: put it back, or restart")
        if self._folder_identity not in (None, identity):
            raise GoneError(
                errno.ESTALE,
                f"{self._folder} is another folder than at the start: put the old one back, or "
                "restart",
            )

    def _check_place(self, writing: Writing) -> None:
        """After each sync, so it costs little: the path is made once."""
        identity = self._files.identity(writing.path)
        if identity is None:
            self._check_folder()
            raise GoneError(errno.ENOENT, f"{writing.path} was removed while it was written to")
        if writing.identity not in (None, identity):
            self._check_folder()
            raise GoneError(errno.ESTALE, f"{writing.path} was replaced while it was written to")

    def _identity_of(self, writing: Writing) -> Identity | None:
        """Of the file; None where path and file have other numbers at once, as on some network and
        user-space file systems.
        """
        identity = self._files.entry_of(writing.file).identity
        return identity if self._files.identity(writing.path) == identity else None

    # Files

    def _spare_path(self) -> Path:
        while True:
            self.next_spare += 1
            path = self._folder / spare_name(self.next_spare)
            if self._files.identity(path) is None:
                return path

    def _free_path(self, form: str) -> Path:
        number = 1  # a loop, as a compiled generator would be made a list, and this one has no end
        while self._files.identity(self._folder / (form % number)) is not None:
            number += 1
        return self._folder / (form % number)

    def _sync_folder(self) -> None:
        self._is_folder_synced = False
        self._files.sync_folder(self._folder)
        self._is_folder_synced = True

    def _write_all(self, file: int, octets: bytes, offset: int) -> None:
        written = self._files.write(file, octets, offset)
        while written < len(octets):
            more = self._files.write(file, octets[written:], offset + written)
            if more == 0:
                raise OSError(errno.EIO, "the file system takes no more bytes")
            written += more

    def _close(self, file: int) -> None:
        with suppress(OSError):
            self._files.close(file)

    def _discard(self, path: Path) -> None:
        """As far as possible; the next start finds what is left."""
        with suppress(OSError):
            self._files.remove(path)
