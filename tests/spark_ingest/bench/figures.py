"""What was measured, beside what it should be, as the table of docs/spark.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tests.bench.machine import Machine

DOCUMENT = Path(__file__).parents[3] / "docs" / "spark.md"
SECTION = "bench"  # of it
HEAD = "| what | measured | goal |\n| --- | --- | --- |\n"


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    value: float
    shown: str = "{:.2f}"  # the value, with its unit
    least: float | None = None
    most: float | None = None
    unit: str = ""  # of the goal

    @property
    def is_missed(self) -> bool:
        return (self.least is not None and self.value < self.least) or (
            self.most is not None and self.value > self.most
        )

    def as_line(self) -> str:
        return f"| {self.what} | {self.shown.format(self.value)} | {self._goal()} |"

    def _goal(self) -> str:
        parts = [
            f"{sign} {limit:g}{self.unit}"
            for sign, limit in (("≥", self.least), ("≤", self.most))
            if limit is not None
        ]
        return ", ".join([*parts, *(["**missed**"] if self.is_missed else [])])


def section(figures: Sequence[Figure], machine: Machine, command: str) -> str:
    where = (
        f"Measured on {machine.measured_on} on {machine.cores} cores of {machine.processor}, "
        "publisher, broker, collector and Spark\n"
        f"all there, at a load average of {machine.load_average:.1f} before it began, with PySpark "
        f"{version('pyspark')} and mosquitto\n{machine.mosquitto}: `{command}`. Ratios are of "
        "one run.\n\n"
    )
    return where + HEAD + "\n".join(each.as_line() for each in figures)
