"""What the broker ends the connection for: degrees, suspects, blocks. No packets here."""

from __future__ import annotations

from math import inf

import pytest

from gateway.core.mqtt.caution import (
    AT_ONCE_S,
    BLOCK_S,
    BLOCK_S_MAX,
    CLIENT_KEYS_MAX,
    EVERYTHING,
    FORGET_S,
    KEYS_MAX,
    LASTS_S,
    LOOK_AGAIN_S,
    OFF,
    PATIENCE_S,
    SHORT_MAX,
    STRIKES_MAX,
    TOPICS_MAX,
    TRIAL_AFTER_S,
    UNPROVEN,
    Alone,
    Caution,
    Key,
    Verdict,
    filter_key,
    is_about_content,
    own_filter_key,
    own_key,
    reading_key,
)
from gateway.core.values import Reading
from tests.core.mqtt.broker_side import new_reading

KNOWN = Verdict(is_known=True)


def caution_up(probe_s: float = 0.0, now: float = 0.0, *, has_backlog: bool = False) -> Caution:
    caution = Caution(probe_s)
    opened(caution, now, has_backlog=has_backlog)
    return caution


def opened(caution: Caution, now: float, *, has_backlog: bool = False) -> None:
    caution.opened(now, lasts_s=LASTS_S, has_backlog=has_backlog)


def ended(
    caution: Caution, now: float, *, only: Reading | None = None, is_unanswered: bool = True
) -> Verdict:
    """By the broker."""
    return caution.closed(now, by_broker=True, only=only, is_unanswered=is_unanswered)


def ended_alone(caution: Caution, alone: Alone, now: float) -> Verdict:
    """As soon as this was sent alone, and the next connection is there."""
    caution.sent_alone(alone)
    verdict = ended(caution, now)
    opened(caution, now)
    return verdict


def blocked(caution: Caution, reading: Reading, now: float) -> Alone:
    """Found guilty now."""
    alone = Alone(reading_key(reading), reading)
    for _ in range(STRIKES_MAX - 1):
        assert ended_alone(caution, alone, now) == KNOWN
    assert ended_alone(caution, alone, now).guilty is alone
    return alone


def is_blocked(caution: Caution, reading: Reading, now: float) -> bool:
    return caution.is_blocked(reading_key(reading), len(reading.payload), now)


# Degrees


def test_nothing_goes_alone_in_the_first_connection() -> None:
    caution = caution_up(probe_s=10.0)
    assert (caution.degree, caution.is_on, caution.wake_at()) == (OFF, False, inf)
    assert not caution.goes_alone("t", 2)


def test_after_an_outage_topics_are_unproven_for_a_while() -> None:
    caution = caution_up(probe_s=10.0)
    caution.closed(1.0, by_broker=False, only=None, is_unanswered=True)
    opened(caution, 2.0)
    assert (caution.degree, caution.is_on) == (UNPROVEN, True)
    assert caution.goes_alone("t", 1)
    caution.prove("t")
    assert not caution.goes_alone("t", 1)
    assert not caution.goes_alone("other", 0), "only a ping would tell, so it needs a reason"
    caution.trial_at = inf
    assert caution.wake_at() == 12.0
    assert not caution.handle_time(11.9)
    assert caution.handle_time(12.0)
    assert (caution.degree, caution.is_on, caution.wake_at()) == (OFF, False, inf)


def test_what_waits_in_the_journal_at_the_start_is_unproven_as_after_an_outage() -> None:
    assert caution_up(probe_s=10.0, has_backlog=True).degree == UNPROVEN
    assert caution_up(probe_s=0.0, has_backlog=True).degree == OFF


def test_everything_goes_alone_after_short_connections_in_a_row_until_one_lasts() -> None:
    caution = caution_up()
    for number in range(SHORT_MAX):
        assert caution.degree == (UNPROVEN if number else OFF)
        assert ended(caution, float(number)) == Verdict()
        opened(caution, float(number))
    assert caution.degree == EVERYTHING
    caution.prove("t")
    assert caution.goes_alone("t", 0)
    assert caution.handle_time(SHORT_MAX - 1 + TRIAL_AFTER_S), "suspects may be tried"
    assert caution.degree == EVERYTHING
    assert caution.handle_time(SHORT_MAX - 1 + LASTS_S)
    assert caution.degree == OFF
    ended(caution, 100.0)
    opened(caution, 100.0)
    assert caution.degree == OFF, "the one that ended had lasted"


def test_a_connection_that_did_not_come_about_counts_for_nothing() -> None:
    caution = caution_up()
    ended(caution, 1.0)
    assert ended(caution, 2.0) == Verdict()
    opened(caution, 2.0)
    assert caution.degree == UNPROVEN


def test_the_fault_of_the_network_makes_nothing_suspect() -> None:
    caution = caution_up()
    caution.sent_alone(Alone(filter_key("f")))
    assert caution.closed(1.0, by_broker=False, only=None, is_unanswered=True) == Verdict()
    assert (caution.alone, caution.suspects) == (None, {})


@pytest.mark.parametrize(
    ("code", "about_content"),
    [(0x00, False), (0x8B, False), (0x8D, False), (0x8E, False), (0x93, False), (0x97, False),
     (0x98, False), (0x81, True), (0x82, True), (0x87, True), (0x90, True), (0x95, True)],
)  # fmt: skip
def test_a_disconnect_of_the_broker_may_have_nothing_to_do_with_what_was_sent(
    code: int, about_content: bool
) -> None:
    assert is_about_content(code) is about_content


# Suspects


@pytest.mark.parametrize("key", [filter_key("f"), own_filter_key("f"), ("reading", "s1", "t")])
def test_the_third_time_a_suspect_is_guilty(key: Key) -> None:
    caution, alone = caution_up(), Alone(key)
    for number in range(1, STRIKES_MAX):
        assert ended_alone(caution, alone, 1.0) == KNOWN
        assert caution.suspects[key].strikes == number
        assert caution.is_suspect(key, 1.0)
        assert not caution.is_blocked(key, 0, 1.0)
        assert caution.degree == UNPROVEN, "the cause is known, so not everything goes alone"
    assert ended_alone(caution, alone, 1.0) == Verdict(is_known=True, guilty=alone)
    assert caution.suspects == {}
    assert caution.is_blocked(key, 0, 1.0)


def test_one_of_our_own_topics_is_guilty_the_first_time() -> None:
    caution, alone = caution_up(), Alone(own_key("tidegate/gh/state"), needs_ping=True)
    assert ended_alone(caution, alone, 1.0).guilty is alone
    assert caution.is_blocked(alone.key, 0, 1.0)
    assert not caution.goes_alone("t", 0), "at QoS 0 only readings are a reason for a ping"


def test_the_one_reading_in_flight_is_suspected_though_the_cause_is_not_known() -> None:
    caution, reading = caution_up(), new_reading()
    assert ended(caution, 1.0, only=reading) == Verdict()
    assert caution.suspects[reading_key(reading)].strikes == 1
    opened(caution, 1.0)
    ended(caution, 2.0, only=reading)
    opened(caution, 2.0)
    assert caution.degree == EVERYTHING
    guilty = ended(caution, 3.0, only=reading).guilty
    assert guilty is not None
    assert guilty.reading is reading


def test_a_suspect_that_is_answered_is_none_any_more_and_its_topic_is_proven() -> None:
    caution, reading = caution_up(), new_reading(topic="t")
    alone = Alone(reading_key(reading), reading)
    ended_alone(caution, alone, 1.0)
    caution.sent_alone(alone)
    caution.answered()
    assert (caution.suspects, caution.alone, caution.proven) == ({}, None, {"t"})
    caution.answered()
    assert caution.proven == {"t"}, "nothing was sent alone"
    caution.handle_time(1.0 + LASTS_S)
    assert not caution.is_on


def test_a_filter_that_is_answered_proves_no_topic() -> None:
    caution = caution_up()
    caution.sent_alone(Alone(filter_key("f")))
    caution.answered()
    assert caution.proven == set()


def test_what_needs_a_ping_is_answered_by_the_last_of_them() -> None:
    caution = caution_up()
    caution.ping_answered()
    assert caution.pings == 0, "that one was of no ping"
    alone = Alone(own_key("state"), needs_ping=True)
    caution.sent_alone(alone)
    caution.pings = 2
    caution.ping_answered()
    assert caution.alone is alone
    caution.ping_answered()
    assert caution.alone is None


def test_a_ping_says_nothing_of_what_is_answered_otherwise() -> None:
    caution, alone = caution_up(), Alone(filter_key("f"))
    caution.sent_alone(alone)
    caution.ping_answered()
    assert caution.alone is alone


def test_suspects_are_tried_though_others_wait_after_a_while() -> None:
    caution = caution_up()
    ended_alone(caution, Alone(filter_key("f")), 1.0)
    assert not caution.is_trial_due
    assert caution.wake_at() == 1.0 + TRIAL_AFTER_S
    assert caution.handle_time(1.0 + TRIAL_AFTER_S)
    assert caution.is_trial_due
    opened(caution, 10.0)
    assert not caution.is_trial_due


def test_a_suspect_that_is_not_sent_again_is_forgotten() -> None:
    caution = caution_up()
    ended_alone(caution, Alone(filter_key("f")), 1.0)
    opened(caution, 1.0 + FORGET_S)
    assert caution.suspects
    opened(caution, 1.1 + FORGET_S)
    assert not caution.suspects


def test_the_oldest_suspects_give_way() -> None:
    caution = caution_up()
    for number in range(KEYS_MAX + 1):
        ended_alone(caution, Alone(filter_key(f"{number}")), 1.0)
    assert len(caution.suspects) == KEYS_MAX
    assert filter_key("0") not in caution.suspects


# What is refused


def test_what_was_refused_just_before_the_end_is_the_cause() -> None:
    caution, reading = caution_up(), new_reading()
    caution.heard_at = 5.0
    caution.refused(reading)
    assert ended(caution, 5.0 + AT_ONCE_S, is_unanswered=False) == KNOWN
    assert is_blocked(caution, reading, 6.0)
    opened(caution, 6.0)
    assert caution.goes_alone("t", 0), "at QoS 0 as well from now on, with a ping"


def test_it_is_not_when_something_else_was_under_way_or_answered_since_or_it_is_long_ago() -> None:
    for case in ("under way", "accepted", "long ago"):
        caution, reading = caution_up(), new_reading()
        caution.refused(reading)
        if case == "accepted":
            caution.accepted()
        at = AT_ONCE_S + 0.1 if case == "long ago" else 0.0
        assert ended(caution, at, is_unanswered=case == "under way") == Verdict(), case
        assert not caution.blocked, case


def test_nothing_that_follows_is_blamed_for_what_was_refused_alone() -> None:
    caution, reading = caution_up(), new_reading()
    alone = Alone(reading_key(reading), reading)
    ended_alone(caution, alone, 1.0)
    caution.heard_at = 1.0
    caution.sent_alone(alone)
    caution.refused(reading)
    assert caution.alone is alone, "nothing is sent until a ping is answered"
    assert caution.suspects == {}
    assert ended(caution, 1.0, is_unanswered=False) == KNOWN
    assert is_blocked(caution, reading, 1.0)


def test_what_is_refused_and_does_not_end_the_connection_is_no_cause_and_not_proven() -> None:
    caution, reading = caution_up(), new_reading()
    caution.sent_alone(Alone(reading_key(reading), reading))
    caution.refused(reading)
    caution.pings = 1
    caution.ping_answered()
    assert (caution.alone, caution.proven) == (None, set())
    assert ended(caution, 0.0, is_unanswered=False) == Verdict()
    assert not caution.blocked


def test_another_reading_that_is_refused_leaves_what_was_sent_alone() -> None:
    caution, alone = caution_up(), Alone(filter_key("f"))
    caution.sent_alone(alone)
    caution.refused(new_reading())
    caution.ended_otherwise(new_reading())
    assert caution.alone is alone


def test_one_that_is_to_be_sent_again_is_suspected_as_before() -> None:
    caution, reading = caution_up(), new_reading()
    alone = Alone(reading_key(reading), reading)
    ended_alone(caution, alone, 1.0)
    caution.sent_alone(alone)
    caution.ended_otherwise(reading)
    assert caution.alone is None
    assert caution.is_suspect(alone.key, 1.0)


# Blocks


def test_a_block_ends_with_a_trial_and_doubles_each_time() -> None:
    caution, reading = caution_up(), new_reading()
    alone = blocked(caution, reading, 0.0)
    now, seconds = 0.0, BLOCK_S
    while seconds < BLOCK_S_MAX:
        assert is_blocked(caution, reading, now + seconds - 0.1)
        now += seconds
        assert not is_blocked(caution, reading, now)
        assert caution.is_suspect(alone.key, now), "on trial"
        assert ended_alone(caution, alone, now).guilty is alone, "once is enough"
        seconds = min(2 * seconds, BLOCK_S_MAX)
    assert caution.blocked[alone.key].seconds == BLOCK_S_MAX


def test_what_passes_its_trial_is_not_blocked_any_more() -> None:
    caution, reading = caution_up(), new_reading()
    alone = blocked(caution, reading, 0.0)
    caution.sent_alone(alone)
    caution.answered()
    assert not caution.has_blocked
    assert not caution.is_suspect(alone.key, BLOCK_S)


def test_what_is_smaller_may_pass_and_is_blocked_for_itself() -> None:
    caution = caution_up()
    blocked(caution, new_reading(b"x" * 100), 0.0)
    small, smaller = new_reading(b"x" * 99), new_reading(b"x" * 10)
    assert is_blocked(caution, new_reading(b"x" * 200), 1.0)
    assert not is_blocked(caution, small, 1.0)
    ended_alone(caution, Alone(reading_key(smaller), smaller), 1.0)
    assert is_blocked(caution, smaller, 2.0)
    assert is_blocked(caution, small, 2.0)
    larger = new_reading(b"x" * 300)
    ended_alone(caution, Alone(reading_key(larger), larger), 3.0)
    assert is_blocked(caution, smaller, 4.0), "the smallest counts"


def test_others_and_other_topics_are_not_blocked() -> None:
    caution = caution_up()
    blocked(caution, new_reading(topic="t", client="s1"), 0.0)
    assert not is_blocked(caution, new_reading(topic="t", client="s2"), 0.0)
    assert not is_blocked(caution, new_reading(topic="u", client="s1"), 0.0)


def test_a_client_with_many_blocked_topics_is_blocked_on_all_that_are_not_proven() -> None:
    caution = caution_up()
    caution.prove("good")
    for number in range(CLIENT_KEYS_MAX):
        assert not is_blocked(caution, new_reading(topic="new"), 0.0)
        blocked(caution, new_reading(topic=f"bad/{number}"), 0.0)
    assert is_blocked(caution, new_reading(topic="new"), BLOCK_S - 0.1)
    assert not is_blocked(caution, new_reading(topic="new"), BLOCK_S)
    assert not is_blocked(caution, new_reading(topic="good"), 0.0)
    assert not is_blocked(caution, new_reading(topic="new", client="s2"), 0.0)
    assert not caution.is_blocked(filter_key("new"), 0, 0.0)


def test_an_operator_who_wants_it_sent_again_ends_the_block() -> None:
    caution = caution_up()
    for number in range(CLIENT_KEYS_MAX):
        blocked(caution, new_reading(topic=f"bad/{number}"), 0.0)
    caution.forgive(reading_key(new_reading(topic="bad/0")))
    assert not is_blocked(caution, new_reading(topic="bad/0"), 0.0)
    assert not is_blocked(caution, new_reading(topic="new"), 0.0)
    assert is_blocked(caution, new_reading(topic="bad/1"), 0.0)


def test_the_oldest_blocks_give_way() -> None:
    caution = caution_up()
    for number in range(KEYS_MAX + 1):
        ended_alone(caution, Alone(own_key(f"{number}")), 1.0)
    assert len(caution.blocked) == KEYS_MAX
    assert not caution.is_blocked(own_key("0"), 0, 1.0)


def test_proven_topics_are_limited_and_then_all_are_unproven_again() -> None:
    caution = caution_up()
    for number in range(TOPICS_MAX + 1):
        caution.prove(f"{number}")
    assert caution.proven == {f"{TOPICS_MAX}"}


def test_caution_is_not_relaxed_before_all_that_is_to_go_alone_had_its_turn() -> None:
    caution = caution_up()
    for _ in range(SHORT_MAX):
        ended(caution, 0.0)
        opened(caution, 0.0)
    assert caution.degree == EVERYTHING
    caution.put_off_relaxing(LASTS_S - 1.0)
    assert caution.relax_at == LASTS_S, "it is not due"
    caution.put_off_relaxing(LASTS_S)
    assert caution.relax_at == LASTS_S + LOOK_AGAIN_S


def test_what_is_asked_besides_keeps_its_time_when_what_went_alone_is_answered() -> None:
    caution = caution_up()
    caution.sent_alone(Alone(filter_key("f")))
    caution.asked(1)
    caution.answered()
    assert caution.patience_at == PATIENCE_S
    caution.asked(0)
    assert caution.patience_at == inf


def test_who_waited_too_long_asks_no_more_on_this_connection() -> None:
    caution = caution_up(probe_s=10.0, has_backlog=True)
    caution.sent_alone(Alone(filter_key("f")))
    caution.asked(2)
    assert caution.handle_time(PATIENCE_S)
    assert (caution.alone, caution.asks, caution.is_on) == (None, 0, False)
    caution.asked(1)
    assert caution.asks == 0
    opened(caution, PATIENCE_S)
    assert caution.is_on
