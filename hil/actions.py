"""What can be done to a board and to all that it talks to, by the names that scenarios use.

An action *begins*; one that lasts *ends* after `for_s`. `stage` is what the run of a scenario gives
them (hil/stage.py). A new action needs an entry in ACTIONS and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hil.boards.board import Can, Reset
from hil.events import Event

if TYPE_CHECKING:
    from hil.stage import Stage

Step = Callable[["Stage", Event], Awaitable[None]]

PARAMETERS = ("for_s", "seconds", "share", "octets", "retain", "udp", "serial")


@dataclass(frozen=True, slots=True)
class Action:
    title: str
    begin: Step
    end: Step | None = None  # of one that lasts
    parameters: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    needs: frozenset[Can] = frozenset()
    is_for_own_rig: bool = False
    takes_memory: bool = False  # of the board


# The air


async def _air_down(stage: Stage, event: Event) -> None:
    stage.network.is_down = True


async def _air_up(stage: Stage, event: Event) -> None:
    stage.network.is_down = False


async def _storm(stage: Stage, event: Event) -> None:
    stage.network.weather(event.udp, event.line)


async def _clear(stage: Stage, event: Event) -> None:
    stage.network.weather(stage.scenario.udp, stage.scenario.line)


async def _burst(stage: Stage, event: Event) -> None:
    stage.network.burst(event.octets)


async def _move(stage: Stage, event: Event) -> None:
    await stage.network.leave()


async def _arrive(stage: Stage, event: Event) -> None:
    await stage.network.come_back()


# The broker


async def _broker_stops(stage: Stage, event: Event) -> None:
    await stage.broker_ends(is_killed=False)


async def _broker_dies(stage: Stage, event: Event) -> None:
    await stage.broker_ends(is_killed=True)


async def _broker_returns(stage: Stage, event: Event) -> None:
    await stage.broker_returns()


async def _broker_freezes(stage: Stage, event: Event) -> None:
    stage.door.freeze()


async def _broker_thaws(stage: Stage, event: Event) -> None:
    stage.door.thaw()


async def _broker_fills(stage: Stage, event: Event) -> None:
    stage.door.is_full = True
    await stage.door.cut()


async def _broker_has_room(stage: Stage, event: Event) -> None:
    stage.door.is_full = False


async def _cut(stage: Stage, event: Event) -> None:
    await stage.door.cut()


async def _cutting(stage: Stage, event: Event) -> None:
    stage.door.cutting = True


async def _not_cutting(stage: Stage, event: Event) -> None:
    stage.door.cutting = False


# The gateway


async def _gateway_dies(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.gateway.kill)


async def _gateway_stops(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.gateway.stop)


async def _gateway_forgets(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.gateway.kill)
    stage.gateway_forgets()


async def _gateway_starts(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.gateway_starts)


async def _jump(stage: Stage, event: Event) -> None:
    stage.clock.jump(event.seconds)


async def _fill(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.disk_of_gateway.fill)


async def _free(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.disk_of_gateway.free)


# The board


async def _power_cut(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.board.power_cut, event.share or None)


async def _boot(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.board.boot)


async def _reset(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.board.reset, Reset.HARD)


async def _soft_reset(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.board.reset, Reset.SOFT)


async def _message(stage: Stage, event: Event) -> None:
    await stage.send_command(is_retained=event.is_retained)


LASTING = ("for_s",)

ACTIONS: dict[str, Action] = {
    "air.down": Action("nothing gets through", _air_down, _air_up, LASTING),
    "air.weather": Action(
        "the network is bad", _storm, _clear, (*LASTING, "udp", "serial"), ("for_s",)
    ),
    "air.burst": Action(
        "so many octets that come next are anything, as from a motor that starts",
        _burst,
        None,
        ("octets",),
        ("octets",),
        needs=frozenset({Can.SERIAL}),
    ),
    "air.move": Action(
        "the board has a new address, or its cable is pulled and plugged in",
        _move,
        _arrive,
        LASTING,
    ),
    "broker.stop": Action(
        "the broker is asked to end", _broker_stops, _broker_returns, LASTING, is_for_own_rig=True
    ),
    "broker.kill": Action(
        "the broker is killed", _broker_dies, _broker_returns, LASTING, is_for_own_rig=True
    ),
    "broker.freeze": Action(
        "the broker answers nothing", _broker_freezes, _broker_thaws, LASTING, is_for_own_rig=True
    ),
    "broker.full": Action(
        "the broker has no room for clients",
        _broker_fills,
        _broker_has_room,
        LASTING,
        is_for_own_rig=True,
    ),
    "broker.cut": Action("the connection to the broker is cut", _cut, is_for_own_rig=True),
    "broker.cutting": Action(
        "connections to the broker are cut in the middle of packets",
        _cutting,
        _not_cutting,
        LASTING,
        is_for_own_rig=True,
    ),
    "gateway.kill": Action(
        "the gateway is killed", _gateway_dies, _gateway_starts, LASTING, is_for_own_rig=True
    ),
    "gateway.stop": Action(
        "the gateway is asked to end", _gateway_stops, _gateway_starts, LASTING, is_for_own_rig=True
    ),
    "gateway.forget": Action(
        "the gateway is killed and loses all that it kept",
        _gateway_forgets,
        _gateway_starts,
        LASTING,
        is_for_own_rig=True,
    ),
    "clock.jump": Action(
        "the gateway's wall clock is set",
        _jump,
        None,
        ("seconds",),
        ("seconds",),
        is_for_own_rig=True,
    ),
    "disk.full": Action(
        "somebody else fills the gateway's disk", _fill, _free, LASTING, is_for_own_rig=True
    ),
    "board.power_cut": Action(
        "the board's power is cut",
        _power_cut,
        _boot,
        (*LASTING, "share"),
        needs=frozenset({Can.POWER}),
        takes_memory=True,
    ),
    "board.reset": Action(
        "the board's button", _reset, needs=frozenset({Can.RESET}), takes_memory=True
    ),
    "board.soft_reset": Action(
        "the board's interpreter starts anew",
        _soft_reset,
        needs=frozenset({Can.SOFT_RESET}),
        takes_memory=True,
    ),
    "message": Action(
        "a message for the board is published",
        _message,
        None,
        ("retain",),
        needs=frozenset({Can.COMMANDS}),
    ),
}
