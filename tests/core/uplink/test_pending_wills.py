"""Wills of lost clients on their way into good hands, over crashes, full journals and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mqtt5
import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Save
from gateway.core.mqtt.options import MqttOptions
from gateway.core.mqtt.session import MqttSession
from gateway.core.state_records import ClientId, DueWillDeleted, DueWillRecord, State
from gateway.core.topic_options import Acknowledge, ReadingOptions
from gateway.core.uplink import pending_wills
from gateway.core.uplink.pending_wills import PendingWills
from gateway.core.values import Reading
from gateway.frames import Connack, Connect, Disconnect, Frame, ReturnCode, WillMsg, WillTopic
from tests.support.crash_bench import CrashBench
from tests.support.engine_bench import Bench, short
from tests.support.journal_bench import JournalBench, options_of

AUTO = ReadingOptions(Acknowledge.AUTO)
JOURNAL = ReadingOptions(Acknowledge.JOURNAL)
UPSTREAM = ReadingOptions(Acknowledge.UPSTREAM)
LOST_AT = 15.0  # with a keep-alive of 10 s
NOT_AUTHORIZED = mqtt5.PubAckReasonCode.NOT_AUTHORIZED

Tag = tuple[str, str, str]


def connects(
    bench: Bench, name: bytes = b"s1", *, qos: int = 1, clean: bool = False
) -> list[Frame]:
    return bench.say(
        name,
        Connect(name, 10, will=True, clean_session=clean),
        WillTopic(b"lw", qos, True),
        WillMsg(b"bye"),
    )


def life(options: ReadingOptions = AUTO, *, clean: bool = False, qos: int = 1) -> CrashBench:
    """Connected to a broker that keeps its answers, with one client that gave a will."""
    bench = CrashBench(options_of(options))
    bench.connect_broker()
    assert Connack(0) in connects(bench, clean=clean, qos=qos)
    bench.commit()
    bench.holds = True
    bench.seen()
    bench.holds_state = True
    return bench


def next_life(bench: CrashBench) -> CrashBench:
    following = bench.crash()
    following.wake(following.at)
    following.connect_broker(session_present=True)
    following.flush()
    return following


def due(bench: CrashBench) -> list[DueWillRecord]:
    return bench._store.load().due_wills


def wills(bench: Bench) -> list[Tag]:
    """The tags of the wills that went to the broker since the last look."""
    found = [each for each in bench.seen_of(mqtt5.PublishPacket) if each.topic == "lw"]
    assert all((each.payload, each.retain) == (b"bye", True) for each in found)
    return [tag_of(each) for each in found]


def tag_of(packet: Any) -> Tag:
    pairs = dict(packet.user_properties)
    return pairs["gw"], pairs["epoch"], pairs["seq"]


def state(bench: Bench) -> State:
    return bench.engine.sessions[ClientId("s1")].state


# Crashes


@pytest.mark.parametrize("clean", [False, True])
def test_a_will_is_saved_as_due_with_the_loss_and_no_more_when_the_broker_has_it(
    clean: bool,
) -> None:
    bench = life(clean=clean)
    bench.wake(LOST_AT)
    bench.commit()
    assert [row.payload for row in due(bench)] == [b"bye"]
    assert len(bench._store.load().clients) == (not clean)
    bench.release()
    bench.commit()
    assert due(bench) == []


@pytest.mark.guarantee("7")
@pytest.mark.parametrize("options", [AUTO, UPSTREAM, JOURNAL])
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_killed_between_the_loss_and_the_broker_the_will_comes_with_the_same_tag(
    options: ReadingOptions, clean: bool, qos: int
) -> None:
    bench = life(options, clean=clean, qos=qos)
    bench.wake(LOST_AT)
    bench.commit()
    (row,) = due(bench)
    following = next_life(bench)
    assert wills(following) == [("gh", str(row.epoch), str(row.sequence))]
    following.wake(1000.0)
    assert wills(following) == []


@pytest.mark.guarantee("7")
def test_killed_before_the_loss_was_saved_the_client_is_lost_again_and_its_will_comes() -> None:
    bench = life()
    bench.wake(LOST_AT)
    assert wills(bench) == [("gh", "1", "0")]
    following = next_life(bench)
    assert (state(following), wills(following)) == (State.ACTIVE, [])
    following.wake(1000.0)
    assert wills(following) == [("gh", "2", "0")]


def test_what_the_journal_has_is_due_no_more() -> None:
    bench = life(JOURNAL)
    bench.wake(LOST_AT)
    bench.flush()
    bench.commit()
    assert due(bench) == []
    assert wills(next_life(bench)) == [("gh", "1", "0")]


@pytest.mark.guarantee("7")
def test_a_crash_between_the_journal_and_the_state_repeats_the_will_under_its_tag() -> None:
    bench = life(JOURNAL)
    bench.wake(LOST_AT)
    bench.commit()
    bench.flush()
    assert set(wills(next_life(bench))) == {("gh", "1", "0")}


def test_one_that_the_journal_knows_at_the_broker_is_not_sent_again() -> None:
    row = DueWillRecord(ClientId("s1"), "lw", b"bye", 2, True, 1, 7, 8, 0)
    kept = PendingWills(MqttSession(MqttOptions("gh", 3, "tidegate-gh")).publisher)
    kept.restore([row, replace(row, client_id=ClientId("s2"), sequence=9)], 0.0)
    received = Reading(row.client_id, "lw", b"bye", 2, True, 0, 0, 0.0, sequence=7, epoch=1)
    assert kept.received([received]) == [Save(DueWillDeleted(row.client_id))]
    assert [will.sequence for will in kept.offer(0.0)] == [9]


def test_a_will_is_sent_though_the_state_cannot_be_saved() -> None:
    bench = life()
    bench.wake(LOST_AT)
    assert wills(bench) == [("gh", "1", "0")]


def test_a_goodbye_leaves_nothing_due() -> None:
    bench = life()
    bench.say(b"s1", Disconnect())
    bench.wake(1000.0)
    bench.commit()
    assert (due(bench), wills(bench)) == ([], [])


# Nowhere to go


def full(options: ReadingOptions) -> JournalBench:
    """Neither memory nor broker takes anything."""
    bench = JournalBench(replace(options_of(options, waiting_messages_max=1)))
    connects(bench, b"s0")
    connects(bench)
    bench.seen()
    bench.lose_broker()
    return bench


@pytest.mark.guarantee("7")
def test_a_will_that_nobody_takes_is_offered_again_when_the_broker_is_back() -> None:
    bench = full(UPSTREAM)
    bench.wake(LOST_AT)
    assert [each.reason for each in bench.told(Dropped)] == [Reason.WAITING_FULL]
    bench.holds = True
    bench.connect_broker()
    assert len(wills(bench)) == 1
    bench.wake(bench.at)
    assert len(wills(bench)) == 1


def test_a_will_that_nobody_takes_is_offered_again_after_a_minute() -> None:
    bench = full(UPSTREAM)
    bench.wake(LOST_AT)
    for minute in (1, 2):
        bench.told(Dropped)
        bench.wake(LOST_AT + minute * pending_wills.OFFER_AGAIN_S - 0.1)
        assert bench.told(Dropped) == []
        bench.wake(LOST_AT + minute * pending_wills.OFFER_AGAIN_S)
        assert [each.reason for each in bench.told(Dropped)] == [Reason.WAITING_FULL]


def test_a_sequence_that_a_will_keeps_is_not_given_to_a_reading() -> None:
    bench = JournalBench(options_of(JOURNAL))
    connects(bench)
    bench.lose_broker()
    bench.wake(LOST_AT)
    (will,) = bench.stores
    bench.take(bench.engine.not_stored([will], Reason.JOURNAL_FULL, bench.at))
    bench.join(b"s2")
    bench.say(b"s2", short(b"hi", 1, 7))
    assert [each.sequence for each in bench.stores] == [0, 1]


def test_only_so_many_are_offered_at_once() -> None:
    rows = [
        DueWillRecord(ClientId(f"s{number}"), "lw", b"bye", 1, True, 1, number, 1 + number, 0)
        for number in range(pending_wills.OFFERS_MAX + 1)
    ]
    kept = PendingWills(MqttSession(MqttOptions("gh", 3, "tidegate-gh")).publisher)
    kept.restore(rows, 5.0)
    assert kept.due_at == 5.0
    assert [each.sequence for each in kept.offer(5.0)] == list(range(pending_wills.OFFERS_MAX))
    assert kept.offer(5.0) == []
    (last,) = kept.offer(5.0 + pending_wills.OFFER_AGAIN_S)
    assert last.sequence == pending_wills.OFFERS_MAX
    assert kept.due_at == float("inf")


def test_beyond_the_limit_the_oldest_is_given_up_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending_wills, "DUE_MAX", 2)
    kept = PendingWills(MqttSession(MqttOptions("gh", 3, "tidegate-gh")).publisher)
    first, second, third = (
        Reading(ClientId(name), "lw", b"bye", 1, True, 0, 0, 0.0) for name in ("s1", "s2", "s3")
    )
    kept.begin(first)
    kept.begin(second)
    dropped, gone, *_ = kept.begin(third)
    assert isinstance(dropped, Dropped)
    assert (dropped.reason, dropped.client_id) == (Reason.WAITING_FULL, first.client_id)
    assert gone == Save(DueWillDeleted(first.client_id))
    assert [each in kept for each in (first, second, third)] == [False, True, True]


# What is not kept


def test_a_will_that_the_broker_refuses_for_good_is_given_up() -> None:
    bench = life()
    bench.wake(LOST_AT)
    (packet,) = [each for each in bench.seen_of(mqtt5.PublishPacket) if each.topic == "lw"]
    answer = mqtt5.PubAckPacket(packet.packet_id or 0, reason_code=NOT_AUTHORIZED)
    bench.from_broker(answer.write())
    assert [each.reason for each in bench.told(Dropped)] == [Reason.BROKER_REFUSED]
    bench.commit()
    assert due(bench) == []
    assert wills(next_life(bench)) == []


def test_a_will_of_qos_0_is_forwarded_and_not_saved() -> None:
    bench = life(qos=0)
    bench.wake(LOST_AT)
    bench.commit()
    assert due(bench) == []
    assert [each.topic for each in bench.seen_of(mqtt5.PublishPacket)] == ["lw"]


def test_the_next_will_of_a_client_takes_the_place_of_one_that_is_due() -> None:
    kept = PendingWills(MqttSession(MqttOptions("gh", 3, "tidegate-gh")).publisher)
    first, second = (Reading(ClientId("s1"), "lw", b"bye", 1, True, 0, 0, 0.0) for _ in range(2))
    kept.begin(first)
    kept.refused(first, ReturnCode.CONGESTION, 0.0)
    kept.begin(second)
    assert kept.refused(first, ReturnCode.CONGESTION, 0.0) == kept.acknowledged(first) == []
    assert kept.offer(1000.0) == []
    assert second in kept
