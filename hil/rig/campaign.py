"""All scenarios on all boards, several runs side by side; on a real board one after the other.

A board that is not there is reported as not run, with the reason, and fails the campaign if it is
required; a scenario that asks for what a board cannot do is not for it. Each run has a seed of its
own, made of the campaign's, so that a run alone is the same one.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hil.boards.inventory import DEFAULT, Listed
from hil.rig.run import Outcome, Result, run
from hil.rig.stage import GATEWAY, Elsewhere, Setting, has_clock
from hil.scenarios.scenario import Scenario

JOBS = 6  # they wait most of the time


@dataclass(frozen=True, slots=True)
class Campaign:
    boards: Sequence[Listed]
    scenarios: Sequence[Scenario]
    seed: int
    folder: Path  # for what runs leave behind
    bench: Path = DEFAULT
    jobs: int = JOBS
    required: frozenset[str] = frozenset()
    keeps_all: bool = False  # also what runs that passed leave behind
    gateway_command: tuple[str, ...] = GATEWAY
    elsewhere: Elsewhere | None = None


async def perform(
    campaign: Campaign, on_result: Callable[[Result], None] = lambda result: None
) -> list[Result]:
    """In the order in which they ended."""
    results: list[Result] = []
    places = asyncio.Semaphore(campaign.jobs)
    if campaign.folder.exists():
        shutil.rmtree(campaign.folder)
    (campaign.folder / "shelf").mkdir(parents=True)

    async def one(board: Listed, scenario: Scenario, turns: asyncio.Semaphore) -> None:
        result = absent(campaign, board, scenario)
        if result is None:
            async with turns, places:
                result = await one_run(campaign, board, scenario)
        results.append(result)
        on_result(result)

    async with asyncio.TaskGroup() as group:
        turns = [asyncio.Semaphore(1 if each.kind.is_real else JOBS) for each in campaign.boards]
        for scenario in campaign.scenarios:
            for board, turn in zip(campaign.boards, turns, strict=True):
                group.create_task(
                    one(board, scenario, turn), name=f"{scenario.name} {board.spec.id}"
                )
    shutil.rmtree(campaign.folder / "shelf")
    return results


def absent(campaign: Campaign, board: Listed, scenario: Scenario) -> Result | None:
    """The result of what cannot be run."""
    result = Result(scenario.name, board.spec.id, seed_of(campaign, board, scenario))
    why_not = board.why_not
    if why_not is not None:
        result.why = why_not
        if board.spec.id in campaign.required:
            result.failures.append(f"required, and not there: {why_not}")
            result.outcome = Outcome.FAILED
        return result
    lacks = board.lacks(scenario.needs)
    if lacks:
        result.why = f"it lacks {', '.join(sorted(lacks))}"
    elif campaign.elsewhere is not None and scenario.is_for_own_rig:
        result.why = "gateway and broker are not ours"
    elif campaign.elsewhere is not None and board.spec.transport == "serial":
        result.why = "the gateway is not at this line"
    elif scenario.sets_clock and not has_clock(campaign.gateway_command):
        result.why = "the gateway's clock cannot be set: its command is not python -m MODULE"
    else:
        return None
    result.outcome = Outcome.NOT_FOR
    return result


async def one_run(campaign: Campaign, board: Listed, scenario: Scenario) -> Result:
    folder = campaign.folder / f"{scenario.name}-{board.spec.id}"
    folder.mkdir()
    setting = Setting(
        scenario=scenario,
        spec=board.spec,
        kind=board.kind,
        seed=seed_of(campaign, board, scenario),
        folder=folder,
        shelf=campaign.folder / "shelf",
        gateway_command=campaign.gateway_command,
        elsewhere=campaign.elsewhere,
    )
    result = await run(setting)
    if result.outcome is not Outcome.FAILED and not campaign.keeps_all:
        shutil.rmtree(folder, ignore_errors=True)
        result.folder = ""
    return result


def seed_of(campaign: Campaign, board: Listed, scenario: Scenario) -> int:
    return zlib.crc32(f"{campaign.seed} {board.spec.id} {scenario.name}".encode())


def repeat_command(campaign: Campaign, result: Result) -> str:
    """What to type to run this one again."""
    command = ["python", "-m", "hil"]
    if campaign.bench != DEFAULT:
        command += ["--bench", str(campaign.bench)]
    command += [
        "--board",
        result.board,
        "--scenario",
        result.scenario,
        "--seed",
        str(campaign.seed),
    ]
    if campaign.elsewhere is not None:
        for option, (host, port) in (
            ("--gateway", campaign.elsewhere.gateway),
            ("--broker", campaign.elsewhere.broker),
        ):
            command += [option, f"{host}:{port}"]
    return shlex.join(command)
