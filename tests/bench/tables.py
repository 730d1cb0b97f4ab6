"""The result as tables: the same cells for the terminal and for docs/performance.md."""

from collections.abc import Sequence

from tests.bench.goals import Outcome, Verdict
from tests.bench.machine import Machine
from tests.bench.measurement import Figures
from tests.bench.row import Row
from tests.bench.scenarios import Kind
from tests.bench.table import NOTHING, Table, wrapped
from tests.bench.table import number as _number
from tests.bench.table import two_times as _two_times
from tests.bench.yardstick import Yardsticks, yardsticks

# With fewer, the memory of a client is lost in that of the interpreter.
CLIENTS_FOR_MEMORY_MIN = 100
MISSED_MAX = 2  # named in the document
_EVENTS = (Kind.OUTAGE, Kind.STORM, Kind.WAKING, Kind.RESTART)


def tables(rows: Sequence[Row]) -> list[Table]:
    """Those that have a line."""
    kinds = (
        _traffic(rows),
        _lines(rows),
        _outages(rows),
        _storms(rows),
        _wakings(rows),
        _restarts(rows),
        _yardsticks(rows),
    )
    drawn = (*kinds, _goals(rows))
    return [table for table in drawn if table.lines]


def section(rows: Sequence[Row], machine: Machine, command: str) -> str:
    """What stands between the markers of docs/performance.md."""
    facts = [
        machine.told(command),
        f"{_runs(rows)}; figures are medians, faults (lost, twice, out of order) and the longest "
        "waits are of the worst run.",
    ]
    shown = [table.as_markdown() for table in (_all_traffic(rows), _events(rows)) if table.lines]
    return "\n\n".join([wrapped(" ".join(facts)), *shown, wrapped(_missed(rows))])


def _all_traffic(rows: Sequence[Row]) -> Table:
    """Rows with goals of their own, serial lines and the yardsticks."""
    kinds = (Kind.LINE, Kind.YARDSTICK)
    return Table(
        "Traffic",
        (
            "run",
            "messages/s",
            "CPU µs",
            "mosquitto's",
            "end to end p50 / p99 ms",
            "PUBACK p50 / p99 ms",
            "lost / twice",
            "goals",
        ),
        tuple(
            _short_line(row)
            for row in rows
            if row.scenario.goals or row.scenario.kind in kinds
            if row.scenario.kind not in _EVENTS
        ),
    )


def _short_line(row: Row) -> tuple[str, ...]:
    result = row.result
    is_yardstick = row.scenario.kind is Kind.YARDSTICK
    outcome = NOTHING if is_yardstick else _outcome(row)
    if result is None:
        return (row.scenario.title, *[NOTHING] * 6, outcome)
    figures, faults = result.figures, result.faults
    is_the_broker = is_yardstick and row.scenario.needs_broker
    cpu_us = figures.broker_cpu_us if is_the_broker else figures.gateway_cpu_us
    return (
        row.scenario.title,
        _number(figures.rate_per_s, 0),
        _number(cpu_us, 2),
        NOTHING if is_yardstick else _number(figures.broker_cpu_us, 2),
        _two_times(figures.end_to_end_p50_us, figures.end_to_end_p99_us),
        _two_times(figures.acknowledge_p50_us, figures.acknowledge_p99_us),
        f"{faults.lost:,.0f} / {faults.duplicates:,.0f}",
        outcome,
    )


def _events(rows: Sequence[Row]) -> Table:
    return Table(
        "Events",
        ("event", "measured", "goals"),
        tuple(
            (row.scenario.title, progress(row), _outcome(row))
            for row in rows
            if row.scenario.kind in _EVENTS
        ),
    )


def _missed(rows: Sequence[Row]) -> str:
    missed = [
        f"{row.scenario.title}: {verdict.goal} ({verdict.outcome.value}: {verdict.measured})"
        for row in rows
        for verdict in row.verdicts
        if verdict.outcome is not Outcome.PASS
    ]
    if len(missed) > MISSED_MAX:
        missed = [*missed[:MISSED_MAX], f"and {len(missed) - MISSED_MAX} more"]
    return f"{summary(rows)}. " + (f"Not met: {'; '.join(missed)}." if missed else "")


def summary(rows: Sequence[Row]) -> str:
    verdicts = [verdict for row in rows for verdict in row.verdicts]
    met = sum(verdict.outcome is Outcome.PASS for verdict in verdicts)
    return f"{met} of {len(verdicts)} goals met"


def progress(row: Row) -> str:
    """The newest state of a row, in a few words."""
    result = row.result
    if result is None:
        return "no figures"
    figures = result.figures
    if row.scenario.kind is Kind.STORM:
        return f"{_connected(row)} connected in {_number(figures.connect_s, 3)} s"
    if row.scenario.kind is Kind.WAKING:
        return f"all answered in {_number(figures.wake_s, 3)} s, {result.faults.lost:.0f} lost"
    if row.scenario.kind is Kind.RESTART:
        return f"first PUBACK after {_number(figures.restart_s, 3)} s"
    if row.scenario.kind is Kind.OUTAGE:
        times = _two_times(figures.away_acknowledge_p50_us, figures.away_acknowledge_p99_us)
        drained = _number(figures.drain_rate_per_s, 0)
        faults = f"{result.faults.lost:.0f} lost, {result.faults.duplicates:.0f} twice"
        return f"PUBACK {times} ms meanwhile, drained at {drained}/s, {faults}"
    return (
        f"{_number(figures.rate_per_s, 0)}/s, gateway {_number(figures.gateway_cpu_us, 2)} µs, "
        f"mosquitto {_number(figures.broker_cpu_us, 2)} µs, {result.faults.lost:.0f} lost"
    )


def _traffic(rows: Sequence[Row]) -> Table:
    return Table(
        "Traffic through the gateway",
        (
            "run",
            "messages/s",
            "gateway CPU µs",
            "of it kernel's",
            "mosquitto CPU µs",
            "ratio",
            "end to end p50 / p99 ms",
            "PUBACK p50 / p99 ms",
            "lost",
            "twice",
            "out of order",
            "near 40 ms",
            "KiB/client",
            "written",
            "goals",
        ),
        tuple(_traffic_line(row) for row in rows if row.scenario.kind is Kind.TRAFFIC),
    )


def _traffic_line(row: Row) -> tuple[str, ...]:
    result = row.result
    if result is None:
        return (row.scenario.title, *[NOTHING] * 13, _outcome(row))
    figures, faults = result.figures, result.faults
    return (
        row.scenario.title,
        _number(figures.rate_per_s, 0),
        _number(figures.gateway_cpu_us, 2),
        _number(figures.kernel_cpu_us, 2),
        _number(figures.broker_cpu_us, 2),
        _number(figures.gateway_to_broker, 2),
        _two_times(figures.end_to_end_p50_us, figures.end_to_end_p99_us),
        _two_times(figures.acknowledge_p50_us, figures.acknowledge_p99_us),
        _number(faults.lost, 0),
        _number(faults.duplicates, 0),
        _number(faults.out_of_order, 0),
        NOTHING if figures.share_near_40ms is None else f"{figures.share_near_40ms:.2%}",
        _memory(row, figures.gateway_rss_kib_per_client),
        _written(figures),
        _outcome(row),
    )


def _lines(rows: Sequence[Row]) -> Table:
    return Table(
        "Nodes on a serial line",
        (
            "run",
            "messages/s",
            "gateway CPU µs",
            "of a processor",
            "mosquitto CPU µs",
            "end to end p50 / p99 ms",
            "PUBACK p50 / p99 ms",
            "lost",
            "twice",
            "out of order",
            "goals",
        ),
        tuple(_line_line(row) for row in rows if row.scenario.kind is Kind.LINE),
    )


def _line_line(row: Row) -> tuple[str, ...]:
    result = row.result
    if result is None:
        return (row.scenario.title, *[NOTHING] * 9, _outcome(row))
    figures, faults = result.figures, result.faults
    rate, cpu_us = figures.rate_per_s, figures.gateway_cpu_us
    return (
        row.scenario.title,
        _number(rate, 0),
        _number(cpu_us, 2),
        NOTHING if rate is None or cpu_us is None else f"{rate * cpu_us / 1e6:.1%}",
        _number(figures.broker_cpu_us, 2),
        _two_times(figures.end_to_end_p50_us, figures.end_to_end_p99_us),
        _two_times(figures.acknowledge_p50_us, figures.acknowledge_p99_us),
        _number(faults.lost, 0),
        _number(faults.duplicates, 0),
        _number(faults.out_of_order, 0),
        _outcome(row),
    )


def _written(figures: Figures) -> str:
    """By the gateway's own count where it keeps a journal, else by the kernel's."""
    if figures.journal_bytes is not None:
        return f"{figures.journal_bytes:,.0f} B"
    return NOTHING if figures.written_bytes is None else f"{figures.written_bytes:,.0f} B"


def _outages(rows: Sequence[Row]) -> Table:
    return Table(
        "The broker away",
        (
            "run",
            "away s",
            "PUBACK p50 / p99 ms meanwhile",
            "backlog",
            "drained/s",
            "lost",
            "twice",
            "out of order",
            "disconnected",
            "goals",
        ),
        tuple(_outage_line(row) for row in rows if row.scenario.kind is Kind.OUTAGE),
    )


def _outage_line(row: Row) -> tuple[str, ...]:
    result = row.result
    if result is None:
        return (row.scenario.title, *[NOTHING] * 8, _outcome(row))
    figures, faults = result.figures, result.faults
    return (
        row.scenario.title,
        _number(figures.away_s, 1),
        _two_times(figures.away_acknowledge_p50_us, figures.away_acknowledge_p99_us),
        _number(figures.backlog, 0),
        _number(figures.drain_rate_per_s, 0),
        _number(faults.lost, 0),
        _number(faults.duplicates, 0),
        _number(faults.out_of_order, 0),
        _number(faults.disconnected, 0),
        _outcome(row),
    )


def _restarts(rows: Sequence[Row]) -> Table:
    return Table(
        "Restarts after kill -9",
        ("run", "first PUBACK after s", "goals"),
        tuple(
            (
                row.scenario.title,
                NOTHING if row.result is None else _number(row.result.figures.restart_s, 3),
                _outcome(row),
            )
            for row in rows
            if row.scenario.kind is Kind.RESTART
        ),
    )


def _storms(rows: Sequence[Row]) -> Table:
    return Table(
        "Connect storms",
        (
            "run",
            "connected",
            "in s",
            "CONNECTs repeated",
            "gateway CPU µs/client",
            "KiB/client",
            "RSS MiB",
            "idle CPU",
            "goals",
        ),
        tuple(_storm_line(row) for row in rows if row.scenario.kind is Kind.STORM),
    )


def _storm_line(row: Row) -> tuple[str, ...]:
    result = row.result
    if result is None:
        return (row.scenario.title, *[NOTHING] * 7, _outcome(row))
    figures = result.figures
    rss_kib = figures.gateway_rss_end_kib
    idle = figures.idle_cpu_percent
    return (
        row.scenario.title,
        _connected(row),
        _number(figures.connect_s, 3),
        _number(result.faults.connect_retries, 0),
        _number(figures.connect_cpu_us, 1),
        _memory(row, figures.gateway_rss_kib_per_client),
        NOTHING if rss_kib is None else f"{rss_kib / 1024:.1f}",
        NOTHING if idle is None else f"{idle:.2f} %",
        _outcome(row),
    )


def _wakings(rows: Sequence[Row]) -> Table:
    return Table(
        "Sleepers that wake up together",
        (
            "run",
            "until the last has message and PINGRESP, s",
            "PINGREQ to PINGRESP p50 / p99 ms",
            "gateway CPU µs/client",
            "KiB/client",
            "lost",
            "twice",
            "goals",
        ),
        tuple(_waking_line(row) for row in rows if row.scenario.kind is Kind.WAKING),
    )


def _waking_line(row: Row) -> tuple[str, ...]:
    result = row.result
    if result is None:
        return (row.scenario.title, *[NOTHING] * 6, _outcome(row))
    figures = result.figures
    return (
        row.scenario.title,
        _number(figures.wake_s, 3),
        _two_times(figures.wake_p50_us, figures.wake_p99_us),
        _number(figures.wake_cpu_us, 1),
        _memory(row, figures.gateway_rss_kib_per_client),
        _number(result.faults.lost, 0),
        _number(result.faults.duplicates, 0),
        _outcome(row),
    )


def _yardsticks(rows: Sequence[Row]) -> Table:
    return Table(
        "Yardsticks, in the same session",
        ("run", "messages/s", "CPU µs", "end to end p50 / p99 ms"),
        tuple(_yardstick_line(row) for row in rows if row.scenario.kind is Kind.YARDSTICK),
    )


def _yardstick_line(row: Row) -> tuple[str, ...]:
    result = row.result
    if result is None:
        return (row.scenario.title, NOTHING, NOTHING, row.why_failed)
    figures = result.figures
    measured = figures.broker_cpu_us if row.scenario.needs_broker else figures.gateway_cpu_us
    return (
        row.scenario.title,
        _number(figures.rate_per_s, 0),
        _number(measured, 2),
        _two_times(figures.end_to_end_p50_us, figures.end_to_end_p99_us),
    )


def _goals(rows: Sequence[Row]) -> Table:
    found = yardsticks(rows)
    header = ("run", "goal", "measured", "outcome")
    lines = tuple(
        (row.scenario.title, *_verdict_cells(verdict, found))
        for row in rows
        for verdict in row.verdicts_to_tell
    )
    return Table(
        f"Goals: {summary(rows)}",
        header if found is None else (*header, "as quick as the machine of the goals"),
        lines,
    )


def _verdict_cells(verdict: Verdict, found: Yardsticks | None) -> tuple[str, ...]:
    cells = (verdict.goal, verdict.measured, verdict.outcome.value)
    if found is None:
        return cells
    if verdict.when_quicker is None:
        return (*cells, NOTHING)
    outcome, figure = verdict.when_quicker(found.times_as_quick)
    return (*cells, f"{figure}: {outcome.value}")


def _outcome(row: Row) -> str:
    outcomes = [verdict.outcome for verdict in row.verdicts]
    if Outcome.FAIL in outcomes:
        return str(Outcome.FAIL.value)
    return str((Outcome.UNCLEAR if Outcome.UNCLEAR in outcomes else Outcome.PASS).value)


def _connected(row: Row) -> str:
    missing = row.result.faults.not_connected if row.result else row.scenario.clients
    return f"{row.scenario.clients - missing:,.0f} of {row.scenario.clients:,}"


def _memory(row: Row, kib: float | None) -> str:
    return _number(kib, 2) if row.scenario.clients >= CLIENTS_FOR_MEMORY_MIN else NOTHING


def _runs(rows: Sequence[Row]) -> str:
    counts = sorted({len(row.outputs) for row in rows})
    if counts == [1]:
        return "One run per row"
    return f"{' or '.join(map(str, counts))} interleaved runs per row"
