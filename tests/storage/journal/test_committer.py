"""The loop side over real files and its real thread."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import TypeVar

from gateway.core.drop_reasons import Reason
from gateway.core.effects import (
    Durable,
    Finish,
    FinishRun,
    KeepRecord,
    ReadAgain,
    ReadBacklog,
    RecordReceived,
    RecordRelease,
    ReleaseRecorded,
    Store,
)
from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.storage.journal.committer import (
    GROUP_MIN,
    LINGER_S,
    JournalCallbacks,
    JournalCommitter,
)
from gateway.storage.journal.files import OsFiles
from gateway.storage.journal.journal import Journal
from gateway.storage.journal.numbers import JournalState
from gateway.storage.journal.options import LOOK_S
from tests.storage.journal.support import BOOT, UNIX_MS_AT_ZERO, FaultyFiles, new_reading, options

T = TypeVar("T")
THEN = ReleaseRecorded(ClientId("tank"), 7)
LONG_S = 60.0  # longer than any test waits


@dataclass
class Heard:
    """All that the core was told, in order; `wait` returns when `count` of a kind are there."""

    stored: list[Reading] = field(default_factory=list)
    indeterminate: list[tuple[Reading, Reason]] = field(default_factory=list)
    not_stored: list[tuple[Reading, Reason]] = field(default_factory=list)
    durable: list[Durable] = field(default_factory=list)
    backlogs: list[list[Reading]] = field(default_factory=list)
    read_again: list[list[Reading]] = field(default_factory=list)
    dropped: dict[ClientId, int] = field(default_factory=dict)
    states: list[JournalState] = field(default_factory=list)
    in_reach_again: list[int] = field(default_factory=list)
    out_of_reach: list[tuple[int, str]] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def _say(self, keep: Callable[[T], None], what: T) -> None:
        keep(what)
        self._news.set()

    def callbacks(self) -> JournalCallbacks:
        return JournalCallbacks(
            stored=lambda readings: self._say(self.stored.extend, readings),
            indeterminate=self._hear_unsure,
            not_stored=self._hear_not_stored,
            durable=lambda effects: self._say(self.durable.extend, effects),
            backlog=lambda readings: self._say(self.backlogs.append, readings),
            read_again=lambda readings: self._say(self.read_again.append, readings),
            dropped_oldest=lambda counts: self._say(self.dropped.update, counts),
            state_changed=lambda state, _: self._say(self.states.append, state),
            in_reach_again=lambda count: self._say(self.in_reach_again.append, count),
            out_of_reach=lambda *found: self._say(self.out_of_reach.append, found),
            lost=lambda count, _: self._say(self.lost.append, count),
        )

    def _hear_unsure(self, readings: list[Reading], reason: Reason) -> None:
        self._say(self.indeterminate.extend, [(reading, reason) for reading in readings])

    def _hear_not_stored(self, readings: list[Reading], reason: Reason) -> None:
        self._say(self.not_stored.extend, [(reading, reason) for reading in readings])

    def has_backlogs(self, count: int) -> bool:
        return len(self.backlogs) >= count

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(200):
            while not condition():
                self._news.clear()
                await self._news.wait()


class Running:
    """A committer with its journal; stops on leaving."""

    def __init__(
        self,
        folder: Path,
        files: OsFiles | None = None,
        linger_s: float = LINGER_S,
        look_s: float = LOOK_S,
    ) -> None:
        self.journal = Journal(folder, files or OsFiles(), options())
        loop = asyncio.get_running_loop()
        self.recovered = self.journal.open(loop.time(), UNIX_MS_AT_ZERO, BOOT)
        self.heard = Heard()
        self.committer = JournalCommitter(
            journal=self.journal,
            loop=loop,
            callbacks=self.heard.callbacks(),
            linger_s=linger_s,
            look_s=look_s,
        )

    async def __aenter__(self) -> "Running":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.committer.stop()


class TellingFiles(OsFiles):
    """Real ones that tell the loop when something was written."""

    def __init__(self) -> None:
        self.written = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def write(self, file: int, octets: bytes, offset: int) -> int:
        written = super().write(file, octets, offset)
        self._loop.call_soon_threadsafe(self.written.set)
        return written


def on_loop(test: Callable[[Path], Coroutine[None, None, None]]) -> Callable[[Path], None]:
    @wraps(test)
    def run(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path))

    return run


def now() -> float:
    return asyncio.get_running_loop().time()


@on_loop
async def test_what_comes_together_is_stored_by_one_fdatasync(tmp_path: Path) -> None:
    async with Running(tmp_path / "journal") as running:
        before = running.committer.numbers.syncs
        readings = [new_reading(position, received_at=now()) for position in range(20)]
        for reading in readings:
            running.committer.perform([Store(reading)])
        await running.heard.until(lambda: len(running.heard.stored) == 20)
        assert running.heard.stored == readings
        assert running.committer.numbers.syncs == before + 1


@on_loop
async def test_a_single_reading_waits_no_longer_than_the_linger(tmp_path: Path) -> None:
    async with Running(tmp_path / "journal") as running:
        running.committer.perform([Store(new_reading(0, received_at=now()))])
        await running.heard.until(lambda: bool(running.heard.stored))
        assert running.committer.check() is None


@on_loop
async def test_who_comes_with_enough_others_does_not_linger(tmp_path: Path) -> None:
    async with Running(tmp_path / "journal", linger_s=LONG_S) as running:
        readings = [
            new_reading(position, qos=2, received_at=now()) for position in range(GROUP_MIN)
        ]
        running.committer.perform([Store(reading) for reading in readings])
        await running.heard.until(lambda: running.heard.stored == readings)
        running.committer.perform([RecordReceived(reading, THEN) for reading in readings])
        await running.heard.until(lambda: len(running.heard.durable) == GROUP_MIN)


@on_loop
async def test_as_many_as_the_last_group_was_for_do_not_linger(tmp_path: Path) -> None:
    async with Running(tmp_path / "journal", linger_s=LONG_S) as running:
        readings = [new_reading(position, qos=2, received_at=now()) for position in range(12)]
        running.committer.perform([Store(reading) for reading in readings])
        await running.heard.until(lambda: running.heard.stored == readings)
        running.committer.perform([RecordReceived(reading, THEN) for reading in readings[:11]])
        begun = running.committer.mark()
        for _ in range(5):  # turns of the loop
            await asyncio.sleep(0)
        assert running.committer.mark() == begun
        running.committer.perform([RecordReceived(readings[11], THEN)])
        await running.heard.until(lambda: len(running.heard.durable) == 12)


@on_loop
async def test_what_is_there_when_a_group_ends_joins_the_next(tmp_path: Path) -> None:
    files = TellingFiles()
    async with Running(tmp_path / "journal", files, LONG_S) as running:
        files.written.clear()
        first = [new_reading(position, received_at=now()) for position in range(GROUP_MIN)]
        during, after = new_reading(20, received_at=now()), new_reading(21, received_at=now())
        before = running.committer.numbers.syncs
        running.committer.perform([Store(reading) for reading in first])
        await files.written.wait()
        running.committer.perform([Store(during)])
        await running.heard.until(lambda: running.heard.stored == first)
        running.committer.perform([Store(after)])
        await running.heard.until(lambda: running.heard.stored == [*first, during, after])
        assert running.committer.numbers.syncs == before + 2


@on_loop
async def test_a_refusal_never_comes_from_inside_perform(tmp_path: Path) -> None:
    async with Running(tmp_path / "journal") as running:
        huge = new_reading(0, payload=bytes(70_000), received_at=now())
        running.committer.perform([Store(huge)])
        assert running.heard.not_stored == []
        await running.heard.until(lambda: bool(running.heard.not_stored))
        assert running.heard.not_stored == [(huge, Reason.PAYLOAD_TOO_LARGE)]


@on_loop
async def test_a_mark_is_durable_before_what_waits_for_it(tmp_path: Path) -> None:
    async with Running(tmp_path / "journal") as running:
        reading = new_reading(0, qos=2, received_at=now())
        running.committer.perform([Store(reading)])
        await running.heard.until(lambda: bool(running.heard.stored))
        syncs = running.committer.numbers.syncs
        running.committer.perform([RecordReceived(reading, THEN)])
        assert running.heard.durable == []
        await running.heard.until(lambda: running.heard.durable == [THEN])
        assert running.committer.numbers.syncs == syncs + 1
        running.committer.perform([RecordRelease(reading.client_id, reading.message_id, THEN)])
        await running.heard.until(lambda: running.heard.durable == [THEN, THEN])
        assert running.committer.numbers.syncs == syncs + 2


@on_loop
async def test_a_release_of_what_is_not_known_is_answered_at_once(tmp_path: Path) -> None:
    async with Running(tmp_path / "journal") as running:
        running.committer.perform([RecordRelease(ClientId("nobody"), 1, THEN)])
        running.committer.perform([RecordRelease(ClientId("nobody"), 2)])
        await running.heard.until(lambda: running.heard.durable == [THEN])


@on_loop
async def test_the_backlog_is_read_in_order_and_its_end_is_told(tmp_path: Path) -> None:
    async with Running(tmp_path / "journal") as running:
        readings = [new_reading(position, received_at=now()) for position in range(1200)]
        for reading in readings:
            running.committer.perform([Store(reading, is_queued=True)])
        await running.heard.until(lambda: len(running.heard.stored) == 1200)
        heard = running.heard
        while not heard.backlogs or heard.backlogs[-1]:
            count = len(heard.backlogs)
            running.committer.perform([ReadBacklog()])
            await heard.until(partial(heard.has_backlogs, count + 1))
        assert [len(part) for part in heard.backlogs] == [512, 512, 176, 0]
        sequences = [reading.sequence for part in heard.backlogs for reading in part]
        assert sequences == list(range(1200))


@on_loop
async def test_what_nobody_waits_for_is_written_without_fdatasync(tmp_path: Path) -> None:
    async with Running(tmp_path / "journal") as running:
        readings = [new_reading(position, received_at=now()) for position in range(8)]
        for reading in readings:
            running.committer.perform([Store(reading)])
        await running.heard.until(lambda: len(running.heard.stored) == 8)
        numbers = running.committer.numbers
        syncs, written = numbers.syncs, numbers.bytes_written
        for reading in readings:
            running.committer.perform([Finish(reading)])
        # A read is the next job after the group that the beat begins.
        while running.committer.numbers.bytes_written == written:
            running.heard.backlogs.clear()
            running.committer.perform([ReadBacklog()])
            await running.heard.until(partial(running.heard.has_backlogs, 1))
        assert running.committer.numbers.syncs == syncs


@on_loop
async def test_stop_writes_what_is_pending(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    async with Running(folder) as running:
        readings = [new_reading(position, received_at=now()) for position in range(5)]
        for reading in readings:
            running.committer.perform([Store(reading)])
        for reading in readings[:3]:
            running.committer.perform([Finish(reading)])
    async with Running(folder) as again:
        assert again.recovered.report.waiting == 2


@on_loop
async def test_a_failing_disk_is_told_and_its_return_as_well(tmp_path: Path) -> None:
    broken = False

    def fault(call: str) -> object:
        if broken and call in ("sync_data", "sync"):
            raise OSError(5, "the disk fails")
        return None

    async with Running(tmp_path / "journal", FaultyFiles(fault)) as running:
        broken = True
        first = new_reading(0, received_at=now())
        running.committer.perform([Store(first)])
        heard = running.heard
        await heard.until(lambda: bool(heard.indeterminate))
        assert heard.indeterminate == [(first, Reason.JOURNAL_FAILED)], (
            "it may have reached the disk"
        )
        assert heard.states == [JournalState.FAILED]
        assert "the disk fails" in str(running.committer.check())
        broken = False
        await heard.until(lambda: heard.states[-1] is not JournalState.FAILED)
        second = new_reading(1, received_at=now())
        running.committer.perform([Store(second)])
        await heard.until(lambda: heard.stored == [second])


@on_loop
async def test_kept_readings_are_read_again(tmp_path: Path) -> None:
    async with Running(tmp_path / "journal") as running:
        readings = [new_reading(position, received_at=now()) for position in range(3)]
        for reading in readings:
            running.committer.perform([Store(reading)])
        await running.heard.until(lambda: len(running.heard.stored) == 3)
        for reading in readings:
            running.committer.perform([KeepRecord(reading.record)])
        running.committer.perform([ReadAgain((0, 2))])
        running.committer.perform([FinishRun(1, 1)])
        await running.heard.until(lambda: bool(running.heard.read_again))
        assert [one.sequence for one in running.heard.read_again[0]] == [0, 2]
        assert running.committer.numbers.kept == 2
