"""Readings that the broker does not take are set aside: durable, for an operator, never lost."""

from __future__ import annotations

from typing import Any

import mqtt5
import pytest

from gateway.core import liveness
from gateway.core.alarm_names import AlarmName
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, SetAside
from gateway.core.mqtt.caution import BLOCK_S, EVERYTHING, STRIKES_MAX, Alone, reading_key
from gateway.core.state_records import AsideRecord, ClientId, DueWillRecord
from gateway.core.topic_options import Acknowledge, ReadingOptions
from gateway.core.uplink.aside import ASIDE_BYTES_MAX, ASIDE_MAX, REASON_LENGTH_MAX, Aside
from gateway.core.uplink.uplink import OVERFLOW
from gateway.core.values import Reading
from gateway.frames import Connect, Disconnect, Puback, ReturnCode, WillMsg, WillTopic
from tests.core.mqtt.broker_side import new_reading, puback, pubrec
from tests.support.crash_bench import CrashBench
from tests.support.engine_bench import short
from tests.support.journal_bench import options_of
from tests.support.uplink_stories import AUTO, JOURNAL, heal_disk, silence_disk
from tests.support.uplink_stories import puback as sensor_puback

CLOCK_MS = 1_700_000_000_000.0
NOT_AUTHORISED = 0x87
QUOTA = 0x97
CONGESTED = 0x83  # of those that may pass


def life(options: ReadingOptions = JOURNAL, **connack: Any) -> CrashBench:
    """One sensor, a broker that keeps its answers, and a clock that is set."""
    bench = CrashBench(options_of(options))
    bench.engine.set_wall_clock(CLOCK_MS)
    bench.connect_broker(**connack)
    bench.join(b"s1", clean=False)
    bench.join(b"s2", clean=False)
    bench.commit()
    bench.holds = True
    bench.seen()
    return bench


def next_life(bench: CrashBench) -> CrashBench:
    following = bench.crash()
    following.engine.set_wall_clock(CLOCK_MS)
    following.holds = True
    following.connect_broker(session_present=True)
    following.flush()
    return following


def take(bench: CrashBench, payload: bytes = b"hi", qos: int = 1, message_id: int = 7) -> None:
    """A reading that the journal has and the sensor need not keep."""
    bench.say(b"s1", short(payload, qos, message_id))
    bench.flush()
    bench.commit()


def sent(bench: CrashBench) -> list[mqtt5.PublishPacket]:
    return [each for each in bench.seen_of(mqtt5.PublishPacket) if is_reading(each)]


def tags(packets: list[mqtt5.PublishPacket]) -> list[dict[str, str]]:
    return [dict(each.user_properties) for each in packets]


def refuse(bench: CrashBench, code: int = NOT_AUTHORISED) -> mqtt5.PublishPacket:
    """The broker refuses the one reading that came last."""
    (packet,) = sent(bench)
    answer = puback if int(packet.qos) == 1 else pubrec
    bench.from_broker(answer(packet.packet_id or 0, code))
    bench.flush()
    return packet


def is_reading(packet: object) -> bool:
    return isinstance(packet, mqtt5.PublishPacket) and "tidegate/" not in packet.topic


def answer_pings(bench: CrashBench) -> None:
    """Those that come before the next reading: what had no answer has been read."""
    bench.flush()
    while not any(map(is_reading, bench.packets)):
        pings = bench.seen_of(mqtt5.PingReqPacket)
        if not pings:
            return
        bench.from_broker(mqtt5.PingRespPacket().write() * len(pings))
        bench.flush()


def connect_again(bench: CrashBench) -> None:
    bench.seen()
    bench.connect_broker(session_present=True)
    answer_pings(bench)


def end_until_set_aside(bench: CrashBench) -> None:
    """The broker ends the connection each time for what it has got."""
    before = bench.engine.uplink.aside.set_aside
    for _ in range(STRIKES_MAX + 1):
        bench.broker_ends()
        bench.flush()
        if not bench.holds_state:
            bench.commit()
        if bench.engine.uplink.aside.set_aside > before:
            return
        connect_again(bench)
    raise AssertionError("not set aside")


def settle(bench: CrashBench, packet: mqtt5.PublishPacket) -> None:
    """The broker takes it, and all that follows."""
    bench.holds = False
    bench.answer(packet)
    bench.flush()


def numbers(bench: CrashBench) -> list[int]:
    return list(bench.engine.uplink.aside.records)


def send_again(bench: CrashBench, number: int) -> None:
    outputs = bench.engine.operator.send_aside(number, bench.at)
    assert outputs is not None
    bench.ask(outputs)
    bench.flush()
    if not bench.holds_state:
        bench.commit()


def drop_reasons(bench: CrashBench) -> list[Reason]:
    return [each.reason for each in bench.told(Dropped) if each.count]


# Into it


@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_acknowledged_and_is_refused_for_good_is_set_aside(qos: int) -> None:
    bench = life()
    take(bench, b"hi", qos)
    packet = refuse(bench)
    (record,) = bench.engine.uplink.aside.records.values()
    assert (record.client_id, record.topic, record.payload, record.qos) == ("s1", "tp", b"hi", qos)
    tag = {"gw": "gh", "client": "s1", "epoch": str(record.epoch), "seq": str(record.sequence)}
    assert tags([packet]) == [tag | {"ts": str(record.unix_ms)}]
    assert "0x87" in record.reason
    assert [each.record for each in bench.told(SetAside)] == [record]
    assert drop_reasons(bench) == [], "it is not lost"
    assert bench.finished == [0]
    assert bench._store.load().aside == [record]


def test_the_journal_forgets_it_only_when_it_is_durable_there() -> None:
    bench = life()
    take(bench)
    bench.holds_state = True
    refuse(bench)
    assert numbers(bench) == [1]
    assert bench.finished == []
    bench.commit()
    assert bench.finished == [0]


def test_a_power_cut_before_it_is_durable_there_and_it_comes_again() -> None:
    bench = life()
    take(bench)
    bench.holds_state = True
    before = refuse(bench)
    following = next_life(bench)
    assert numbers(following) == []
    assert tags([refuse(following)]) == tags([before])
    assert numbers(following) == [1]


def test_a_power_cut_before_the_journal_has_forgotten_and_it_is_in_both() -> None:
    bench = life()
    take(bench)
    bench.holds_state = True
    before = refuse(bench)
    bench.commit_only()
    following = next_life(bench)
    assert numbers(following) == [1]
    assert tags(sent(following)) in ([], tags([before])), "known by its tag, if it comes at all"


@pytest.mark.parametrize("qos", [1, 2])
def test_what_the_broker_ends_the_connection_for_is_set_aside(qos: int) -> None:
    bench = life()
    take(bench, b"hi", qos)
    end_until_set_aside(bench)
    (record,) = bench.engine.uplink.aside.records.values()
    assert record.payload == b"hi"
    assert bench.finished == [0]
    assert drop_reasons(bench) == []
    connect_again(bench)
    bench.seen()
    assert bench.say(b"s1", short(b"more", 1, 9)) == [sensor_puback(9, ReturnCode.NOT_SUPPORTED)]
    assert sent(bench) == []
    assert drop_reasons(bench) == [Reason.BROKER_REFUSED]


def test_a_sensor_that_waits_for_it_is_refused_and_it_is_set_aside_all_the_same() -> None:
    bench = life(ReadingOptions(Acknowledge.UPSTREAM))
    bench.say(b"s1", short(b"hi", 1, 7))
    end_until_set_aside(bench)
    assert bench.hear(b"s1") == [sensor_puback(7, ReturnCode.NOT_SUPPORTED)]
    assert drop_reasons(bench) == [Reason.BROKER_REFUSED]
    assert [each.payload for each in bench._store.load().aside] == [b"hi"]


def test_one_of_qos_0_is_set_aside_without_a_number() -> None:
    bench = life(ReadingOptions(Acknowledge.JOURNAL, stores_qos_0=True))
    for number in range(STRIKES_MAX + 4):
        if bench.engine.uplink.aside.records:
            break
        bench.engine.upstream.caution._ends_instead = True  # so that they go alone
        bench.engine.upstream.caution._update()
        bench.engine.upstream.caution.has_unread = False
        bench.holds_pings = True  # it ends the connection instead
        bench.say(b"s1", short(b"%d" % number, 0, 0))
        answer_pings(bench)
        bench.broker_ends()
        connect_again(bench)
        bench.commit()
    (record,) = bench.engine.uplink.aside.records.values()
    assert (record.qos, record.sequence) == (0, -1)
    bench.holds_pings = False
    bench.seen()
    send_again(bench, record.number)
    answer_pings(bench)
    assert numbers(bench) == []
    (packet,) = sent(bench)
    assert (int(packet.qos), packet.packet_id) == (1, 1)
    assert tags([packet])[0] == {
        "gw": "gh", "client": "s1", "epoch": "1", "seq": "0", "ts": str(record.unix_ms)
    }  # fmt: skip


def test_what_is_blocked_when_it_is_read_back_is_set_aside() -> None:
    bench = life()
    take(bench)
    end_until_set_aside(bench)
    bench.engine.upstream.caution.blocked.clear()
    bench.engine.upstream.caution._update()
    take(bench, b"later", 1, 8)
    bench.engine.upstream.caution._block(
        Alone(reading_key(blocked := new_reading(b"", topic="tp")), blocked), bench.at
    )
    bench.seen()
    bench.connect_broker(session_present=True)
    bench.flush()
    bench.commit()
    assert sent(bench) == []
    assert [each.payload for each in bench._store.load().aside] == [b"hi", b"later"]
    assert bench.finished == [0, 1]


def test_the_reason_is_cut_to_a_length() -> None:
    aside = Aside()
    aside.take(new_reading(), "x" * 1000, 5)
    assert len(aside.records[1].reason) == REASON_LENGTH_MAX
    assert aside.records[1].set_aside_ms == 5


# When it is full


def fill(bench: CrashBench, count: int = ASIDE_MAX, payload: bytes = b"") -> None:
    bench.engine.uplink.aside.restore(row(number, payload) for number in range(1, count + 1))


def row(number: int, payload: bytes = b"") -> AsideRecord:
    return AsideRecord(
        number=number, client_id=ClientId("s9"), topic="old", payload=payload, qos=1, retain=True,
        epoch=1, sequence=number, packet_id=number, unix_ms=number, set_aside_ms=number,
        reason="test",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("count", "payload"), [(ASIDE_MAX, b""), (65, b"x" * (ASIDE_BYTES_MAX // 65 - 403))]
)
def test_what_finds_no_room_stays_in_the_journal_and_is_sent_after_a_restart(
    count: int, payload: bytes
) -> None:
    bench = life()
    take(bench)
    fill(bench, count, payload)
    refuse(bench)
    assert len(numbers(bench)) == count
    assert drop_reasons(bench) == [Reason.ASIDE_FULL]
    assert bench.engine.uplink.aside.without_room == 1
    assert bench.finished == []
    assert [each.payload for each in sent(next_life(bench))] == [b"hi"]


def test_there_is_room_again_when_some_are_deleted() -> None:
    bench = life()
    fill(bench)
    bench.ask(bench.engine.operator.delete_aside([5, 6, 5, 9999]))
    take(bench)
    refuse(bench)
    assert numbers(bench)[-1] == ASIDE_MAX + 1, "a number does not come twice"
    assert len(numbers(bench)) == ASIDE_MAX - 1


# Out of it


@pytest.mark.parametrize("qos", [1, 2])
def test_one_that_is_sent_again_keeps_its_tag_and_leaves_when_the_journal_has_it(
    qos: int,
) -> None:
    bench = life()
    bench.at = 3.0
    bench.say(b"s1", short(b"hi", qos, 7, retain=True))
    bench.flush()
    before = refuse(bench)
    assert before.retain
    bench.at = 1000.0
    bench.holds_state = True
    send_again(bench, 1)
    (again,) = sent(bench)
    assert tags([again]) == tags([before]), "the time as well"
    assert (again.payload, int(again.qos), again.packet_id) == (b"hi", qos, before.packet_id)
    assert not again.retain, "it may be older than what is there"
    assert numbers(bench) == []
    bench.commit()
    assert bench._store.load().aside == []
    settle(bench, again)
    assert bench.finished == [0, 1]


def test_one_that_is_sent_again_while_the_broker_is_away_keeps_its_tag_too() -> None:
    bench = life()
    bench.at = 3.0
    take(bench)
    before = refuse(bench)
    bench.at = 1000.0
    bench.lose_broker()
    send_again(bench, 1)
    assert numbers(bench) == []
    bench.at = 1010.0
    bench.connect_broker(session_present=True)
    bench.flush()
    assert tags(sent(bench)) == tags([before])


def test_one_of_a_former_run_keeps_its_tag() -> None:
    bench = life()
    take(bench)
    before = refuse(bench)
    following = next_life(bench)
    following.seen()
    send_again(following, 1)
    (again,) = sent(following)
    assert tags([again]) == tags([before])


def test_a_power_cut_before_the_journal_has_it_and_it_is_still_set_aside() -> None:
    bench = life()
    take(bench)
    before = refuse(bench)
    outputs = bench.engine.operator.send_aside(1, bench.at)
    assert outputs is not None
    bench.ask(outputs)
    following = next_life(bench)
    assert numbers(following) == [1]
    bench = following
    bench.holds_state = True
    send_again(bench, 1)
    following = next_life(bench)
    assert numbers(following) == [1], "the journal had it, and it was not deleted yet"
    assert all(each == tags([before])[0] for each in tags(sent(following)))


def test_what_is_not_there_or_on_its_way_is_not_sent_again() -> None:
    bench = life()
    take(bench)
    refuse(bench)
    operator = bench.engine.operator
    assert operator.send_aside(2, bench.at) is None
    outputs = operator.send_aside(1, bench.at)
    assert outputs is not None
    bench.ask(outputs)
    assert operator.send_aside(1, bench.at) is None
    assert bench.engine.uplink.aside.is_sending
    bench.flush()
    assert not bench.engine.uplink.aside.is_sending


def test_one_that_is_sent_again_and_refused_again_is_set_aside_again() -> None:
    bench = life()
    take(bench)
    before = refuse(bench)
    send_again(bench, 1)
    assert tags([refuse(bench)]) == tags([before])
    assert numbers(bench) == [2]
    assert bench.finished == [0, 1]


def test_one_that_is_sent_again_is_not_blocked_and_ends_the_connection_again() -> None:
    bench = life()
    take(bench)
    end_until_set_aside(bench)
    connect_again(bench)
    bench.seen()
    send_again(bench, 1)
    answer_pings(bench)
    assert [each.payload for each in sent(bench)] == [b"hi"]
    end_until_set_aside(bench)
    assert numbers(bench) == [2]
    assert bench.finished == [0, 1]


def test_deleted_while_it_is_on_its_way_it_is_gone() -> None:
    bench = life()
    take(bench)
    refuse(bench)
    outputs = bench.engine.operator.send_aside(1, bench.at)
    assert outputs is not None
    bench.ask(outputs)
    bench.ask(bench.engine.operator.delete_aside([1]))
    bench.flush()
    assert numbers(bench) == []
    assert not bench.engine.uplink.aside.is_sending


# Without a journal


def without_journal(**connack: Any) -> tuple[CrashBench, mqtt5.PublishPacket]:
    """One is set aside, and the disk takes nothing more."""
    bench = life(**connack)
    take(bench)
    before = refuse(bench)
    silence_disk(bench)
    bench.say(b"s2", short(b"x", 1, 7))
    bench.flush()
    bench.release()
    bench.flush()
    bench.holds = True
    bench.seen()
    return bench, before


def test_one_that_the_journal_does_not_take_leaves_when_the_broker_has_it() -> None:
    bench, before = without_journal()
    send_again(bench, 1)
    (again,) = sent(bench)
    assert tags([again]) == tags([before])
    assert numbers(bench) == [1]
    bench.from_broker(puback(again.packet_id or 0))
    assert numbers(bench) == []
    assert not bench.engine.uplink.aside.is_sending


@pytest.mark.parametrize("code", [NOT_AUTHORISED, CONGESTED])
def test_one_that_the_journal_does_not_take_and_the_broker_refuses_stays(code: int) -> None:
    bench, _ = without_journal()
    send_again(bench, 1)
    (again,) = sent(bench)
    bench.from_broker(puback(again.packet_id or 0, code))
    assert numbers(bench) == [1]
    assert not bench.engine.uplink.aside.is_sending


def test_one_that_the_journal_does_not_take_and_ends_the_connection_stays_once() -> None:
    bench, _ = without_journal()
    send_again(bench, 1)
    bench.engine.upstream.publisher.in_flight.backlog.of_clients.clear()
    for _ in range(STRIKES_MAX):
        bench.broker_ends()
        connect_again(bench)
    assert numbers(bench) == [1]
    assert not bench.engine.uplink.aside.is_sending


def test_one_that_neither_disk_nor_broker_takes_stays_and_its_number_is_given_to_no_other() -> None:
    bench, before = without_journal()
    bench.lose_broker()
    send_again(bench, 1)
    assert numbers(bench) == [1]
    assert not bench.engine.uplink.aside.is_sending
    heal_disk(bench)
    bench.connect_broker(session_present=True)
    bench.seen()
    bench.holds = False
    take(bench, b"new", 1, 9)
    (new,) = [each for each in sent(bench) if each.payload == b"new"]
    assert tags([new])[0]["seq"] != tags([before])[0]["seq"]


# Wills


def with_will(options: ReadingOptions = JOURNAL) -> CrashBench:
    bench = life(options)
    bench.say(b"w", Connect(b"w", 10, will=True), WillTopic(b"lw", 1, True), WillMsg(b"bye"))
    bench.seen()
    return bench


def due_wills(bench: CrashBench) -> list[DueWillRecord]:
    return bench._store.load().due_wills


@pytest.mark.parametrize("options", [JOURNAL, AUTO])
def test_a_will_that_ends_the_connection_is_set_aside_and_due_no_more(
    options: ReadingOptions,
) -> None:
    bench = with_will(options)
    bench.wake(15.0)
    bench.flush()
    bench.commit()
    end_until_set_aside(bench)
    bench.commit()
    (record,) = bench._store.load().aside
    assert (record.client_id, record.topic, record.payload) == ("w", "lw", b"bye")
    assert due_wills(bench) == []
    assert numbers(next_life(bench)) == [1]


def test_a_will_that_is_due_and_in_no_journal_is_set_aside_before_it_is_given_up() -> None:
    bench = with_will(ReadingOptions(Acknowledge.UPSTREAM))
    bench.wake(15.0)
    bench.commit()
    assert len(due_wills(bench)) == 1
    end_until_set_aside(bench)
    bench.commit()
    assert [each.payload for each in bench._store.load().aside] == [b"bye"]
    assert due_wills(bench) == []
    assert drop_reasons(bench)[-1] is Reason.BROKER_REFUSED


def test_a_will_on_a_blocked_topic_is_set_aside_and_counted() -> None:
    bench = with_will()
    caution = bench.engine.upstream.caution
    will = new_reading(b"", topic="lw", client="w")
    caution._block(Alone(reading_key(will), will), bench.at)
    bench.wake(15.0)
    bench.flush()
    bench.commit()
    assert Reason.BROKER_REFUSED in drop_reasons(bench)
    assert due_wills(bench) == []
    assert [each.payload for each in bench._store.load().aside] == [b"bye"]


# What is too large for the broker


def test_what_the_broker_will_find_too_large_is_refused_before_it_is_stored() -> None:
    bench = life(max_packet_size=150)
    (refusal,) = bench.say(b"s1", short(b"x" * 200, 2, 7))
    assert isinstance(refusal, Puback)
    assert refusal.return_code == ReturnCode.NOT_SUPPORTED
    assert bench.stores == []
    assert drop_reasons(bench) == [Reason.PAYLOAD_TOO_LARGE]
    take(bench, b"x", 2, 8)
    assert len(bench.stores) == 1


def test_a_packet_just_as_large_as_the_broker_takes_is_refused_by_what_its_tag_may_become() -> None:
    bench = life(max_packet_size=150)
    publisher = bench.engine.upstream.publisher
    reading = new_reading(b"x", topic="tp")
    assert publisher.too_large(reading) is None
    assert reading.upstream_qos == 0
    reason = publisher.too_large(new_reading(b"x" * 90, topic="tp"))
    assert reason is not None
    assert "150 bytes" in reason.detail


# Overflow


def test_beyond_so_many_that_wait_readings_are_stored_also_while_caution_is_on() -> None:
    bench = life(ReadingOptions(Acknowledge.UPSTREAM))
    caution = bench.engine.upstream.caution
    caution._ends_instead = True
    caution._update()
    for number in range(OVERFLOW + 2):
        reading = Reading(ClientId("s9"), "tp", b"", 1, False, 1, number, bench.at)
        bench.take(bench.engine._take(reading, bench.at))
    assert bench.engine.uplink._is_overflowing


def test_while_memory_is_scarce_all_but_one_that_waits_is_stored() -> None:
    bench = life(ReadingOptions(Acknowledge.UPSTREAM))
    caution = bench.engine.upstream.caution
    caution._ends_instead = True
    caution._update()
    bench.engine.set_memory_scarce(True)
    for number in range(3):
        reading = Reading(ClientId("s9"), "tp", b"", 1, False, 1, number, bench.at)
        bench.take(bench.engine._take(reading, bench.at))
    assert bench.engine.uplink._is_overflowing


# What is owed


def test_what_was_sent_alone_is_owed_by_the_broker_and_nothing_else_is() -> None:
    bench = life()
    caution = bench.engine.upstream.caution
    caution.degree, caution.relax_at = EVERYTHING, bench.at + 30.0
    caution._update()
    take(bench)
    answer_pings(bench)
    take(bench, b"two", 1, 8)
    found = liveness.owed(bench.engine, bench.at)
    stalled = [one for one in found if one.name is AlarmName.UPLINK_STALLED]
    assert [(one.kind, one.waits_for) for one in stalled] == [
        ("PUBACK or PUBREC", liveness.WaitsFor.BROKER),
        ("alone", liveness.WaitsFor.BROKER),
    ]
    assert "'s1'" in stalled[1].what
    bench.release()
    bench.flush()
    assert liveness.owed(bench.engine, bench.at) == []


def test_what_waits_while_nothing_is_unanswered_is_owed_by_the_gateway_itself() -> None:
    bench = life()
    publisher, caution = bench.engine.upstream.publisher, bench.engine.upstream.caution
    caution.degree, caution.relax_at = EVERYTHING, bench.at + 30.0
    caution._update()
    reading = new_reading(topic="tp")
    publisher.in_flight.next_alone = reading
    (owed,) = liveness.owed(bench.engine, bench.at)
    assert (owed.mark, owed.waits_for) == (reading, liveness.WaitsFor.NOBODY)
    publisher.in_flight.next_alone = None
    publisher.in_flight.window = 0
    publisher.in_flight.wait(reading, ahead=False)
    (owed,) = liveness.owed(bench.engine, bench.at)
    assert owed.mark is reading
    publisher.in_flight.waiting.clear()
    publisher.in_flight.hold_back(reading)
    assert liveness.owed(bench.engine, bench.at) == [], "it is a suspect"
    publisher.is_paused = True
    publisher.in_flight.wait(reading, ahead=False)
    assert liveness.owed(bench.engine, bench.at) == []
    publisher.is_paused = False
    caution.asks = 1
    assert liveness.owed(bench.engine, bench.at) == []


def test_blocks_end_by_themselves() -> None:
    bench = life()
    take(bench)
    end_until_set_aside(bench)
    connect_again(bench)
    bench.seen()
    bench.at += BLOCK_S
    bench.say(b"s1", Disconnect())
    bench.join(b"s1", clean=False)
    take(bench, b"again", 1, 9)
    answer_pings(bench)
    (again,) = sent(bench)
    assert again.payload == b"again"
    settle(bench, again)
    assert not bench.engine.upstream.caution.has_blocked
