"""The fourteen points at which the power may go between two steps of a message, in order.

Each test cuts the power there, starts the next life, and lets client and broker do what they do
when an answer did not come.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import mqtt5
import pytest

from gateway.core.downlink.write_behind import SOON_S
from gateway.core.topic_options import Acknowledge, ReadingOptions
from gateway.frames import Puback, Pubcomp, Publish, Pubrec, Pubrel
from gateway.storage.journal.journal import Journal
from tests.simulation.disk import SmallOptions
from tests.simulation.journal_schedules import small_segments
from tests.simulation.simulated_disk import Survival
from tests.simulation.simulated_files import PowerCutError, SimulatedFiles
from tests.storage.journal.support import new_reading
from tests.support.crash_bench import CrashBench
from tests.support.engine_bench import short
from tests.support.journal_bench import options_of

JOURNAL = ReadingOptions(Acknowledge.JOURNAL)


def gateway(*, trust_session: bool = False, options: ReadingOptions = JOURNAL) -> CrashBench:
    """Connected to a broker that keeps its answers, with one client."""
    bench = CrashBench(options_of(options, trust_session=trust_session))
    bench.connect_broker()
    bench.connect(b"s1")
    bench.holds = True
    bench.seen()
    return bench


def published(bench: CrashBench) -> list[mqtt5.PublishPacket]:
    """The readings that went to the broker since the last look."""
    return [each for each in bench.seen_of(mqtt5.PublishPacket) if each.topic == "tp"]


def payloads(bench: CrashBench) -> list[bytes]:
    return [each.payload or b"" for each in published(bench)]


def answer(packet: Any) -> bytes:
    """PUBREC for PUBLISH, PUBCOMP for PUBREL."""
    if isinstance(packet, mqtt5.PublishPacket):
        return mqtt5.PubRecPacket(packet.packet_id or 0).write()
    return mqtt5.PubCompPacket(packet.packet_id).write()


def back_at_broker(bench: CrashBench, *, present: bool = True) -> CrashBench:
    """The broker is there again, and keeps its answers."""
    bench.holds = True
    bench.connect_broker(session_present=present)
    return bench


@pytest.mark.guarantee("1")
@pytest.mark.parametrize(("qos", "receipt"), [(1, Puback), (2, Pubrec)])
def test_1_between_publish_and_its_record_nothing_was_promised(qos: int, receipt: type) -> None:
    bench = gateway()
    assert bench.say(b"s1", short(b"hi", qos, 7)) == []
    assert payloads(bench) == []
    bench = back_at_broker(bench.crash())
    assert bench.say(b"s1", short(b"hi", qos, 7, dup=True)) == []
    bench.flush()
    (heard,) = bench.hear(b"s1")
    assert isinstance(heard, receipt)
    assert payloads(bench) == [b"hi"]


@pytest.mark.parametrize(("qos", "receipt"), [(1, Puback), (2, Pubrec)])
def test_2_between_the_record_and_its_acknowledgement_a_repeat_makes_no_second_record(
    qos: int, receipt: type
) -> None:
    bench = gateway()
    bench.say(b"s1", short(b"hi", qos, 7))
    bench.write_only()
    bench = back_at_broker(bench.crash())
    (heard,) = bench.say(b"s1", short(b"hi", qos, 7, dup=True))
    assert isinstance(heard, receipt)
    assert bench.stores == []
    bench.flush()
    assert payloads(bench) == [b"hi"]


def test_3_between_pubrec_and_pubrel_the_exchange_goes_on() -> None:
    bench = gateway()
    bench.say(b"s1", short(b"hi", 2, 7))
    bench.flush()
    assert bench.hear(b"s1") == [Pubrec(7)]
    bench = bench.crash()
    assert bench.say(b"s1", short(b"hi", 2, 7, dup=True)) == [Pubrec(7)]
    assert bench.stores == []
    bench.say(b"s1", Pubrel(7))
    bench.flush()
    assert bench.hear(b"s1") == [Pubcomp(7)]


def released(bench: CrashBench) -> CrashBench:
    bench.say(b"s1", short(b"hi", 2, 7))
    bench.flush()
    bench.hear(b"s1")
    assert bench.say(b"s1", Pubrel(7)) == [], "PUBCOMP lets the client use the id again"
    return bench


def test_4_between_pubrel_and_its_record_the_id_is_not_free() -> None:
    bench = released(gateway()).crash()
    assert bench.say(b"s1", short(b"hi", 2, 7, dup=True)) == [Pubrec(7)], "it is a copy still"
    assert bench.say(b"s1", Pubrel(7)) == []
    bench.flush()
    assert bench.hear(b"s1") == [Pubcomp(7)]


def test_5_between_the_record_and_pubcomp_the_id_is_free() -> None:
    bench = released(gateway())
    bench.write_only()
    bench = bench.crash()
    assert bench.say(b"s1", Pubrel(7)) == [Pubcomp(7)]
    bench.say(b"s1", short(b"another", 2, 7))
    assert [reading.payload for reading in bench.stores] == [b"another"]


def test_6_between_the_record_and_the_broker_readings_keep_their_order() -> None:
    bench = gateway()
    bench.lose_broker()
    for number in range(4):
        bench.say(b"s1", short(b"%d" % number, 1 + number % 2, 7 + number))
    bench.flush()
    bench = bench.crash()
    bench.connect_broker(session_present=True)
    bench.flush()
    assert payloads(bench) == [b"0", b"1", b"2", b"3"]


def test_7_between_publish_and_pubrec_of_the_broker_the_packet_id_stays() -> None:
    bench = gateway()
    bench.say(b"s1", short(b"first", 2, 7), short(b"hi", 2, 8))
    bench.flush()
    before = published(bench)
    bench = back_at_broker(bench.crash())
    bench.flush()
    after = published(bench)
    assert [each.packet_id for each in after] == [each.packet_id for each in before] == [1, 2]
    assert all(each.duplicate for each in after)
    assert [each.user_properties for each in after] == [each.user_properties for each in before]
    bench.say(b"s1", short(b"new", 2, 9))
    bench.flush()
    assert [each.packet_id for each in published(bench)] == [3]


def received_by_broker(bench: CrashBench) -> CrashBench:
    """The broker has said PUBREC."""
    bench.say(b"s1", short(b"hi", 2, 7))
    bench.flush()
    (packet,) = published(bench)
    bench.from_broker(answer(packet))
    return bench


def test_8_between_pubrec_of_the_broker_and_its_record_nothing_is_released() -> None:
    bench = received_by_broker(gateway(trust_session=True))
    assert bench.seen_of(mqtt5.PubRelPacket) == []
    bench = back_at_broker(bench.crash())
    bench.flush()
    (packet,) = published(bench)
    assert (packet.packet_id, packet.duplicate) == (1, True)


@pytest.mark.parametrize("present", [True, False])
def test_9_between_pubrel_and_pubcomp_the_broker_decides_by_what_it_knows(present: bool) -> None:
    bench = received_by_broker(gateway(trust_session=True))
    bench.flush()
    assert [packet.packet_id for packet in bench.seen_of(mqtt5.PubRelPacket)] == [1]
    bench = back_at_broker(bench.crash(), present=present)
    bench.flush()
    packets = bench.seen()
    again = [each for each in packets if getattr(each, "topic", "") == "tp"]
    releases = [each for each in packets if isinstance(each, mqtt5.PubRelPacket)]
    assert (len(again), len(releases)) == ((0, 1) if present else (1, 0))
    if again:
        assert not again[0].duplicate
        assert dict(again[0].user_properties)["seq"] == "0"


def test_10_between_pubcomp_and_the_end_of_the_record_only_pubrel_is_repeated() -> None:
    bench = received_by_broker(gateway(trust_session=True))
    bench.flush()
    (release,) = bench.seen_of(mqtt5.PubRelPacket)
    bench.from_broker(answer(release))
    assert bench.journal.numbers.depth == 0
    bench = back_at_broker(bench.crash())
    bench.flush()
    packets = bench.seen()
    assert [each.packet_id for each in packets if isinstance(each, mqtt5.PubRelPacket)] == [1]
    assert [each for each in packets if getattr(each, "topic", "") == "tp"] == []
    bench.from_broker(answer(release))
    assert bench.journal.numbers.depth == 0


@pytest.mark.guarantee("1")
def test_10a_what_a_broker_forgot_that_had_received_it_is_published_after_a_crash() -> None:
    bench = received_by_broker(gateway(trust_session=True))
    bench.flush()
    bench.lose_broker()
    bench = back_at_broker(bench, present=False)
    assert [each.packet_id for each in published(bench)] == [1], "as new"
    bench = back_at_broker(bench.crash())
    bench.flush()
    packets = bench.seen()
    assert [each for each in packets if isinstance(each, mqtt5.PubRelPacket)] == []
    assert [each.packet_id for each in packets if getattr(each, "topic", "") == "tp"] == [1]


def test_10b_what_a_broker_received_a_second_time_is_known_as_received() -> None:
    bench = received_by_broker(gateway(trust_session=True))
    bench.flush()
    bench.lose_broker()
    bench = back_at_broker(bench, present=False)
    (packet,) = published(bench)
    bench.from_broker(answer(packet))
    bench.flush()
    bench = back_at_broker(bench.crash())
    bench.flush()
    packets = bench.seen()
    assert [each.packet_id for each in packets if isinstance(each, mqtt5.PubRelPacket)] == [1]
    assert [each for each in packets if getattr(each, "topic", "") == "tp"] == []


@pytest.mark.guarantee("1")
def test_10c_a_crash_before_connack_leaves_open_which_session_the_broker_has() -> None:
    """It may have forgotten, and begun a session for the CONNECT that it did not answer."""
    bench = received_by_broker(gateway(trust_session=True))
    bench.flush()
    bench.lose_broker()
    bench.take(bench.engine.opened(bench.at))
    assert bench.seen_of(mqtt5.ConnectPacket) == []
    bench.flush()
    assert len(bench.seen_of(mqtt5.ConnectPacket)) == 1
    bench = back_at_broker(bench.crash())
    bench.flush()
    assert [each.packet_id for each in published(bench)] == [1]


def listening(qos: int) -> CrashBench:
    bench = gateway()
    bench.holds = False
    topic_id = bench.register(b"s1", b"lamp")
    assert topic_id
    assert bench.subscribe(b"s1", b"lamp", qos, message_id=2)
    bench.holds = True
    bench.seen()
    return bench


def receipts(bench: CrashBench) -> list[Any]:
    kinds = (mqtt5.PubAckPacket, mqtt5.PubRecPacket)
    return [packet for packet in bench.seen() if isinstance(packet, kinds)]


@pytest.mark.parametrize("qos", [1, 2])
def test_11_between_a_message_and_its_row_the_broker_is_told_nothing(qos: int) -> None:
    bench = listening(qos)
    bench.holds_state = True
    bench.publishes("lamp", b"on", qos, by="lamp")
    bench.wake(bench.at + SOON_S)
    assert receipts(bench) == []
    bench = back_at_broker(bench.crash())
    bench.publishes("lamp", b"on", qos, by="lamp")
    bench.wake(bench.at + SOON_S)
    messages = [each for each in bench.hear(b"s1") if isinstance(each, Publish)]
    assert [each.payload for each in messages] == [b"on"]
    assert len(receipts(bench)) == 1


def test_12_between_a_message_and_its_acknowledgement_it_keeps_its_id() -> None:
    bench = listening(2)
    bench.publishes("lamp", b"on", 2, by="lamp")
    (first,) = [each for each in bench.hear(b"s1") if isinstance(each, Publish)]
    bench = bench.crash()
    bench.wake(bench.at + 1.0)
    (again,) = [each for each in bench.hear(b"s1") if isinstance(each, Publish)]
    assert (again.message_id, again.topic_id, again.payload) == (
        first.message_id,
        first.topic_id,
        b"on",
    )
    assert again.dup
    bench.holds_state = True
    assert bench.say(b"s1", Pubrec(again.message_id)) == [], "that is to be durable first"
    bench.commit_only()
    bench = bench.crash()
    bench.wake(bench.at + 1.0)
    assert Pubrel(again.message_id) in bench.hear(b"s1"), "not PUBLISH, which it has"


@pytest.mark.parametrize("cut", range(1, 25))
def test_13_a_segment_that_comes_back_brings_nothing_back(cut: int) -> None:
    """Its removal, or its renaming to a spare, was not synced."""
    files, salts = SimulatedFiles(Random(cut)), Random(cut)
    calls: list[str] = []
    files.trace = calls.append
    options = SmallOptions(8 * 4096, salt=lambda: salts.getrandbits(32))
    numbers: dict[str, set[int]] = {}  # of the readings in each segment that is to go
    with small_segments(4096):
        journal = Journal(Path("/journal"), files, options)
        journal.open(0.0, 0.0, b"the only boot...")
        files.stop_in(cut, "sync_folder", before=True)
        with pytest.raises(PowerCutError):
            fill_and_drain(journal, numbers)
        gone = {
            number
            for name, inside in numbers.items()
            if any(f" rename {name} " in call or f" remove {name}" in call for call in calls)
            for number in inside
        }
        files.crash(Survival.NOTHING)
        again = Journal(Path("/journal"), files, options)
        again.open(1000.0, 0.0, b"the only boot...")
        back = []
        while (request := again.begin_read(1000.0)) is not None:
            back += [each.record for each in again.end_read(request, again.read(request))]
    assert gone.isdisjoint(back)
    assert back == sorted(set(back))


def fill_and_drain(journal: Journal, numbers: dict[str, set[int]]) -> None:
    """Readings that come and are settled, until the power goes."""
    for number in range(300):
        reading = new_reading(number, received_at=float(number))
        assert journal.store(reading, is_queued=False) is None
        while (group := journal.begin_group(float(number))) is not None:
            for segment in group.frees:
                inside = range(segment.first, segment.first + len(segment.flags))
                numbers[segment.name] = set(inside)
            journal.write(group)
            if journal.end_group(group, None).stored:
                journal.finish(reading)


def test_14_a_retained_value_is_left_out_only_while_a_newer_one_is_safe() -> None:
    bench = gateway(options=ReadingOptions(Acknowledge.JOURNAL, coalesce_retained=True))
    bench.lose_broker()
    for number in range(3):
        bench.say(b"s1", short(b"%d" % number, 1, 7 + number, retain=True))
    bench.flush()
    bench = back_at_broker(bench)
    bench.flush()
    assert payloads(bench) == [b"2"]
    bench = back_at_broker(bench.crash())
    bench.flush()
    assert payloads(bench)[-1:] == [b"2"], "the broker had not acknowledged it"
