"""What a row must show, and whether it did. Not measured is not passed.

What a processor takes, and how much it can do in a second, is also judged as it would be on a
machine so many times as quick (`yardstick.py`). That is told beside the outcome and changes none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

from tests.bench.measurement import Measurement

# Of a million samples on a busy machine some last 35 to 50 ms by chance; a step of Nagle's
# algorithm against a delayed ACK takes whole percents.
NEAR_40MS_SHARE_MAX = 0.001
# Above this median the row's own queue is long enough to put samples near 40 ms.
SATURATED_P50_US = 20_000.0


class Outcome(Enum):
    PASS = "pass"
    FAIL = "FAIL"
    UNCLEAR = "unclear"


Judgement = tuple[Outcome, str]


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    goal: str
    measured: str
    # On a machine so many times as quick; None for what is not the processor's alone.
    when_quicker: Callable[[float], Judgement] | None = None


@dataclass(frozen=True, slots=True)
class Goal:
    text: str
    judge: Callable[[Measurement], Judgement]
    judge_quicker: Callable[[Measurement, float], Judgement] | None = None

    def verdict(self, measurement: Measurement) -> Verdict:
        outcome, measured = self.judge(measurement)
        if self.judge_quicker is None:
            return Verdict(outcome, self.text, measured)
        return Verdict(outcome, self.text, measured, partial(self.judge_quicker, measurement))


def _at_most(value: float | None, limit: float, unit: str) -> Judgement:
    if value is None:
        return Outcome.UNCLEAR, "not measured"
    return (Outcome.PASS if value <= limit else Outcome.FAIL), f"{value:.2f}{unit}"


def _below(value: float | None, limit: float, unit: str) -> Judgement:
    if value is None:
        return Outcome.UNCLEAR, "not measured"
    return (Outcome.PASS if value < limit else Outcome.FAIL), f"{value:.2f}{unit}"


def cpu_at_most(limit_us: float) -> Goal:
    def judge(measurement: Measurement, times_as_quick: float = 1.0) -> Judgement:
        found_us = measurement.figures.gateway_cpu_us
        return _at_most(None if found_us is None else found_us / times_as_quick, limit_us, " µs")

    return Goal(f"gateway CPU at most {limit_us:g} µs", judge, judge)


def ratio_at_most(limit: float) -> Goal:
    return Goal(
        f"gateway CPU at most {limit:g} times mosquitto's",
        lambda measurement: _at_most(measurement.figures.gateway_to_broker, limit, " times"),
    )


def _at_least(value: float | None, limit: float, unit: str, decimals: int) -> Judgement:
    if value is None:
        return Outcome.UNCLEAR, "not measured"
    return (Outcome.PASS if value >= limit else Outcome.FAIL), f"{value:,.{decimals}f}{unit}"


def share_at_least(limit: float) -> Goal:
    return Goal(
        f"at least {limit:g} of the rate with `acknowledge = auto`",
        lambda measurement: _at_least(measurement.figures.rate_share, limit, "", 2),
    )


def journal_bytes_at_most(limit: float) -> Goal:
    return Goal(
        f"at most {limit:g} B of journal a reading",
        lambda measurement: _at_most(measurement.figures.journal_bytes, limit, " B"),
    )


def rate_at_least(limit_per_s: float) -> Goal:
    def judge(measurement: Measurement, times_as_quick: float = 1.0) -> Judgement:
        found = measurement.figures.rate_per_s
        return _at_least(None if found is None else found * times_as_quick, limit_per_s, "/s", 0)

    return Goal(f"at least {limit_per_s:,.0f} messages a second", judge, judge)


def _within(text: str, time_us: Callable[[Measurement], float | None], limit_ms: float) -> Goal:
    def judge(measurement: Measurement) -> Judgement:
        found_us = time_us(measurement)
        return _at_most(None if found_us is None else found_us / 1000, limit_ms, " ms")

    return Goal(f"{text} at most {limit_ms:g} ms", judge)


def acknowledged_within(p50_ms: float, p99_ms: float) -> tuple[Goal, Goal]:
    return (
        _within("PUBACK p50", lambda run: run.figures.acknowledge_p50_us, p50_ms),
        _within("PUBACK p99", lambda run: run.figures.acknowledge_p99_us, p99_ms),
    )


def longest_wait_within(limit_ms: float) -> Goal:
    return _within(
        "longest wait for a PUBACK", lambda run: run.figures.acknowledge_max_us, limit_ms
    )


def delivered_within(p99_ms: float) -> Goal:
    return _within("end to end p99", lambda run: run.figures.end_to_end_p99_us, p99_ms)


def connected_within(limit_s: float) -> Goal:
    return Goal(
        f"all connected in less than {limit_s:g} s",
        lambda measurement: _below(measurement.figures.connect_s, limit_s, " s"),
    )


def nothing_written() -> Goal:
    return Goal(
        "nothing written to disk",
        lambda measurement: _at_most(measurement.figures.written_bytes, 0.0, " B a message"),
    )


def acknowledged_while_away_within(limit_ms: float) -> Goal:
    def judge(measurement: Measurement) -> Judgement:
        p99_us = measurement.figures.away_acknowledge_p99_us
        return _below(None if p99_us is None else p99_us / 1000, limit_ms, " ms")

    return Goal(f"PUBACK p99 while the broker is away less than {limit_ms:g} ms", judge)


def drained_at(limit_per_s: float) -> Goal:
    return Goal(
        f"backlog drained at {limit_per_s:,.0f}/s or more",
        lambda measurement: _at_least(measurement.figures.drain_rate_per_s, limit_per_s, "/s", 0),
    )


def restarted_within(limit_s: float) -> Goal:
    return Goal(
        f"first PUBACK less than {limit_s:g} s after the start of the process",
        lambda measurement: _below(measurement.figures.restart_s, limit_s, " s"),
    )


def _nothing_arrived(measurement: Measurement) -> bool:
    return measurement.figures.end_to_end_p50_us is None


def _none_of(
    text: str, count: Callable[[Measurement], float], *, of_arrivals: bool = False
) -> Goal:
    """`of_arrivals`: where nothing arrived, nothing could have been wrong with it."""

    def judge(measurement: Measurement) -> Judgement:
        if of_arrivals and _nothing_arrived(measurement):
            return Outcome.UNCLEAR, "nothing arrived"
        found = count(measurement)
        return (Outcome.PASS if found == 0 else Outcome.FAIL), f"{found:,.0f}"

    return Goal(text, judge)


def once() -> Goal:
    return _none_of(
        "no message twice", lambda measurement: measurement.faults.duplicates, of_arrivals=True
    )


def _judge_step(measurement: Measurement) -> Judgement:
    share = measurement.figures.share_near_40ms
    if share is None:
        return Outcome.UNCLEAR, "nothing arrived"
    medians = (
        measurement.figures.end_to_end_p50_us or 0.0,
        measurement.figures.acknowledge_p50_us or 0.0,
    )
    text = f"{share:.3%}"
    if share <= NEAR_40MS_SHARE_MAX:
        return Outcome.PASS, text
    if max(medians) >= SATURATED_P50_US:
        return Outcome.UNCLEAR, f"{text}, but the median is {max(medians) / 1000:.0f} ms"
    return Outcome.FAIL, text


ALL_CONNECTED = _none_of(
    "every client connected", lambda measurement: measurement.faults.not_connected
)
NONE_LOST = _none_of("no message lost", lambda measurement: measurement.faults.lost)
NONE_ACKNOWLEDGED_LOST = _none_of(
    "no acknowledged message lost", lambda measurement: measurement.faults.lost_acknowledged
)
IN_ORDER = _none_of(
    "every message in order", lambda measurement: measurement.faults.out_of_order, of_arrivals=True
)
NO_STEP = Goal(f"at most {NEAR_40MS_SHARE_MAX:.1%} of the times near 40 ms", _judge_step)

NONE_DISCONNECTED = _none_of(
    "no client disconnected", lambda measurement: measurement.faults.disconnected
)

NONE_REPEATED = _none_of("no CONNECT repeated", lambda run: run.faults.connect_retries)
NONE_EARLY = _none_of("no message to a sleeper", lambda run: run.faults.early)
EACH_ONCE = _none_of("no message twice", lambda run: run.faults.duplicates)

FOR_EVERY_STORM = (ALL_CONNECTED,)
FOR_EVERY_OUTAGE = (
    ALL_CONNECTED,
    NONE_LOST,
    NONE_ACKNOWLEDGED_LOST,
    IN_ORDER,
    NONE_DISCONNECTED,
)
# A line carries so few messages that one stall of the machine would look like a step.
FOR_EVERY_LINE = (ALL_CONNECTED, NONE_LOST, NONE_ACKNOWLEDGED_LOST, IN_ORDER)
FOR_EVERY_WAKING = (ALL_CONNECTED, NONE_LOST, EACH_ONCE, NONE_EARLY, NONE_DISCONNECTED)
FOR_ALL_TRAFFIC = (ALL_CONNECTED, NONE_LOST, NONE_ACKNOWLEDGED_LOST, IN_ORDER, NO_STEP)


def verdicts(goals: Sequence[Goal], measurement: Measurement) -> tuple[Verdict, ...]:
    return tuple(goal.verdict(measurement) for goal in goals)


def failed(goals: Sequence[Goal], why: str) -> tuple[Verdict, ...]:
    """For a row without a measurement."""
    return tuple(Verdict(Outcome.FAIL, goal.text, why) for goal in goals)
