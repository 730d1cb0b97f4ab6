"""The files of a previous run, made fit for this one.

Rule 1: what the newest segment holds may be in the page cache alone: the process was killed, or
        its sync failed and Linux forgot to write it. So it is written once more, whole, before
        anything in it counts as stored; and so is the one before it, if nothing came into it yet.
        In the gaps goes filler, behind the end go zeros: what a crash cut short must not look
        valid, or damaged, to the next start.
Rule 2: a damaged segment is kept as a copy before it is touched.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

from gateway.host.causes import brief, cause, not_allowed
from gateway.storage.journal.checksums import CHECKSUMS, PREFERRED
from gateway.storage.journal.files import Files
from gateway.storage.journal.options import (
    DAMAGED_COPIES_MAX,
    FILE_BYTES_MAX,
    SEGMENT_BYTES_MIN,
    SEGMENTS_MIN,
    JournalError,
    JournalOptions,
)
from gateway.storage.journal.reading import read_file
from gateway.storage.journal.records import BODY_BYTES_MAX, HEAD_BYTES, Kind, encode_record
from gateway.storage.journal.recovery import Clocks, Recovery, SegmentScan
from gateway.storage.journal.segment import (
    DAMAGED_SUFFIX,
    HEADER_BYTES,
    MAKING_NAME,
    SEGMENT_NAME,
    SPARE_NAME,
)
from gateway.storage.journal.segment_files import NO_ROOM, SegmentFiles, Writing
from gateway.storage.journal.segment_index import SegmentIndex


class Repair:
    def __init__(self, folder: Path, files: Files, options: JournalOptions) -> None:
        self._folder = folder
        self._files = files
        self._options = options
        self._unreadable: dict[str, int] = {}  # blocks, by file
        self.is_whole = True  # nothing is there that could not be opened

    def run(self, segment_index: SegmentIndex, volume: SegmentFiles, clocks: Clocks) -> Recovery:
        """Raises JournalError."""
        least = SEGMENTS_MIN * SEGMENT_BYTES_MIN
        if self._options.size_max_bytes < least:
            raise JournalError(errno.EINVAL, f"journal.size_max must be at least {least} bytes")
        try:
            return self._run(segment_index, volume, clocks)
        except JournalError:
            raise
        except OSError as error:
            raise journal_error(self._folder, error) from error

    def _run(self, segment_index: SegmentIndex, volume: SegmentFiles, clocks: Clocks) -> Recovery:
        folder, files = self._folder, self._files
        files.make_folder(folder)
        files.sync_folder(folder.parent)
        volume.settle_in()
        names, others = self._files_of(files.names(folder))
        recovery = Recovery(segment_index, self._read, clocks)
        recovery.unreadable = self._unreadable
        recovery.run(names, FILE_BYTES_MAX)
        recovery.recovered.report.damaged += others
        volume.clear_making()
        for name in sorted(names):
            match = SPARE_NAME.fullmatch(name)
            if match is not None:
                volume.adopt(name, int(match[1]))
        volume.next_serial = recovery.next_serial
        self._keep_damaged(recovery, names)
        for walk in recovery.unproven[1:]:
            file = self._make_durable(walk)
            if file is not None:
                files.close(file)
        if recovery.unproven:
            self._resume(recovery.unproven[0], volume, clocks)
        recovery.unproven.clear()
        files.sync_folder(folder)
        return recovery

    def read_only(
        self, segment_index: SegmentIndex, volume: SegmentFiles, clocks: Clocks
    ) -> Recovery:
        """The same where nothing can be written: all stays as it is, for a start that can. What
        cannot be opened is named. Raises nothing.
        """
        recovery = Recovery(segment_index, self._read_if_possible, clocks)
        recovery.unreadable = self._unreadable
        names: list[str] = []
        try:
            volume.settle_in()
            names, others = self._files_of(self._files.names(self._folder))
        except OSError as error:
            self.is_whole = False
            others = [f"the journal's folder {self._folder} cannot be read: {brief(error)}"]
        recovery.run(names, FILE_BYTES_MAX)
        recovery.recovered.report.damaged += others
        volume.next_serial = recovery.next_serial
        recovery.unproven.clear()
        return recovery

    def _read_if_possible(self, name: str, size: int) -> bytes:
        try:
            return self._read(name, size)
        except OSError:
            self.is_whole = False
            return b""

    def _files_of(self, names: list[str]) -> tuple[list[str], list[str]]:
        """Those that are files, and a sentence for each that has a name of ours and is none."""
        found, others = [], []
        for name in names:
            entry = self._files.entry(self._folder / name)
            if entry is not None and entry.is_file:
                found.append(name)
            elif SEGMENT_NAME.fullmatch(name) or SPARE_NAME.fullmatch(name):
                others.append(f"{name}: is no file, and is left alone")
        return found, sorted(others)

    def _read(self, name: str, size: int) -> bytes:
        unreadable: list[int] = []
        octets = read_file(self._files, self._folder / name, 0, size, unreadable)
        if unreadable:
            self._unreadable[name] = len(unreadable)
        return octets

    # Damage

    def _keep_damaged(self, recovery: Recovery, names: list[str]) -> None:
        kept = {name for name in names if name.endswith(DAMAGED_SUFFIX)}
        for name in recovery.damaged:
            copy = name + DAMAGED_SUFFIX
            if name in recovery.hopeless:
                self._files.rename(self._folder / name, self._folder / copy)
            elif copy not in kept and len(kept) < DAMAGED_COPIES_MAX:
                kept.add(copy)
                with suppress(OSError):  # a full disk is no reason not to start
                    self._create(copy, self._read(name, FILE_BYTES_MAX))

    def _create(self, name: str, octets: bytes) -> None:
        file = self._files.open(self._folder / name, create=True)
        try:
            self._write(file, octets)
            self._files.sync(file)
        finally:
            self._files.close(file)

    def _write(self, file: int, octets: bytes) -> None:
        written = 0
        while written < len(octets):
            written += self._files.write(file, octets[written:], written)

    # The newest segment

    def _resume(self, walk: SegmentScan, volume: SegmentFiles, clocks: Clocks) -> None:
        """Go on in it, if this machine would write like it, and nothing smaller stands ready where
        the settings have become smaller.
        """
        segment = walk.segment
        file = self._make_durable(walk)
        if file is None:
            return
        is_too_large = segment.size > self._options.segment_bytes and volume.spares
        if segment.header.algorithm != PREFERRED or is_too_large:
            self._files.close(file)
            return
        path = self._folder / segment.name
        volume.resume(
            Writing(
                header=segment.header,
                file=file,
                path=path,
                size=segment.size,
                end=walk.end,
                synced=walk.end,
            )
        )
        if not walk.is_same_boot:
            volume.carry((Kind.BOOT, clocks.boot_id))
            segment.same_boot_from = walk.end

    def _make_durable(self, walk: SegmentScan) -> int | None:
        """As it was read; returns the file. None where the disk has no room for that (the file has
        holes, or is written elsewhere each time): it is as it was, and nothing goes into it.
        """
        octets = repaired(walk)
        path = self._folder / walk.segment.name
        file = self._files.open(path)
        try:
            self._write(file, octets)
            self._files.sync_data(file)
        except OSError:
            self._files.close(file)
            try:
                self._replace(walk.segment.name, octets)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                with suppress(OSError):
                    self._files.remove(self._folder / MAKING_NAME)
                return None
            file = self._files.open(path)
        return file

    def _replace(self, name: str, octets: bytes) -> None:
        """The file takes no more: put another in its place."""
        with suppress(FileNotFoundError):
            self._files.remove(self._folder / MAKING_NAME)
        self._create(MAKING_NAME, octets)
        self._files.rename(self._folder / MAKING_NAME, self._folder / name)
        self._files.sync_folder(self._folder)


def repaired(walk: SegmentScan) -> bytes:
    """The whole segment with filler in its gaps and zeros behind its end."""
    header = walk.segment.header
    octets = bytearray(walk.octets)
    octets[:HEADER_BYTES] = header.encode()
    for gap in (*walk.torn, *walk.damaged):
        octets[gap.offset : gap.end] = _filler(gap.end - gap.offset, header.algorithm, header.salt)
    octets[walk.end :] = bytes(len(octets) - walk.end)
    return bytes(octets)


def _filler(size: int, algorithm: int, salt: int) -> bytes:
    filler = b""
    while size - len(filler) >= HEAD_BYTES:
        body = min(size - len(filler) - HEAD_BYTES, BODY_BYTES_MAX - HEAD_BYTES)
        filler += encode_record(Kind.FILLER, bytes(body), salt, CHECKSUMS[algorithm])
    return filler + bytes(size - len(filler))


def journal_error(folder: Path, error: OSError) -> JournalError:
    """With what to do."""
    if error.errno in (errno.EACCES, errno.EPERM):
        advice = f" {not_allowed(folder, 'gateway.state_dir')}"
    else:
        advice = f": {cause(error, folder)}"
    return JournalError(error.errno, f"the journal's folder {folder}{advice}")
