"""The rows of a matrix, measured interleaved: each once, then each again."""

from collections.abc import Sequence
from dataclasses import dataclass

from hil.rig.mosquitto import BrokerError
from tests.bench import tables
from tests.bench.measurement import MeasurementError
from tests.bench.part import say
from tests.bench.row import Row
from tests.bench.running import Setting, run_once
from tests.bench.scenarios import Scenario, interleaved


@dataclass(frozen=True, slots=True)
class Request:
    rows: tuple[Scenario, ...]
    repeats: int
    setting: Setting


def measure(request: Request) -> list[Row]:
    rows = {scenario.name: Row(scenario) for scenario in request.rows}
    for row in rows.values():
        row.beside = rows.get(row.scenario.beside)
    runs: Sequence[tuple[int, Scenario]] = list(interleaved(request.rows, request.repeats))
    for number, (repeat, scenario) in enumerate(runs, 1):
        row = rows[scenario.name]
        began = f"[{number}/{len(runs)}] repeat {repeat}: {scenario.title}"
        try:
            output = run_once(scenario, request.setting)
            newest = Row(scenario, [output])
            say(f"{began}: {tables.progress(newest)}")
            row.outputs.append(output)
        except (MeasurementError, BrokerError) as error:
            say(f"{began}: failed: {error}")
            row.errors.append(str(error))
    return list(rows.values())
