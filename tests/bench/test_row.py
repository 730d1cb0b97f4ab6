"""One failed run fails its row, whatever the others showed."""

from tests.bench.goals import Outcome
from tests.bench.row import Row
from tests.bench.scenarios import MATRIX
from tests.bench.test_measurement import process, times, traffic

ROWS = {row.name: row for row in MATRIX}
FAST = {"gateway": process(9.0), "broker": process(6.0)}


def clean_row() -> Row:
    good = traffic(end_to_end_us=times(), acknowledge_us=times(), **FAST)
    return Row(ROWS["qos1-up-100"], [good, good])


def test_a_row_without_errors_passes() -> None:
    assert {verdict.outcome for verdict in clean_row().verdicts} == {Outcome.PASS}


def test_one_error_fails_all_goals_and_keeps_the_figures() -> None:
    row = clean_row()
    row.errors.append("the broker closed our connection")
    assert {verdict.outcome for verdict in row.verdicts} == {Outcome.FAIL}
    assert row.result is not None
    assert row.result.figures.rate_per_s == 5000


def test_a_yardstick_has_no_goals() -> None:
    assert Row(ROWS["udp-echo"]).verdicts == ()


def test_json_keeps_every_run_as_the_generator_told_it() -> None:
    row = clean_row()
    told = row.as_json()
    assert [run["rate_per_s"] for run in told["runs"]] == [5000.0, 5000.0]
    assert told["median"]["gateway_cpu_us"] == 9.0
    assert told["worst"]["lost"] == 0
    assert told["arguments"][0] == "pub"
    assert {goal["outcome"] for goal in told["goals"]} == {"pass"}
