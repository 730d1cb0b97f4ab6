"""One row of the result: a scenario, its runs, and what they come to."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.bench.goals import (
    FOR_ALL_TRAFFIC,
    FOR_EVERY_LINE,
    FOR_EVERY_OUTAGE,
    FOR_EVERY_STORM,
    FOR_EVERY_WAKING,
    Goal,
    Outcome,
    Verdict,
)
from tests.bench.goals import failed as all_failed
from tests.bench.goals import verdicts as judged
from tests.bench.measurement import Measurement, combine
from tests.bench.scenarios import Kind, Scenario


@dataclass(slots=True)
class Row:
    scenario: Scenario
    outputs: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    beside: Row | None = None

    @property
    def result(self) -> Measurement | None:
        """Of the runs that gave figures; None when there is no such run."""
        runs = [Measurement.from_output(output) for output in self.outputs]
        if not runs:
            return None
        together = combine(runs)
        return together if self.beside is None else together.beside(self.beside.result)

    @property
    def goals(self) -> tuple[Goal, ...]:
        own = self.scenario.goals
        return (*own, *(goal for goal in self._common_goals if goal not in own))

    @property
    def _common_goals(self) -> tuple[Goal, ...]:
        match self.scenario.kind:
            case Kind.TRAFFIC:
                return FOR_ALL_TRAFFIC
            case Kind.LINE:
                return FOR_EVERY_LINE
            case Kind.STORM | Kind.RESTART:
                return FOR_EVERY_STORM
            case Kind.WAKING:
                return FOR_EVERY_WAKING
            case Kind.OUTAGE:
                return FOR_EVERY_OUTAGE
            case Kind.YARDSTICK:
                return ()

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """A run that failed fails every goal of its row: nobody knows what it would have shown."""
        result = self.result
        if self.errors or result is None:
            return all_failed(self.goals, self.why_failed)
        return judged(self.goals, result)

    @property
    def why_failed(self) -> str:
        """In one line; the log behind it was told when it happened."""
        return self.errors[0].partition("\n")[0].rstrip(":") if self.errors else "did not run"

    @property
    def verdicts_to_tell(self) -> tuple[Verdict, ...]:
        """Those of this row alone, and whatever did not pass; one for all after a failed run."""
        if self.errors and self.goals:
            return (Verdict(Outcome.FAIL, f"all {len(self.goals)}", self.why_failed),)
        own = {goal.text for goal in self.scenario.goals}
        return tuple(
            verdict
            for verdict in self.verdicts
            if verdict.goal in own or verdict.outcome is not Outcome.PASS
        )

    def as_json(self) -> dict[str, Any]:
        result = self.result
        return {
            "name": self.scenario.name,
            "title": self.scenario.title,
            "arguments": list(self.scenario.arguments),
            "broker_config": list(self.scenario.broker_config),
            "runs": [json.loads(output) for output in self.outputs],
            "errors": self.errors,
            "median": asdict(result.figures) if result else None,
            "worst": asdict(result.faults) if result else None,
            "goals": [
                {
                    "goal": verdict.goal,
                    "measured": verdict.measured,
                    "outcome": verdict.outcome.value,
                }
                for verdict in self.verdicts
            ],
        }
