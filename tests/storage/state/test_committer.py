"""From the loop to the disk and back: on time, once, in order; and while the disk refuses."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.core.effects import ConnectSaved, Durable, HeldFrames, Send, UpstreamReleaseSaved
from gateway.core.process_pauses import LATE_S
from gateway.core.state_records import (
    Change,
    MessageDeleted,
    MessageRecord,
    RetainedRecord,
    StateRecords,
)
from gateway.core.values import Peer
from gateway.frames import Publish, Pubrel, Regack, Register, Suback
from gateway.storage.state import committer as committing
from gateway.storage.state.committer import StateCommitter
from gateway.storage.state.folder import StateFolder, open_state
from gateway.storage.state.pending import WAITED_FOR_S
from gateway.storage.state.store import StateStore
from hil.rig.small_disk import SmallDisk, small_disk
from tests.storage.state.examples import ANN, BOB, LINKS, NOTHING, message, session, topic

PEER = Peer(0, b"")
ANSWER: Durable = HeldFrames(ANN, None, [Send(PEER, Regack(1, 1, 0))])
TO_BROKER: Durable = UpstreamReleaseSaved(1, 1, is_known=True)
TIMEOUT_S = 200.0


@dataclass
class Running:
    """A committer on a real loop and a real folder, and what it said."""

    folder: StateFolder
    committer: StateCommitter
    heard: list[Durable]
    said: list[tuple[int, str]]
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Looked at again whenever something was heard or said."""
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[Running]:
    folder = open_state(path, LINKS)
    loop = asyncio.get_running_loop()
    heard: list[Durable] = []
    said: list[tuple[int, str]] = []
    changed = asyncio.Event()

    def hear(effects: list[Durable]) -> None:
        heard.extend(effects)
        changed.set()

    def tell(level: int, sentence: str) -> None:
        said.append((level, sentence))
        changed.set()

    committer = StateCommitter(
        store=folder.store, saved=folder.saved, loop=loop, on_durable=hear, tell=tell
    )
    try:
        yield Running(folder, committer, heard, said, changed)
    finally:
        await committer.stop()
        folder.release()


def left_in(path: Path) -> StateRecords:
    state = open_state(path, LINKS)
    state.release()
    return state.saved


def test_an_answer_comes_when_what_it_promises_is_on_the_disk(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as at:
            at.committer.save(session())
            at.committer.when_saved([ANSWER])
            assert at.heard == []
            await at.until(lambda: at.heard == [ANSWER])
            assert at.committer.numbers.commits == 1
            assert at.folder.store.load().clients[0].session == session()

    asyncio.run(story())


def test_with_nothing_to_wait_for_it_comes_at_once_in_a_turn_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as at:
            at.committer.when_saved([ANSWER])
            assert at.heard == []
            await at.until(lambda: at.heard == [ANSWER])
            assert at.committer.numbers.commits == 0

    asyncio.run(story())


def test_what_nobody_waits_for_is_written_too(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as at:
            at.committer.save(session())
            await eventually(lambda: at.committer.numbers.commits == 1)

    asyncio.run(story())


def test_many_changes_are_one_commit_and_their_answers_keep_their_order(tmp_path: Path) -> None:
    answers: list[Durable] = [
        HeldFrames(ANN, None, [Send(PEER, Regack(number, 1, 0))]) for number in range(1, 101)
    ]

    async def story() -> None:
        async with running(tmp_path) as at:
            for number, answer in enumerate(answers, start=1):
                at.committer.save(topic(topic_id=number))
                at.committer.when_saved([answer])
            await at.until(lambda: len(at.heard) == 100)
            assert at.heard == answers
            numbers = at.committer.numbers
            assert (numbers.commits, numbers.rows, numbers.pending) == (1, 100, 0)
            assert numbers.last_commit_s > 0

    asyncio.run(story())


def test_a_stop_writes_what_is_pending_and_hands_over_what_waited(tmp_path: Path) -> None:
    heard: list[Durable] = []

    async def story() -> None:
        async with running(tmp_path) as at:
            at.committer.save(session())
            at.committer.when_saved([TO_BROKER])
            await at.committer.stop()
            heard.extend(at.heard)

    asyncio.run(story())
    assert heard == [TO_BROKER]
    assert [client.session for client in left_in(tmp_path).clients] == [session()]


def test_a_stop_waits_for_the_commit_under_way(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as at:
            at.committer.save(session(ANN))
            at.committer.when_saved([ANSWER])
            await asyncio.sleep(WAITED_FOR_S)
            at.committer.save(session(BOB))
            await at.committer.stop()
            assert at.heard == [ANSWER]

    asyncio.run(story())
    assert [client.session.client_id for client in left_in(tmp_path).clients] == [ANN, BOB]


def test_its_thread_is_there_before_it_is_needed(tmp_path: Path) -> None:
    async def story() -> None:
        before = set(threading.enumerate())  # other tests leave threads without work
        async with running(tmp_path):
            names = [thread.name for thread in set(threading.enumerate()) - before]
            assert len([name for name in names if name.startswith("state")]) == 1

    asyncio.run(story())


def test_a_stop_ends_whatever_was_wrong_with_the_last_change(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as at:
            at.committer.save(message(position=1 << 63))  # SQLite has no such number
            await at.committer.stop()
            ((_, sentence),) = at.said
            assert sentence.startswith("1 changes of state were not saved: OverflowError")

    asyncio.run(story())
    assert left_in(tmp_path) == NOTHING


# A disk that refuses


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place, 2 << 20, is_resolved=True) as mounted:
        yield mounted


# More than is kept free for us.
LARGE = [RetainedRecord(f"r/{number}", bytes(400), 0) for number in range(1500)]


@asynccontextmanager
async def in_trouble(disk: SmallDisk) -> AsyncIterator[Running]:
    """With a message on the disk and more pending than it takes."""
    async with running(disk.path / "state") as at:
        at.committer.save(session())
        at.committer.save(MessageRecord(ANN, 0, "cmd", b"open", 1))
        await at.committer.flush()
        disk.fill()
        for change in LARGE:
            at.committer.save(change)
        at.committer.when_saved([ANSWER, TO_BROKER])
        await at.until(lambda: bool(at.said))
        yield at


def test_trouble_is_said_once_with_what_to_do_and_so_is_its_end(disk: SmallDisk) -> None:
    async def story() -> None:
        async with in_trouble(disk) as at:
            assert "the disk is full: free some space" in (at.committer.check() or "")
            await at.until(lambda: at.heard == [ANSWER])
            await eventually(lambda: at.committer.numbers.failures == 3)
            ((level, sentence),) = at.said
            assert level == logging.ERROR
            assert "state cannot be saved: " in sentence
            assert "the disk is full: free some space" in sentence
            disk.free()
            await at.until(lambda: len(at.said) == 2)
            assert at.said[1][0] == logging.WARNING
            assert at.said[1][1].startswith("state is saved again, after ")
            assert (at.committer.check(), at.committer.numbers.is_degraded) == (None, False)
            await at.until(lambda: at.heard == [ANSWER, TO_BROKER])
            assert len(at.folder.store.load().retained) == len(LARGE)

    asyncio.run(story())


async def eventually(condition: Callable[[], bool]) -> None:
    """Of what is only counted."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


def test_sensors_are_answered_from_memory_meanwhile_and_the_broker_is_not(disk: SmallDisk) -> None:
    withheld: Durable = HeldFrames(ANN, None, [Send(PEER, Regack(2, 1, 0))])
    admitted: Durable = ConnectSaved(BOB, PEER)

    async def story() -> None:
        async with in_trouble(disk) as at:
            await at.until(lambda: at.heard == [ANSWER])
            at.committer.save(session(BOB))
            at.committer.when_saved([withheld, TO_BROKER, admitted])
            await at.until(lambda: len(at.heard) == 3)
            assert at.heard == [ANSWER, withheld, admitted]
            assert at.committer.numbers.waiting == 2
            disk.free()
            await at.until(lambda: len(at.heard) == 5)
            assert at.heard[3:] == [TO_BROKER, TO_BROKER]

    asyncio.run(story())


def test_what_a_sensor_could_not_notice_waits_even_then(disk: SmallDisk) -> None:
    """QoS 2, and SUBACK in front of retained messages."""
    surely: list[Durable] = [
        HeldFrames(ANN, None, [Send(PEER, Publish(1, 1, b"", 2))]),
        HeldFrames(ANN, None, [Send(PEER, Pubrel(1))]),
        HeldFrames(ANN, None, [Send(PEER, Pubrel(2))]),
        HeldFrames(ANN, None, [Send(PEER, Suback(1, 1, 0, 1)), Send(PEER, Register(1, 1, b"a"))]),
    ]
    at_least_once: Durable = HeldFrames(ANN, None, [Send(PEER, Publish(1, 2, b"", 1))])

    async def story() -> None:
        async with in_trouble(disk) as at:
            at.committer.when_saved([*surely, at_least_once])
            await at.until(lambda: at_least_once in at.heard)
            assert not any(effect in at.heard for effect in surely)
            disk.free()
            await at.until(lambda: at.heard[-4:] == surely)

    asyncio.run(story())


def test_what_makes_room_is_written_meanwhile(disk: SmallDisk) -> None:
    async def story() -> None:
        async with in_trouble(disk) as at:
            commits = at.committer.numbers.commits
            at.committer.save(MessageDeleted(ANN, 0))
            await eventually(lambda: at.committer.numbers.commits > commits)
            assert at.committer.check() is not None

    asyncio.run(story())
    state = left_in(disk.path / "state")
    assert state.clients[0].messages == []


def test_a_stop_in_trouble_says_what_is_lost(disk: SmallDisk) -> None:
    async def story() -> None:
        async with in_trouble(disk) as at:
            await at.committer.stop()
            level, sentence = at.said[-1]
            assert level == logging.ERROR
            assert "changes of state were not saved: " in sentence

    asyncio.run(story())
    assert left_in(disk.path / "state").clients[0].session == session()


class HeldStore(StateStore):
    """Its commits wait until `goes_on` is set, as on a disk that hangs."""

    goes_on: threading.Event

    def commit(self, changes: Sequence[Change]) -> None:
        self.goes_on.wait()
        super().commit(changes)


@asynccontextmanager
async def hanging(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Running, threading.Event]]:
    """A commit is under way, and no answer of it is held back any longer."""
    goes_on = threading.Event()
    monkeypatch.setattr(committing, "SLOW_S", 0.05)
    async with running(path) as at:
        at.folder.store.__class__ = HeldStore
        at.folder.store.goes_on = goes_on  # type: ignore[attr-defined]
        try:
            yield at, goes_on
        finally:
            goes_on.set()


def test_a_process_that_was_stopped_does_not_take_it_for_a_disk_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop runs timers before it hears of the thread."""
    uvloop = pytest.importorskip("uvloop")

    async def story() -> None:
        async with hanging(tmp_path, monkeypatch) as (at, goes_on):
            monkeypatch.setattr(committing, "SLOW_S", 1.0)
            at.committer.save(session())
            at.committer.when_saved([ANSWER])
            while not at.committer.under_way_s:  # noqa: ASYNC110 - nothing is reported of it
                await asyncio.sleep(0.01)
            goes_on.set()
            time.sleep(1.0 + 2 * LATE_S)  # noqa: ASYNC251 - the loop is late
            await at.until(lambda: at.heard == [ANSWER])
            assert at.said == []

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())


def test_while_a_commit_hangs_sensors_are_answered_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suback: Durable = HeldFrames(ANN, None, [Send(PEER, Suback(0, 1, 1, 0))])

    async def story() -> None:
        async with hanging(tmp_path, monkeypatch) as (at, goes_on):
            at.committer.save(session())
            at.committer.when_saved([ANSWER, suback])
            await at.until(lambda: at.heard == [ANSWER])
            (said,) = at.said
            assert said[0] == logging.ERROR
            assert "state cannot be saved: the disk of gateway.state_dir has not taken" in said[1]
            assert "has not taken a commit for" in (at.committer.check() or "")
            at.committer.save(topic())
            at.committer.when_saved([ANSWER, TO_BROKER])
            await at.until(lambda: at.heard == [ANSWER, ANSWER])
            monkeypatch.setattr(committing, "SLOW_S", TIMEOUT_S)  # the next is slow on a busy disk
            goes_on.set()
            await at.until(lambda: at.heard == [ANSWER, ANSWER, suback, TO_BROKER])
            await at.until(lambda: len(at.said) == 2)
            assert at.said[1][1].startswith("state is saved again, after ")
            assert at.committer.check() is None

    asyncio.run(story())
