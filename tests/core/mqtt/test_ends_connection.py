"""A broker that ends the connection for something that was sent: the rest gets through."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Finish, OwnTopicBlocked, Save, UpstreamEndExplained
from gateway.core.mqtt.caution import (
    BLOCK_S,
    EVERYTHING,
    LASTS_S,
    PATIENCE_S,
    SHORT_MAX,
    STRIKES_MAX,
    TRIAL_AFTER_S,
    Alone,
    filter_key,
    own_filter_key,
)
from gateway.core.mqtt.publisher import HELD_MAX
from gateway.core.mqtt.session import MqttSession, Phase
from gateway.core.mqtt.subscriber import FILTERS_PER_PACKET_MAX
from gateway.core.state_records import FilterDeleted
from gateway.core.topic_options import OptionsByTopic, ReadingOptions
from tests.core.mqtt.broker_side import options, puback
from tests.core.mqtt.ending_broker import (
    EndingBroker,
    brought_to_its_end,
    everything_alone,
    filters,
    more_filters_than,
    probing,
    reading,
    suspect,
    topics,
)

STATE = "tidegate/gh/state"


def suspects(broker: EndingBroker) -> list[str]:
    return [name for _, _, name in broker.session.caution.suspects]


# A reading


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("present", [True, False])
def test_a_reading_that_ends_the_connection_is_set_aside_and_the_others_get_through(
    qos: int, present: bool
) -> None:
    good = [reading(f"good/{number}", qos, client=f"s{number}") for number in range(20)]
    bad = reading("bad", qos, client="s9")
    broker = EndingBroker(topics("bad"))
    broker.connect()
    broker.publish(*good[:10], bad, *good[10:])
    while broker.left():
        if broker.session.phase is not Phase.UP:
            broker.connect(session_present=present)
        broker.run()
    assert broker.set_aside == [bad]
    assert set(broker.acknowledged) == set(good)
    assert broker.connections <= 1 + SHORT_MAX + STRIKES_MAX


def test_a_reading_of_qos_0_is_found_when_everything_goes_alone_with_a_ping() -> None:
    broker = EndingBroker(topics("bad"))
    good = [reading(f"good/{number}", client=f"s{number}") for number in range(5)]
    broker.connect()
    for number in range(20):
        if broker.session.phase is not Phase.UP:
            broker.connect(session_present=True)
        broker.publish(reading("bad", 0, client="s9", payload=b"%d" % number), *good)
        broker.run()
        good = []
        if broker.set_aside:
            break
    (aside,) = broker.set_aside
    assert (aside.topic, aside.qos) == ("bad", 0)
    assert len(broker.acknowledged) == 5
    assert broker.connections <= SHORT_MAX + STRIKES_MAX
    broker.connect(session_present=True)
    broker.run()
    broker.publish(reading("other", 0))
    assert broker.session.caution.pings == 1, "each topic that is not proven, from now on"
    broker.run()
    assert broker.session.caution.alone is None
    assert "other" in broker.session.caution.proven


def test_what_follows_a_suspect_at_qos_0_goes_on_when_the_ping_is_answered() -> None:
    broker = EndingBroker()
    broker.connect()
    broker.session.caution.prove("v")
    broker.run()
    suspect(broker, ("reading", "s1", "t"))
    broker.publish(reading("v", client="s2", payload=b"before"))
    broker.publish(*(reading("t", 0, payload=b"%d" % number) for number in range(3)))
    broker.publish(reading("u", 1, payload=b"3"))
    assert len(broker.session.publisher.in_flight.held()) == 4
    broker.run()
    assert broker.delivered == [b"online", b"before", b"0", b"1", b"2", b"3"]
    pings = [each for each in broker.read if isinstance(each, mqtt5.PingReqPacket)]
    assert len(pings) == 2, "whether what went before is read, and what went alone"
    assert broker.session.caution.suspects == {}


def test_the_cause_is_known_once_a_suspect_has_gone_alone() -> None:
    broker = EndingBroker(topics("bad"))
    broker.connect()
    broker.publish(reading("bad"))
    broker.run()
    assert broker.reported(UpstreamEndExplained) == [], "only it was in flight, but not alone"
    assert suspects(broker) == ["bad"]
    broker.connect(session_present=True)
    broker.run()
    assert broker.reported(UpstreamEndExplained) == [UpstreamEndExplained()]


def test_readings_of_its_client_wait_behind_a_suspect_in_order_and_others_pass() -> None:
    broker = EndingBroker(topics("bad"))
    broker.connect()
    broker.publish(reading("bad", payload=b"bad"))
    broker.run()
    broker.publish(
        reading("x", payload=b"1"), reading("y", client="s2", payload=b"o"),
        reading("z", payload=b"2"),
    )  # fmt: skip
    broker.connect(session_present=True)
    broker.run()
    assert broker.published() == [b"o", b"bad"]
    broker.finish()
    assert broker.delivered == [b"online", b"online", b"o", b"online", b"online", b"1", b"2"]


def test_a_suspect_is_tried_after_a_while_though_others_keep_coming() -> None:
    broker = EndingBroker(topics("bad"))
    broker.connect()
    broker.publish(reading("bad", payload=b"bad"))
    broker.run()
    broker.connect(session_present=True)
    broker.holds = True
    broker.publish(*(reading("t", client="s2") for _ in range(3)))
    broker.run()
    assert broker.published() == [b"bad"], "it was the only one"
    broker.connect(session_present=True)
    assert broker.session.caution.trial_at == broker.now + TRIAL_AFTER_S


def test_a_full_queue_behind_a_suspect_has_it_tried_at_once() -> None:
    broker = EndingBroker(topics("bad"))
    broker.connect()
    broker.publish(reading("bad", payload=b"bad"))
    broker.run()
    others = [reading("t", client="s2", payload=b"o") for _ in range(3)]
    behind = [reading("t", payload=b"behind") for _ in range(HELD_MAX)]
    for each in [*behind, *others]:
        broker.session.publisher.publish(each)
    broker.connect(session_present=True)
    broker.run()
    assert broker.published() == [b"bad"], "the others wait"
    broker.finish()
    assert [each.payload for each in broker.acknowledged].count(b"behind") == HELD_MAX
    assert set(others) <= set(broker.acknowledged)


def test_a_blocked_reading_is_set_aside_unsent_and_a_smaller_one_goes() -> None:
    broker = brought_to_its_end(EndingBroker(topics("bad")), reading("bad", payload=b"12"))
    (before,) = broker.set_aside
    broker.publish(blocked := reading("bad", payload=b"123"))
    assert broker.set_aside == [before, blocked]
    assert broker.session.publisher.is_blocked(blocked, broker.now)
    broker.ends_for = topics()
    broker.publish(small := reading("bad", payload=b"1"))
    broker.run()
    assert broker.acknowledged == [small]


def test_a_block_that_has_ended_is_tried_once_and_then_holds_twice_as_long() -> None:
    broker = brought_to_its_end(EndingBroker(topics("bad")), reading("bad"))
    now = broker.now = broker.now + BLOCK_S
    again = reading("bad")
    again.received_at = now
    broker.publish(again)
    broker.run()
    assert broker.set_aside[1:] == [again]
    assert broker.session.caution.blocked["reading", "s1", "bad"].seconds == 2 * BLOCK_S


def test_a_blocked_topic_that_the_broker_takes_again_is_free() -> None:
    broker = brought_to_its_end(EndingBroker(topics("bad")), reading("bad"))
    broker.ends_for = topics()
    broker.now += BLOCK_S
    again = reading("bad")
    again.received_at = broker.now
    broker.publish(again)
    broker.run()
    assert broker.acknowledged == [again]
    assert not broker.session.caution.has_blocked


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_refusal_followed_by_the_end_blocks_at_once_and_blames_nothing_else(qos: int) -> None:
    broker = EndingBroker(refuses=["bad"])
    good = [reading(f"good/{number}", client="s2") for number in range(3)]
    brought_to_its_end(broker, reading("bad", qos), *good)
    assert set(broker.acknowledged) == set(good)
    for _ in range(10):
        broker.publish(*(reading("bad", max(qos, 1)) for _ in range(3)))
        good = [reading(f"good/{number}", client="s2") for number in range(3)]
        broker.publish(*good)
        broker.finish()
        assert set(good) <= set(broker.acknowledged)
    assert ("reading", "s1", "bad") in broker.session.caution.blocked
    assert broker.connections < 10
    assert len(broker.session.caution.blocked) == 1
    assert suspects(broker) == []


def test_a_refusal_that_the_connection_survives_is_no_more_than_that() -> None:
    broker = EndingBroker(topics("bad"))
    broker.codes = {"no": 0x87}
    broker.connect()
    broker.publish(reading("bad"))
    broker.run()
    broker.publish(no := reading("no", client="s2"), reading("yes", client="s2"))
    broker.connect(session_present=True)
    broker.session.caution.degree = EVERYTHING
    broker.run()
    assert broker.refused == [no]
    assert "no" not in broker.session.caution.proven


def test_a_reading_too_large_for_the_broker_is_refused_alone_and_holds_up_nothing() -> None:
    broker = EndingBroker(max_packet_size=300)
    everything_alone(broker)
    broker.connect(session_present=True)
    large = reading("t", client="s2", payload=b"x" * 400)
    stored = reading("t", 0, client="s3", payload=b"x" * 400)
    stored.record = 7
    broker.publish(large, stored, good := reading("t", client="s4"))
    broker.run()
    assert broker.refused == [large]
    assert broker.reported(Finish) == [Finish(stored)], "nothing else would say that it ended"
    assert broker.acknowledged == [good]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_released_readings_for_which_the_broker_ends_the_connection_are_found_one_by_one(
    count: int,
) -> None:
    broker = EndingBroker(changed={"trust_session": True})
    broker.connect()
    bad = [reading("bad", 2, client=f"s{number}") for number in range(count)]
    good = reading("good", 2, client="g")
    broker.publish(*bad, good)
    broker.ends_for = lambda packet: broker.released_topic(packet) == "bad"
    broker.finish()
    assert broker.set_aside == bad
    assert broker.acknowledged == [good]
    assert broker.connections <= 1 + 6 * count


def test_released_readings_go_together_again_once_a_connection_has_lasted() -> None:
    broker = EndingBroker(changed={"trust_session": True})
    broker.connect()
    broker.publish(*(reading("t", 2, client=f"s{number}") for number in range(3)))
    for _ in range(4):
        broker.answer()
    for _ in range(SHORT_MAX):
        broker.end()
        broker.connect(session_present=True)
    assert broker.session.caution.degree == EVERYTHING
    assert len(broker.session.publisher.in_flight.to_release) == 3
    broker.holds = True
    broker.run()
    broker.session.caution.alone = None  # as if it had been answered
    broker.wake(broker.now + LASTS_S / 2)
    broker.holds = False
    broker.session.caution.relax_at = broker.now
    broker.session.caution.suspects.clear()
    broker.session.caution.alone = None
    broker.take(broker.session.handle_time(broker.now))
    broker.run()
    assert len(broker.session.publisher.in_flight.to_release) == 0


# After an outage


def test_after_an_outage_unproven_topics_go_alone_and_proven_ones_in_a_window() -> None:
    broker = probing()
    for topic in ["t", "t", "new", "t", "t"]:
        broker.publish(reading(topic))
    broker.holds = True
    broker.connect(session_present=True)
    broker.run()
    assert len(broker.published()) == 2
    broker.receive(puback(2) + puback(3))
    broker.run()
    assert len(broker.published()) == 3
    assert broker.session.caution.alone is not None
    broker.publish(reading("t"))
    broker.run()
    assert len(broker.published()) == 3, "nothing follows what went alone"
    broker.receive(puback(4))
    broker.run()
    assert len(broker.published()) == 6
    broker.publish(reading("t"))
    broker.run()
    assert len(broker.published()) == 7, "a proven topic is sent at once"
    broker.wake(broker.now + 10.0)
    assert broker.session.caution.degree == 0


def test_a_reading_that_waits_to_go_alone_is_first_when_the_connection_breaks() -> None:
    broker = probing()
    broker.publish(reading("t", payload=b"1"), reading("new", payload=b"2"))
    broker.holds = True
    broker.connect(session_present=True)
    broker.publish(reading("t", payload=b"3"))
    broker.run()
    in_flight = broker.session.publisher.in_flight
    assert in_flight.next_alone is not None
    assert [each.payload for each in in_flight.unacknowledged()] == [b"1", b"2", b"3"]
    broker.end(by_broker=False)
    assert [each.payload for each in in_flight.unacknowledged()] == [b"1", b"2", b"3"]


def test_readings_held_back_go_on_when_caution_ends() -> None:
    broker = probing()
    broker.publish(reading("t", payload=b"1"), reading("new", payload=b"2"))
    broker.holds = True
    broker.connect(session_present=True)
    broker.run()
    broker.wake(broker.now + 10.0)
    assert broker.published() == [b"1", b"2"]


def test_a_stale_reading_is_dropped_before_it_goes_alone() -> None:
    broker = EndingBroker()
    broker.session = MqttSession(
        options(probe_s=10.0), OptionsByTopic(ReadingOptions(expiry_s=5.0))
    )
    old = reading("t")
    old.record = 3
    broker.publish(old)
    broker.connect()
    broker.end(by_broker=False)
    broker.now = 60.0
    broker.holds = True
    broker.publish(other := reading("u"))
    other.record = 4
    broker.session.publisher.in_flight.start_over()
    old.upstream_qos = 0
    broker.connect(session_present=True)
    assert broker.reported(Dropped) == [
        Dropped(Reason.EXPIRED, old.client_id, "t"),
        Dropped(Reason.EXPIRED, other.client_id, "u"),
    ]


# Order


def test_nothing_overtakes_what_was_held_back_when_the_connection_breaks() -> None:
    """A QoS 1 reading waits for a QoS 2 reading of its topic, behind one that is held back."""
    broker = EndingBroker(receive_max=100)
    broker.connect()
    broker.run()
    broker.holds = True
    broker.publish(reading("t", 2, payload=b"0"))
    suspect(broker, ("reading", "s1", "bad"))
    broker.publish(reading("bad", payload=b"bad"), reading("t", 2, payload=b"1"))
    broker.publish(reading("t", 1, payload=b"2"))
    assert broker.session.publisher.in_flight.qos_order.count == 1
    broker.end(by_broker=False)
    waiting = broker.session.publisher.in_flight.unacknowledged()
    assert [each.payload for each in waiting] == [b"0", b"bad", b"1", b"2"]


def test_nothing_overtakes_what_was_held_back_when_its_client_is_let_go() -> None:
    broker = EndingBroker()
    broker.connect()
    in_flight = broker.session.publisher.in_flight
    in_flight.qos_order.begin(before := reading("t", 2))
    in_flight.hold_back(reading("t", 2, payload=b"1"))
    in_flight.qos_order.set_aside(reading("t", 1, payload=b"2"))
    in_flight.qos_order.end(before)
    in_flight.let_go(before.client_id)
    assert [each.payload for each in in_flight.unacknowledged()] == [b"1", b"2"]
    in_flight.let_go(before.client_id)
    assert in_flight.held_count == 0


# Filters


def test_a_filter_that_ends_the_connection_is_refused_and_the_others_are_granted() -> None:
    wanted = (*(f"f/{number}" for number in range(30)), "bad", "w/#", "+/x")
    broker = brought_to_its_end(EndingBroker(filters("bad")), reading("t"), wants=wanted)
    assert broker.filters_refused == ["bad"]
    assert broker.granted == set(wanted) - {"bad"}
    assert broker.acknowledged
    assert broker.connections <= 2 + SHORT_MAX + STRIKES_MAX


def test_a_blocked_filter_is_refused_at_once_until_the_block_ends() -> None:
    broker = brought_to_its_end(EndingBroker(filters("bad")), wants=("bad", "good"))
    assert broker.filters_refused == ["bad"]
    broker.want("bad")
    assert broker.filters_refused == ["bad", "bad"]
    broker.ends_for = filters()
    broker.now += BLOCK_S
    broker.receive(mqtt5.PingRespPacket().write())
    broker.want("bad")
    broker.take(broker.session.go_on(broker.now))
    broker.run()
    assert "bad" in broker.granted


def test_a_blocked_filter_is_refused_also_where_answers_are_waited_for_no_longer() -> None:
    broker = brought_to_its_end(EndingBroker(filters("bad")), wants=("bad", "good"))
    broker.end(by_broker=False)
    broker.holds = True
    broker.connect(session_present=True)
    broker.publish(reading("t", payload=b"1"), reading("u", payload=b"2"))
    broker.run()
    broker.wake(broker.now + PATIENCE_S)
    assert not broker.session.caution.is_on
    broker.filters_refused.clear()
    broker.want("bad", "other")
    broker.run()
    assert broker.filters_refused == ["bad"]
    assert "bad" not in {name for names in broker.subscribed() for name in names}


def test_too_many_filters_in_a_packet_are_halved_until_the_broker_takes_them() -> None:
    wanted = tuple(f"f/{number}" for number in range(100))
    broker = brought_to_its_end(EndingBroker(more_filters_than(10)), wants=wanted)
    assert broker.granted == set(wanted)
    assert broker.filters_refused == []
    assert max(map(len, broker.subscribed())) <= 10
    assert broker.connections <= 8
    assert FILTERS_PER_PACKET_MAX > broker.session.subscriptions.filters_max > 1


def test_an_unsubscribe_that_ends_the_connection_is_given_up() -> None:
    broker = EndingBroker(
        lambda packet: isinstance(packet, mqtt5.UnsubscribePacket) and "bad" in packet.patterns
    )
    broker.connect()
    broker.want("bad", "also", "good")
    broker.run()
    broker.unwant("bad", "also")
    broker.publish(good := reading("t"))
    broker.finish()
    assert broker.acknowledged == [good]
    assert broker.at_broker == {"bad", "good"}
    assert FilterDeleted("bad") in [each.change for each in broker.reported(Save)]
    assert broker.connections <= 1 + STRIKES_MAX * (SHORT_MAX + 1) + 1


def test_nothing_is_given_up_while_a_filter_that_is_wanted_is_suspected() -> None:
    """`a/#` takes the place of `a/b`; until it is granted or refused, messages come for `a/b`."""
    broker = EndingBroker(filters("a/#"))
    broker.connect()
    broker.want("a/b")
    broker.run()
    suspect(broker, filter_key("a/#"))
    broker.want("a/#")
    broker.unwant("a/b")
    broker.run()
    assert broker.at_broker == {"a/b"}


def test_a_filter_that_waited_for_what_went_alone_is_asked_for_when_caution_ends() -> None:
    broker = EndingBroker(topics("bad"), changed={"keep_alive_s": 0})
    broker.connect()
    broker.publish(reading("bad"))
    broker.run()
    broker.ends_for = topics()
    broker.holds = True
    broker.connect(session_present=True)
    broker.run()
    assert broker.session.caution.alone is not None
    broker.wake(broker.now + LASTS_S)
    broker.want("f")
    broker.holds = False
    broker.receive(puback(1))
    broker.run()
    assert not broker.session.caution.is_on
    assert broker.granted == {"f"}


def test_a_suspected_filter_is_tried_though_readings_keep_coming() -> None:
    broker = EndingBroker(receive_max=4)
    broker.connect()
    broker.publish(reading("t"))
    broker.run()
    suspect(broker, filter_key("f"))
    broker.session.caution.trial_at = broker.now
    broker.take(broker.session.handle_time(broker.now))
    broker.publish(*(reading("t") for _ in range(8)))
    broker.want("f")
    for number in range(100):
        broker.publish(reading("t", payload=b"%d" % number))
        broker.answer()
    assert broker.granted == {"f"}
    assert len(broker.acknowledged) > 50
    broker.finish()
    assert len(broker.acknowledged) == 109


def test_with_the_cause_unknown_one_filter_goes_at_a_time_and_one_reading_in_turn() -> None:
    broker = EndingBroker()
    everything_alone(broker)
    broker.want("f", "g")
    broker.publish(reading("t"), reading("u", client="s2"))
    broker.connect(session_present=True)
    most = 0
    while broker.answer():
        caution = broker.session.caution
        most = max(most, len(broker.session.publisher.in_flight) + caution.asks)
    assert most <= 2, "the two packets for a filter and its retained messages"
    assert broker.granted == {"f", "g"}
    assert len(broker.acknowledged) == 2
    assert broker.read[0].topic == STATE
    assert isinstance(broker.read[1], mqtt5.PingReqPacket)


def test_one_unsubscribe_at_a_time_when_everything_goes_alone() -> None:
    broker = EndingBroker()
    everything_alone(broker)
    broker.session.subscriptions.restore(["x", "y"])
    broker.want("f")
    broker.connect(session_present=True)
    broker.run()
    given_up = [each.patterns for each in broker.read if isinstance(each, mqtt5.UnsubscribePacket)]
    assert given_up == [["x"], ["y"]]


def test_a_filter_that_gives_way_is_raised_alone_before_the_one_with_wildcards() -> None:
    broker = EndingBroker()
    broker.connect()
    broker.want("a/b", qos=0)
    broker.run()
    broker.session.caution.degree = EVERYTHING
    broker.session.caution._opened_at = 0.0
    broker.session.caution.relax_at = 100.0
    broker.session.caution._update()
    broker.unwant("a/b")
    broker.want("a/#")
    broker.read.clear()
    broker.take(broker.session.go_on(0.0))
    broker.run()
    assert broker.subscribed() == [["a/b"], ["a/#"], ["a/#"]]
    assert broker.at_broker == {"a/#"}


# What is the gateway's own

BIRTH = "homeassistant/status"


def test_an_own_topic_that_ends_the_connection_is_blocked_the_first_time_it_goes_alone() -> None:
    broker = EndingBroker(topics("tidegate/gh/diagnostics"))
    broker.connect()
    for _ in range(10):
        if broker.session.phase is not Phase.UP:
            broker.connect(session_present=True)
        broker.run()
        if broker.session.own_messages_max != 0:
            broker.say("tidegate/gh/diagnostics")
        broker.run()
    assert broker.reported(OwnTopicBlocked) == [OwnTopicBlocked("tidegate/gh/diagnostics")]
    assert broker.connections == SHORT_MAX + 2
    said = broker.session.said
    broker.say("tidegate/gh/diagnostics")
    assert broker.session.said == said


def test_the_presence_topic_is_left_out_while_it_is_blocked_and_then_tried_alone() -> None:
    broker = EndingBroker(topics(STATE))
    for _ in range(SHORT_MAX + 1):
        broker.connect(session_present=True)
        broker.run()
    assert broker.reported(OwnTopicBlocked) == [OwnTopicBlocked(STATE)]
    broker.connect(session_present=True)
    broker.publish(good := reading("t"))
    broker.run()
    assert broker.acknowledged == [good]
    broker.end(by_broker=False)
    broker.now += BLOCK_S
    broker.connect(session_present=True)
    assert broker.session.caution.alone == Alone(("own", "", STATE), needs_ping=True)
    broker.ends_for = topics()
    broker.run()
    assert not broker.session.caution.has_blocked


def test_own_messages_go_one_at_a_time_where_everything_goes_alone() -> None:
    broker = EndingBroker()
    broker.connect()
    assert broker.session.own_messages_max is None
    everything_alone(broker)
    broker.connect(session_present=True)
    assert broker.session.own_messages_max == 0, "presence is not answered yet"
    broker.run()
    assert broker.session.own_messages_max == 1
    broker.say("tidegate/gh/diagnostics")
    assert broker.session.own_messages_max == 0
    broker.say("tidegate/gh/other")
    assert broker.session.caution.alone is not None
    assert broker.session.caution.alone.key == ("own", "", "tidegate/gh/diagnostics")
    broker.run()
    broker.holds = True
    broker.publish(reading("t"))
    assert broker.session.own_messages_max == 0


def test_the_topic_that_the_gateway_listens_to_is_found_and_refused_as_a_filter_is() -> None:
    broker = EndingBroker(
        filters(BIRTH), changed={"topic_prefix": "site/", "own_filters": ((BIRTH, 0),)}
    )
    good = reading("t")
    brought_to_its_end(broker, good, wants=("f", "g"))
    assert set(broker.filters_refused) == {BIRTH}
    assert broker.granted == {"f", "g"}
    assert broker.acknowledged == [good]
    assert broker.session.caution.blocked.keys() == {own_filter_key(BIRTH)}
    broker.filters_refused.clear()
    broker.end(by_broker=False)
    broker.connect(session_present=True)
    assert broker.filters_refused == [BIRTH], "as long as it is blocked"
    broker.run()
    assert broker.session.phase is Phase.UP
    broker.ends_for = filters()
    broker.end(by_broker=False)
    broker.now += BLOCK_S
    broker.connect(session_present=True)
    assert broker.session.subscriptions.is_idle or broker.session.subscriptions.unanswered
    broker.run()
    assert BIRTH in broker.at_broker
    assert not broker.session.caution.has_blocked


def test_a_topic_of_ours_that_the_broker_finds_too_long_is_refused_and_holds_up_nothing() -> None:
    broker = EndingBroker(
        changed={"topic_prefix": "s/", "own_filters": ((BIRTH * 5, 0),)}, max_packet_size=90
    )
    for is_careful in (False, True):
        if is_careful:
            everything_alone(broker)
        broker.filters_refused.clear()
        broker.want(f"f/{is_careful}")
        broker.connect(session_present=True)
        broker.run()
        assert broker.filters_refused == [BIRTH * 5]
        assert f"f/{is_careful}" in broker.granted
        broker.end(by_broker=False)
