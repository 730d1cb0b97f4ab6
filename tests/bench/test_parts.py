"""The parts of the benchmark beside the matrix: what they draw from their figures, and that their
instruments measure. No time is judged here."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.frames import Puback
from tests.bench import everything, growth, load_curve, part, sleepers, tables, where
from tests.bench.crowd import CLIENTS_OF_MANY, Crowd
from tests.bench.document import DOCUMENT, LINES_MAX, SECTIONS, with_section
from tests.bench.machine import Machine
from tests.bench.measurement import MeasurementError
from tests.bench.row import Row
from tests.bench.scenarios import MATRIX, Kind
from tests.bench.table import Table
from tests.bench.test_measurement import outage, process, restart, storm, times, traffic, waking
from tests.bench.test_tables import MACHINE
from tests.bench.timed_gateway import LOOP, METHODS, PARTS, Clocks


def test_the_load_curve_is_drawn_over_what_arrived() -> None:
    rows = [
        Row(load_curve.scenario(1000), [traffic(rate_per_s=1000.0, gateway=process(40.0))]),
        Row(load_curve.scenario(150_000), [traffic(rate_per_s=90_000.0, gateway=process(9.0))]),
        Row(load_curve.scenario(10), errors=["no gcc"]),
    ]
    found = load_curve.result(rows)
    (table,) = found.tables
    assert [line[:3] for line in table.lines] == [
        ("1,000/s", "1,000", "40.00"),
        ("150,000/s", "90,000", "9.00"),
        ("10/s", "–", "–"),
    ]
    assert table.lines[2][-1] == "no gcc"
    assert "90,000 a second" in found.remarks[0]
    assert "2 of 2 rates have more" in found.remarks[0]
    assert "polyline" in found.plots["load_curve.svg"][1]


def test_without_any_figure_there_is_no_plot() -> None:
    assert load_curve.result([Row(load_curve.scenario(10), errors=["no gcc"])]).plots == {}


def test_the_rates_of_the_load_curve_go_up() -> None:
    assert list(load_curve.RATES) == sorted(set(load_curve.RATES))
    assert set(load_curve.QUICK_RATES) <= set(load_curve.RATES)


@pytest.mark.parametrize(("cost", "outcome"), [(6.0, "pass"), (60.0, "FAIL")])
def test_a_cost_that_grows_linearly_misses_its_goal(cost: float, outcome: str) -> None:
    curve = growth.Curve("a reading up", "clients", ((10, 5.0), (100, cost)))
    (table,) = growth.result([curve]).tables
    assert table.lines[0][:4] == ("a reading up", "clients", "5.00", f"{cost:.2f}")
    assert table.lines[0][-1] == outcome
    assert table.lines[0][-2] == ("flat" if outcome == "pass" else "linear")


def test_what_is_measured_by_the_same_number_is_in_one_plot() -> None:
    curves = [
        growth.Curve(what, over, ((10, 5.0), (100, 5.0)))
        for what, over in (("up", "topics"), ("up", "subscriptions"), ("down", "subscriptions"))
    ]
    drawn = growth.plots(curves)
    assert set(drawn) == {"growth_topics.svg", "growth_subscriptions.svg"}
    assert "down" in drawn["growth_subscriptions.svg"][1]


def test_no_more_clients_are_asked_for_than_the_generator_may_have_sockets() -> None:
    assert growth.possible(100) == 100
    assert 0 < growth.possible(1 << 62) <= 1 << 62


def test_a_crowd_takes_readings_and_messages_to_their_end() -> None:
    """Each turn asserts that all of its messages were acknowledged."""
    crowd = Crowd(20)
    assert crowd.reading_us(rounds=1) > 0
    crowd = Crowd(CLIENTS_OF_MANY, 4)
    crowd.register(150)
    crowd.subscribe(150)
    assert crowd.reading_on_topic_us(rounds=1) > 0
    assert crowd.message_us(rounds=1) > 0
    assert len({client for client, _ in crowd.topics}) == CLIENTS_OF_MANY
    assert len(set(crowd.filters)) == 150


def test_sessions_are_loaded_from_a_state(tmp_path: Path) -> None:
    assert len(list(growth.saved(10))) == 30
    assert growth.load_us(10, 1) > 0


def test_clocks_give_each_part_what_is_its_own() -> None:
    clocks = Clocks()
    inner = clocks.timed("engine, sensors", lambda: sum(range(100_000)))
    outer = clocks.timed("shell", lambda: inner() + inner())
    clocks.timed("datagrams in", lambda: None)()  # before the first datagram nothing counts
    assert outer() == 2 * sum(range(100_000))
    told = clocks.report()
    assert (told["calls"]["shell"], told["calls"]["engine, sensors"]) == (1, 2)
    assert told["calls"]["datagrams in"] == 0
    assert told["seconds"]["engine, sensors"] > told["seconds"]["shell"] > 0


def test_what_a_part_does_before_and_between_others_is_its_own_and_the_rest_the_loops() -> None:
    passed = 0.0

    def takes(seconds: float) -> float:
        nonlocal passed
        passed += seconds
        return passed

    clocks = Clocks(now=lambda: passed)
    inner = clocks.timed("engine, sensors", lambda: takes(1.0))
    outer = clocks.timed("shell", lambda: (takes(200.0), inner(), takes(30.0)))
    outer()
    takes(4000.0)
    outer()
    seconds = clocks.report()["seconds"]
    told = (seconds["shell"], seconds["engine, sensors"], seconds[LOOP])
    assert told == (460.0, 2.0, 4000.0)


def test_a_part_that_fails_still_gives_back_the_clock() -> None:
    clocks = Clocks()

    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        clocks.timed("shell", fails)()
    clocks.timed("shell", lambda: None)()
    assert clocks.report()["calls"]["shell"] == 2


def test_every_part_with_a_clock_is_there_and_in_the_table() -> None:
    for functions in METHODS.values():
        for owner, name in functions:
            assert callable(owner.__dict__[name])
    assert set(where.SAID) == {*PARTS, where.ENCODE, where.OTHER}


def test_every_row_with_a_goal_for_its_cpu_or_its_wait_is_taken_apart() -> None:
    goals = ("gateway CPU at most", "PUBACK p50")
    asked = {row.name for row in MATRIX if any(each.text.startswith(goals) for each in row.goals)}
    assert asked == {name for group in where.SENT.values() for name in group}


def test_the_parts_of_a_message_are_told_beside_the_whole() -> None:
    seconds = {**dict.fromkeys(PARTS, 0.0), "shell": 0.003, "recvmmsg": 0.001}
    parts = where.parts_of({"seconds": seconds, "other_threads_s": 0.001}, 1000, 0.5)
    assert (parts["shell"], parts["recvmmsg"], parts[where.ENCODE]) == (2.5, 1.0, 0.5)
    split = where.Split(MATRIX[0], parts, 4.0, 1.0, 3.0, 1.5, per_look=20.0)
    assert split.timed == 5.0
    (table,) = where.result({"of a reading": [split]}, "compiled").tables
    assert table.title == "of a reading"
    assert ("kernel: `recvmmsg`, datagrams in", "1.00", "20%") in table.lines
    assert table.lines[-5:] == (
        ("all of it, with clocks", "5.00", "100%"),
        ("the gateway without clocks", "4.00", ""),
        ("of that in the kernel", "1.00", "25%"),
        ("the gateway as it is run here (compiled)", "3.00", "75%"),
        ("of that in the kernel (compiled)", "1.50", "50%"),
    )


def test_encoding_is_timed() -> None:
    assert where.encode_us([Puback(1, 1, 0)]) > 0 == where.encode_us([])


def test_sleepers_are_judged_beside_their_figures() -> None:
    night = sleepers.Night(100_000, 8000.0, 0, 2671.4, 1, 0.05, 500, 0.008, 4.4, 1.4, 250.0)
    (table,) = sleepers.result({"plain": night, "own": night}).tables
    assert table.title == "100,000 sleepers"
    lines = {line[0]: line[1:] for line in table.lines}
    assert lines["memory of the process for each, bytes"] == (
        "2,671 (FAIL)",
        "2,671 (FAIL)",
        "at most 2,048",
    )
    assert lines["CPU while all sleep, % of a core"][0] == "0.05 (pass)"
    assert lines["connections to the broker"][0] == "1 (pass)"


@pytest.fixture
def found() -> part.Result:
    table = Table("Numbers", ("run", "n"), (("one", "1"),))
    return part.Result((table,), {"n": 1}, {"n.svg": ("numbers", "<svg/>")}, ("Said.",))


def test_a_section_has_machine_remarks_plots_and_tables(found: part.Result) -> None:
    machine: Machine = MACHINE
    text = found.as_markdown(machine, "python -m tests.bench.load_curve")
    facts = ["**Numbers.**", "`python -m tests.bench.load_curve`", "Said.", "[numbers]", "| one |"]
    assert [text.index(fact) for fact in facts] == sorted(text.index(fact) for fact in facts)


def test_all_figures_are_written_where_they_are_asked_for(
    found: part.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = part.parser("tests.bench.load_curve", "Measures.")
    path = tmp_path / "figures.json"
    seen: list[argparse.Namespace] = []

    def measured(asked: argparse.Namespace) -> part.Result:
        seen.append(asked)
        return found

    assert part.run("load-curve", made, ["--json", str(path), "--quick"], measured) == 0
    assert seen[0].quick
    told = json.loads(path.read_text())
    assert told["n"] == 1
    assert told["command"] == "python -m tests.bench.load_curve --quick"
    assert "one" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [["--json", "a/b", "--quick"], ["--quick", "--json=a/b"], ["--quick"], ["--quick", "--json"]],
)
def test_where_figures_are_kept_is_not_told(words: list[str]) -> None:
    assert part.command("tests.bench", words) == "python -m tests.bench --quick"


def test_a_part_without_figures_ends_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(_: argparse.Namespace) -> part.Result:
        raise MeasurementError("nothing arrived")

    made = part.parser("tests.bench.load_curve", "Measures.")
    assert part.run("load-curve", made, [], fails) == part.EXIT_FAILURE
    assert "nothing arrived" in capsys.readouterr().err


def test_everything_is_every_section_and_one_that_fails_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tuple(everything.PARTS) == SECTIONS
    said: list[list[str]] = []

    def run(words: Sequence[str]) -> int:
        said.append(list(words))
        return len(said) % 2  # the first fails

    parts = {"first": run, "second": run}
    folder = tmp_path / "figures"
    assert everything.main(["--quick", "--json", str(folder)], parts) == 1
    assert said == [
        ["--quick", "--json", str(folder / f"{name}.json")] for name in ("first", "second")
    ]
    assert "not all could be measured: first" in capsys.readouterr().err


def test_an_interruption_ends_everything() -> None:
    said: list[Sequence[str]] = []

    def interrupted(words: Sequence[str]) -> int:
        said.append(words)
        return part.EXIT_INTERRUPTED

    parts = {"first": interrupted, "second": interrupted}
    assert everything.main([], parts) == part.EXIT_INTERRUPTED
    assert len(said) == 1


def test_times_of_a_step_are_counted_on_the_load_curve() -> None:
    rows = [
        Row(load_curve.scenario(1000), [traffic(end_to_end_us=times(), acknowledge_us=times())])
    ]
    assert "no rate has more" in load_curve.remarks(rows)[0]


def test_a_run_of_everything_leaves_the_document_short() -> None:
    """All rows, each with figures that miss its goals."""
    slow = traffic(gateway=process(900.0), lost=3, duplicates=2)
    by_kind = {Kind.OUTAGE: outage(), Kind.RESTART: restart(), Kind.STORM: storm()}
    by_kind |= {Kind.WAKING: waking()}
    rows = [Row(one, [by_kind.get(one.kind, slow)]) for one in MATRIX]
    loads = [Row(load_curve.scenario(rate), [slow]) for rate in load_curve.RATES]
    sizes = [
        growth.Curve(f"a cost, number {number}", f"by {number % 3}", ((10, 1.0), (100, 9.0)))
        for number in range(6)
    ]
    parts = dict.fromkeys(where.SAID, 1.0)
    splits = [where.Split(one, parts, 4.0, 1.0, 3.0, 1.5, per_look=20.0) for one in MATRIX]
    night = sleepers.Night(100_000, 8000.0, 0, 2671.4, 1, 0.05, 500, 0.008, 4.4, 1.4, 250.0)
    sections = {
        "bench": tables.section(rows, MACHINE, "python -m tests.bench"),
        "load-curve": load_curve.result(loads).as_markdown(MACHINE, "load_curve"),
        "growth": growth.result(sizes).as_markdown(MACHINE, "growth"),
        "where": where.result({"a message": splits}, "compiled").as_markdown(MACHINE, "where"),
        "sleepers": sleepers.result({"a": night, "b": night}).as_markdown(MACHINE, "sleepers"),
    }
    assert tuple(sections) == SECTIONS
    text = DOCUMENT.read_text()
    for name, section in sections.items():
        text = with_section(text, section, name)
    assert len(text.splitlines()) <= LINES_MAX


def test_the_document_has_the_parts_of_some_rows_by_group() -> None:
    rows = {row.name: row for row in MATRIX}
    parts = dict.fromkeys(where.SAID, 1.0)
    split = where.Split(rows["qos1-up-100"], parts, 40.0, 1.0, 30.0, 1.5, per_look=20.0)
    other = where.Split(rows["qos0-up-1000"], parts, 40.0, 1.0, 30.0, 1.5, per_look=20.0)
    drawn = where.result({"a message": [split, other]}, "compiled").summary
    assert drawn is not None
    assert drawn.header == ("part", "QoS 1 up, 100 clients")
    assert ("kernel", "3.00") in drawn.lines
    assert ("engine", "3.00") in drawn.lines
    assert drawn.lines[-2:] == (
        ("the gateway as it is run (compiled)", "30.00"),
        ("of that in the kernel", "1.50"),
    )
