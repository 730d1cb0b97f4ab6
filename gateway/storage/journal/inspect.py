"""Looking into a journal from another process, also while the gateway writes to it.

Nothing is locked and nothing is written. The marks are read first, then the readings; a reading
that is finished in between is still told, one that comes in between may not be. A segment that was
freed or used again in between is passed over: its readings are finished.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway.core.values import Reading
from gateway.storage.journal.checksums import CHECKSUMS
from gateway.storage.journal.options import FILE_BYTES_MAX, JournalError
from gateway.storage.journal.reading import set_times
from gateway.storage.journal.records import Gap, Kind, decode_front, decode_reading, records
from gateway.storage.journal.recovered import RecoveryReport
from gateway.storage.journal.recovery import Clocks, Recovery
from gateway.storage.journal.segment import HEADER_BYTES, decode_header
from gateway.storage.journal.segment_index import FINISHED, PRESENT, Segment, SegmentIndex


class Inspection:
    """What a journal's folder holds at this moment. Raises JournalError or OSError."""

    def __init__(self, folder: Path, clocks: Clocks) -> None:
        if not folder.is_dir():
            raise JournalError(0, f"there is no journal in {folder}: is it the right state_dir?")
        self._folder = folder
        self._clocks = clocks
        self._segment_index = SegmentIndex()
        recovery = Recovery(self._segment_index, self._read, clocks)
        names = [path.name for path in folder.iterdir() if path.is_file()]
        recovery.run(names, FILE_BYTES_MAX)
        self.report: RecoveryReport = recovery.recovered.report

    def unfinished(self) -> Iterator[Reading]:
        """In the order of the journal; `received_at` in monotonic seconds of this machine."""
        for segment in self._segment_index.segments:
            if segment.unfinished:
                yield from self._readings(segment)

    def _readings(self, segment: Segment) -> Iterator[Reading]:
        octets = self._read(segment.name, FILE_BYTES_MAX)
        header = segment.header
        now = decode_header(octets[:HEADER_BYTES])
        if not octets or (now is not None and now != header):
            return
        for found in records(octets, HEADER_BYTES, header.salt, CHECKSUMS[header.algorithm]):
            if isinstance(found, Gap) or found.kind != Kind.PUBLISH:
                continue
            index, written_flags = decode_front(octets, found.offset)
            flags = segment.flags[index] if index < len(segment.flags) else 0
            if flags & (PRESENT | FINISHED) != PRESENT:
                continue
            reading = decode_reading(octets, found.offset, found.end)
            reading.record = segment.first + index
            set_times(
                reading,
                written_flags,
                self._clocks.now,
                self._clocks.unix_ms_at_zero,
                self._clocks.now,
                is_same_boot=found.offset >= segment.same_boot_from,
            )
            yield reading

    def _read(self, name: str, size: int) -> bytes:
        try:
            with (self._folder / name).open("rb") as file:
                return file.read(size)
        except FileNotFoundError:
            return b""
