"""A message whose time is over reaches no client; nor is one dropped whose time is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.downlink.retained import SWEEP_S
from gateway.core.downlink.write_behind import SOON_S
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.message_expiry import SAVE_RUN_TIME_S
from gateway.core.session.options import SessionOptions
from gateway.core.state_records import ClientId
from gateway.core.topic_options import ReadingOptions, UplinkOptions
from gateway.core.values import Message
from gateway.frames import (
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
)
from tests.support.expiry_bench import ExpiryBench
from tests.support.state_bench import SAVING

S1 = b"s1"


def with_sleeper(qos: int = 2) -> ExpiryBench:
    bench = ExpiryBench()
    bench.sleeper(qos=qos)
    return bench


def with_listener(topic: bytes = b"cmd", qos: int = 1) -> ExpiryBench:
    bench = ExpiryBench()
    bench.join(S1, clean=False, keep_alive_s=0)
    bench.subscribe(S1, topic, qos)
    bench.hear(S1)
    return bench


def over(bench: ExpiryBench) -> list[tuple[str | None, int]]:
    """Who lost how many messages because their time was over."""
    dropped = bench.told(Dropped)
    assert {each.reason for each in dropped} <= {Reason.MESSAGE_EXPIRED}
    return [(each.client_id, each.count) for each in dropped]


def saved_expiries(bench: ExpiryBench) -> int:
    counts = [
        bench.database.execute(f"SELECT count(*) FROM {table}_expiries").fetchone()[0]
        for table in ("message", "retained")
    ]
    return sum(counts)


# Clients that sleep, are away or come later


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize(("slept_s", "gets"), [(1.0, [b"open"]), (1.999, [b"open"]), (2.0, [])])
def test_a_sleeper_gets_what_is_not_over_when_it_asks(
    slept_s: float, gets: list[bytes], qos: int
) -> None:
    bench = with_sleeper()
    bench.publish(b"open", 2, qos=qos)
    assert saved_expiries(bench) == 1
    bench.passes(slept_s)
    assert bench.fetches() == gets
    assert over(bench) == ([] if gets else [("s1", 1)])
    assert bench.state().clients[0].messages == []
    assert saved_expiries(bench) == 0


@pytest.mark.guarantee("4c")
def test_what_is_over_goes_and_the_others_stay_in_order() -> None:
    bench = with_sleeper()
    for payload, expiry_s in ((b"1", None), (b"2", 5), (b"3", 60), (b"4", 1), (b"5", 5)):
        bench.publish(payload, expiry_s)
    bench.passes(10)
    assert bench.fetches() == [b"1", b"3"]
    assert over(bench) == [("s1", 1), ("s1", 2)]


def test_a_sleeper_with_nothing_but_what_is_over_hears_pingresp() -> None:
    bench = with_sleeper()
    bench.publish(b"open", 2)
    bench.passes(3)
    assert bench.say(S1, Pingreq(S1)) == [Pingresp()]


def test_a_client_that_comes_back_gets_what_is_not_over() -> None:
    bench = with_sleeper()
    bench.publish(b"short", 2)
    bench.publish(b"long", 100)
    bench.passes(50)
    bench.comes_back()
    assert bench.accepts() == [b"long"]


def test_no_time_at_all_is_enough_for_a_client_that_listens() -> None:
    bench = with_listener()
    bench.say(S1, *[Regack(each.topic_id, each.message_id, 0) for each in registers(bench)])
    for qos in (0, 1):
        bench.publish(b"now", 0, qos=qos)
    assert bench.accepts() == [b"now", b"now"]
    assert over(bench) == []


def registers(bench: ExpiryBench) -> list[Register]:
    return [frame for frame in bench.hear(S1) if isinstance(frame, Register)]


def test_qos_0_that_is_kept_for_a_sleeper_has_its_time_too() -> None:
    options = SessionOptions(queues_qos_0_for_sleepers=True)
    bench = ExpiryBench(replace(SAVING, session=options))
    bench.sleeper()
    bench.publish(b"short", 2, qos=0)
    bench.publish(b"long", 20, qos=0)
    bench.passes(3)
    assert bench.fetches() == [b"long"]


def test_time_in_which_the_process_stood_still_counts() -> None:
    bench = with_sleeper()
    bench.publish(b"open", 10)
    bench.publish(b"close", 30)
    bench.stands_still(20)
    assert bench.at < 2, "the core's clock leaves it out"
    assert bench.fetches() == [b"close"]


@pytest.mark.parametrize("step_s", [-1e6, 1e6])
def test_no_step_of_the_wall_clock_counts_while_the_gateway_runs(step_s: float) -> None:
    bench = with_sleeper()
    bench.publish(b"open", 100)
    bench.engine.set_wall_clock(1_800_000_000_000 + step_s * 1000)
    bench.passes(50)
    assert bench.fetches() == [b"open"]


# Under way


def test_what_is_under_way_is_completed() -> None:
    bench = with_listener()
    bench.publish(b"open", 1)
    (publish,) = [frame for frame in bench.hear(S1) if isinstance(frame, Publish)]
    bench.passes(11)
    (again,) = bench.hear(S1)
    assert again == replace(publish, dup=True)
    bench.say(S1, Puback(publish.topic_id, publish.message_id, 0))
    assert over(bench) == []
    assert bench.state().clients[0].messages == []


def test_qos_2_that_is_received_is_released_after_its_time() -> None:
    bench = with_listener(qos=2)
    bench.publish(b"open", 3, qos=2)
    (publish,) = [frame for frame in bench.hear(S1) if isinstance(frame, Publish)]
    assert bench.say(S1, Pubrec(publish.message_id)) == [Pubrel(publish.message_id)]
    bench.passes(5)
    bench.restart(5)
    bench.passes(1)
    assert bench.hear(S1) == [Pubrel(publish.message_id)]
    assert over(bench) == []


def test_a_message_that_waits_for_regack_is_under_way_only_when_it_goes_out() -> None:
    bench = with_listener(b"+")
    bench.publish(b"open", 2, by="+")
    bench.publish(b"close", 60, by="+")
    (register,) = registers(bench)
    bench.passes(3)
    (publish,) = bench.say(S1, Regack(register.topic_id, register.message_id, 0))
    assert isinstance(publish, Publish)
    assert publish.payload == b"close"
    assert over(bench) == [("s1", 1)]


def test_a_name_that_is_not_acknowledged_is_not_registered_again_for_what_is_over() -> None:
    bench = with_listener(b"+")
    bench.publish(b"open", 2, by="+")
    assert len(registers(bench)) == 1
    bench.passes(11)
    assert bench.hear(S1) == []
    assert over(bench) == [("s1", 1)]


def test_a_sleeper_that_asks_again_gets_no_name_for_what_is_over() -> None:
    bench = ExpiryBench()
    bench.sleeper(topic=b"+")
    bench.publish(b"open", 2, by="+")
    (register,) = bench.say(S1, Pingreq(S1))
    assert isinstance(register, Register)
    bench.passes(3)
    assert bench.say(S1, Pingreq(S1)) == [Pingresp()]


def test_qos_2_whose_write_took_too_long_does_not_go_out() -> None:
    bench = with_listener(qos=2)
    bench.holds_disk = True
    bench.publish(b"open", 2, qos=2)
    assert bench.hear(S1) == []
    bench.passes(3)
    bench.let_disk_go()
    assert bench.hear(S1) == []
    assert over(bench) == [("s1", 1)]


# When the outbox is full


def test_what_is_over_gives_way_before_anything_else() -> None:
    options = SessionOptions(outbox_messages_max=3)
    bench = ExpiryBench(replace(SAVING, session=options))
    bench.sleeper()
    for payload, expiry_s in ((b"1", None), (b"2", 2), (b"3", 3)):
        bench.publish(payload, expiry_s)
    bench.passes(5)
    bench.publish(b"4")
    assert over(bench) == [("s1", 2)]
    bench.publish(b"5")
    assert bench.fetches() == [b"1", b"4", b"5"]


def test_a_full_outbox_drops_what_is_not_over_where_it_must() -> None:
    options = SessionOptions(outbox_messages_max=2)
    bench = ExpiryBench(replace(SAVING, session=options))
    bench.sleeper()
    for payload, expiry_s in ((b"1", 60), (b"2", 60), (b"3", None)):
        bench.publish(payload, expiry_s)
    assert [each.reason for each in bench.told(Dropped)] == [Reason.OUTBOX_FULL]
    assert bench.fetches() == [b"2", b"3"]


# Retained messages


def test_a_retained_message_that_is_over_is_handed_to_nobody_and_goes_from_the_disk() -> None:
    bench = with_sleeper()
    bench.publish(b"auto", 60, retain=True)
    bench.publish(b"hall", retain=True, topic="other")
    bench.passes(59.9)
    assert bench.newcomer(b"s2") == [b"auto"]
    bench.passes(0.1)
    assert "cmd" not in bench.engine.downlink.retained
    assert [each.topic for each in bench.state().retained] == []
    assert saved_expiries(bench) == 1, "the sleeper's"
    assert bench.newcomer(b"s3") == []
    assert bench.fetches() == []


def test_what_is_over_before_it_is_removed_is_handed_to_nobody_either() -> None:
    """They are looked at once a second."""
    bench = with_sleeper()
    for topic, expiry_s in (("cmd/1", 10), ("cmd/2", 10)):
        bench.subscribe(b"s1", topic.encode(), 1)
        bench.publish(b"on", expiry_s, retain=True, topic=topic, by=topic)
    retained = bench.engine.downlink.retained
    bench.at += 10  # no timer has come yet
    assert len(retained) == 2
    assert retained.matching("cmd/#", 1, bench.at) == []
    bench.wake(bench.at + SWEEP_S)
    assert len(retained) == 0


def test_the_same_value_with_another_time_lasts_for_that() -> None:
    bench = with_sleeper()
    for expiry_s in (10, 100, None, 50):
        bench.publish(b"auto", expiry_s, retain=True)
        bench.passes(8)
        (row,) = bench.state().retained
        assert (row.expiry is None) == (expiry_s is None)
    bench.passes(41)
    assert "cmd" in bench.engine.downlink.retained
    bench.passes(1 + SWEEP_S)
    assert "cmd" not in bench.engine.downlink.retained


def test_one_that_is_not_over_is_confirmed_like_any() -> None:
    bench = with_sleeper()
    bench.publish(b"auto", 60, retain=True)
    bench.restart(10)
    bench.publish(b"auto", 50, retain=True, is_replay=True)
    bench.passes(31)
    assert "cmd" in bench.engine.downlink.retained
    bench.passes(20)
    assert "cmd" not in bench.engine.downlink.retained
    assert bench.state().retained == []


def test_a_pause_brings_the_end_of_a_retained_message_nearer() -> None:
    bench = with_sleeper()
    bench.publish(b"auto", 60, retain=True)
    bench.stands_still(100)
    assert "cmd" not in bench.engine.downlink.retained


# After a restart


@pytest.mark.parametrize("is_boot", [False, True])
@pytest.mark.parametrize(("down_s", "gets"), [(20, [b"open"]), (51, [])])
def test_the_wall_clock_tells_what_is_left_after_a_restart(
    down_s: float, gets: list[bytes], is_boot: bool
) -> None:
    bench = with_sleeper()
    bench.passes(1000)
    bench.publish(b"open", 60)
    bench.publish(b"auto", 60, retain=True)
    bench.passes(10)
    bench.restart(down_s, is_boot=is_boot)
    found = bench.engine.downlink.retained.matching("cmd", 1, bench.at)
    assert [each.payload for each in found] == ([b"auto"] if gets else [])
    assert bench.fetches() == (gets and [b"open", b"auto"])
    bench.passes(60)
    assert bench.state().retained == []


def test_the_first_message_may_have_gone_out_and_is_dropped_all_the_same() -> None:
    """What a former run sent is not known: its client gets nothing that is over."""
    bench = with_listener(qos=2)
    bench.publish(b"open", 3, qos=2)
    (publish,) = [frame for frame in bench.hear(S1) if isinstance(frame, Publish)]
    bench.restart(5)
    bench.passes(1)
    assert bench.hear(S1) == []
    assert over(bench) == [("s1", 1)]
    # It had it, and can finish.
    assert bench.say(S1, Pubrec(publish.message_id)) == [Pubrel(publish.message_id)]


def test_what_a_listening_client_has_not_acknowledged_is_saved_with_its_time() -> None:
    bench = with_listener()
    bench.publish(b"open", 60)
    bench.passes(SOON_S)
    assert saved_expiries(bench) == 1
    bench.restart(70)
    bench.hear(S1)
    bench.passes(1)
    assert bench.hear(S1) == []
    assert over(bench) == [("s1", 1)]


def test_a_clock_that_is_set_after_the_start_is_asked_then() -> None:
    """As on a board without a battery clock that was switched off."""
    bench = with_sleeper()
    bench.publish(b"open", 60)
    bench.publish(b"auto", 60, retain=True)
    bench.restart(3600, is_boot=True, is_clock_set=False)
    bench.passes(5)
    assert "cmd" in bench.engine.downlink.retained
    bench.is_clock_set = True
    bench.look_at_clock()
    bench.passes(SWEEP_S)
    assert "cmd" not in bench.engine.downlink.retained
    assert bench.fetches() == []


def test_a_clock_that_jumps_from_1970_costs_nothing() -> None:
    bench = ExpiryBench(is_clock_set=False)
    bench.sleeper()
    bench.publish(b"open", 60)
    bench.restart(is_boot=True)
    bench.is_clock_set = True
    bench.look_at_clock()
    bench.passes(50)
    assert bench.fetches() == [b"open"]


def test_without_a_clock_no_restart_makes_a_message_last_for_ever() -> None:
    bench = ExpiryBench(is_clock_set=False)
    bench.sleeper()
    bench.publish(b"open", 600)
    for _ in range(14):
        bench.passes(100)
        bench.restart(1000, is_boot=True)
    assert bench.true_s > 600
    bench.passes(20)
    assert bench.fetches() == [], "of each run at least half counts"


def test_without_a_clock_it_may_last_longer_by_what_restarts_take() -> None:
    bench = ExpiryBench(is_clock_set=False)
    bench.sleeper()
    bench.publish(b"open", 600)
    bench.passes(300)
    bench.restart(1000, is_boot=True)
    bench.passes(299)
    assert bench.fetches() == [b"open"]


def test_the_run_time_is_written_only_while_it_is_needed() -> None:
    bench = ExpiryBench(is_clock_set=False)
    bench.sleeper()
    bench.passes(1000)
    assert bench.state().run_ms == 0
    bench.publish(b"open", 100)
    bench.passes(SAVE_RUN_TIME_S + 1)
    assert bench.state().run_ms == pytest.approx(1000_000 + SAVE_RUN_TIME_S * 1000, abs=1)
    bench.passes(1000)
    last = bench.state().run_ms
    assert last == pytest.approx(1000_000 + 2 * SAVE_RUN_TIME_S * 1000, abs=1)


# The operator's own


def by_topic(*overrides: tuple[str, float]) -> ExpiryBench:
    options = tuple(
        (each, ReadingOptions(deliver_within_s=within_s)) for each, within_s in overrides
    )
    bench = ExpiryBench(replace(SAVING, uplink=UplinkOptions(overrides=options)))
    bench.sleeper()
    return bench


def test_a_topic_may_have_a_time_where_the_publisher_gave_none() -> None:
    bench = by_topic(("cmd", 30.0))
    bench.publish(b"1")
    bench.publish(b"2", 100)
    bench.passes(31)
    assert bench.fetches() == [b"2"]


def test_other_topics_have_none() -> None:
    bench = by_topic(("cmd/urgent", 30.0), ("#", 0.0))
    bench.publish(b"1")
    bench.passes(1000)
    assert bench.fetches() == [b"1"]


def test_what_the_operator_sends_has_the_time_of_its_topic() -> None:
    bench = by_topic(("cmd", 30.0))
    operator = bench.engine.operator
    bench.ask(operator.publish(ClientId("s1"), Message("cmd", b"open", 1), bench.at))
    bench.passes(31)
    assert bench.fetches() == []
    bench.ask(operator.publish(ClientId("s1"), Message("cmd", b"open", 1), bench.at))
    assert bench.fetches() == [b"open"]


def test_the_operator_sends_without_a_time_where_no_topic_has_one() -> None:
    bench = with_sleeper()
    message = Message("cmd", b"open", 1)
    bench.ask(bench.engine.operator.publish(ClientId("s1"), message, bench.at))
    assert message.expiry is None
