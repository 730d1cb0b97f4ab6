"""What the gateway subscribes to for itself, beside what its sensors asked for."""

from __future__ import annotations

from dataclasses import replace

import mqtt5
import pytest

from gateway.core.effects import OwnTopicReceived, OwnTopicRefused, SubscriptionRefused
from gateway.core.engine import EngineOptions
from gateway.core.mqtt import subscriber
from gateway.core.mqtt.caution import Block, own_filter_key
from gateway.core.mqtt.options import OWN_ID_FIRST, OWN_IN_FLIGHT_MAX
from gateway.core.state_records import StateRecords
from gateway.frames import Publish, ReturnCode, Suback, Subscribe, Unsubscribe
from tests.support.engine_bench import UPSTREAM, Bench, short

TOPIC = "homeassistant/status"
NOTHING = StateRecords([], [], [], [])


def bench_with(prefix: str, topic: str = TOPIC) -> Bench:
    upstream = replace(UPSTREAM, topic_prefix=prefix, own_filters=((topic, 0),))
    bench = Bench(EngineOptions(upstream), connected=False)
    bench.take(bench.engine.restore(NOTHING, 0.0))
    bench.connect_broker()
    return bench


def own_topic(bench: Bench) -> list[bytes]:
    found = [each.payload for each in bench.news if isinstance(each, OwnTopicReceived)]
    bench.news.clear()
    return found


@pytest.mark.parametrize("prefix", ["", "home", "site-7/", TOPIC])
def test_it_is_heard_whatever_the_prefix(prefix: str) -> None:
    bench = bench_with(prefix)
    assert TOPIC in bench.subscribed
    bench.publishes(TOPIC, b"online")
    assert own_topic(bench) == [b"online"]
    bench.publishes("site-7/homeassistant/status", b"online")
    bench.publishes("elsewhere", b"online")
    assert own_topic(bench) == []


@pytest.mark.parametrize("prefix", ["", "site-7/"])
def test_it_is_heard_again_after_each_new_connection(prefix: str) -> None:
    bench = bench_with(prefix)
    bench.lose_broker()
    bench.subscribed.clear()
    bench.connect_broker()
    assert TOPIC in bench.subscribed
    assert bench.engine.upstream.subscriptions.acknowledged


def test_a_sensor_may_subscribe_to_it_and_leave_again() -> None:
    bench = bench_with("")
    bench.join(b"s1")
    bench.subscribe(b"s1", TOPIC.encode(), 1)
    bench.publishes(TOPIC, b"online")
    assert any(isinstance(frame, Publish) for frame in bench.hear(b"s1"))
    assert own_topic(bench) == [b"online"]
    bench.ask(bench.engine.operator.forget(next(iter(bench.engine.sessions)), bench.at))
    assert TOPIC in bench.subscribed, "the gateway listens still"


ANNOUNCED, COMMANDS = "homeassistant/device/+/config", "site/tidegate/gh/command/+"


def bench_of_two(prefix: str = "") -> Bench:
    own_filters = ((ANNOUNCED, 0), (COMMANDS, 1))
    upstream = replace(UPSTREAM, topic_prefix=prefix, own_filters=own_filters)
    bench = Bench(EngineOptions(upstream), connected=False)
    bench.take(bench.engine.restore(NOTHING, 0.0))
    bench.connect_broker()
    return bench


def own(bench: Bench) -> list[tuple[str, bool]]:
    found = [
        (each.topic, each.is_retained) for each in bench.news if isinstance(each, OwnTopicReceived)
    ]
    bench.news.clear()
    return found


@pytest.mark.parametrize("prefix", ["", "site/"])
def test_filters_with_wildcards_bring_what_matches_them(prefix: str) -> None:
    bench = bench_of_two(prefix)
    assert bench.subscribed == {ANNOUNCED, COMMANDS}
    for topic in ("homeassistant/device/config", "homeassistant/device/a/b/config", "site/tide"):
        bench.publishes(topic, by=ANNOUNCED)
    assert own(bench) == []
    bench.publishes("homeassistant/device/a/config", by=ANNOUNCED, retain=True)
    assert own(bench) == [("homeassistant/device/a/config", True)]
    bench.seen()
    bench.publishes("site/tidegate/gh/command/restart", qos=1, by=COMMANDS)
    assert own(bench) == [("site/tidegate/gh/command/restart", False)]
    assert len(bench.seen_of(mqtt5.PubAckPacket)) == 1, "acknowledged"
    bench.publishes("site/tidegate/gh/command/restart", qos=1)
    assert len(own(bench)) == 1, "of a broker without identifiers"


def test_filters_wait_until_there_are_packet_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriber, "ASKED_MAX", 1)
    bench = bench_of_two()
    assert bench.subscribed == {ANNOUNCED, COMMANDS}, "the second when the first is answered"


def test_what_ours_alone_brings_is_neither_passed_on_nor_kept() -> None:
    bench = bench_of_two()
    bench.join(b"s1")
    bench.subscribe(b"s1", b"homeassistant/#", 1)
    bench.hear(b"s1")
    topic = "homeassistant/device/a/config"
    bench.publishes(topic, by=ANNOUNCED, retain=True)
    assert bench.hear(b"s1") == []
    assert topic not in bench.engine.downlink.retained
    assert own(bench) == [(topic, True)]
    bench.publishes(topic, by="homeassistant/#", retain=True)
    assert bench.hear(b"s1") != []
    assert own(bench) == [], "it came before"


def test_a_copy_for_both_is_passed_on_and_is_ours_as_well() -> None:
    bench = bench_of_two()
    bench.join(b"s1")
    bench.subscribe(b"s1", b"homeassistant/#", 1)
    bench.hear(b"s1")
    identifiers = [bench.identifiers["homeassistant/#"], bench.identifiers[ANNOUNCED]]
    topic = "homeassistant/device/a/config"
    bench.from_broker(mqtt5.PublishPacket(topic, b"x", subscription_ids=identifiers).write())
    assert bench.hear(b"s1") != []
    assert own(bench) == [(topic, False)]


@pytest.mark.parametrize("prefix", ["", "site/"])
def test_the_same_filter_of_a_client_takes_the_place_of_ours(prefix: str) -> None:
    bench = bench_of_two(prefix)
    bench.join(b"s1")
    theirs = COMMANDS.removeprefix(prefix)
    bench.subscribe(b"s1", theirs.encode(), 1)
    bench.hear(b"s1")
    bench.publishes("site/tidegate/gh/command/x", by=COMMANDS)
    assert bench.hear(b"s1") != []
    assert len(own(bench)) == 1
    bench.lose_broker()
    bench.seen()
    bench.connect_broker()
    subscribed = bench.seen_of(mqtt5.SubscribePacket)
    assert ANNOUNCED in [each.pattern for one in subscribed for each in one.topic_filters]
    bench.say(b"s1", Unsubscribe(2, theirs.encode()))
    seen = bench.packets
    (given_up,) = (n for n, each in enumerate(seen) if isinstance(each, mqtt5.UnsubscribePacket))
    later = [each for each in seen[given_up:] if isinstance(each, mqtt5.SubscribePacket)]
    assert [each.topic_filters[0].pattern for each in later] == [COMMANDS]
    assert int(later[0].topic_filters[0].max_qos) == 1


@pytest.mark.parametrize("prefix", ["", "home", "site-7/"])
def test_a_broker_that_refuses_it_refuses_nothing_else(prefix: str) -> None:
    upstream = replace(UPSTREAM, topic_prefix=prefix, own_filters=((TOPIC, 0),))
    bench = Bench(EngineOptions(upstream), connected=False)
    bench.take(bench.engine.restore(NOTHING, 0.0))
    bench.refuses = {TOPIC}
    bench.connect_broker()
    assert bench.engine.upstream.subscriptions.acknowledged
    assert not list(bench.engine.downlink.subscriptions)
    (refused,) = bench.told(SubscriptionRefused)
    assert refused.topic_filter in (TOPIC, TOPIC.removeprefix(prefix))
    bench.join(b"s1")
    (suback,) = bench.subscribe(b"s1", b"a")
    assert isinstance(suback, Suback)
    assert suback.return_code == ReturnCode.ACCEPTED


def test_what_the_gateway_says_is_retained_and_only_said_to_a_broker_that_is_there() -> None:
    bench = bench_with("")
    upstream = bench.engine.upstream
    bench.seen()
    bench.ask(upstream.say("a", b"1"))
    assert upstream.said == 1
    (packet,) = bench.seen_of(mqtt5.PublishPacket)
    assert (packet.topic, packet.payload, packet.retain, int(packet.qos)) == ("a", b"1", True, 0)
    bench.lose_broker()
    assert upstream.say("a", b"1") == []
    bench.connect_broker(retain_available=False)
    bench.seen()
    bench.ask(upstream.say("a", b"1"))
    (packet,) = bench.seen_of(mqtt5.PublishPacket)
    assert not packet.retain


def test_what_the_broker_would_not_take_is_not_said() -> None:
    bench = bench_with("")
    bench.lose_broker()
    bench.connect_broker(max_packet_size=100)
    assert bench.engine.upstream.say("a", b"x" * 200) == []
    assert len(bench.engine.upstream.say("a", b"x" * 20)) == 1


def wants_answer(bench: Bench, *topics: str) -> list[mqtt5.PublishPacket]:
    bench.seen()
    for topic in topics:
        bench.ask(bench.engine.upstream.say(topic, b"x", wants_answer=True))
    return bench.seen_of(mqtt5.PublishPacket)


def refuse(bench: Bench, packet_id: int) -> list[OwnTopicRefused]:
    code = mqtt5.PubAckReasonCode.NOT_AUTHORIZED
    bench.from_broker(mqtt5.PubAckPacket(packet_id, reason_code=code).write())
    return bench.told(OwnTopicRefused)


def test_what_wants_an_answer_goes_at_qos_1_under_an_id_of_its_own() -> None:
    bench = bench_with("")
    bench.holds = True
    first, second = wants_answer(bench, "a", "b")
    assert [first.packet_id, second.packet_id] == [OWN_ID_FIRST, OWN_ID_FIRST + 1]
    (refused,) = refuse(bench, OWN_ID_FIRST)
    assert refused.topic == "a"
    assert "PUBACK 0x87" in refused.reason
    assert refuse(bench, OWN_ID_FIRST) == []
    bench.from_broker(mqtt5.PubAckPacket(OWN_ID_FIRST + 1).write())
    assert not bench.engine.upstream.publisher.in_flight.own


def test_without_a_place_it_goes_at_qos_0() -> None:
    bench = bench_with("")
    bench.holds = True
    said = wants_answer(bench, *map(str, range(OWN_IN_FLIGHT_MAX + 1)))
    assert [int(each.qos) for each in said] == [1] * OWN_IN_FLIGHT_MAX + [0]
    bench.lose_broker()
    bench.connect_broker(max_qos=mqtt5.QoS.AT_MOST_ONCE)
    assert [int(each.qos) for each in wants_answer(bench, "a")] == [0]
    bench.lose_broker()
    bench.connect_broker(receive_max=1)
    assert [int(each.qos) for each in wants_answer(bench, "a", "b")] == [1, 0]


def test_it_takes_a_place_in_the_brokers_window() -> None:
    bench = bench_with("")
    bench.holds = True
    bench.lose_broker()
    bench.connect_broker(receive_max=1)
    wants_answer(bench, "own")
    bench.join(b"s1")
    bench.say(b"s1", short(b"21.5", 1, 7))
    assert bench.engine.upstream.publisher.in_flight.has_waiting
    assert bench.seen_of(mqtt5.PublishPacket) == []
    bench.from_broker(mqtt5.PubAckPacket(OWN_ID_FIRST).write())
    assert [int(each.qos) for each in bench.seen_of(mqtt5.PublishPacket)] == [1]


def test_while_something_ends_the_connections_it_goes_at_qos_0() -> None:
    bench = bench_with("")
    bench.engine.upstream.caution.is_on = True
    assert [int(each.qos) for each in wants_answer(bench, "a")] == [0]


# Filters for a while

FOUND = "tidegate/gh/clients/+"


def listen(bench: Bench, topic_filter: str = FOUND) -> None:
    bench.ask(bench.engine.upstream.subscriptions.listen(topic_filter, 0))


def leave(bench: Bench, topic_filter: str = FOUND) -> None:
    bench.ask(bench.engine.upstream.subscriptions.leave(topic_filter))


def is_granted(bench: Bench) -> bool:
    return bench.engine.upstream.subscriptions.own.is_granted(FOUND)


def test_a_filter_for_a_while_is_subscribed_and_given_up_again() -> None:
    bench = bench_with("")
    bench.holds = True
    listen(bench)
    assert FOUND in bench.subscribed
    assert not is_granted(bench)
    bench.release()
    assert is_granted(bench)
    bench.publishes("tidegate/gh/clients/a", by=FOUND, retain=True)
    assert own(bench) == [("tidegate/gh/clients/a", True)]
    bench.holds = True
    leave(bench)
    assert FOUND not in bench.subscribed
    bench.publishes("tidegate/gh/clients/a", by=FOUND)
    assert len(own(bench)) == 1, "until the broker has given it up"
    bench.release()
    bench.publishes("tidegate/gh/clients/a", by=FOUND)
    assert own(bench) == []
    assert not is_granted(bench)
    bench.lose_broker()
    bench.connect_broker()
    assert bench.subscribed == {TOPIC}


def test_a_filter_for_a_while_is_subscribed_again_in_each_connection() -> None:
    bench = bench_with("")
    bench.lose_broker()
    listen(bench)
    assert FOUND not in bench.subscribed
    for _ in range(2):
        bench.subscribed.clear()
        bench.connect_broker()
        assert FOUND in bench.subscribed
        assert is_granted(bench)
        bench.lose_broker()


@pytest.mark.parametrize("session_present", [True, False])
def test_what_was_left_meanwhile_is_given_up_in_the_next_connection(session_present: bool) -> None:
    bench = bench_with("")
    listen(bench)
    bench.holds = True
    leave(bench)
    bench.lose_broker()
    bench.seen()
    bench.holds = False
    bench.connect_broker(session_present=session_present)
    given_up = [each.patterns for each in bench.seen_of(mqtt5.UnsubscribePacket)]
    assert given_up == ([[FOUND]] if session_present else [])
    listen(bench)
    leave(bench)
    bench.lose_broker()
    leave(bench)
    bench.connect_broker()
    assert FOUND not in bench.subscribed


def test_one_that_is_needed_again_before_the_broker_answered_stays() -> None:
    bench = bench_with("")
    listen(bench)
    bench.holds = True
    leave(bench)
    listen(bench)
    bench.release()
    assert FOUND in bench.subscribed
    bench.publishes("tidegate/gh/clients/a", by=FOUND)
    assert len(own(bench)) == 1
    bench.lose_broker()
    listen(bench)
    leave(bench)
    listen(bench)
    bench.connect_broker(session_present=True)
    assert is_granted(bench)


def test_one_that_is_left_before_it_was_asked_for_is_not_asked_for() -> None:
    bench = bench_with("")
    bench.lose_broker()
    listen(bench)
    leave(bench)
    bench.seen()
    bench.connect_broker(session_present=True)
    assert FOUND not in bench.subscribed
    assert not bench.seen_of(mqtt5.UnsubscribePacket)


def test_a_client_with_the_same_filter_keeps_it() -> None:
    bench = bench_with("")
    listen(bench)
    bench.join(b"s1")
    bench.subscribe(b"s1", FOUND.encode(), 1)
    leave(bench)
    assert FOUND in bench.subscribed
    listen(bench)
    assert is_granted(bench)
    bench.publishes("tidegate/gh/clients/a", by=FOUND)
    assert len(own(bench)) == 1
    bench.engine.upstream.caution.is_on = True
    leave(bench)
    assert FOUND in bench.subscribed


def test_a_client_that_comes_before_it_was_given_up_keeps_it() -> None:
    bench = bench_with("")
    listen(bench)
    bench.join(b"s1")
    bench.holds = True
    bench.say(b"s1", Subscribe(1, b"a", 0))
    leave(bench)
    bench.say(b"s1", Subscribe(2, FOUND.encode(), 0))
    bench.release()
    assert FOUND in bench.subscribed


def test_one_that_ended_the_connection_is_refused() -> None:
    bench = bench_with("")
    bench.engine.upstream.caution.blocked[own_filter_key(FOUND)] = Block(100.0, 100.0, 0)
    listen(bench)
    (refused,) = bench.told(SubscriptionRefused)
    assert refused.topic_filter == FOUND


def test_one_that_is_left_before_the_broker_answered_is_given_up_then() -> None:
    bench = bench_with("")
    bench.holds = True
    listen(bench)
    leave(bench)
    assert FOUND in bench.subscribed
    bench.release()
    assert FOUND not in bench.subscribed
    assert not is_granted(bench)
