"""On a full disk, a real one of 2 MiB: what makes room is written, the rest is refused whole."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.saved import MessageGone, SavedMessage, SavedRetained, SessionGone, State
from gateway.state.errors import StateError
from gateway.state.folder import StateFolder, open_state
from tests.state.examples import ANN, BOB, LINKS, session, topic
from tests.support.small_disk import SmallDisk, small_disk

# The default of limits.outbox_messages_max.
OUTBOX_MESSAGES_MAX = 1000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place, 2 << 20) as mounted:
        yield mounted


def opened(disk: SmallDisk) -> StateFolder:
    return open_state(disk.path / "state", LINKS)


def queued(position: int) -> SavedMessage:
    return SavedMessage(ANN, position, "cmd", bytes(100), 1)


def fill_up(state: StateFolder) -> int:
    """Messages until no more are taken; returns how many were."""
    state.store.commit([session(ANN), session(BOB)])
    for first in range(0, 1_000_000, 8):
        try:
            state.store.commit([queued(first + at) for at in range(8)])
        except StateError as refused:
            assert refused.errno == errno.ENOSPC
            assert str(refused.strerror).endswith("state: the disk is full: free some space")
            return first
    raise AssertionError("it never was full")


def test_what_is_refused_is_refused_whole_and_the_rest_is_there(disk: SmallDisk) -> None:
    state = opened(disk)
    count = fill_up(state)
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
        gone = [MessageGone(ANN, position) for position in range(first, first + 32)]
        state.store.commit([*gone, session(ANN, list(State)[first // 32 % 6])])
    state.store.commit([SessionGone(BOB)])
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
    assert disk.free_bytes == 0
    again = opened(disk)
    assert again.epoch == state.epoch + 1
    assert len(again.saved.clients[0].messages) == count
    again.store.commit([MessageGone(ANN, 0), SessionGone(BOB)])
    (ann,) = again.store.load().clients
    assert len(ann.messages) == count - 1
    again.release()


def test_on_a_full_disk_a_session_can_go_with_a_full_outbox(disk: SmallDisk) -> None:
    state = opened(disk)
    state.store.commit([session(ANN), *map(queued, range(OUTBOX_MESSAGES_MAX)), session(BOB)])
    disk.fill()
    state.store.commit([SessionGone(ANN)])
    assert [client.session for client in state.store.load().clients] == [session(BOB)]
    state.release()


def test_space_that_returns_is_used_without_help(disk: SmallDisk) -> None:
    state = opened(disk)
    state.store.commit([session(ANN)])
    disk.fill()
    kept = [SavedRetained(f"r/{number}", bytes(400), 0) for number in range(1500)]
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
        state.store.commit([MessageGone(ANN, position), session(ANN, list(State)[position % 6])])
    assert state.store.load().clients[0].messages == []
    state.release()
