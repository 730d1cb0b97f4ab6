"""On a full disk, a real one of 2 MiB: what makes room is written, the rest is refused whole."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.core.state_records import (
    ClientId,
    MessageDeleted,
    MessageRecord,
    RetainedDeleted,
    RetainedRecord,
    SessionDeleted,
    State,
    WillRecord,
)
from gateway.storage.state.errors import StateError
from gateway.storage.state.folder import StateFolder, open_state
from hil.rig.small_disk import SmallDisk, small_disk
from tests.storage.state.examples import ANN, BOB, LINKS, session, topic

# The default of limits.outbox_messages_max.
OUTBOX_MESSAGES_MAX = 1000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place, 2 << 20, is_resolved=True) as mounted:
        yield mounted


def opened(disk: SmallDisk) -> StateFolder:
    return open_state(disk.path / "state", LINKS)


def queued(position: int) -> MessageRecord:
    return MessageRecord(ANN, position, "cmd", bytes(100), 1)


def fill_up(state: StateFolder) -> int:
    """Messages until no more are taken; returns how many were."""
    state.store.commit([session(ANN), session(BOB)])
    for first in range(0, 1_000_000, 8):
        try:
            state.store.commit([queued(first + at) for at in range(8)])
        except StateError:
            return first
    raise AssertionError("it never was full")


def test_what_is_refused_is_refused_whole_and_the_rest_is_there(disk: SmallDisk) -> None:
    state = opened(disk)
    count = fill_up(state)
    with pytest.raises(StateError, match=r"state: the disk is full: free some space") as refused:
        state.store.commit([queued(count + at) for at in range(8)])
    assert refused.value.errno == errno.ENOSPC
    (ann, _) = state.store.load().clients
    assert [row.position for row in ann.messages] == list(range(count))
    assert count > 5000  # of 100 octets: of 2 MiB the larger part was used for them
    state.release()


def test_on_a_full_disk_every_row_can_go_and_sessions_can_change(disk: SmallDisk) -> None:
    state = opened(disk)
    count = fill_up(state)
    disk.fill()
    assert disk.free_bytes == 0
    for first in range(0, count, 32):
        gone = [MessageDeleted(ANN, position) for position in range(first, first + 32)]
        state.store.commit([*gone, session(ANN, list(State)[first // 32 % 6])])
    state.store.commit([SessionDeleted(BOB)])
    (ann,) = state.store.load().clients
    assert ann.messages == []
    # What they took is free again, for others.
    state.store.commit([queued(count + at) for at in range(1000)])
    state.release()


def test_the_gateway_starts_on_a_full_disk_after_a_clean_stop(disk: SmallDisk) -> None:
    state = opened(disk)
    count = fill_up(state)
    disk.fill()
    state.release()
    disk.fill()  # what a clean close removes leaves a block
    assert disk.free_bytes == 0
    again = opened(disk)
    assert again.epoch == state.epoch + 1
    assert len(again.saved.clients[0].messages) == count
    again.store.commit([MessageDeleted(ANN, 0), SessionDeleted(BOB)])
    (ann,) = again.store.load().clients
    assert len(ann.messages) == count - 1
    again.release()


def test_on_a_full_disk_a_session_can_go_with_a_full_outbox(disk: SmallDisk) -> None:
    state = opened(disk)
    state.store.commit([session(ANN), *map(queued, range(OUTBOX_MESSAGES_MAX)), session(BOB)])
    disk.fill()
    state.store.commit([SessionDeleted(ANN)])
    assert [client.session for client in state.store.load().clients] == [session(BOB)]
    state.release()


def test_what_does_not_fit_into_the_file_never_comes_into_its_log(disk: SmallDisk) -> None:
    """There it could not leave again, and would keep the place of what makes room."""
    opened(disk).release()
    disk.fill()
    state = opened(disk)
    # 45 pages each, of the 128 that are free.
    large = [
        [RetainedRecord(f"{number}/{at}", bytes(400), 0) for at in range(400)]
        for number in range(3)
    ]
    state.store.commit([*large[0], session(ANN)])
    state.store.commit(large[1])
    with pytest.raises(StateError, match="the disk is full"):
        state.store.commit(large[2])
    for row in large[0]:
        state.store.commit([RetainedDeleted(row.topic), session(ANN, State.ASLEEP)])
    state.store.commit(large[2])
    assert len(state.store.load().retained) == 800
    state.release()


def test_on_a_full_disk_sessions_may_grow_by_a_will(disk: SmallDisk) -> None:
    state = opened(disk)
    sessions = [session(ClientId(f"c{number}")) for number in range(100)]
    state.store.commit(sessions)
    fill_up(state)
    disk.fill()
    will = WillRecord("gone", bytes(200), 1, retain=True)
    state.store.commit([replace(row, will=will) for row in sessions])
    assert all(
        found.session.will
        for found in state.store.load().clients
        if found.session.client_id.startswith("c")
    )
    state.release()


def test_space_that_returns_is_used_without_help(disk: SmallDisk) -> None:
    state = opened(disk)
    state.store.commit([session(ANN)])
    disk.fill()
    kept = [RetainedRecord(f"r/{number}", bytes(400), 0) for number in range(1500)]
    with pytest.raises(StateError, match="the disk is full"):
        state.store.commit(kept)
    disk.free()
    state.store.commit(kept)
    assert len(state.store.load().retained) == 1500
    state.release()


def test_where_not_even_a_new_database_fits_it_is_said(disk: SmallDisk) -> None:
    disk.fill()
    with pytest.raises(StateError, match="the disk is full: free some space"):
        opened(disk)
    disk.free()
    state = opened(disk)
    state.store.commit([session(ANN), topic(ANN)])
    state.release()


def test_a_disk_that_was_filled_at_once_still_takes_what_makes_room(disk: SmallDisk) -> None:
    """Not by our own rows: everything that we have not taken before is gone."""
    state = opened(disk)
    state.store.commit([session(ANN), *(queued(position) for position in range(200))])
    disk.fill()
    for position in range(200):
        state.store.commit([MessageDeleted(ANN, position), session(ANN, list(State)[position % 6])])
    assert state.store.load().clients[0].messages == []
    state.release()
