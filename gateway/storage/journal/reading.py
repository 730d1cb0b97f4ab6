"""Bytes from files that may be damaged, and the backlog's readings from bytes.

A block that the disk cannot read any more counts as zeros; what was in it is lost, no more. While
the gateway runs it is tried for a while first: a disk that was unplugged for a moment comes back.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gateway.core.message_expiry import CLOCK_IS_SET_MS
from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.host.causes import brief
from gateway.storage.journal.checksums import CHECKSUMS
from gateway.storage.journal.commit_group import BacklogRequest, Failed, Stretch
from gateway.storage.journal.files import Files
from gateway.storage.journal.options import BACKLOG_BYTES_MAX, BACKLOG_READINGS_MAX
from gateway.storage.journal.records import (
    BODY_BYTES_MAX,
    HEAD_BYTES,
    Gap,
    Kind,
    decode_front,
    decode_reading,
    is_stamp_of_another_time,
    records,
)
from gateway.storage.journal.segment import HEADER_BYTES
from gateway.storage.journal.segment_index import Segment

BLOCK_BYTES = 4096
# A look at a segment; the longest record fits twice.
LOOK_BYTES = 1 << 19

OpenSegment = Callable[[str], int]  # by its name; stays open elsewhere


def read_file(
    files: Files, path: Path, offset: int, size: int, unreadable: list[int] | None = None
) -> bytes:
    """As much as there is of it. OSError only if the file cannot be opened. `unreadable` gets the
    offsets of what counts as zeros.
    """
    file = files.open_to_read(path)
    try:
        size = min(size, max(0, files.entry_of(file).size - offset))
        return _read_all(files, file, offset, size, unreadable)
    finally:
        with suppress(OSError):
            files.close(file)


def _read_all(
    files: Files, file: int, offset: int, size: int, unreadable: list[int] | None = None
) -> bytes:
    octets = bytearray()
    while len(octets) < size:
        some = _read_some(files, file, size - len(octets), offset + len(octets))
        if some is None:
            some = bytes(_rest_of_block(size - len(octets), offset + len(octets)))
            if unreadable is not None:
                unreadable.append(offset + len(octets))
        if not some:
            break
        octets += some
    return bytes(octets)


def _read_some(files: Files, file: int, size: int, offset: int) -> bytes | None:
    """None if the block at `offset` cannot be read."""
    for attempt in (size, _rest_of_block(size, offset)):
        with suppress(OSError):
            return files.read(file, attempt, offset)
    return None


def _rest_of_block(size: int, offset: int) -> int:
    return min(size, BLOCK_BYTES - offset % BLOCK_BYTES)


def received_at(
    written: float,
    unix_ms: int,
    now: float,
    unix_ms_at_zero: float,
    began: float,
    *,
    is_same_boot: bool,
) -> float:
    """When a reading came, in monotonic seconds of this boot of the machine.

    What this run has written, `began` or later, it has by its own clock. Of a previous run both
    clocks may be wrong: the wall clock was set since or is not set, and a container that was moved
    or a virtual machine that was restored goes on under the same boot id with another monotonic
    clock. Where they disagree the younger age counts, so that no reading is dropped as too old
    that is not; where neither is known it came `now`.
    """
    at = min(written, now)
    if is_same_boot and written >= began:
        return at
    now_ms = now * 1000 + unix_ms_at_zero
    if unix_ms < CLOCK_IS_SET_MS or now_ms < CLOCK_IS_SET_MS:
        return at if is_same_boot else now
    by_wall_clock = now - max(0.0, now_ms - unix_ms) / 1000
    return max(at, by_wall_clock) if is_same_boot else by_wall_clock


def set_times(
    reading: Reading,
    flags: int,
    now: float,
    unix_ms_at_zero: float,
    began: float,
    *,
    is_same_boot: bool,
) -> None:
    """Of a reading as it was decoded: when it came, for its age and for its time stamp.

    A step of the wall clock and a monotonic clock that is another one look alike. For its age the
    younger counts, because a reading that is too old is dropped. For its stamp the monotonic clock
    does, in the same boot: steps are what happens, to any board without a battery clock.
    """
    written, unix_ms = reading.received_at, reading.unix_ms
    reading.received_at = received_at(
        written, unix_ms, now, unix_ms_at_zero, began, is_same_boot=is_same_boot
    )
    is_known = is_same_boot and 0 < written <= now and not is_stamp_of_another_time(flags)
    reading.machine_at = written if is_known else -1.0


def read_backlog(files: Files, open_segment: OpenSegment, request: BacklogRequest) -> list[Reading]:
    """The next of them, in the order of their numbers. At a file that cannot be opened it stops and
    notes that in the request: what comes behind it is not to overtake it.
    """
    readings: list[Reading] = []
    room = BACKLOG_BYTES_MAX
    for stretch in request.stretches:
        while stretch.read_to < stretch.end:
            if len(readings) >= BACKLOG_READINGS_MAX or room <= 0:
                return readings
            try:
                file = open_segment(stretch.segment.name)
            except OSError as error:
                why = brief(error)
                request.failed = Failed(stretch.segment, error.errno or errno.EIO, why)
                return readings
            room -= _read_stretch(files, file, request, stretch, readings)
            if request.failed is not None:
                return readings
    return readings


def _read_stretch(
    files: Files, file: int, request: BacklogRequest, stretch: Stretch, readings: list[Reading]
) -> int:
    """One look; returns the bytes of what it brought."""
    segment, start = stretch.segment, stretch.read_to
    size = min(LOOK_BYTES, stretch.end - start)
    unreadable: list[int] = []
    octets = _read_all(files, file, start, size, unreadable)
    if unreadable and not request.accepts_gaps:
        why = f"{len(unreadable)} blocks of it cannot be read: {os.strerror(errno.EIO)}"
        request.failed = Failed(segment, errno.EIO, why, has_gaps=True)
        return 0
    header = segment.header
    bytes_left = BACKLOG_BYTES_MAX
    offset = 0
    for found in records(octets, 0, header.salt, CHECKSUMS[header.algorithm]):
        offset = found.end
        if isinstance(found, Gap) or found.kind != Kind.PUBLISH:
            continue
        index, flags = decode_front(octets, found.offset)
        if not request.wants(segment, index):
            continue
        reading = decode_reading(octets, found.offset, found.end)
        reading.record = header.first + index
        set_times(
            reading,
            flags,
            request.now,
            request.unix_ms_at_zero,
            request.began,
            is_same_boot=start + found.offset >= segment.same_boot_from,
        )
        readings.append(reading)
        bytes_left -= found.end - found.offset
        if len(readings) >= BACKLOG_READINGS_MAX or bytes_left <= 0:
            stretch.read_to = start + offset
            return BACKLOG_BYTES_MAX - bytes_left
    if len(octets) < size or start + size >= stretch.end:
        stretch.read_to = stretch.end
    else:  # the last record of this look goes on behind it, or nothing here is good
        stretch.read_to = start + max(offset, size - BODY_BYTES_MAX - HEAD_BYTES)
    return BACKLOG_BYTES_MAX - bytes_left


def count_queued(files: Files, open_segment: OpenSegment, segment: Segment) -> dict[ClientId, int]:
    """How many readings of each client wait in a segment to be read back. Raises OSError."""
    request = BacklogRequest(
        [Stretch(segment=segment, offset=0, end=segment.end, read_to=HEADER_BYTES)], 0.0, 0.0
    )
    counts: dict[ClientId, int] = {}
    while readings := read_backlog(files, open_segment, request):
        for reading in readings:
            counts[reading.client_id] = counts.get(reading.client_id, 0) + 1
    if request.failed is not None:
        raise OSError(request.failed.error, request.failed.why)
    return counts
