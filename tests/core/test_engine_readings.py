"""Readings through the engine: forwarded, settled, acknowledged to the right one, or refused."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.clients.qos_minus_one import QosMinusOneOptions
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.engine import EngineOptions
from gateway.core.mqtt.options import MqttOptions
from gateway.core.session.options import PredefinedTopics
from gateway.core.topic_options import Acknowledge, ReadingOptions, UplinkOptions
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Pubrec,
    TopicIdType,
    WillMsg,
    WillTopic,
)
from tests.support.engine_bench import UPSTREAM, Bench, granted_id, published, short


def bench_with(**changed: object) -> Bench:
    return Bench(EngineOptions(UPSTREAM, **changed))  # type: ignore[arg-type]


def reasons(bench: Bench) -> list[Reason]:
    return [dropped.reason for dropped in bench.told(Dropped)]


@pytest.mark.parametrize(("qos", "answer"), [(1, Puback), (2, Pubrec)])
def test_a_reading_is_acknowledged_when_the_broker_has_settled_it(
    qos: int, answer: type[Frame]
) -> None:
    bench = Bench()
    bench.join(b"s1")
    bench.holds = True
    assert bench.say(b"s1", short(b"hi", qos, 7)) == []
    bench.holds = False
    for _ in range(2):
        for packet in bench.seen():
            bench.answer(packet)
    (heard,) = bench.hear(b"s1")
    assert isinstance(heard, answer)
    assert bench.engine.uplink.taken == [0, int(qos == 1), int(qos == 2)]


def test_a_reading_at_qos_0_is_forwarded_and_not_answered() -> None:
    bench = Bench()
    bench.join(b"s1")
    bench.seen()
    assert bench.say(b"s1", short(b"hi", 0, 0, retain=True)) == []
    (packet,) = bench.seen_of(mqtt5.PublishPacket)
    assert (packet.topic, packet.payload, packet.retain) == ("tp", b"hi", True)


def test_a_reading_that_the_broker_refused_is_answered_by_the_code() -> None:
    bench = Bench()
    bench.join(b"s1")
    bench.holds = True
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.from_broker(mqtt5.PubAckPacket(1, reason_code=mqtt5.PubAckReasonCode(0x87)).write())
    assert bench.hear(b"s1") == [Puback(int.from_bytes(b"tp", "big"), 7, 3)]
    (dropped,) = bench.told(Dropped)
    assert (dropped.reason, dropped.client_id) == (Reason.BROKER_REFUSED, "s1")


def test_a_reading_beyond_what_may_wait_is_answered_with_congestion() -> None:
    bench = Bench(
        EngineOptions(MqttOptions("gh", 3, "gw", waiting_messages_max=1)), connected=False
    )
    bench.join(b"s1")
    assert bench.say(b"s1", short(b"waits", 1, 7)) == []
    assert bench.say(b"s1", short(b"too many", 1, 8)) == [
        Puback(int.from_bytes(b"tp", "big"), 8, 1)
    ]
    assert reasons(bench) == [Reason.WAITING_FULL]
    bench.connect_broker()
    assert bench.hear(b"s1") == [Puback(int.from_bytes(b"tp", "big"), 7, 0)]


@pytest.mark.parametrize("clean", [True, False])
def test_a_settlement_for_a_session_that_was_replaced_acknowledges_nothing(clean: bool) -> None:
    bench = Bench()
    bench.join(b"s1", clean=clean)
    bench.holds = True
    bench.say(b"s1", short(b"old", 1, 7))
    bench.say(b"s1", Disconnect())
    bench.join(b"s1", clean=True)
    bench.say(b"s1", short(b"new", 1, 7))
    first, second = [each for each in bench.seen_of(mqtt5.PublishPacket) if int(each.qos) == 1]
    bench.answer(first)
    assert bench.hear(b"s1") == [], "the broker has the old one only"
    bench.answer(second)
    assert bench.hear(b"s1") == [Puback(int.from_bytes(b"tp", "big"), 7, 0)]


@pytest.mark.parametrize("code", [0, 0x87])
@pytest.mark.parametrize("clean", [True, False])
def test_no_answer_meant_for_one_client_reaches_another_at_its_address(
    clean: bool, code: int
) -> None:
    bench = Bench()
    bench.join(b"addr", clean=clean)
    bench.holds = True
    bench.say(b"addr", short(b"of the first", 1, 7))
    bench.say(b"addr", Connect(b"second", 60, clean_session=True))
    bench.say(b"addr", short(b"of the second", 1, 7))
    bench.from_broker(mqtt5.PubAckPacket(1, reason_code=mqtt5.PubAckReasonCode(code)).write())
    assert bench.hear(b"addr") == []


@pytest.mark.guarantee("3")
def test_readings_wait_for_the_broker_and_keep_their_order() -> None:
    bench = Bench(connected=False)
    bench.join(b"s1")
    for number in range(5):
        bench.say(b"s1", short(b"%d" % number, 1, 7 + number))
    assert bench.seen() == []
    bench.connect_broker()
    readings = [each.payload for each in bench.seen_of(mqtt5.PublishPacket) if int(each.qos)]
    assert readings == [b"0", b"1", b"2", b"3", b"4"]
    assert len(bench.hear(b"s1")) == 5


def test_qos_0_readings_are_dropped_while_the_broker_is_away_or_clogged() -> None:
    bench = Bench(connected=False)
    bench.join(b"s1")
    bench.say(b"s1", short(b"hi", 0, 0))
    assert reasons(bench) == [Reason.BROKER_AWAY]
    bench.connect_broker()
    bench.engine.congested()
    bench.say(b"s1", short(b"hi", 0, 0))
    assert reasons(bench) == [Reason.BROKER_SLOW]
    bench.take(bench.engine.uncongested(bench.at))
    bench.say(b"s1", short(b"hi", 0, 0))
    assert reasons(bench) == []


def test_the_time_of_a_reading_is_the_wall_clock_at_its_receipt() -> None:
    bench = Bench()
    bench.engine.set_wall_clock(1_700_000_000_000)
    bench.join(b"s1")
    bench.at = 2.5
    bench.say(b"s1", short(b"hi", 0, 0))
    packet = bench.seen_of(mqtt5.PublishPacket)[-1]
    assert dict(packet.user_properties)["ts"] == "1700000002500"


# QoS -1


def qos_minus_one(payload: bytes = b"hi") -> Publish:
    return Publish(1, 0, payload, -1, topic_id_type=TopicIdType.PREDEFINED)


def test_a_connectionless_reading_is_forwarded_from_anyone_and_never_answered() -> None:
    bench = bench_with(
        qos_minus_one=QosMinusOneOptions(allow=True),
        predefined=PredefinedTopics.of({"sensors/boot": 1}),
    )
    assert bench.say(b"x", qos_minus_one(b"of nobody")) == []
    bench.join(b"s1")
    assert bench.say(b"s1", qos_minus_one(b"of s1")) == []
    readings = bench.seen_of(mqtt5.PublishPacket)[-2:]
    assert [(each.topic, each.payload) for each in readings] == [
        ("sensors/boot", b"of nobody"),
        ("sensors/boot", b"of s1"),
    ]
    assert [dict(each.user_properties)["client"] for each in readings] == ["", "s1"]


def test_a_connectionless_reading_counts_as_hearing_its_client() -> None:
    bench = bench_with(qos_minus_one=QosMinusOneOptions(allow=True))
    bench.join(b"s1", keep_alive_s=10)
    bench.wake(14.0)
    bench.say(b"s1", qos_minus_one())
    bench.wake(28.0)
    assert bench.say(b"s1", Pingreq()) == [Pingresp()]


def test_connectionless_readings_are_dropped_unless_allowed() -> None:
    bench = Bench()
    assert bench.say(b"x", qos_minus_one()) == []
    assert reasons(bench) == [Reason.QOS_MINUS_ONE_OFF]


def test_one_client_may_have_predefined_topics_of_its_own() -> None:
    common = PredefinedTopics.of({"common": 1})
    own = {"s2": common.overlaid_with({"own": 1})}
    bench = bench_with(predefined=common, clients_predefined=own)
    for name in (b"s1", b"s2"):
        bench.join(name)
        bench.say(name, Publish(1, 0, name, 0, topic_id_type=TopicIdType.PREDEFINED))
    readings = bench.seen_of(mqtt5.PublishPacket)[-2:]
    assert [(each.topic, each.payload) for each in readings] == [("common", b"s1"), ("own", b"s2")]


# Topics that are the gateway's own

OWN = "tidegate/gh/clients/s1"
CONFIGURATION = "homeassistant/device/tidegate_gh_2fs1/config"
OWNS = pytest.mark.parametrize("own", [OWN, CONFIGURATION])
DISCOVERY = "homeassistant"


def assert_refused(bench: Bench, own: str) -> None:
    (dropped,) = bench.told(Dropped)
    assert (dropped.reason, dropped.detail) == (Reason.RESERVED_TOPIC, own)
    assert bench.seen_of(mqtt5.PublishPacket) == []


@OWNS
@pytest.mark.parametrize("payload", [b"{}", b""])
@pytest.mark.parametrize("filters", [(), (("#", ReadingOptions(Acknowledge.JOURNAL)),)])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_no_sensor_publishes_in_the_gateways_name(
    qos: int, filters: tuple[tuple[str, ReadingOptions], ...], payload: bytes, own: str
) -> None:
    bench = bench_with(uplink=UplinkOptions(overrides=filters, discovery_prefix=DISCOVERY))
    bench.join(b"s1")
    topic_id = bench.register(b"s1", own.encode())
    bench.seen()
    answer = bench.say(b"s1", Publish(topic_id, 7 if qos else 0, payload, qos, retain=True))
    assert answer == ([Puback(topic_id, 7, 3)] if qos else [])
    assert_refused(bench, own)


@OWNS
def test_nor_does_a_stranger_at_qos_minus_one(own: str) -> None:
    bench = bench_with(
        qos_minus_one=QosMinusOneOptions(allow=True),
        predefined=PredefinedTopics.of({own: 1}),
        uplink=UplinkOptions(discovery_prefix=DISCOVERY),
    )
    bench.seen()
    bench.say(b"x", Publish(1, 0, b"{}", -1, topic_id_type=TopicIdType.PREDEFINED))
    assert_refused(bench, own)


@OWNS
def test_nor_does_a_will(own: str) -> None:
    bench = bench_with(uplink=UplinkOptions(discovery_prefix=DISCOVERY))
    bench.say(b"s1", Connect(b"s1", 10, will=True))
    bench.say(b"s1", WillTopic(own.encode(), 1, retain=True))
    assert bench.say(b"s1", WillMsg(b"{}"), Pingreq()) == [Connack(0), Pingresp()]
    bench.seen()
    bench.wake(100.0)
    assert_refused(bench, own)
    assert bench.engine.wake_at() > 100.0, "nor is it tried again"


def test_a_sensor_may_configure_where_the_operator_lets_it() -> None:
    bench = bench_with(uplink=UplinkOptions(discovery_prefix=None))
    bench.join(b"s1")
    topic_id = bench.register(b"s1", CONFIGURATION.encode())
    bench.say(b"s1", Publish(topic_id, 0, b"", 0, retain=True))
    (reading,) = bench.seen_of(mqtt5.PublishPacket)[-1:]
    assert (reading.topic, reading.payload) == (CONFIGURATION, b"")


def test_but_sensors_may_hear_what_the_gateway_says_there() -> None:
    bench = Bench()
    bench.join(b"s1")
    granted_id(bench.subscribe(b"s1", OWN.encode()))
    bench.publishes(OWN, b"{}", by=OWN)
    assert published(bench.hear(b"s1")) == [(b"{}", 0, False)]
