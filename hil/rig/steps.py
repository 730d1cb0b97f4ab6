"""How each action of hil/scenarios/actions.py is performed on the stage.

An action *begins*; one that lasts *ends* after `for_s`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from hil.boards.board import Reset
from hil.rig.stage import Stage
from hil.scenarios.actions import DISK_FULL, MESSAGE, POWER_CUT, RESET, SOFT_RESET
from hil.scenarios.events import Event

Step: TypeAlias = Callable[[Stage, Event], Awaitable[None]]


class Steps(NamedTuple):
    begin: Step
    end: Step | None = None  # of one that lasts


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
    stage.broker_proxy.freeze()


async def _broker_thaws(stage: Stage, event: Event) -> None:
    stage.broker_proxy.thaw()


async def _broker_fills(stage: Stage, event: Event) -> None:
    stage.broker_proxy.is_full = True
    await stage.broker_proxy.cut()


async def _broker_has_room(stage: Stage, event: Event) -> None:
    stage.broker_proxy.is_full = False


async def _cut(stage: Stage, event: Event) -> None:
    await stage.broker_proxy.cut()


async def _cutting(stage: Stage, event: Event) -> None:
    stage.broker_proxy.cutting = True


async def _not_cutting(stage: Stage, event: Event) -> None:
    stage.broker_proxy.cutting = False


# The gateway


async def _gateway_dies(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.gateway_dies)


async def _gateway_stops(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.gateway_stops)


async def _gateway_forgets(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.gateway_dies)
    await asyncio.to_thread(stage.gateway_forgets)


async def _gateway_starts(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.gateway_starts)


async def _jump(stage: Stage, event: Event) -> None:
    """Returns when the gateway has looked at its clock, if it does so soon."""
    seen = stage.clock.times_seen
    stage.clock.jump(event.seconds)
    await asyncio.to_thread(stage.clock.wait_until_seen, seen + 1)


async def _fill(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.disk_of_gateway.fill)


async def _free(stage: Stage, event: Event) -> None:
    stage.done[DISK_FULL] += stage.disk_of_gateway.is_full
    await asyncio.to_thread(stage.disk_of_gateway.free)


# The board


async def _power_cut(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.board.power_cut, event.share or None)
    stage.done[POWER_CUT] += 1


async def _boot(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.board.boot)


async def _reset(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.board.reset, Reset.HARD)
    stage.done[RESET] += 1


async def _soft_reset(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.board.reset, Reset.SOFT)
    stage.done[SOFT_RESET] += 1


async def _message(stage: Stage, event: Event) -> None:
    await stage.send_command(is_retained=event.is_retained)
    stage.done[MESSAGE] += 1


STEPS: dict[str, Steps] = {
    "air.down": Steps(_air_down, _air_up),
    "air.weather": Steps(_storm, _clear),
    "air.burst": Steps(_burst),
    "air.move": Steps(_move, _arrive),
    "broker.stop": Steps(_broker_stops, _broker_returns),
    "broker.kill": Steps(_broker_dies, _broker_returns),
    "broker.freeze": Steps(_broker_freezes, _broker_thaws),
    "broker.full": Steps(_broker_fills, _broker_has_room),
    "broker.cut": Steps(_cut),
    "broker.cutting": Steps(_cutting, _not_cutting),
    "gateway.kill": Steps(_gateway_dies, _gateway_starts),
    "gateway.stop": Steps(_gateway_stops, _gateway_starts),
    "gateway.forget": Steps(_gateway_forgets, _gateway_starts),
    "clock.jump": Steps(_jump),
    "disk.full": Steps(_fill, _free),
    "board.power_cut": Steps(_power_cut, _boot),
    "board.reset": Steps(_reset),
    "board.soft_reset": Steps(_soft_reset),
    "message": Steps(_message),
}
