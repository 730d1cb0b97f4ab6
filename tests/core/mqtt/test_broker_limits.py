"""What the broker takes, and what it sends beyond what we take: quotas and sizes of packets."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, DropUpstream, Save
from gateway.core.engine import EngineOptions
from gateway.core.liveness import WaitsFor, owed
from gateway.core.mqtt.caution import PATIENCE_S
from gateway.core.mqtt.options import MqttOptions
from gateway.core.mqtt.publisher import PAUSE_S, PAUSE_S_MAX
from gateway.core.mqtt.session import Phase
from gateway.core.state_records import FilterDeleted
from tests.core.mqtt.broker_side import connected, only, puback, suback
from tests.core.mqtt.ending_broker import (
    EndingBroker,
    disconnect,
    everything_alone,
    probing,
    reading,
)
from tests.support.engine_bench import Bench, short

STATE = "tidegate/gh/state"


# A quota


def test_a_reading_over_the_quota_keeps_its_place_and_nothing_goes_for_a_while() -> None:
    broker = EndingBroker()
    broker.codes = {"t": 0x97}
    broker.connect()
    broker.publish(reading("t", payload=b"1"), reading("t", payload=b"2"))
    broker.run()
    broker.publish(reading("u", payload=b"3"))
    broker.run()
    assert broker.published() == [b"1", b"2"]
    assert broker.session.publisher.is_paused
    assert broker.session.wake_at() == PAUSE_S
    broker.codes = {}
    broker.wake(PAUSE_S)
    assert broker.published() == [b"1", b"2", b"1", b"2", b"3"]
    assert broker.delivered == [b"online", b"1", b"2", b"3"]
    assert [each.payload for each in broker.acknowledged] == [b"1", b"2", b"3"]


def test_after_a_quota_the_window_grows_from_one_with_what_is_acknowledged() -> None:
    broker = EndingBroker(receive_max=5)
    broker.codes = {"t": 0x97}
    broker.connect()
    broker.publish(*(reading("t") for _ in range(20)))
    broker.run()
    broker.codes = {}
    broker.holds = True
    in_flight = broker.session.publisher.in_flight
    broker.wake(PAUSE_S)
    windows = [in_flight.window]
    while in_flight.published:
        broker.receive(b"".join(map(puback, [*in_flight.published])))
        windows.append(in_flight.window)
    assert windows[:6] == [1, 2, 4, 5, 5, 5]
    assert broker.session.publisher._pause_s == PAUSE_S


def test_the_pause_doubles_while_the_quota_is_used_up() -> None:
    broker = EndingBroker()
    broker.codes = {"t": 0x97}
    broker.connect()
    broker.publish(reading("t"))
    broker.run()
    pauses = []
    for _ in range(7):
        before = broker.now
        broker.wake(broker.session.publisher.paused_until)
        pauses.append(broker.now - before)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, PAUSE_S_MAX, PAUSE_S_MAX]


def test_nothing_overtakes_a_qos_2_reading_that_was_over_the_quota() -> None:
    broker = EndingBroker()
    broker.codes = {"t": 0x97}
    broker.connect()
    broker.publish(reading("t", 2, payload=b"1"), reading("t", 1, payload=b"2"))
    broker.run()
    broker.codes = {}
    broker.wake(PAUSE_S)
    assert broker.delivered == [b"online", b"1", b"2"]


def test_what_goes_alone_and_is_over_the_quota_is_sent_again_with_those_behind_it() -> None:
    broker = probing()
    broker.codes = {"new": 0x97}
    broker.publish(reading("new", payload=b"1"), reading("new", payload=b"2"))
    broker.connect(session_present=True)
    broker.run()
    assert broker.session.caution.alone is None
    assert broker.session.publisher.is_paused
    broker.codes = {}
    broker.end(by_broker=False)
    broker.connect(session_present=True)
    broker.run()
    assert broker.published() == [b"1", b"2"]


def test_a_broker_whose_receive_maximum_was_exceeded_gets_half_from_then_on() -> None:
    broker = EndingBroker(receive_max=10)
    windows = []
    for _ in range(5):
        broker.connect(session_present=True)
        windows.append(broker.session.publisher.in_flight.window)
        broker.publish(reading("t", client=f"s{len(windows)}"))
        broker.receive(disconnect(0x93))
        assert broker.session.phase is Phase.CLOSED
    assert windows == [10, 5, 2, 1, 1]
    assert broker.session.caution.suspects == {}


@pytest.mark.parametrize("code", [0x96, 0x97])
def test_a_broker_that_got_too_much_is_begun_with_slowly(code: int) -> None:
    broker = EndingBroker()
    broker.connect()
    broker.publish(reading("t"), reading("t"))
    broker.receive(disconnect(code))
    broker.connect(session_present=False)
    broker.run()
    assert broker.published() == []
    broker.holds = True
    broker.wake(broker.now + PAUSE_S)
    assert len(broker.published()) == 1
    assert broker.session.caution.suspects == {}


# What the broker takes in a packet


def sizes(broker: EndingBroker) -> list[int]:
    kinds = (mqtt5.SubscribePacket, mqtt5.UnsubscribePacket)
    return [len(each.write()) for each in broker.read if isinstance(each, kinds)]


@pytest.mark.parametrize("is_careful", [False, True])
@pytest.mark.parametrize("limit", [40, 64, 100])
def test_no_packet_for_filters_is_larger_than_the_broker_takes(
    limit: int, is_careful: bool
) -> None:
    broker = EndingBroker(changed={"topic_prefix": "p/"}, max_packet_size=limit)
    if is_careful:
        everything_alone(broker)
    wanted = [f"f/{'x' * number}" for number in range(60)]
    fitting = {each for each in wanted if 3 + len("p/" + each) <= limit - 13}
    broker.want("first", *wanted, "w/#", "x" * 200 + "/#")
    broker.connect(session_present=True)
    broker.run()
    assert broker.granted == {"first", "w/#", *fitting}
    assert set(broker.filters_refused) == {"x" * 200 + "/#", *wanted} - fitting
    broker.unwant("first", *wanted)
    if is_careful:
        broker.take(broker.session.go_on(broker.now))
    broker.run()
    assert broker.at_broker == {"p/w/#"}
    assert max(sizes(broker)) <= limit
    assert broker.session.caution.alone is None


@pytest.mark.parametrize("is_careful", [False, True])
def test_a_filter_too_long_to_be_given_up_is_forgotten_and_the_others_are_given_up(
    is_careful: bool,
) -> None:
    broker = EndingBroker()
    broker.connect()
    broker.want(*("x" * number for number in (50, 5, 6)), "y", qos=0)
    broker.run()
    if is_careful:
        everything_alone(broker)
    else:
        broker.end(by_broker=False)
    broker.unwant(*("x" * number for number in (50, 5, 6)))
    broker.want("+/z")
    broker.connect(session_present=True, max_packet_size=40)
    broker.run()
    assert broker.at_broker == {"x" * 50, "y", "+/z"}
    assert max(sizes(broker)) <= 40
    assert [each.change for each in broker.reported(Save)].count(FilterDeleted("x" * 50)) == 1
    assert broker.session.caution.alone is None


# A packet from the broker larger than it may send


def oversized(qos: int, packet_id: int = 9, *, topic: str = "big") -> bytes:
    return mqtt5.PublishPacket(
        topic, b"x" * 3000, qos=mqtt5.QoS(qos), packet_id=packet_id if qos else None
    ).write()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("piece", [1, 2, 7, 1000, 100_000])
def test_an_oversized_publish_is_read_over_and_acknowledged_in_whatever_pieces_it_comes(
    qos: int, piece: int
) -> None:
    broker = EndingBroker(changed={"packet_bytes_max": 1000})
    broker.connect()
    broker.publish(reading("t"))
    data = puback(77) + oversized(qos) + puback(1) + oversized(qos, 10)
    answers = []
    for start in range(0, len(data), piece):
        answers += broker.session.receive(data[start : start + piece], 1.0)
    acknowledged = [each.packet_id for each in only(mqtt5.PubAckPacket, answers)]
    received = [each.packet_id for each in only(mqtt5.PubRecPacket, answers)]
    assert acknowledged == ([9, 10] if qos == 1 else [])
    assert received == ([9, 10] if qos == 2 else [])
    dropped = [each for each in answers if isinstance(each, Dropped)]
    assert [each.reason for each in dropped] == [Reason.PAYLOAD_TOO_LARGE] * 2
    assert "'big' from the broker" in dropped[0].detail
    broker.take(answers)
    assert len(broker.acknowledged) == 1, "what comes between is read"
    assert broker.session.phase is Phase.UP


def test_the_rest_of_an_oversized_publish_is_forgotten_with_its_connection() -> None:
    broker = EndingBroker(changed={"packet_bytes_max": 1000})
    broker.connect()
    broker.receive(oversized(1)[:1500])
    broker.end(by_broker=False)
    connected(broker.session, 2.0)
    broker.take(broker.session.receive(suback(65001, 0), 2.0))
    assert broker.session.phase is Phase.UP


@pytest.mark.parametrize(
    "data",
    [
        b"\x90" + oversized(0)[1:],  # SUBACK
        b"\x36" + oversized(0)[1:],  # QoS 3
        oversized(1)[:3] + b"\xff\xff" + oversized(1)[5:],  # a topic beyond its end
    ],
)
def test_what_is_too_large_and_no_publish_ends_the_connection(data: bytes) -> None:
    broker = EndingBroker(changed={"packet_bytes_max": 1000})
    broker.connect()
    broker.receive(data)
    assert broker.session.phase is Phase.CLOSED


def test_a_packet_too_large_in_place_of_connack_ends_the_connection() -> None:
    broker = EndingBroker(changed={"packet_bytes_max": 1000})
    broker.take(broker.session.opened(0.0))
    broker.receive(oversized(0))
    assert broker.session.phase is Phase.CLOSED


# A broker that does not answer


def test_a_broker_that_does_not_answer_what_all_waits_for_is_waited_for_no_longer() -> None:
    broker = probing()
    broker.holds = True
    broker.connect(session_present=True)
    broker.publish(reading("new", payload=b"1"), reading("t", payload=b"2"))
    broker.run()
    assert broker.published() == [b"1"]
    broker.wake(broker.now + PATIENCE_S)
    assert broker.published() == [b"1", b"2"]
    assert not broker.session.caution.is_on
    broker.publish(reading("newer", payload=b"3"))
    broker.run()
    assert broker.published() == [b"1", b"2", b"3"]
    broker.connect(session_present=True)
    assert broker.session.caution.is_on, "the next connection is another"


def test_nothing_is_given_up_at_a_broker_that_knows_no_session() -> None:
    broker = EndingBroker()
    broker.connect()
    broker.want("a", "b")
    broker.run()
    broker.end(by_broker=False)
    broker.unwant("b")
    broker.connect()
    broker.run()
    assert broker.subscribed() == [["a"], ["a"]]
    assert not any(isinstance(each, mqtt5.UnsubscribePacket) for each in broker.read)
    assert Save(FilterDeleted("b")) in broker.news


def test_a_refusal_of_mqtt_3_in_the_form_of_mqtt_5_is_one() -> None:
    broker = EndingBroker()
    broker.take(broker.session.opened(0.0))
    broker.receive(bytes.fromhex("20 03 00 01 00"))
    (drop,) = [each for each in broker.news if isinstance(each, DropUpstream)]
    assert "does not speak MQTT 5" in drop.reason
    assert broker.session.phase is Phase.CLOSED


def test_a_ping_before_what_goes_alone_is_owed_by_the_broker() -> None:
    bench = Bench(EngineOptions(MqttOptions("gh", 3, "gw")))
    bench.join(b"s1")
    bench.lose_broker()
    bench.holds = bench.holds_pings = True
    bench.connect_broker()
    bench.say(b"s1", short(b"hi", 1, 7))
    (answer,) = [one for one in owed(bench.engine, bench.at) if one.kind == "alone"]
    assert answer.waits_for is WaitsFor.BROKER
    assert "a ping" in answer.what
