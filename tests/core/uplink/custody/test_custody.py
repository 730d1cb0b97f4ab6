"""Readings that stay in the journal until somebody has ingested them: stories of an engine with
the production journal under it.
"""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, SubscriptionRefused
from gateway.core.engine import EngineOptions
from gateway.core.topic_options import Acknowledge, ReadingOptions
from gateway.core.uplink.custody import custody, kept
from gateway.core.uplink.custody.custody import GRACE_S, LOOK_EVERY_S
from gateway.frames import Puback, Publish, Pubrec, Pubrel, TopicIdType, Unsubscribe
from tests.core.uplink.custody.stories import (
    EPOCH,
    FILTER,
    TIMEOUT_S,
    again,
    bench_of,
    depth,
    options,
    receive,
    take,
    wake,
    wake_living,
)
from tests.support.engine_bench import short
from tests.support.journal_bench import JournalBench, options_of
from tests.support.uplink_stories import AUTO, puback, sent, silence_disk

# What is kept


@pytest.mark.guarantee("8")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_reading_that_the_broker_has_taken_stays_until_a_receipt_covers_it(qos: int) -> None:
    bench = bench_of()
    take(bench, b"one", b"two", qos=qos)
    assert [reading.payload for reading in bench.stores] == [b"one", b"two"]
    assert depth(bench) == (0, 2)
    receive(bench, (0, 0))
    assert depth(bench) == (0, 1)
    receive(bench, (0, 1))
    assert depth(bench) == (0, 0)
    assert bench.engine.custody.numbers.ingested == 2


def test_a_reading_is_acknowledged_when_it_is_durable_and_not_before() -> None:
    bench = bench_of()
    assert bench.say(b"s1", short(b"hi", 1, 7)) == []
    bench.flush()
    assert bench.hear(b"s1") == [puback(7)]


def test_topics_that_are_not_kept_and_qos_0_go_as_ever() -> None:
    bench = bench_of()
    topic_id = int.from_bytes(b"by", "big")
    by = Publish(topic_id, 7, b"hi", qos=1, topic_id_type=TopicIdType.SHORT)
    assert bench.say(b"s1", by) == [Puback(topic_id, 7, 0)]
    bench.say(b"s1", short(b"zero", 0, 0))
    assert sent(bench) == [b"hi", b"zero"]
    assert (bench.stores, bench.engine.custody.kept.count) == ([], 0)


def test_what_only_the_broker_acknowledges_is_never_kept() -> None:
    assert not ReadingOptions(Acknowledge.UPSTREAM, keeps=True).keeps


def test_without_the_journal_the_broker_alone_has_it_and_that_is_counted() -> None:
    bench = bench_of()
    silence_disk(bench)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.flush()
    assert sent(bench) == [b"hi"]
    assert bench.hear(b"s1") == [puback(7)]
    assert bench.engine.custody.numbers.unkept == 1


def test_when_the_table_is_full_the_broker_alone_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "RUNS_MAX", 0)
    bench = bench_of()
    take(bench, b"hi")
    assert depth(bench) == (0, 0)
    assert bench.engine.custody.numbers.unkept == 1


def test_a_sensor_cannot_say_what_is_ingested() -> None:
    bench = bench_of()
    topic_id = bench.register(b"s1", b"tidegate/ingest/gh/ack/evil")
    answer = bench.say(b"s1", Publish(topic_id, 9, b"{}", qos=1))
    assert answer == [Puback(topic_id, 9, 3)]
    assert [each.reason for each in bench.told(Dropped)] == [Reason.RESERVED_TOPIC]
    assert sent(bench) == []


# Receipts


@pytest.mark.guarantee("8")
def test_a_receipt_ends_nothing_that_the_broker_has_not_taken() -> None:
    bench = bench_of()
    bench.holds = True
    bench.say(b"s1", short(b"on its way", 1, 7))
    bench.flush()
    receive(bench, (0, 0))
    assert depth(bench) == (1, 0)
    bench.release()
    assert depth(bench) == (0, 0), "and when it has, nothing is waited for"


def test_only_what_is_on_the_wire_may_be_ingested_before_the_broker_has_said_so() -> None:
    bench = bench_of()
    take(bench, b"one", b"two")
    bench.holds = True
    bench.say(b"s1", short(b"three", 1, 9))
    bench.flush()
    receive(bench, (0, 0), (1, 1))
    bench.release()
    assert depth(bench) == (0, 1)


def test_what_was_ingested_early_is_remembered_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custody, "EARLY_MAX", 1)
    bench = bench_of()
    bench.holds = True
    for number in (1, 2):
        bench.say(b"s1" if number == 1 else b"s2", short(b"%d" % number, 1, number))
        if number == 1:
            bench.join(b"s2")
    bench.flush()
    receive(bench, (0, 1))
    bench.release()
    assert depth(bench) == (0, 1)


@pytest.mark.guarantee("8")
@pytest.mark.parametrize(
    ("ranges", "epoch"), [([(0, 2)], EPOCH), ([(0, 0)], EPOCH + 1)], ids=["sequence", "epoch"]
)
def test_a_receipt_for_what_was_never_sent_is_not_believed_at_all(
    ranges: list[tuple[int, int]], epoch: int
) -> None:
    bench = bench_of()
    take(bench, b"one", b"two")
    receive(bench, (0, 0), *ranges, epoch=epoch)
    assert depth(bench) == (0, 2)
    (dropped,) = bench.told(Dropped)
    assert dropped.reason is Reason.BAD_RECEIPT
    assert "another gateway named gh" in dropped.detail
    assert bench.engine.custody.numbers.bad_receipts == 1


def test_what_is_no_receipt_is_told_and_what_was_cleared_is_not() -> None:
    bench = bench_of()
    bench.publishes("tidegate/ingest/gh/ack", b"all of it", by=FILTER)
    assert [each.reason for each in bench.told(Dropped)] == [Reason.BAD_RECEIPT]
    bench.news.clear()
    bench.publishes("tidegate/ingest/gh/ack/a", b"", by=FILTER)
    bench.publishes("tidegate/ingest/gh/acknowledged", b"not ours", by=FILTER)
    assert bench.told(Dropped) == []


def test_without_the_option_nobody_listens() -> None:
    bench = JournalBench(options_of(AUTO))
    assert bench.subscribed == set()
    bench.publishes("tidegate/ingest/gh/ack/a", b"no receipt", 1)
    assert bench.told(Dropped) == []
    assert bench.engine.custody.due_at > 1e9


def test_a_broker_that_refuses_the_subscription_is_asked_again_in_the_next_connection() -> None:
    bench = JournalBench(options(), connected=False)
    bench.refuses = {FILTER}
    bench.connect_broker()
    assert [each.topic_filter for each in bench.told(SubscriptionRefused)] == [FILTER]
    assert "SUBACK" in str(bench.engine.custody.refusal)
    assert bench.engine.upstream.subscriptions.acknowledged, "other filters come and go as ever"
    bench.lose_broker()
    bench.refuses = set()
    bench.connect_broker()
    assert bench.engine.custody.refusal is None
    assert FILTER in bench.subscribed


def test_a_filter_of_a_client_that_the_broker_refuses_is_no_matter_of_ours() -> None:
    bench = bench_of()
    bench.refuses = {"secret"}
    bench.subscribe(b"s1", b"secret")
    assert bench.engine.custody.refusal is None


def test_a_client_that_hears_receipts_and_leaves_takes_nothing_away() -> None:
    bench = bench_of()
    bench.subscribe(b"s1", FILTER.encode())
    bench.say(b"s1", Unsubscribe(1, FILTER.encode()))
    assert FILTER in bench.subscribed
    take(bench, b"one")
    receive(bench, (0, 0))
    assert depth(bench) == (0, 0)


# Sent again


@pytest.mark.guarantee("8")
def test_what_an_ingest_has_passed_is_sent_again_as_old_news_under_its_tag() -> None:
    bench = bench_of()
    bench.say(b"s1", short(b"lost", 2, 7, retain=True))
    bench.flush()
    (first,) = [each for each in bench.seen_of(mqtt5.PublishPacket) if each.topic == "tp"]
    bench.at += TIMEOUT_S
    take(bench, b"later")
    receive(bench, (1, 1))
    wake(bench, bench.at + LOOK_EVERY_S)
    (packet,) = again(bench)
    assert (packet.payload, packet.topic) == (b"lost", "tp")
    assert dict(packet.user_properties) == dict(first.user_properties)
    assert (int(packet.qos), packet.retain) == (1, False)
    assert depth(bench) == (0, 1)
    receive(bench, (0, 1))
    assert depth(bench) == (0, 0)
    assert bench.engine.custody.numbers.sent_again == 1


def test_an_ingest_that_is_only_slow_gets_nothing_twice() -> None:
    bench = bench_of()
    for number in range(10):
        take(bench, b"%d" % number)
        wake(bench, bench.at + TIMEOUT_S / 3)
    for number in range(10):  # it works its way through, in order
        receive(bench, (0, number))
        wake(bench, bench.at + TIMEOUT_S / 2)
        assert bench.asked_again == []


@pytest.mark.guarantee("8")
def test_an_ingest_that_is_away_for_days_gets_nothing_twice() -> None:
    bench = bench_of()
    take(bench, b"one")
    wake(bench, 3 * 86_400.0)
    assert bench.asked_again == []
    receive(bench, retain=True, is_replay=True)  # what the broker had retained is no sign of life
    wake(bench, bench.at + 2 * TIMEOUT_S)
    assert bench.asked_again == []


def test_one_that_lives_and_has_nothing_new_for_so_long_will_not_get_it_any_more() -> None:
    bench = bench_of()
    take(bench, b"the last one")
    wake_living(bench, TIMEOUT_S - 1)
    assert again(bench) == []
    wake_living(bench, TIMEOUT_S + LOOK_EVERY_S)
    assert [one.payload for one in again(bench)] == [b"the last one"]


def test_what_comes_without_a_pause_and_is_not_ingested_is_missed() -> None:
    bench = bench_of()
    found = []
    while bench.at < TIMEOUT_S + 3 * LOOK_EVERY_S:
        take(bench, b"%d" % bench.at)
        wake_living(bench, bench.at + LOOK_EVERY_S)
        found += [one.payload for one in again(bench)]
    assert b"0" in found


@pytest.mark.guarantee("8")
def test_each_time_it_waits_twice_as_long() -> None:
    bench = bench_of()
    take(bench, b"nobody takes it")
    times: list[float] = []
    while len(times) < 3:
        wake_living(bench, bench.at + LOOK_EVERY_S)
        if again(bench):
            times.append(bench.at)
    gaps = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
    assert gaps == pytest.approx([TIMEOUT_S, 2 * TIMEOUT_S, 4 * TIMEOUT_S], abs=2 * LOOK_EVERY_S)


def test_a_broker_that_lost_its_sessions_gets_it_soon_if_there_is_somebody_to_take_it() -> None:
    bench = bench_of()
    take(bench, b"lost with the session")
    bench.lose_broker()
    bench.at += 1.0
    bench.connect_broker(session_present=False)
    wake(bench, bench.at + GRACE_S + LOOK_EVERY_S)
    assert again(bench) == [], "nobody has been heard"
    receive(bench)
    wake(bench, bench.at + LOOK_EVERY_S)
    assert [one.payload for one in again(bench)] == [b"lost with the session"]


def test_a_broker_that_kept_its_sessions_gets_nothing_twice_for_a_break() -> None:
    bench = bench_of()
    take(bench, b"in the queue of the ingest")
    bench.lose_broker()
    bench.at += 1.0
    bench.connect_broker(session_present=True)
    receive(bench)
    wake(bench, bench.at + GRACE_S + LOOK_EVERY_S)
    assert again(bench) == []


def test_one_batch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custody, "AGAIN_MAX", 2)
    bench = bench_of()
    take(bench, b"1", b"2", b"3")
    wake_living(bench, TIMEOUT_S + LOOK_EVERY_S)
    assert bench.asked_again == [(0, 1)]
    wake(bench, bench.at + LOOK_EVERY_S)
    assert bench.asked_again == [(0, 1)], "the journal has not answered"
    assert [one.payload for one in again(bench)] == [b"1", b"2"]
    wake(bench, bench.at + LOOK_EVERY_S)
    assert [one.payload for one in again(bench)] == [b"3"]


def test_what_comes_back_when_the_broker_is_away_or_it_is_ingested_stays_where_it_is() -> None:
    bench = bench_of()
    take(bench, b"one", b"two")
    wake_living(bench, TIMEOUT_S + LOOK_EVERY_S)
    receive(bench, (0, 0))
    assert [one.payload for one in again(bench)] == [b"two"]
    wake_living(bench, bench.at + 3 * TIMEOUT_S)
    bench.lose_broker()
    assert again(bench) == []
    assert depth(bench) == (0, 1)


def test_what_cannot_be_read_any_more_is_given_up_and_counted() -> None:
    bench = bench_of()
    take(bench, b"one", b"two")
    wake_living(bench, TIMEOUT_S + LOOK_EVERY_S)
    receive(bench, (0, 0))
    bench.read_again(and_loses=True)
    assert depth(bench) == (0, 0)
    assert bench.engine.custody.numbers.unreadable == 1


# A full journal


def fill(bench: JournalBench) -> None:
    number = 0
    while bench.engine.custody.numbers.unkept == 0:
        number += 1
        bench.say(b"s1", short(b"%03d" % number + bytes(900), 1, number))
        bench.flush()
        assert number < 1000


def test_a_full_journal_keeps_what_it_has_and_the_broker_takes_the_rest() -> None:
    bench = bench_of()
    fill(bench)
    count = depth(bench)[1]
    assert count > 100
    assert bench.engine.custody.numbers.given_up == 0
    receive(bench, (0, count - 1))
    bench.flush()
    take(bench, b"kept again")
    assert depth(bench) == (0, 1)


def test_with_drop_oldest_the_oldest_kept_ones_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custody, "GIVEN_UP_AT_ONCE", 50)
    bench = bench_of(options(gives_way=True))
    fill(bench)
    assert bench.engine.custody.numbers.given_up == 50
    assert (EPOCH, 49) not in bench.engine.custody.kept
    assert (EPOCH, 50) in bench.engine.custody.kept


# The next life


def next_life(bench: JournalBench, given: EngineOptions | None = None) -> JournalBench:
    bench.flush()
    group = bench.journal.begin_group(bench.at, is_stopping=True)
    assert group is not None
    bench.journal.write(group)
    bench.files.kill()
    return JournalBench(given or options(epoch=EPOCH + 1), files=bench.files, at=bench.at)


@pytest.mark.guarantee("8")
def test_what_is_kept_is_known_in_the_next_life_and_not_sent_for_that() -> None:
    bench = bench_of()
    take(bench, b"one", b"two", b"three")
    receive(bench, (1, 1))
    bench = next_life(bench)
    assert (sent(bench), depth(bench)) == ([], (0, 2))
    wake_living(bench, bench.at + TIMEOUT_S + LOOK_EVERY_S)
    assert [one.payload for one in again(bench)] == [b"one", b"three"]
    receive(bench, (0, 2))
    assert depth(bench) == (0, 0)


def test_a_configuration_that_keeps_nothing_lets_go_of_what_another_kept() -> None:
    bench = bench_of()
    take(bench, b"one")
    bench = next_life(bench, options_of(AUTO))
    bench.flush()
    assert depth(bench) == (0, 0)


def test_an_exchange_of_qos_2_ends_as_ever_while_its_reading_is_kept() -> None:
    bench = bench_of()
    assert bench.say(b"s1", short(b"two", 2, 7)) == []
    bench.flush()
    assert bench.hear(b"s1") == [Pubrec(7)]
    bench.say(b"s1", Pubrel(7))
    bench.flush()
    assert [type(each).__name__ for each in bench.hear(b"s1")] == ["Pubcomp"]
    assert depth(bench) == (0, 1)
