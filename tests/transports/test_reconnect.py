from __future__ import annotations

import random

from gateway.transports.reconnect import REASONS_MAX, Backoff, Reasons


def test_waits_double_up_to_the_longest_and_never_fall_below_the_shortest() -> None:
    backoff = Backoff(1.0, 60.0, random.Random(7))
    ceilings = [2, 4, 8, 16, 32, 60, 60, 60]
    for ceiling_s in ceilings:
        assert 1.0 <= backoff.next_delay_s() <= ceiling_s


def test_waits_are_spread_over_the_whole_range() -> None:
    delays = []
    for seed in range(300):
        backoff = Backoff(1.0, 8.0, random.Random(seed))
        delays.append([backoff.next_delay_s() for _ in range(3)][2])
    assert min(delays) < 1.5
    assert max(delays) > 7.5


def test_only_a_settled_session_makes_waits_short_again() -> None:
    backoff = Backoff(1.0, 60.0, random.Random(7))
    for _ in range(50):
        backoff.next_delay_s()
    backoff.reset()
    assert backoff.next_delay_s() <= 2.0


def test_a_longest_wait_below_the_shortest_is_the_shortest() -> None:
    assert Backoff(5.0, 1.0, random.Random(7)).next_delay_s() == 5.0


def test_a_reason_is_logged_at_growing_intervals_and_then_every_ten_minutes() -> None:
    reasons = Reasons()
    logged = [second for second in range(0, 3600, 5) if reasons.worth_a_line("refused", second)]
    assert logged == [0, 60, 180, 420, 900, 1500, 2100, 2700, 3300]


def test_another_reason_is_logged_at_once() -> None:
    reasons = Reasons()
    assert reasons.worth_a_line("refused", 0)
    assert reasons.worth_a_line("no answer", 1)
    assert not reasons.worth_a_line("refused", 2)


def test_after_an_outage_every_reason_is_new() -> None:
    reasons = Reasons()
    assert reasons.worth_a_line("refused", 0)
    reasons.forget()
    assert reasons.worth_a_line("refused", 1)


def test_no_more_reasons_are_remembered_than_the_maximum() -> None:
    reasons = Reasons()
    for number in range(REASONS_MAX + 1):
        assert reasons.worth_a_line(f"reason {number}", 0)
    assert not reasons.worth_a_line(f"reason {REASONS_MAX}", 1)
    assert reasons.worth_a_line("reason 0", 1)
