"""A goal passes only on a figure that was measured."""

import pytest

from tests.bench.goals import (
    ALL_CONNECTED,
    FOR_ALL_TRAFFIC,
    IN_ORDER,
    NO_STEP,
    NONE_ACKNOWLEDGED_LOST,
    NONE_LOST,
    Goal,
    Outcome,
    acknowledged_while_away_within,
    acknowledged_within,
    connected_within,
    cpu_at_most,
    delivered_within,
    failed,
    longest_wait_within,
    once,
    rate_at_least,
    ratio_at_most,
    restarted_within,
    verdicts,
)
from tests.bench.measurement import Faults, Figures, Measurement

ARRIVED = Figures(end_to_end_p50_us=500.0, share_near_40ms=0.0)


@pytest.mark.parametrize(
    ("cpu_us", "outcome"),
    [(14.0, Outcome.PASS), (14.01, Outcome.FAIL), (None, Outcome.UNCLEAR)],
)
def test_cpu_time_is_judged_by_its_limit(cpu_us: float | None, outcome: Outcome) -> None:
    run = Measurement(Figures(gateway_cpu_us=cpu_us), Faults())
    assert cpu_at_most(14).verdict(run).outcome is outcome


@pytest.mark.parametrize(
    ("ratio", "outcome"),
    [(2.5, Outcome.PASS), (2.51, Outcome.FAIL), (None, Outcome.UNCLEAR)],
)
def test_the_ratio_is_judged_by_its_limit(ratio: float | None, outcome: Outcome) -> None:
    run = Measurement(Figures(gateway_to_broker=ratio), Faults())
    assert ratio_at_most(2.5).verdict(run).outcome is outcome


@pytest.mark.parametrize(
    ("goal", "faults"),
    [
        (NONE_LOST, Faults(lost=1)),
        (NONE_ACKNOWLEDGED_LOST, Faults(lost_acknowledged=1)),
        (IN_ORDER, Faults(out_of_order=1)),
        (ALL_CONNECTED, Faults(not_connected=1)),
        (once(), Faults(duplicates=1)),
    ],
)
def test_one_fault_fails_its_goal_and_none_passes_it(goal: Goal, faults: Faults) -> None:
    assert goal.verdict(Measurement(ARRIVED, faults)).outcome is Outcome.FAIL
    assert goal.verdict(Measurement(ARRIVED, Faults())).outcome is Outcome.PASS


@pytest.mark.parametrize("goal", [IN_ORDER, once(), NO_STEP])
def test_where_nothing_arrived_nothing_is_proved(goal: Goal) -> None:
    assert goal.verdict(Measurement(Figures(), Faults())).outcome is Outcome.UNCLEAR


@pytest.mark.parametrize(
    ("share", "p50_us", "outcome"),
    [
        (0.001, 500.0, Outcome.PASS),
        (0.002, 500.0, Outcome.FAIL),
        # The queue itself is that long.
        (0.002, 30_000.0, Outcome.UNCLEAR),
    ],
)
def test_a_share_near_40_ms_is_a_step(share: float, p50_us: float, outcome: Outcome) -> None:
    figures = Figures(end_to_end_p50_us=p50_us, share_near_40ms=share)
    assert NO_STEP.verdict(Measurement(figures, Faults())).outcome is outcome


@pytest.mark.parametrize(
    ("goal", "figures", "outcome"),
    [
        (longest_wait_within(100), {"acknowledge_max_us": 100_000.0}, Outcome.PASS),
        (longest_wait_within(100), {"acknowledge_max_us": 100_020.0}, Outcome.FAIL),
        (longest_wait_within(100), {}, Outcome.UNCLEAR),
        (acknowledged_within(0.15, 1)[0], {"acknowledge_p50_us": 151.0}, Outcome.FAIL),
        (acknowledged_within(0.15, 1)[1], {"acknowledge_p99_us": 999.0}, Outcome.PASS),
        (delivered_within(5), {"end_to_end_p99_us": 5001.0}, Outcome.FAIL),
        (rate_at_least(20_000), {"rate_per_s": 19_999.0}, Outcome.FAIL),
        (rate_at_least(20_000), {"rate_per_s": 20_000.0}, Outcome.PASS),
        # Less than, not at most.
        (connected_within(2), {"connect_s": 2.0}, Outcome.FAIL),
        (connected_within(2), {"connect_s": 1.999}, Outcome.PASS),
        (restarted_within(1), {"restart_s": 1.0}, Outcome.FAIL),
        (acknowledged_while_away_within(50), {"away_acknowledge_p99_us": 50_000.0}, Outcome.FAIL),
    ],
)
def test_a_figure_is_judged_by_its_limit(
    goal: Goal, figures: dict[str, float], outcome: Outcome
) -> None:
    assert goal.verdict(Measurement(Figures(**figures), Faults())).outcome is outcome


def test_a_verdict_says_what_was_measured() -> None:
    told = verdicts(FOR_ALL_TRAFFIC, Measurement(ARRIVED, Faults(lost=1234)))
    assert [verdict.measured for verdict in told] == ["0", "1,234", "0", "0", "0.000%"]


def test_a_row_that_did_not_run_fails_every_goal() -> None:
    told = failed(FOR_ALL_TRAFFIC, "no gcc")
    assert {verdict.outcome for verdict in told} == {Outcome.FAIL}
    assert {verdict.measured for verdict in told} == {"no gcc"}
