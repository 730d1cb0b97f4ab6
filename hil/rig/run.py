"""One scenario on one board, from an empty folder to a result.

What happens: broker, gateway and network are there; messages that are to be there before are
published; the board is switched on; faults come and go as the scenario says; `readings` have
arrived, and `after` of them were offered after the end of the last fault; what is outstanding has
time to arrive; the ledger is compared with what the scenario allows. Trouble of the rig itself (a
program that does not start) is a failure as well, with its text.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from hil.boards.errors import BoardError
from hil.oracle.ledger import FAULTS, Device, Ledger, compare, percentile
from hil.rig.logged_process import ProcessError
from hil.rig.mosquitto import BrokerError
from hil.rig.small_disk import NoSmallDiskError
from hil.rig.stage import Setting, Stage, on_stage
from hil.rig.steps import STEPS
from hil.scenarios.actions import ACTIONS
from hil.scenarios.events import Event

OUTSTANDING_S_MAX = 15.0
OUTPUT_LINES = 12
# What the rig or a board does not do; a mistake of ours is none of it, and ends the campaign.
TROUBLE = (BoardError, ProcessError, BrokerError, OSError, TimeoutError, subprocess.TimeoutExpired)
TRACEBACK = "Traceback (most recent call last)"


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"  # the board, or what else it takes, is not there
    NOT_FOR = "not for this board"


@dataclass(slots=True)
class Result:
    scenario: str
    board: str
    seed: int
    outcome: Outcome = Outcome.NOT_RUN
    why: str = ""  # it was not run
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    firmware: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    latencies_ms: tuple[float, ...] = ()
    effects: dict[str, int] = field(default_factory=dict)  # how often faults took effect
    folder: str = ""


async def run(setting: Setting) -> Result:
    result = Result(setting.scenario.name, setting.spec.id, setting.seed)
    result.folder = str(setting.folder)
    began = time.monotonic()
    try:
        async with on_stage(setting) as stage:
            await ScenarioRun(stage, result).perform()
    except* NoSmallDiskError as missing:
        result.why = str(next(_each(missing)))
    except* TROUBLE as several:
        result.failures += [f"{type(each).__name__}: {each}" for each in _each(several)]
    result.seconds = time.monotonic() - began
    if result.failures:
        result.outcome = Outcome.FAILED
    elif not result.why:
        result.outcome = Outcome.PASSED
    return result


def _each(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _each(error)
        else:
            yield error


class ScenarioRun:
    def __init__(self, stage: Stage, result: Result) -> None:
        self._stage = stage
        self._scenario = stage.scenario
        self._result = result
        self._booted_at = 0.0
        self._deadline = 0.0
        self._stretch = stage.setting.spec.stretch
        self._limit_s = stage.scenario.limit_s * self._stretch
        # What happens to the same one happens one after the other.
        self._turns: dict[str, asyncio.Lock] = {}
        self._begun: list[tuple[Event, Counter[str]]] = []  # with the effects until then

    async def perform(self) -> None:
        loop, stage = asyncio.get_running_loop(), self._stage
        for event in self._scenario.events:
            if event.is_before_boot:
                await self._perform(event)
        self._booted_at = loop.time()
        self._deadline = self._booted_at + self._limit_s
        await stage.boot()
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._events()
        except TimeoutError:
            self._fail(f"its events were not over within {self._limit_s:.0f} s")
        await self._await_readings()
        stored = await self._await_outstanding()
        await self._end(stored)

    async def _events(self) -> None:
        later = [event for event in self._scenario.events if not event.is_before_boot]
        async with asyncio.TaskGroup() as group:
            for event in later:
                group.create_task(self._when_due(event))

    async def _when_due(self, event: Event) -> None:
        if event.at_reading:
            offered = self._stage.conversation.offered
            await self._stage.until(lambda: len(offered) >= event.at_reading, self._deadline)
            await asyncio.sleep(event.later_s * self._stretch)
        else:
            await asyncio.sleep(
                self._booted_at + event.at_s * self._stretch - asyncio.get_running_loop().time()
            )
        await self._perform(event)

    async def _perform(self, event: Event) -> None:
        steps = STEPS[event.do]
        self._begun.append((event, self._stage.effects))
        whose = self._turns.setdefault(event.do.partition(".")[0], asyncio.Lock())
        for number in range(event.times):
            if number:
                await asyncio.sleep(event.every_s * self._stretch)
            async with whose:
                await _whole(steps.begin(self._stage, event))
                if steps.end is not None:
                    await asyncio.sleep(event.for_s * self._stretch)
                    await _whole(steps.end(self._stage, event))

    async def _await_readings(self) -> None:
        """As many as are asked for, and those that show that all is well again."""
        stage, scenario = self._stage, self._scenario
        witness, known = stage.witness, set(stage.conversation.offered)

        def are_there() -> bool:
            fresh = stage.conversation.acknowledged.keys() - known
            return len(witness.payloads) >= scenario.readings and len(fresh) >= scenario.after

        if not await stage.until(are_there, self._deadline):
            fresh = len(stage.conversation.acknowledged.keys() - known)
            self._fail(
                f"{len(witness.payloads)} of {scenario.readings} readings arrived within "
                f"{self._limit_s:.0f} s, {fresh} of {scenario.after} after the last fault"
            )
            self._fail(
                "the board's last words:\n" + _tail(await asyncio.to_thread(stage.board.logs))
            )

    async def _await_outstanding(self) -> set[int]:
        """What the board had stored by now; what is outstanding has had its time to arrive."""
        stage = self._stage
        stored = await asyncio.to_thread(stage.board.stored)
        may_lose = self._scenario.most["lost"] is None

        def is_complete() -> bool:
            ledger = self._ledger(stored)
            return (may_lose or not ledger.lost) and not ledger.commands

        loop = asyncio.get_running_loop()
        await stage.until(is_complete, loop.time() + OUTSTANDING_S_MAX * self._stretch)
        return stored

    async def _end(self, stored: set[int]) -> None:
        stage, result = self._stage, self._result
        ledger = self._ledger(stored)
        if stage.setting.elsewhere is None:
            if stage.gateway.returncode is not None:
                self._fail(f"the gateway ended by itself, with {stage.gateway.returncode}")
            await asyncio.to_thread(stage.gateway.kill)
            if TRACEBACK in stage.gateway.whole_log:
                self._fail(f"the gateway raised: {stage.gateway.log_path}")
        stage.network.close()  # a board's own port is free then
        await asyncio.to_thread(stage.board.collect_output)
        await asyncio.to_thread(stage.board.kill)
        self._compare(ledger)
        self._check_effects()
        result.firmware = stage.board.firmware_hash
        result.effects = {name: count for name, count in stage.effects.items() if count}
        result.latencies_ms = ledger.latencies_ms
        result.numbers = self._numbers(ledger)

    def _ledger(self, stored: set[int]) -> Ledger:
        stage = self._stage
        kind, scenario = stage.setting.kind, self._scenario
        device = Device(
            stored=stored,
            has_store=kind.has_store,
            was_cut=scenario.cuts_power,
            commands=stage.commands,
        )
        return compare(stage.conversation, stage.witness.seen, device, stage.network.excused)

    def _compare(self, ledger: Ledger) -> None:
        for fault in FAULTS:
            most = self._scenario.most[fault]
            if most is not None and ledger.count(fault) > most:
                at_most = f", at most {most}" if most else ""
                self._fail(ledger.described(fault) + at_most)
        p95_ms = percentile(ledger.latencies_ms, 0.95)
        if 0 < self._scenario.p95_ms < p95_ms:
            self._fail(
                f"95 of 100 readings took up to {p95_ms:.0f} ms to the broker, "
                f"at most {self._scenario.p95_ms:.0f}"
            )

    def _check_effects(self) -> None:
        """A fault that did nothing proves nothing."""
        effects, scenario = self._stage.effects, self._scenario
        air = self._stage.network.marks(scenario.udp, scenario.line)
        if air and not any(effects[mark] for mark in air):
            self._fail(f"the air did nothing: nothing was {' or '.join(air)}")
        for event, before in self._begun:
            marks = ACTIONS[event.do].marks or self._stage.network.marks(event.udp, event.line)
            if marks and not any(effects[mark] > before[mark] for mark in marks):
                self._fail(f"{event.do} did nothing: nothing was {' or '.join(marks)}")

    def _numbers(self, ledger: Ledger) -> dict[str, float]:
        stage, conversation = self._stage, self._stage.conversation
        wakes = stage.board.wakes()
        awake_s = sum(each.ended_at - each.began_at for each in wakes) or conversation.on_air_s
        readings = max(1, ledger.readings)
        heap_used, heap_size = stage.board.heap_used() or (0, 0)
        counts = {fault: float(ledger.count(fault)) for fault in FAULTS}
        return counts | {
            "readings": ledger.readings,
            "acknowledged": ledger.acknowledged,
            "excused": len(ledger.excused),
            "latency_p50_ms": percentile(ledger.latencies_ms, 0.5),
            "latency_p95_ms": percentile(ledger.latencies_ms, 0.95),
            "latency_max_ms": max(ledger.latencies_ms, default=0.0),
            "answer_p50_ms": percentile(ledger.answers_ms, 0.5),
            "awake_ms_per_reading": awake_s * 1000 / readings,
            "octets_up_per_reading": conversation.octets_up / readings,
            "octets_down_per_reading": conversation.octets_down / readings,
            "frames_per_reading": (conversation.frames_up + conversation.frames_down) / readings,
            "heap_used": heap_used,
            "heap_size": heap_size,
        }

    def _fail(self, why: str) -> None:
        self._result.failures.append(why)


def _tail(text: str) -> str:
    """Without the frames that its line has between the text."""
    lines = ["".join(filter(str.isprintable, line)) for line in text.splitlines()]
    return "\n".join(lines[-OUTPUT_LINES:])


async def _whole(step: Awaitable[None]) -> None:
    """Begun it is brought to its end, also when time is up: or a broker would stay away."""
    await asyncio.shield(asyncio.ensure_future(step))
