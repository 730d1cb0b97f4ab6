"""What the schedules would notice: mistakes put into the production journal, and what each breaks.

docs/guarantees.md has them in a table. `python -m tests.simulation.journal_mutants` says which
schedule sees each mistake first. As in mutants.py the numbers are bounds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import pytest

from gateway.storage.journal import checksums, records, recovery, repair
from gateway.storage.journal.completions import Completions
from gateway.storage.journal.journal import Journal
from gateway.storage.journal.records import Gap, Kind
from gateway.storage.journal.recovery import Recovery
from gateway.storage.journal.recovery_index import RecoveryIndex
from gateway.storage.journal.repair import Repair
from gateway.storage.journal.segment_files import SegmentFiles, Writing
from gateway.storage.journal.segment_index import Segment
from gateway.storage.journal.space import Space
from tests.simulation.journal_memory import (
    AS_IT_WAS,
    BOUNDED,
    EXCHANGES,
    GOES_ON,
    NOT_LOST,
    NOTHING_ELSE,
    NUMBERS,
    ROT,
    STARTS,
    JournalBrokenPromiseError,
)
from tests.simulation.journal_schedules import Schedule
from tests.simulation.mutant import Patch, constant


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake, the promises that it breaks, and within how many schedules one is seen broken.
    `seen`: in which, when that was looked for; the search begins there.
    """

    name: str
    patch: Patch
    promises: tuple[str, ...]
    within: int
    seen: int = 0


def sync_one_group_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is acknowledged becomes durable with the next group."""
    append = SegmentFiles._append

    def mutant(self: SegmentFiles, group: Any) -> None:
        files, writing = self._files, self.writing
        if writing is not None and not group.is_lazy and writing.end > writing.synced:
            files.sync_data(writing.file)
        self._files = Without(files, "sync_data")
        try:
            append(self, group)
        finally:
            self._files = files

    monkeypatch.setattr(SegmentFiles, "_append", mutant)


class Without:
    """Files of which one call does nothing."""

    def __init__(self, files: Any, left_out: str) -> None:
        self._files = files
        self._left_out = left_out

    def __getattr__(self, name: str) -> Any:
        if name == self._left_out:
            return lambda *_, **__: None
        return getattr(self._files, name)


def leave_out(owner: Any, call: str) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        init = owner.__init__

        def mutant(self: Any, *arguments: Any) -> None:
            init(self, *arguments)
            self._files = Without(self._files, call)

        monkeypatch.setattr(owner, "__init__", mutant)

    return patch


def believe_all_octets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is valid if its length fits."""
    found_at = records.record_at

    def mutant(octets: bytes, offset: int, salt: int, extend: Any) -> Any:
        if offset + records.HEAD_BYTES > len(octets):
            return None
        checksum = int.from_bytes(octets[offset : offset + 4], "big")
        return found_at(octets, offset, salt, lambda *_: checksum)

    monkeypatch.setattr(records, "record_at", mutant)


def leave_out_salt(monkeypatch: pytest.MonkeyPatch) -> None:
    for algorithm, extend in list(checksums.CHECKSUMS.items()):
        unsalted = lambda _, octets, extend=extend: extend(0, octets)  # noqa: E731
        monkeypatch.setitem(checksums.CHECKSUMS, algorithm, unsalted)


def sync_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(self: SegmentFiles, group: Any) -> None:
        if self.writing is None and not group.needs_segment:
            return
        if group.starts_segment:
            self._start(group)
        files = self._files
        self._files = Retrying(files)
        try:
            self._append(group)
        finally:
            self._files = files

    monkeypatch.setattr(SegmentFiles, "write", mutant)


class Retrying(Without):
    """Files on which a sync that fails is tried once more."""

    def __init__(self, files: Any) -> None:
        super().__init__(files, "")

    def sync_data(self, file: int) -> None:
        try:
            self._files.sync_data(file)
        except OSError:
            self._files.sync_data(file)


def write_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(self: SegmentFiles, file: int, octets: bytes, offset: int) -> None:
        self._files.write(file, octets, offset)

    monkeypatch.setattr(SegmentFiles, "_write_all", mutant)


def stop_at_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    found = records.records

    def mutant(*arguments: Any) -> Any:
        return takewhile(lambda item: not isinstance(item, Gap), found(*arguments))

    monkeypatch.setattr(recovery, "records", mutant)


def after(owner: Any, name: str, change: Callable[..., None]) -> Patch:
    """`change(self, result)` is done when the method has been."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        method = getattr(owner, name)

        def mutant(self: Any, *arguments: Any, **named: Any) -> Any:
            result = method(self, *arguments, **named)
            change(self, result)
            return result

        monkeypatch.setattr(owner, name, mutant)

    return patch


def number_from_zero(self: Recovery, _: None) -> None:
    self.facts.next_number = 0


def forget_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written without a sync is not written again where the segment changes."""
    for name in ("_start", "_abandon"):
        after(SegmentFiles, name, lambda self, _: self._carried.clear())(monkeypatch)


def forget_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Recovery._walk

    def mutant(self: Recovery, segment: Segment, octets: bytes, _: int) -> Any:
        self.facts.bounds.clear()
        return walk(self, segment, octets, 1 << 64)

    monkeypatch.setattr(Recovery, "_walk", mutant)


def done_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next reading is taken for finished as well."""
    take = Completions._take_done

    def mutant(self: Completions, group: Any, done_up_to: int, count_max: int) -> None:
        take(self, group, done_up_to + 1, count_max)

    monkeypatch.setattr(Completions, "_take_done", mutant)


def restate_no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(_: Space, group: Any, about: Segment) -> None:
        group.restated_segments.append(about)

    monkeypatch.setattr(Space, "_restate_marks", mutant)


def restate_no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(_: Space, group: Any, key: Any, exchange: Any) -> None:
        group.restated_exchanges.append((key, exchange))

    monkeypatch.setattr(Space, "_restate_exchange", mutant)


def recycle_unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    make_room = SegmentFiles.make_room

    def mutant(self: SegmentFiles, group: Any) -> None:
        if group.frees:
            self._sync_folder, synced = (lambda: None), self._sync_folder  # type: ignore[method-assign]
            try:
                make_room(self, group)
            finally:
                self._sync_folder = synced  # type: ignore[method-assign]
            return
        make_room(self, group)

    monkeypatch.setattr(SegmentFiles, "make_room", mutant)


def bad_header_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "header_of_name", lambda *_: None)


def believe_the_page_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the newest segment holds counts as stored though nobody synced it."""

    def mutant(self: Repair, walk: Any, volume: SegmentFiles, clocks: Any) -> None:
        segment = walk.segment
        path = self._folder / segment.name
        file = self._files.open(path)
        volume.resume(Writing(segment.header, file, path, segment.size, walk.end, walk.end))
        if not walk.is_same_boot:
            volume.carry((Kind.BOOT, clocks.boot_id))
            segment.same_boot_from = walk.end

    monkeypatch.setattr(Repair, "_resume", mutant)


def leave_torn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "repaired", lambda walk: walk.octets)


def believe_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "durable_mark", property(lambda self: self._completions.last))


def finish_what_was_read(self: Journal, readings: Any) -> None:
    for reading in readings:
        self.finish(reading)


def never_room_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the disk was full once, no segment is ever made."""
    monkeypatch.setattr(Space, "_may_make", lambda self, _: not self.is_disk_full)


def drain_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the newest segment may go, if nothing is written to it any more."""

    def mutant(self: Space) -> list[Segment]:
        current = self._segment_index.current
        return [
            one for one in self._segment_index.segments if not one.unfinished and one is not current
        ]

    monkeypatch.setattr(Space, "drained", mutant)


def forget_to_tell(self: Journal, outcome: Any) -> None:
    outcome.dropped = {}


def park_all(monkeypatch: pytest.MonkeyPatch) -> None:
    flags_of = Recovery._flags_of

    def mutant(self: Recovery, segment: Segment, index: int, qos: int) -> int:
        return flags_of(self, segment, index, min(qos, 1))

    monkeypatch.setattr(Recovery, "_flags_of", mutant)


def believe_former_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecoveryIndex, "_session", lambda self, session: None)
    received = RecoveryIndex._received
    monkeypatch.setattr(
        RecoveryIndex, "_received", lambda self, by, number, _: received(self, by, number, 0)
    )


def restate_in_former_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """What CONNECT made void is restated as received in the session that follows."""
    monkeypatch.setattr(Segment, "forget_received", lambda _: None)


def deny_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    fail = Journal._fail

    def mutant(self: Journal, group: Any, outcome: Any, error: OSError) -> None:
        group.was_tried = False
        fail(self, group, outcome, error)

    monkeypatch.setattr(Journal, "_fail", mutant)


forget_recent = constant(Recovery, "_settle_recent", None)
finish_read = after(Journal, "end_read", finish_what_was_read)
read_finished = constant(Segment, "is_wanted", True)
keep_drops_quiet = after(Journal, "end_group", forget_to_tell)

MUTANTS = (
    Mutant("acknowledged before the fdatasync", sync_one_group_late, (NOT_LOST,), 64),
    Mutant("no fdatasync", leave_out(SegmentFiles, "sync_data"), (NOT_LOST,), 64),
    Mutant("no sync of the folder", leave_out(SegmentFiles, "sync_folder"), (NOT_LOST,), 8, seen=2),
    Mutant("no sync of a new segment", leave_out(SegmentFiles, "sync"), (STARTS,), 64, seen=14),
    Mutant("no checksum", believe_all_octets, (NOTHING_ELSE,), 64, seen=2),
    Mutant("a checksum without salt", leave_out_salt, (NOTHING_ELSE,), 64, seen=2),
    Mutant("a failed fdatasync is tried again", sync_again, (NOT_LOST,), 250, seen=91),
    Mutant("a short write is taken for a whole one", write_once, (NOT_LOST,), 64, seen=6),
    Mutant("recovery ends at the first bad record", stop_at_damage, (ROT,), 64, seen=28),
    Mutant("a segment with a bad header is given up", bad_header_is_the_end, (ROT,), 250, seen=10),
    Mutant("the page cache is believed", believe_the_page_cache, (STARTS,), 2000, seen=871),
    Mutant("what a crash tore is left as it is", leave_torn, (STARTS,), 250, seen=216),
    Mutant("numbers begin again", after(Recovery, "run", number_from_zero), (NUMBERS,), 8),
    Mutant("the newest segment is freed", drain_newest, (NUMBERS,), 4000, seen=3286),
    Mutant("what a failed group left counts", forget_bound, (NOTHING_ELSE,), 1000, seen=187),
    Mutant("one too many is finished", done_too_far, (NOT_LOST,), 8),
    Mutant("marks are not restated", restate_no_marks, (NOTHING_ELSE,), 250, seen=161),
    Mutant("exchanges are not restated", restate_no_exchange, (EXCHANGES,), 8, seen=2),
    Mutant("unsynced marks are left behind", forget_carried, (NOTHING_ELSE,), 1000, seen=770),
    Mutant(
        "a segment is recycled unsynced", recycle_unsynced, (STARTS, EXCHANGES), 2000, seen=1664
    ),
    Mutant("a mark counts before it is written", believe_marks, (EXCHANGES,), 250, seen=100),
    Mutant("what the broker received is queued", park_all, (EXCHANGES,), 64, seen=26),
    Mutant("PUBREC of a former session counts", believe_former_sessions, (EXCHANGES,), 64, seen=9),
    Mutant(
        "PUBREC outlasts CONNECT in memory", restate_in_former_session, (EXCHANGES,), 64, seen=36
    ),
    Mutant(
        "a failed write is said to have left nothing",
        deny_the_attempt,
        (NOTHING_ELSE,),
        2000,
        seen=1079,
    ),
    Mutant("recent readings are forgotten", forget_recent, (EXCHANGES,), 8),
    Mutant(
        "another boot's clock", constant(Recovery, "_is_same_boot", True), (AS_IT_WAS,), 64, seen=5
    ),
    Mutant("what was read back is finished", finish_read, (NOT_LOST,), 64, seen=5),
    Mutant("what is finished is read back", read_finished, (NOTHING_ELSE, AS_IT_WAS), 8),
    Mutant("nobody is told what was dropped", keep_drops_quiet, (NOT_LOST,), 250, seen=29),
    Mutant("a disk that was full stays full", never_room_again, (GOES_ON,), 250, seen=231),
    Mutant("the budget is not obeyed", constant(Space, "can_make", True), (BOUNDED,), 250, seen=36),
)


@contextmanager
def switched_on(mutant: Mutant) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        mutant.patch(monkeypatch)
        yield


def first_catch(mutant: Mutant) -> tuple[int, str] | None:
    """How many schedules it took until one saw a promise broken, and what that schedule said."""
    with switched_on(mutant):
        for seed in (mutant.seen, *range(mutant.within)):
            try:
                Schedule(seed).run()
            except JournalBrokenPromiseError as error:
                if any(f"promise {promise}" in str(error) for promise in mutant.promises):
                    return seed + 1, str(error)
    return None


def table() -> str:
    head = [
        "| mistake in the journal | breaks promise | seen within schedules |",
        "| --- | --- | --: |",
    ]
    return "\n".join([*head, *map(row, MUTANTS)]) + "\n"


def row(mutant: Mutant) -> str:
    promises = ", ".join(promise.split()[0] for promise in mutant.promises)
    return f"| {mutant.name} | {promises} | {mutant.within} |"


def main() -> int:
    name = "python -m tests.simulation.journal_mutants"
    parser = argparse.ArgumentParser(prog=name, description=__doc__)
    parser.parse_args()
    for mutant in MUTANTS:
        caught = first_catch(mutant)
        seen = "not seen" if caught is None else f"after {caught[0]}: {caught[1]}"
        sys.stdout.write(f"{mutant.name}: {seen}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
