"""Readings up, while the connection holds: windows, order, numbers, and what the broker answers."""

from __future__ import annotations

from typing import Any

import mqtt5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Transmit
from gateway.core.events import Output, ReadingRefused, ReadingsAcknowledged
from gateway.core.mqtt.inflight import OVERHEAD_BYTES, InFlight
from gateway.core.mqtt.options import QOS2_IN_FLIGHT_MAX
from gateway.core.mqtt.session import MqttSession
from gateway.core.state_records import PACKET_IDS, ClientId
from gateway.core.values import Reading
from gateway.frames import ReturnCode
from tests.core.mqtt.broker_side import (
    connected,
    new_reading,
    news,
    only,
    options,
    puback,
    pubcomp,
    pubrec,
    readings,
    tag,
)


def session_up(changed: dict[str, object] | None = None, **connack: Any) -> MqttSession:
    session = MqttSession(options(**(changed or {})))
    connected(session, **connack)
    return session


def publish(session: MqttSession, *readings: Reading) -> list[Output]:
    sent = [session.publisher.publish(reading) for reading in readings]
    return [effect for effect in sent if effect is not None]


# On the wire


@pytest.mark.parametrize("qos", [1, 2])
def test_a_reading_carries_its_delivery_tag(qos: int) -> None:
    session = session_up({"topic_prefix": "site/"})
    session.publisher.unix_ms_at_zero = 1_700_000_000_000.0
    reading = new_reading(b"21.5", qos, topic="bed/3", client="s7", retain=True, at=2.5)
    (packet,) = readings(publish(session, reading))
    assert (packet.topic, packet.payload, int(packet.qos)) == ("site/bed/3", b"21.5", qos)
    assert (packet.retain, packet.duplicate, packet.packet_id) == (True, False, 1)
    expected = {"gw": "gh", "client": "s7", "epoch": "3", "seq": "0", "ts": "1700000002500"}
    assert tag(packet) == expected


def test_a_qos_0_reading_has_no_number() -> None:
    (packet,) = readings(publish(session_up(), new_reading(qos=0, client="s7")))
    assert tag(packet) == {"gw": "gh", "client": "s7", "ts": "1000"}
    assert packet.packet_id is None


def test_a_qos_1_reading_is_settled_by_puback() -> None:
    session = session_up()
    reading = new_reading(qos=1)
    publish(session, reading)
    assert session.receive(pubrec(1), 1.0) != [], "answered, but it settles nothing"
    assert session.receive(pubcomp(1), 1.0) == []
    assert session.receive(puback(1), 1.0) == [ReadingsAcknowledged([reading])]
    assert session.receive(puback(1), 1.0) == [], "once"


def test_a_qos_2_reading_is_settled_by_pubcomp() -> None:
    session = session_up()
    reading = new_reading(qos=2)
    publish(session, reading)
    assert session.receive(puback(1), 1.0) == [], "not the answer to QoS 2"
    assert session.receive(pubcomp(1), 1.0) == [], "not before PUBREC"
    (release,) = only(mqtt5.PubRelPacket, session.receive(pubrec(1), 1.0))
    assert (release.packet_id, int(release.reason_code)) == (1, 0)
    (again,) = only(mqtt5.PubRelPacket, session.receive(pubrec(1), 1.0))
    assert int(again.reason_code) == 0, "PUBREC came twice"
    assert session.receive(pubcomp(1), 1.0) == [ReadingsAcknowledged([reading])]
    assert len(session.publisher.in_flight) == 0


def test_an_unknown_pubrec_is_told_so() -> None:
    (release,) = only(mqtt5.PubRelPacket, session_up().receive(pubrec(99), 1.0))
    assert int(release.reason_code) == 0x92


def test_unknown_acknowledgements_settle_nothing() -> None:
    session = session_up()
    assert session.receive(puback(9) + puback(9, 0x87) + pubrec(9, 0x87) + pubcomp(9), 1.0) == []


@pytest.mark.parametrize("answer", [puback(1, 0x10), b"\x40\x03\x00\x01\x00", b"\x40\x02\x00\x01"])
def test_puback_settles_in_each_of_its_forms(answer: bytes) -> None:
    session = session_up()
    publish(session, reading := new_reading())
    assert session.receive(answer, 1.0) == [ReadingsAcknowledged([reading])]


@pytest.mark.parametrize(
    ("code", "heard"),
    [
        (0x80, ReturnCode.CONGESTION), (0x83, ReturnCode.CONGESTION),
        (0x87, ReturnCode.NOT_SUPPORTED), (0x90, ReturnCode.NOT_SUPPORTED),
        (0x91, ReturnCode.CONGESTION), (0x99, ReturnCode.NOT_SUPPORTED),
    ],
)  # fmt: skip
@pytest.mark.parametrize("qos", [1, 2])
def test_a_sensor_hears_whether_to_try_again_what_the_broker_refused(
    qos: int, code: int, heard: ReturnCode
) -> None:
    session = session_up()
    publish(session, reading := new_reading(qos=qos, topic="bed"))
    answer = puback(1, code, "no") if qos == 1 else pubrec(1, code, "no")
    (refused,) = session.receive(answer, 1.0)
    assert isinstance(refused, ReadingRefused)
    assert (refused.reading, refused.return_code) == (reading, heard)
    assert refused.reason is Reason.BROKER_REFUSED
    assert f'{code:#04x} ("no")' in refused.detail
    assert "'bed'" in refused.detail
    assert len(session.publisher.in_flight) == 0


# Windows and order


def test_the_brokers_receive_maximum_is_obeyed() -> None:
    session = session_up(receive_max=2)
    sent = publish(session, *[new_reading(b"%d" % number) for number in range(4)])
    assert [packet.payload for packet in readings(sent)] == [b"0", b"1"]
    acknowledged, sent_now = session.receive(puback(2), 1.0)
    assert isinstance(acknowledged, ReadingsAcknowledged)
    assert [packet.payload for packet in readings([sent_now])] == [b"2"]


def test_readings_on_the_way_at_qos_2_have_a_window_of_their_own() -> None:
    session = session_up()
    publish(session, *[new_reading(qos=2) for _ in range(QOS2_IN_FLIGHT_MAX)])
    assert (
        publish(session, new_reading(b"waits", 2), new_reading(b"behind it", 1, client="s2")) == []
    )
    session.receive(pubrec(5), 1.0)
    assert len(session.publisher.in_flight) == QOS2_IN_FLIGHT_MAX, "released is not settled"
    sent = readings(session.receive(pubcomp(5), 1.0))
    assert [packet.payload for packet in sent] == [b"waits", b"behind it"]


def test_a_refused_qos_2_reading_makes_room_in_its_window() -> None:
    session = session_up()
    publish(session, *[new_reading(qos=2) for _ in range(QOS2_IN_FLIGHT_MAX + 1)])
    assert len(readings(session.receive(pubrec(5, 0x83), 1.0))) == 1


def test_a_qos_0_reading_keeps_its_place_behind_those_that_wait() -> None:
    session = session_up(receive_max=1)
    publish(
        session,
        new_reading(b"0"),
        new_reading(b"1"),
        new_reading(b"2", 0),
        new_reading(b"3", 0),
        new_reading(b"4"),
    )
    sent = readings(session.receive(puback(1), 1.0))
    assert [packet.payload for packet in sent] == [b"1", b"2", b"3"], "QoS 0 needs no window"
    assert [packet.payload for packet in readings(session.receive(puback(2), 1.0))] == [b"4"]


def test_what_waits_goes_out_together_as_far_as_the_window_allows() -> None:
    session = session_up(receive_max=3)
    publish(session, *(new_reading(b"%d" % number) for number in range(8)))
    effects = session.receive(puback(1) + puback(2) + puback(3), 1.0)
    assert len(news(Transmit, effects)) == 1
    assert [packet.payload for packet in readings(effects)] == [b"3", b"4", b"5"]
    assert session.publisher.in_flight.waiting_bytes == 2 * (OVERHEAD_BYTES + len("t") + 1)
    assert readings(session.receive(b"", 1.0)) == []


def test_so_it_does_at_qos_2_as_far_as_its_window_allows() -> None:
    session = session_up()
    publish(session, *(new_reading(qos=2) for _ in range(QOS2_IN_FLIGHT_MAX + 5)))
    session.receive(b"".join(map(pubrec, (1, 2, 3))), 1.0)
    effects = session.receive(b"".join(map(pubcomp, (1, 2, 3))), 1.0)
    assert [packet.packet_id for packet in readings(effects)] == [
        QOS2_IN_FLIGHT_MAX + number for number in (1, 2, 3)
    ]
    assert len(news(Transmit, effects)) == 1
    assert len(session.publisher.in_flight) == QOS2_IN_FLIGHT_MAX


def test_what_was_read_back_takes_turns_with_it_though_the_window_frees_one_at_a_time() -> None:
    session = session_up(receive_max=1)
    in_flight = session.publisher.in_flight
    publish(session, *(new_reading(b"%d" % number) for number in range(4)))
    for payload in (b"a", b"b"):
        in_flight.backlog.enqueue(ClientId("s2"))
        queued = new_reading(payload, client="s2")
        session.publisher.tag(queued)
        in_flight.backlog.queued(queued, coalesce=False)
        in_flight.backlog.read_back([queued])
    gone = []
    for _ in range(5):
        (packet_id,) = in_flight.published
        gone += readings(session.receive(puback(packet_id), 1.0))
    assert [packet.payload for packet in gone] == [b"1", b"a", b"2", b"b", b"3"]


def test_they_are_stamped_by_the_clock_as_it_is_set_by_then() -> None:
    session = session_up(receive_max=1)
    publish(session, new_reading(at=1.0), new_reading(at=2.0))
    session.publisher.unix_ms_at_zero = 50_000.0
    (packet,) = readings(session.receive(puback(1), 3.0))
    assert tag(packet)["ts"] == "52000"


def test_one_that_waits_passes_over_a_packet_id_in_use_and_those_behind_it_follow() -> None:
    session = session_up(receive_max=3)
    in_flight = session.publisher.in_flight
    publish(session, *(new_reading(b"%d" % number) for number in range(6)))
    in_flight.waiting[0].packet_id = 3
    sent = readings(session.receive(puback(1) + puback(2), 1.0))
    assert [(packet.payload, packet.packet_id) for packet in sent] == [(b"3", 4), (b"4", 5)]


def test_of_those_that_wait_one_that_is_too_large_is_refused_and_the_others_go() -> None:
    session = session_up(receive_max=1)
    publish(session, new_reading())
    session.publisher.packet_bytes_max = 150
    publish(session, new_reading(b"1"), large := new_reading(b"2" * 100), new_reading(b"3"))
    session.publisher.in_flight.window = 4
    effects = session.receive(puback(1), 1.0)
    assert [packet.payload for packet in readings(effects)] == [b"1", b"3"]
    assert [each.reading for each in news(ReadingRefused, effects)] == [large]
    assert list(session.publisher.in_flight.published.values())[-1].payload == b"3"


@given(st.lists(st.one_of(st.integers(0, 2), st.just("answer")), max_size=60), st.integers(1, 5))
def test_readings_leave_in_the_order_in_which_they_came(
    steps: list[int | str], receive_max: int
) -> None:
    session = session_up(receive_max=receive_max)
    came: list[bytes] = []
    effects: list[Output] = []
    for number, step in enumerate(steps):
        if isinstance(step, int):
            came.append(b"%d" % number)
            effects += publish(session, new_reading(came[-1], step))
        else:
            effects += answer_all(session)
        assert len(session.publisher.in_flight) <= receive_max
    while session.publisher.in_flight.waiting or len(session.publisher.in_flight):
        effects += answer_all(session)
    sent = readings(effects)
    assert [packet.payload for packet in sent] == came
    numbers = [int(tag(packet)["seq"]) for packet in sent if int(packet.qos)]
    assert numbers == list(range(len(numbers))), "contiguous from 0"
    acknowledged = [
        reading.payload for each in news(ReadingsAcknowledged, effects) for reading in each.readings
    ]
    assert sorted(acknowledged) == sorted(packet.payload for packet in sent if int(packet.qos))


def answer_all(session: MqttSession) -> list[Output]:
    effects: list[Output] = []
    in_flight = session.publisher.in_flight
    for packet_id, reading in list(in_flight.published.items()):
        answer = puback if reading.upstream_qos == 1 else pubrec
        effects += session.receive(answer(packet_id), 1.0)
    for packet_id in list(in_flight.released):
        effects += session.receive(pubcomp(packet_id), 1.0)
    return effects


@pytest.mark.parametrize(
    "limits",
    [
        {"waiting_messages_max": 2},
        {"waiting_bytes_max": 2 * (OVERHEAD_BYTES + len("t" + "21.5"))},
    ],
)
def test_beyond_the_room_for_waiting_a_sensor_hears_congestion_and_keeps_its_reading(
    limits: dict[str, object],
) -> None:
    session = session_up(limits, receive_max=1)
    last = new_reading()
    (_, refused) = publish(session, new_reading(), new_reading(), new_reading(), last)
    assert isinstance(refused, ReadingRefused)
    assert (refused.reading, refused.return_code) == (last, ReturnCode.CONGESTION)
    assert refused.reason is Reason.WAITING_FULL
    assert "2 readings wait for the broker" in refused.detail
    (dropped,) = publish(session, new_reading(qos=0))
    assert isinstance(dropped, Dropped)
    assert dropped.reason is Reason.WAITING_FULL
    session.receive(puback(1), 1.0)
    session.receive(puback(2), 1.0)
    assert publish(session, new_reading()) == [], "there is room again"
    assert session.publisher.in_flight.waiting_bytes == OVERHEAD_BYTES + len("t" + "21.5")


def test_a_qos_0_reading_is_dropped_while_the_broker_is_away_or_slow() -> None:
    session = MqttSession(options())
    (away,) = publish(session, new_reading(qos=0, client="s7"))
    assert away == Dropped(Reason.BROKER_AWAY, new_reading(client="s7").client_id)
    connected(session)
    session.publisher.is_congested = True
    (slow,) = publish(session, new_reading(qos=0, client="s7"))
    assert slow == Dropped(Reason.BROKER_SLOW, new_reading(client="s7").client_id)
    assert publish(session, new_reading(qos=1)) == [], "QoS 1 waits: a window may be very large"
    session.closed(0.0, by_broker=False)
    connected(session)
    assert not session.publisher.in_flight.has_waiting
    assert len(publish(session, new_reading(qos=0))) == 1, "a new connection is not clogged"


# Packet ids


def test_a_packet_id_follows_from_the_sequence_and_passes_over_those_in_use() -> None:
    in_flight = InFlight(1, 1)
    readings = [new_reading() for _ in range(4)]
    for reading, sequence in zip(readings, (0, PACKET_IDS - 1, PACKET_IDS, 1), strict=True):
        reading.sequence, reading.upstream_qos = sequence, 1
        reading.packet_id = sequence % PACKET_IDS + 1
    assert [in_flight.publish(reading) for reading in readings] == [1, 65_000, 2, 3]


# What the broker does not take


@pytest.mark.parametrize(("qos_max", "qos", "sent_at"), [(1, 2, 1), (1, 1, 1), (0, 0, 0)])
def test_a_reading_goes_out_at_the_highest_quality_that_the_broker_takes(
    qos_max: int, qos: int, sent_at: int
) -> None:
    session = session_up(max_qos=mqtt5.QoS(qos_max))
    (packet,) = readings(publish(session, reading := new_reading(qos=qos)))
    assert int(packet.qos) == sent_at
    if sent_at:
        assert session.receive(puback(1), 1.0) == [ReadingsAcknowledged([reading])]


def test_a_broker_that_confirms_nothing_gets_nothing_that_must_be_confirmed() -> None:
    session = MqttSession(options())
    assert publish(session, waited := new_reading()) == []
    effects = connected(session, max_qos=mqtt5.QoS(0))
    effects += publish(session, came := new_reading(qos=2))
    refused = news(ReadingRefused, effects)
    assert [each.reading for each in refused] == [waited, came]
    assert {each.return_code for each in refused} == {ReturnCode.NOT_SUPPORTED}
    assert "takes QoS 0 only" in refused[0].detail
    assert readings(effects) == []


def test_what_is_larger_than_the_broker_takes_is_refused_and_leaves_no_hole() -> None:
    reading = new_reading(b"x" * 200, topic="ö" * 20)
    (whole,) = publish(session_up(), new_reading(b"x" * 200, topic="ö" * 20))
    assert isinstance(whole, Transmit)
    session = session_up(max_packet_size=len(whole.packet) - 1)
    (refused,) = publish(session, reading)
    assert isinstance(refused, ReadingRefused)
    assert (refused.return_code, refused.reason) == (
        ReturnCode.NOT_SUPPORTED,
        Reason.PAYLOAD_TOO_LARGE,
    )
    assert f"larger than the {len(whole.packet) - 1} bytes" in refused.detail
    (packet,) = readings(publish(session, new_reading(b"small")))
    assert (tag(packet)["seq"], packet.packet_id) == ("0", 1)
    fits = session_up(max_packet_size=len(whole.packet))
    assert publish(fits, new_reading(b"x" * 200, topic="ö" * 20)) == [whole]


def test_a_qos_0_reading_that_is_too_large_is_dropped() -> None:
    session = session_up(max_packet_size=60)
    (dropped,) = publish(session, new_reading(b"x" * 60, 0))
    assert isinstance(dropped, Dropped)
    assert dropped.reason is Reason.PAYLOAD_TOO_LARGE


def test_a_broker_without_a_limit_takes_any_size() -> None:
    assert len(readings(publish(session_up(), new_reading(b"x" * 100_000)))) == 1


def test_a_sequence_that_is_given_back_is_given_again_unless_a_later_one_was() -> None:
    session = session_up()
    first, second, third = new_reading(b"first"), new_reading(b"second"), new_reading(b"third")
    session.publisher.tag(first)
    session.publisher.tag(second)
    session.publisher.give_back(first)
    session.publisher.tag(third)
    assert third.sequence == 2
    session.publisher.give_back(third)
    session.publisher.tag(again := new_reading(b"again"))
    assert again.sequence == 2


def test_pubcomp_with_a_reason_settles_as_one_without() -> None:
    """That the broker does not know the id any more says that it has finished with it."""
    session = session_up()
    reading = new_reading(qos=2)
    publish(session, reading)
    session.receive(pubrec(1), 0.0)
    told = mqtt5.PubCompReasonCode.PACKET_ID_NOT_FOUND
    packet = mqtt5.PubCompPacket(1, reason_code=told).write()
    assert session.receive(packet, 0.0) == [ReadingsAcknowledged([reading])]


def test_a_run_of_pubrecs_is_answered_one_by_one_where_one_is_unknown() -> None:
    session = session_up()
    publish(session, new_reading(qos=2), new_reading(qos=2, client="s8"))
    octets = b"".join(
        effect.packet
        for effect in session.receive(pubrec(1) + pubrec(9) + pubrec(2), 0.0)
        if isinstance(effect, Transmit)
    )
    unknown = mqtt5.PubRelReasonCode.PACKET_ID_NOT_FOUND
    assert octets == b"".join(
        (
            mqtt5.PubRelPacket(1).write(),
            mqtt5.PubRelPacket(9, reason_code=unknown).write(),
            mqtt5.PubRelPacket(2).write(),
        )
    )


def test_qos_2_readings_that_wait_go_out_in_order_as_others_complete() -> None:
    session = session_up(receive_max=1)
    waiting = [new_reading(b"%d" % number, 2, client=f"s{number}") for number in range(3)]
    assert len(publish(session, *waiting)) == 1
    for number in (1, 2, 3):
        session.receive(pubrec(number), 0.0)
        acknowledged, *sent = session.receive(pubcomp(number), 0.0)
        assert acknowledged == ReadingsAcknowledged([waiting[number - 1]])
        assert [packet.payload for packet in readings(sent)] == [b"%d" % number] * (number < 3)


def test_what_is_aside_when_the_connection_ends_goes_before_what_comes_later() -> None:
    session = session_up()
    behind, other = new_reading(b"behind", 1), new_reading(b"other", 1, client="s9")
    publish(session, new_reading(qos=2), behind, other)
    session.receive(puback(99), 0.0)  # whatever the broker says, who may go is looked at again
    in_flight = session.publisher.in_flight
    assert in_flight.qos_order.all() == [behind]
    session.closed(0.0, by_broker=False)
    assert (in_flight.qos_order.count, list(in_flight.waiting)) == (0, [behind])


@pytest.mark.parametrize(("step_ms", "moves_ms"), [(0, 0), (-3_600_000, -3_600_000)])
@pytest.mark.parametrize("waiting", [1, 2])
def test_what_waits_over_a_suspended_machine_keeps_its_time_unless_the_clock_was_set(
    waiting: int, step_ms: int, moves_ms: int
) -> None:
    """The monotonic clock stands still meanwhile: its zero is a minute later by the wall clock."""
    session = session_up(receive_max=1)
    publisher = session.publisher
    publisher.unix_ms_at_zero = 1_800_000_000_000.0
    publisher._pauses.suspended(100.0)
    publish(session, *(new_reading(at=float(at)) for at in range(waiting + 1)))
    publisher._pauses.suspended(160.0)
    publisher.unix_ms_at_zero += 60_000 + step_ms
    (packet,) = readings(session.receive(puback(1), 3.0))
    suspended_ms = 60_000 if step_ms else 0
    assert tag(packet)["ts"] == str(1_800_000_001_000 + moves_ms + suspended_ms)


@pytest.mark.parametrize(("machine_at", "ts"), [(-1.0, "5"), (4.0, "1004000")])
def test_what_a_former_run_took_on_is_stamped_by_what_its_file_says(
    machine_at: float, ts: str
) -> None:
    session = MqttSession(options())
    session.publisher.unix_ms_at_zero = 1_000_000.0
    reading = new_reading(at=7.0)
    session.publisher.tag(reading)
    reading.epoch, reading.unix_ms, reading.machine_at = 99, 5, machine_at
    session.publisher.publish(reading)
    (packet,) = readings(connected(session))
    assert tag(packet)["ts"] == ts
