"""Retained messages: to newcomers once with the flag, to others only what changed, without it."""

from __future__ import annotations

import pytest

from gateway.core.downlink import downlink
from gateway.core.downlink.downlink import REPLAY_WINDOW_S
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.engine import EngineOptions
from gateway.frames import Connect, Disconnect, Unsubscribe
from tests.support.engine_bench import UPSTREAM, Bench, published

ON_RETAINED = [(b"on", 0, True)]
ON_LIVE = [(b"on", 0, False)]


def bench_with_clients(*names: bytes, messages_max: int = 10) -> Bench:
    bench = Bench(EngineOptions(UPSTREAM, retained_messages_max=messages_max))
    for name in names:
        bench.join(name)
    return bench


def replay(bench: Bench, topic: str = "state", payload: bytes = b"on", by: str = "state") -> None:
    """The broker had this retained when we subscribed."""
    bench.publishes(topic, payload, retain=True, by=by, is_replay=True)


def test_a_newcomer_hears_what_was_retained_once_and_with_the_flag() -> None:
    bench = bench_with_clients(b"s1")
    bench.subscribe(b"s1", b"state")
    replay(bench)
    assert published(bench.hear(b"s1")) == ON_RETAINED
    replay(bench)
    assert bench.hear(b"s1") == []


def test_it_may_come_before_the_grant_and_follows_suback_then() -> None:
    bench = bench_with_clients(b"s1")
    bench.holds = True
    bench.subscribe(b"s1", b"state")
    replay(bench)
    assert bench.hear(b"s1") == []
    bench.release()
    suback, *rest = bench.hear(b"s1")
    assert type(suback).__name__ == "Suback"
    assert published(rest) == ON_RETAINED


def test_the_next_newcomer_gets_it_from_here_and_the_others_not_again() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"state")
    replay(bench)
    bench.hear(b"s1")
    assert published(bench.subscribe(b"s2", b"state")) == ON_RETAINED
    assert bench.hear(b"s1") == []


def test_one_that_subscribes_again_is_a_newcomer_again() -> None:
    bench = bench_with_clients(b"s1")
    bench.subscribe(b"s1", b"state")
    replay(bench)
    bench.hear(b"s1")
    assert published(bench.subscribe(b"s1", b"state", message_id=2)) == ON_RETAINED


def test_a_newcomer_gets_it_also_while_the_broker_is_away() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"state")
    replay(bench)
    bench.lose_broker_for_long()
    assert published(bench.subscribe(b"s2", b"state")) == ON_RETAINED
    bench.connect_broker()
    replay(bench)
    assert bench.hear(b"s2") == []


def test_one_that_joined_while_the_broker_was_away_hears_it_with_the_flag_later() -> None:
    bench = bench_with_clients(b"s1")
    bench.lose_broker_for_long()
    assert bench.subscribe(b"s1", b"state") != []
    bench.at = 1000.0
    bench.connect_broker()
    bench.at += REPLAY_WINDOW_S - 1
    replay(bench)
    assert published(bench.hear(b"s1")) == ON_RETAINED


def test_one_whose_first_connections_did_not_last_hears_it_with_the_flag_later() -> None:
    bench = bench_with_clients(b"s1")
    bench.lose_broker_for_long()
    assert bench.subscribe(b"s1", b"state") != []
    for _ in range(3):
        bench.connect_broker(session_present=True)
        bench.lose_broker()
        bench.at += 2 * REPLAY_WINDOW_S
    bench.connect_broker(session_present=True)
    replay(bench)
    assert published(bench.hear(b"s1")) == ON_RETAINED


def test_a_live_message_that_the_broker_retains_comes_without_the_flag_and_is_kept() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"state")
    bench.publishes("state", retain=True, by="state")
    assert published(bench.hear(b"s1")) == ON_LIVE
    assert published(bench.subscribe(b"s2", b"state")) == ON_RETAINED


def test_equal_live_messages_are_all_passed_on() -> None:
    bench = bench_with_clients(b"s1")
    bench.subscribe(b"s1", b"state")
    for _ in range(2):
        bench.publishes("state", retain=True, by="state")
        assert published(bench.hear(b"s1")) == ON_LIVE


def test_a_live_message_without_the_flag_leaves_what_is_retained_as_it_is() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"state")
    replay(bench)
    bench.publishes("state", b"passing", by="state")
    assert published(bench.subscribe(b"s2", b"state")) == ON_RETAINED


def test_an_empty_retained_message_clears_it() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"state")
    replay(bench)
    bench.hear(b"s1")
    bench.publishes("state", b"", retain=True, by="state")
    assert published(bench.hear(b"s1")) == [(b"", 0, False)]
    assert published(bench.subscribe(b"s2", b"state")) == []


def test_what_changed_while_we_were_away_comes_without_the_flag_and_what_did_not_not_at_all() -> (
    None
):
    bench = bench_with_clients(b"s1")
    bench.subscribe(b"s1", b"state/+")
    for topic in ("state/same", "state/changed"):
        replay(bench, topic, by="state/+")
    assert len(bench.hear_all(b"s1")) == 2
    bench.at = REPLAY_WINDOW_S
    bench.lose_broker()
    bench.connect_broker(session_present=True)
    replay(bench, "state/same", by="state/+")
    replay(bench, "state/changed", b"off", by="state/+")
    replay(bench, "state/new", b"hello", by="state/+")
    assert bench.hear_all(b"s1") == [(b"off", 0, False), (b"hello", 0, False)]


def test_what_the_broker_does_not_confirm_in_time_is_no_longer_retained() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"state/#")
    replay(bench, "state/kept", by="state/#")
    replay(bench, "state/gone", by="state/#")
    bench.lose_broker()
    bench.connect_broker(session_present=True)
    replay(bench, "state/kept", by="state/#")
    bench.wake(REPLAY_WINDOW_S - 0.1)
    retained = bench.engine.downlink.retained
    assert sorted(retained.topics_under("#")) == ["state/gone", "state/kept"]
    bench.wake(REPLAY_WINDOW_S)
    assert retained.topics_under("#") == ["state/kept"]


def test_a_break_within_the_window_begins_the_doubt_anew() -> None:
    bench = bench_with_clients(b"s1")
    bench.subscribe(b"s1", b"state")
    replay(bench)
    bench.lose_broker()
    bench.connect_broker(session_present=True)
    bench.lose_broker()
    bench.at = 2 * REPLAY_WINDOW_S
    bench.take(bench.engine.handle_time(bench.at))
    assert len(bench.engine.downlink.retained) == 1, "nobody could confirm it"
    bench.connect_broker(session_present=True)
    bench.at += REPLAY_WINDOW_S
    bench.take(bench.engine.handle_time(bench.at))
    assert len(bench.engine.downlink.retained) == 0


def test_what_nobody_is_subscribed_to_is_not_kept() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"state/#")
    bench.subscribe(b"s2", b"state/b")
    for topic in ("state/a", "state/b"):
        replay(bench, topic, by="state/#")
    bench.say(b"s1", Unsubscribe(2, b"state/#"))
    assert bench.engine.downlink.retained.topics_under("#") == ["state/b"]
    replay(bench, "state/a", by="state/#")
    assert bench.engine.downlink.retained.topics_under("#") == ["state/b"]


def test_when_the_store_is_full_newcomers_hear_it_all_the_same_and_the_operator_is_told() -> None:
    bench = bench_with_clients(b"s1", b"s2", messages_max=0)
    bench.subscribe(b"s1", b"state")
    bench.news.clear()
    replay(bench)
    assert published(bench.hear(b"s1")) == ON_RETAINED
    assert [(each.reason, each.detail) for each in bench.told(Dropped)] == [
        (Reason.RETAINED_FULL, "state")
    ]
    bench.at += REPLAY_WINDOW_S
    replay(bench)
    assert bench.hear(b"s1") == [], "whether it changed is not known"
    bench.news.clear()
    bench.publishes("state", retain=True, by="state")
    assert published(bench.hear(b"s1")) == ON_LIVE
    assert [each.reason for each in bench.told(Dropped)] == [Reason.RETAINED_FULL]


def test_a_retained_message_too_large_for_a_client_is_dropped() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"state")
    replay(bench, payload=b"x" * 1025)
    assert published(bench.hear(b"s1")) == []
    assert published(bench.subscribe(b"s2", b"state")) == []
    assert {each.reason for each in bench.told(Dropped)} == {Reason.PAYLOAD_TOO_LARGE}


@pytest.mark.parametrize("asked", [0, 1])
def test_a_retained_message_comes_at_the_lower_of_its_quality_and_the_clients(asked: int) -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"state", 1)
    bench.publishes("state", qos=1, retain=True, by="state", is_replay=True)
    assert published(bench.subscribe(b"s2", b"state", asked)) == [(b"on", asked, True)]


def test_a_sleeping_newcomer_of_old_finds_it_when_it_wakes() -> None:
    bench = bench_with_clients()
    bench.join(b"s1", clean=False)
    bench.subscribe(b"s1", b"state", 1)
    bench.say(b"s1", Disconnect())
    bench.publishes("state", qos=1, retain=True, by="state", is_replay=True)
    frames = bench.say(b"s1", Connect(b"s1", 60))
    assert len(frames) == 2, "CONNACK, and REGISTER for the message"


def test_with_a_broker_that_has_no_identifiers_the_flag_alone_says_it() -> None:
    bench = Bench(connected=False)
    bench.connect_broker(subscription_id_available=False)
    for name in (b"s1", b"s2"):
        bench.join(name)
    bench.subscribe(b"s1", b"state")
    bench.publishes("state", retain=True)
    assert published(bench.hear(b"s1")) == ON_RETAINED
    bench.publishes("state", b"off")
    assert published(bench.hear(b"s1")) == [(b"off", 0, False)]
    assert published(bench.subscribe(b"s2", b"state")) == [(b"off", 0, True)], (
        "whoever retained before is taken to retain again"
    )


# Known at a lower QoS than is asked for


def replay_at(bench: Bench, qos: int) -> None:
    bench.publishes("state", qos=qos, retain=True, by="state", is_replay=True)


@pytest.mark.guarantee("4f")
@pytest.mark.parametrize("qos", [0, 1])
def test_one_that_asks_for_a_higher_qos_in_an_outage_gets_it_once_and_at_the_right_one(
    qos: int,
) -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"state", 0)
    replay_at(bench, 0)
    assert published(bench.hear(b"s1")) == ON_RETAINED
    bench.lose_broker_for_long()
    assert published(bench.subscribe(b"s2", b"state", 1)) == []
    bench.connect_broker()
    for _ in range(2):
        replay_at(bench, qos)
    assert bench.hear_all(b"s2") == [(b"on", qos, True)]
    assert bench.hear(b"s1") == [], "which had it"


def test_a_message_below_the_qos_of_our_subscription_is_known_to_be_published_so() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"state", 1)
    replay_at(bench, 0)
    bench.lose_broker_for_long()
    assert published(bench.subscribe(b"s2", b"state", 2)) == ON_RETAINED
    bench.connect_broker()
    replay_at(bench, 0)
    assert bench.hear(b"s2") == []


def test_what_comes_live_before_the_grant_may_come_for_the_subscription_before() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"state", 0)
    bench.holds = True
    bench.subscribe(b"s2", b"state", 1)
    bench.publishes("state", retain=True, by="state")
    assert published(bench.hear(b"s1")) == ON_LIVE
    bench.lose_broker_for_long()
    assert published(bench.hear(b"s2")) == []
    bench.holds = False
    bench.connect_broker()
    replay_at(bench, 1)
    assert bench.hear_all(b"s2") == [(b"on", 1, True)]


def test_what_comes_live_when_the_broker_is_back_is_not_sent_again_with_the_flag() -> None:
    bench = bench_with_clients(b"s1")
    bench.subscribe(b"s1", b"state/+", 1)
    bench.lose_broker()
    bench.holds = True
    bench.connect_broker(session_present=True)
    bench.publishes("state/1", retain=True, by="state/+")
    assert bench.hear_all(b"s1") == [(b"on", 0, False)]
    replay(bench, "state/1", by="state/+")
    assert bench.hear(b"s1") == []


def test_newcomers_are_remembered_no_longer_than_needed() -> None:
    bench = bench_with_clients(b"s1", b"s2", b"s3")
    bench.subscribe(b"s1", b"a")
    bench.at = 10.0
    bench.subscribe(b"s2", b"a")
    bench.at = REPLAY_WINDOW_S
    bench.subscribe(b"s3", b"a")
    assert list(bench.engine.downlink._newcomers) == [("s2", "a"), ("s3", "a")]
    bench.say(b"s3", Disconnect())
    assert list(bench.engine.downlink._newcomers) == [("s2", "a")]


def test_a_client_is_a_newcomer_only_by_the_filter_that_it_just_subscribed() -> None:
    bench = bench_with_clients(b"s1")
    bench.subscribe(b"s1", b"state/+")
    bench.publishes("state/1", b"on", retain=True, by="state/+")
    assert bench.hear_all(b"s1") == [(b"on", 0, False)]
    bench.at = REPLAY_WINDOW_S
    bench.subscribe(b"s1", b"other")
    bench.at += REPLAY_WINDOW_S - 1
    bench.lose_broker()
    bench.connect_broker()
    # As after a break in which it was cleared and set again: another value than what is known.
    replay(bench, "state/1", b"off", by="state/+")
    assert bench.hear_all(b"s1") == [(b"off", 0, False)]


def test_one_that_gives_up_a_filter_is_no_newcomer_by_it() -> None:
    bench = bench_with_clients(b"s1")
    bench.subscribe(b"s1", b"state/+")
    bench.say(b"s1", Unsubscribe(9, b"state/+"))
    assert bench.engine.downlink._newcomers == {}


def test_what_was_heard_live_is_not_heard_again_as_a_replay() -> None:
    """Artemis and rumqttd ignore Retain As Published, so nothing says that it is retained."""
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"state")
    replay(bench, payload=b"off")
    bench.hear(b"s1")
    bench.at += 1.0
    bench.publishes("state", b"on", by="state")
    assert published(bench.hear(b"s1")) == ON_LIVE
    bench.at += 1.0
    frames = bench.subscribe(b"s2", b"state/#")
    bench.heard += [(b"s2", each) for each in frames]
    replay(bench, by="state/#")
    assert bench.hear(b"s1") == []
    assert bench.hear_all(b"s2") == [(b"off", 0, True), (b"on", 0, True)]


def test_of_so_many_topics_the_last_live_message_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downlink, "LIVE_TOPICS_MAX", 1)
    bench = bench_with_clients(b"s1")
    bench.subscribe(b"s1", b"#")
    for topic in ("a", "b"):
        replay(bench, topic=topic, payload=b"off", by="#")
        bench.publishes(topic, b"on", by="#")
    assert list(bench.engine.downlink._last_live) == ["b"]
