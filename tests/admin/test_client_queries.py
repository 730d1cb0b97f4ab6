"""Clients and topics as they are shown, from a real engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gateway.admin.client_queries import SLICE, ClientQueries
from gateway.admin.clients import ClientShown, Details, WillShown
from gateway.admin.http.queries import LIMIT_DEFAULT, STATES, ClientsQuery, TopicsQuery
from gateway.admin.topics import CLIENTS_NAMED_MAX, TopicShown
from gateway.core.state_records import State
from gateway.core.values import Peer
from gateway.frames import Connect, Disconnect, Pingreq, WillMsg, WillTopic
from gateway.presence.standing import is_overdue
from tests.support.engine_bench import Bench

PREDEFINED = {"sensors/boot": 7}


def peer_text(peer: Peer) -> str:
    return peer.address.decode()


def roster_of(bench: Bench, own: Mapping[str, Mapping[str, int]] | None = None) -> ClientQueries:
    return ClientQueries(bench.engine, ["udp0"], peer_text, lambda: bench.at, PREDEFINED, own or {})


def clients(bench: Bench, query: ClientsQuery | None = None) -> list[ClientShown]:
    return list(asyncio.run(roster_of(bench).clients(query or ClientsQuery())).clients)


def client(bench: Bench, client_id: str) -> ClientShown:
    (found,) = clients(bench, ClientsQuery(client_id=client_id))
    return found


def ids(bench: Bench, **asked: str) -> list[str]:
    return [each.client_id for each in clients(bench, ClientsQuery(**asked))]  # type: ignore[arg-type]


def topics(bench: Bench, query: TopicsQuery | None = None) -> dict[str, TopicShown]:
    found = asyncio.run(roster_of(bench).topics(query or TopicsQuery()))
    return {topic.name: topic for topic in found.topics}


# Clients


def test_a_client_is_shown_with_all_that_it_declared() -> None:
    bench = Bench()
    bench.say(b"a", Connect(b"a", 60, will=True))
    bench.say(b"a", WillTopic(b"gone/a", 1, retain=True), WillMsg(b"secret"))
    bench.register(b"a", b"field")
    bench.subscribe(b"a", b"cmd/#", 1)
    bench.at = 5.0
    assert clients(bench) == [
        ClientShown(
            client_id="a",
            state=State.ACTIVE,
            link="udp0",
            address="a",
            clean=False,
            keep_alive_s=60,
            sleep_s=0,
            heard_s=5.0,
            due_s=55.0,
            away_s=None,
            topics=1,
            subscriptions=1,
            queued=0,
            queued_bytes=0,
            will=WillShown("gone/a", 1, retain=True),
        )
    ]


def test_one_client_is_shown_with_its_topics_and_subscriptions() -> None:
    bench = Bench()
    bench.join(b"a")
    number = bench.register(b"a", b"field")
    bench.subscribe(b"a", b"cmd/#", 1)
    own = {"a": {"own/topic": 7, "other": 9}}
    found = asyncio.run(roster_of(bench, own).clients(ClientsQuery(client_id="a")))
    assert found.details == Details(
        [(number, "field")], [(7, "own/topic"), (9, "other")], [("cmd/#", 1)]
    )
    assert asyncio.run(roster_of(bench).clients(ClientsQuery(client_id="b"))).clients == []


def test_a_sleeper_is_due_when_it_said_and_what_waits_for_it_is_counted() -> None:
    bench = Bench()
    bench.join(b"a", clean=False)
    bench.subscribe(b"a", b"cmd", 1)
    bench.say(b"a", Disconnect(100))
    bench.publishes("cmd", b"12345", qos=1)
    bench.at = 40.0
    shown = client(bench, "a")
    assert (shown.state, shown.sleep_s, shown.due_s) == (State.ASLEEP, 100, 60.0)
    assert (shown.queued, shown.queued_bytes) == (1, 64 + len("cmd") + 5)
    assert ids(bench, state="asleep") == ["a"]
    bench.say(b"a", Pingreq(b"a"))
    shown = client(bench, "a")
    assert (shown.state, shown.due_s) == (State.AWAKE, None)
    assert (shown.queued, shown.queued_bytes) == (1, 64 + len("cmd") + 5), "it is under way"


@pytest.mark.parametrize(("declared_s", "lost_at"), [(60, 90.0), (100, 110.0)])
def test_a_client_is_overdue_from_what_it_declared_until_its_tolerance_is_used_up(
    declared_s: int, lost_at: float
) -> None:
    bench = Bench()
    bench.join(b"awake", clean=False, keep_alive_s=declared_s)
    bench.join(b"dozes", clean=False)
    bench.say(b"dozes", Disconnect(declared_s))
    bench.wake(declared_s - 0.5)
    assert ids(bench, state="overdue") == []
    bench.wake(declared_s + 2.0)
    assert ids(bench, state="overdue") == ["awake", "dozes"]
    shown = client(bench, "dozes")
    assert (shown.state, shown.due_s, shown.is_overdue) == (State.ASLEEP, -2.0, True)
    bench.wake(lost_at + 3.0)
    shown = client(bench, "dozes")
    assert (shown.state, shown.due_s) == (State.LOST, None)
    assert shown.away_s == pytest.approx(3.0)
    assert ids(bench, state="overdue") == []


def test_who_declared_nothing_is_never_overdue() -> None:
    bench = Bench()
    bench.join(b"a", keep_alive_s=0)
    bench.at = 1e6
    (session,) = bench.engine.sessions.values()
    assert not is_overdue(session, bench.at)
    assert client(bench, "a").due_s is None


def test_one_that_fetched_nothing_in_the_end_sleeps_from_then_on() -> None:
    bench = Bench()
    bench.join(b"a", clean=False)
    bench.subscribe(b"a", b"cmd", 1)
    bench.say(b"a", Disconnect(100))
    bench.publishes("cmd", qos=1)
    bench.at = 50.0
    bench.say(b"a", Pingreq(b"a"))
    bench.wake(100.0)  # its retries are spent: 5 times 10 s after the PINGREQ
    shown = client(bench, "a")
    assert shown.state is State.ASLEEP
    assert shown.due_s == pytest.approx(100.0)


def test_a_client_is_listed_from_its_connack_on() -> None:
    bench = Bench()
    bench.say(b"new", Connect(b"new", 60))
    bench.say(b"half", Connect(b"half", 0, will=True))
    bench.at = 5.0
    new = client(bench, "new")
    assert (new.state, new.address, new.clean, new.heard_s, new.due_s) == (
        State.ACTIVE,
        "new",
        False,
        5.0,
        55.0,
    )
    assert client(bench, "half").due_s is None
    assert ids(bench) == ["half", "new"]
    assert ids(bench, state="active") == ["new"]
    assert ids(bench, state="connecting") == ["half"]
    assert clients(bench, ClientsQuery(client_id="new", state="asleep")) == []


def test_one_that_is_gone_when_its_slice_has_been_read_is_left_out() -> None:
    bench = Bench()
    bench.join(b"a")
    bench.say(b"new", Connect(b"new", 60, clean_session=True))

    async def story() -> list[str]:
        listing = asyncio.ensure_future(roster_of(bench).clients(ClientsQuery()))
        await asyncio.sleep(0)
        bench.say(b"new", Pingreq(), Disconnect())
        return [each.client_id for each in (await listing).clients]

    assert asyncio.run(story()) == ["a"]


def test_a_list_goes_by_id_and_is_taken_up_where_it_ended() -> None:
    bench = Bench()
    for name in (b"c", b"a2", b"b", b"a1"):
        bench.join(name)
    found = asyncio.run(roster_of(bench).clients(ClientsQuery(limit=3)))
    assert ([each.client_id for each in found.clients], found.more) == (["a1", "a2", "b"], 1)
    assert ids(bench, after="b") == ["c"]
    assert ids(bench, prefix="a") == ["a1", "a2"]
    assert ids(bench, state="asleep") == []


def test_every_state_can_be_asked_for() -> None:
    bench = Bench()
    bench.join(b"a")
    assert {state: ids(bench, state=state) for state in STATES if ids(bench, state=state)} == {
        "active": ["a"]
    }


def test_a_long_list_leaves_the_loop_to_others_between_two_slices() -> None:
    bench = Bench()
    for number in range(SLICE + 1):
        bench.join(b"%05d" % number)

    async def story() -> Iterator[int]:
        turns = 0
        listing = asyncio.create_task(_listed(bench))
        while not listing.done():
            turns += 1
            await asyncio.sleep(0)
        return iter((turns, listing.result()))

    turns, more = asyncio.run(story())
    assert turns > 2
    assert more == SLICE + 1 - LIMIT_DEFAULT


async def _listed(bench: Bench) -> int:
    return (await roster_of(bench).clients(ClientsQuery())).more


# Topics


def test_a_topic_is_shown_with_all_who_have_to_do_with_it() -> None:
    bench = Bench()
    for name in (b"a", b"b"):
        bench.join(name)
    first, second = bench.register(b"a", b"field"), bench.register(b"b", b"field")
    bench.subscribe(b"a", b"cmd/#", 1)
    bench.subscribe(b"b", b"cmd/x", 0, message_id=2)
    bench.publishes("cmd/x", b"on", retain=True, by="cmd/#", is_replay=True)
    found = topics(bench)
    assert found["field"].registered.named == [("a", first), ("b", second)]
    assert found["sensors/boot"].predefined_id == 7
    assert found["cmd/#"].subscribed.named == [("a", 1)]
    assert (found["cmd/x"].cover, found["cmd/x"].cover_qos) == ("cmd/#", 1)
    assert found["cmd/x"].retained_bytes == 2
    assert list(found) == sorted(found)


def test_ids_of_single_clients_are_shown_as_theirs() -> None:
    found = asyncio.run(roster_of(Bench(), {"a": {"own": 3}}).topics(TopicsQuery()))
    own = found.topics[0]
    assert (own.name, own.predefined_id, own.predefined.named) == ("own", None, [("a", 3)])


def test_of_many_clients_a_few_are_named_and_all_are_counted() -> None:
    bench = Bench()
    for number in range(CLIENTS_NAMED_MAX + 2):
        bench.join(b"%d" % number)
        bench.register(b"%d" % number, b"field")
    in_list = topics(bench)["field"].registered
    assert (in_list.count, len(in_list.named)) == (CLIENTS_NAMED_MAX + 2, CLIENTS_NAMED_MAX)
    alone = topics(bench, TopicsQuery(name="field"))
    assert list(alone) == ["field"]
    assert len(alone["field"].registered.named) == CLIENTS_NAMED_MAX + 2


def test_of_many_topics_the_first_are_shown_whole_and_the_others_counted() -> None:
    bench = Bench()
    for client_id in (b"a", b"b"):
        bench.join(client_id)
        for number in (5, 3, 9, 1, 7, 2, 8, 4, 6):
            bench.register(client_id, b"t%d" % number)
    found = asyncio.run(roster_of(bench).topics(TopicsQuery(prefix="t", limit=2)))
    counts = {topic.name: topic.registered.count for topic in found.topics}
    assert counts == {"t1": 2, "t2": 2}
    assert (found.more, found.more_is_exact) == (7, True)
    assert list(topics(bench, TopicsQuery(prefix="t", after="t7"))) == ["t8", "t9"]


def test_counting_topics_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.admin.client_queries.COUNTED_MAX", 3)
    bench = Bench()
    bench.join(b"a")
    for number in range(6):
        bench.register(b"a", b"t%d" % number)
    found = asyncio.run(roster_of(bench).topics(TopicsQuery(limit=2)))
    assert (found.more, found.more_is_exact) == (1, False)


# As the page asks


def fleet() -> Bench:
    """b sleeps and is overdue, c was heard last, d is lost, e has said CONNECT alone."""
    bench = Bench()
    for name in (b"a-Tank", b"b-well", b"c-tank"):
        bench.join(name, clean=False, keep_alive_s=100)
    bench.join(b"d-door", clean=False, keep_alive_s=30)
    bench.say(b"b-well", Disconnect(duration_s=50))
    bench.subscribe(b"c-tank", b"cmd", 1)
    bench.say(b"c-tank", Disconnect(duration_s=600))
    bench.publishes("cmd", b"on", qos=1, by="cmd")
    bench.wake(40.0)
    bench.say(b"a-Tank", Pingreq())
    bench.wake(51.0)
    bench.say(b"e-new", Connect(b"e-new", 60))
    bench.wake(52.0)
    return bench


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, "a b c d e"),
        ({"search": "TANK"}, "a c"),
        ({"search": "nothing"}, ""),
        ({"descends": True}, "e d c b a"),
        ({"sort": "heard"}, "b c d a e"),
        ({"sort": "due"}, "b e a c d"),
        ({"sort": "queued"}, "c a b d e"),
        ({"sort": "state"}, "d a e b c"),
        ({"offset": 1, "limit": 2}, "b c"),
        ({"offset": 4, "limit": 2}, "e"),
        ({"offset": 9, "limit": 2}, ""),
        ({"state": "overdue"}, "b"),
    ],
)
def test_clients_are_found_as_the_page_sorts_and_cuts_them(
    asked: dict[str, Any], found: str
) -> None:
    listed = asyncio.run(roster_of(fleet()).clients(ClientsQuery(**asked)))
    assert " ".join(each.client_id[0] for each in listed.clients) == found
    matching = len(found.split()) if "offset" not in asked else 5
    assert listed.total == matching
    assert listed.more == max(0, matching - asked.get("offset", 0) - asked.get("limit", 100))


def test_a_page_in_the_middle_of_many_is_the_right_one() -> None:
    bench = Bench()
    for number in range(3 * SLICE):
        bench.join(b"s%05d" % number)
    query = ClientsQuery(offset=2 * SLICE, limit=2)
    listed = asyncio.run(roster_of(bench).clients(query))
    assert [each.client_id for each in listed.clients] == ["s02000", "s02001"]
    assert (listed.total, listed.more) == (3 * SLICE, SLICE - 2)
