"""A campaign for programs: all numbers of all runs, boards and scenarios in the order of the bench.

`latency_ms` is a histogram: how many readings took up to so many milliseconds from the air to the
broker, each bound twice the one before.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from hil.rig.campaign import Campaign, repeat_command
from hil.rig.run import Outcome, Result

BOUNDS_MS = tuple(0.25 * 2**step for step in range(20))


def histogram(latencies_ms: Sequence[float]) -> dict[str, int]:
    """Bounds of which there are none are left out; `more` is what is beyond the last."""
    counts: dict[str, int] = {}
    for latency in latencies_ms:
        bound = next((f"{bound:g}" for bound in BOUNDS_MS if latency <= bound), "more")
        counts[bound] = counts.get(bound, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: float(item[0].replace("more", "inf"))))


def as_json(campaign: Campaign, results: Sequence[Result], seconds: float) -> str:
    document = {
        "seed": campaign.seed,
        "seconds": round(seconds, 1),
        "bench": str(campaign.bench),
        "boards": [
            {
                "id": board.spec.id,
                "kind": board.spec.kind,
                "transport": board.spec.transport,
                "firmware": board.spec.firmware,
                "firmware_hash": next(
                    (r.firmware for r in results if _is_of(r, board.spec.id)), ""
                ),
            }
            for board in campaign.boards
        ],
        "scenarios": [
            {"name": scenario.name, "title": scenario.title} for scenario in campaign.scenarios
        ],
        "runs": [_run(campaign, result) for result in results],
    }
    return json.dumps(document, indent=1) + "\n"


def _is_of(result: Result, board: str) -> bool:
    return result.board == board and bool(result.firmware)


def _run(campaign: Campaign, result: Result) -> dict[str, object]:
    document: dict[str, object] = {
        "scenario": result.scenario,
        "board": result.board,
        "outcome": str(result.outcome),
        "seed": result.seed,
        "seconds": round(result.seconds, 2),
        "numbers": {name: round(number, 2) for name, number in result.numbers.items()},
        "latency_ms": histogram(result.latencies_ms),
        "effects": result.effects,
    }
    if result.why:
        document["why"] = result.why
    if result.outcome is Outcome.FAILED:
        document |= {
            "failures": result.failures,
            "repeat": repeat_command(campaign, result),
            "left_in": result.folder,
        }
    return document
