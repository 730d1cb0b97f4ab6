"""Two sensors with one client id: both are served, and an operator hears of it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gateway.core.clients.shared_ids import MOVES_MAX, RETURN_S, RETURNS_MIN, SharedIds
from gateway.core.effects import IdShared
from gateway.core.state_records import ClientId
from gateway.core.values import Peer
from gateway.frames import Connack, Connect, Pingreq, Publish
from tests.support.engine_bench import Bench

S1 = ClientId("s1")
ONE, OTHER, THIRD = (Peer(0, address) for address in (b"one", b"other", b"third"))


def in_turn(ids: SharedIds, times: int, every_s: float = 10.0) -> list[int]:
    """At which of its moves it was told of."""
    told = []
    for move in range(times):
        pair = (ONE, OTHER) if move % 2 == 0 else (OTHER, ONE)
        if ids.moved(S1, *pair, move * every_s):
            told.append(move)
    return told


def test_a_client_that_comes_back_to_where_it_was_is_two() -> None:
    ids = SharedIds()
    assert in_turn(ids, RETURNS_MIN) == []
    assert ids.in_use(30.0) == []
    assert in_turn(ids, 5) != []
    assert [client_id for client_id, _, _ in ids.in_use(30.0)] == [S1]
    assert ids.in_use(40.0 + RETURN_S + 1.0) == []


def test_it_is_told_once_in_ten_minutes() -> None:
    ids = SharedIds()
    told = in_turn(ids, 200)
    assert told[0] == RETURNS_MIN
    assert all(later - earlier == RETURN_S / 10 + 1 for earlier, later in pairwise(told))


@pytest.mark.parametrize("every_s", [RETURN_S + 1.0])
def test_one_that_seldom_moves_is_one(every_s: float) -> None:
    assert in_turn(SharedIds(), 50, every_s) == []


def test_one_that_moves_on_is_one() -> None:
    """Behind a NAT it has another port each time."""
    ids = SharedIds()
    places = [ONE, OTHER, THIRD]
    for move in range(30):
        before, after = places[move % 3], places[(move + 1) % 3]
        assert ids.moved(S1, before, after, float(move)) == []
    assert ids.in_use(30.0) == []


def test_of_very_many_the_last_ones_are_known() -> None:
    ids = SharedIds()
    for number in range(2 * MOVES_MAX):
        ids.moved(ClientId(str(number)), ONE, OTHER, 0.0)
    assert ids.moved(ClientId("0"), OTHER, ONE, 1.0) == []
    assert ids.moved(ClientId("0"), ONE, OTHER, 1.0) == []
    assert ids.moved(ClientId("0"), OTHER, ONE, 1.0) != []


@pytest.mark.parametrize("clean", [False, True])
def test_two_sensors_with_one_id_are_served_in_turn_and_told_of(*, clean: bool) -> None:
    bench = Bench()
    for step in range(8):
        address = (b"one", b"other")[step % 2]
        bench.at += 5.0
        assert bench.say(address, Connect(b"s1", 60, clean_session=clean)) == [Connack(0)]
        bench.say(address, Pingreq())
        topic_id = bench.register(address, b"t")
        bench.say(address, Publish(topic_id, step + 1, b"%d" % step, 1))
    shared = [each for each in bench.news if isinstance(each, IdShared)]
    assert [(each.client_id, {each.before, each.after}) for each in shared] == [(S1, {ONE, OTHER})]
    assert bench.engine.shared_ids.in_use(bench.at) != []
