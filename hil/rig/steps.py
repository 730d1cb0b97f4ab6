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


async def _set_impairment(stage: Stage, event: Event) -> None:
    stage.network.set_impairment(event.udp, event.line)


async def _clear_impairment(stage: Stage, event: Event) -> None:
    stage.network.set_impairment(stage.scenario.udp, stage.scenario.line)


async def _burst(stage: Stage, event: Event) -> None:
    stage.network.burst(event.octets)


async def _move(stage: Stage, event: Event) -> None:
    await stage.network.leave()


async def _come_back(stage: Stage, event: Event) -> None:
    await stage.network.come_back()


# The broker


async def _stop_broker(stage: Stage, event: Event) -> None:
    await stage.end_broker(is_killed=False)


async def _kill_broker(stage: Stage, event: Event) -> None:
    await stage.end_broker(is_killed=True)


async def _restart_broker(stage: Stage, event: Event) -> None:
    await stage.restart_broker()


async def _freeze_broker(stage: Stage, event: Event) -> None:
    stage.broker_proxy.freeze()


async def _thaw_broker(stage: Stage, event: Event) -> None:
    stage.broker_proxy.thaw()


async def _fill_broker(stage: Stage, event: Event) -> None:
    stage.broker_proxy.is_full = True
    await stage.broker_proxy.cut()


async def _empty_broker(stage: Stage, event: Event) -> None:
    stage.broker_proxy.is_full = False


async def _cut(stage: Stage, event: Event) -> None:
    await stage.broker_proxy.cut()


async def _start_cutting(stage: Stage, event: Event) -> None:
    stage.broker_proxy.cutting = True


async def _stop_cutting(stage: Stage, event: Event) -> None:
    stage.broker_proxy.cutting = False


# The gateway


async def _kill_gateway(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.kill_gateway)


async def _stop_gateway(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.stop_gateway)


async def _erase_gateway(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.kill_gateway)
    await asyncio.to_thread(stage.erase_gateway_state)


async def _start_gateway(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.start_gateway)


async def _jump_clock(stage: Stage, event: Event) -> None:
    """Returns when the gateway has looked at its clock, if it does so soon."""
    seen = stage.clock.times_seen
    stage.clock.jump(event.seconds)
    await asyncio.to_thread(stage.clock.wait_until_seen, seen + 1)


async def _fill_disk(stage: Stage, event: Event) -> None:
    await asyncio.to_thread(stage.disk_of_gateway.fill)


async def _free_disk(stage: Stage, event: Event) -> None:
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
    "air.weather": Steps(_set_impairment, _clear_impairment),
    "air.burst": Steps(_burst),
    "air.move": Steps(_move, _come_back),
    "broker.stop": Steps(_stop_broker, _restart_broker),
    "broker.kill": Steps(_kill_broker, _restart_broker),
    "broker.freeze": Steps(_freeze_broker, _thaw_broker),
    "broker.full": Steps(_fill_broker, _empty_broker),
    "broker.cut": Steps(_cut),
    "broker.cutting": Steps(_start_cutting, _stop_cutting),
    "gateway.kill": Steps(_kill_gateway, _start_gateway),
    "gateway.stop": Steps(_stop_gateway, _start_gateway),
    "gateway.forget": Steps(_erase_gateway, _start_gateway),
    "clock.jump": Steps(_jump_clock),
    "disk.full": Steps(_fill_disk, _free_disk),
    "board.power_cut": Steps(_power_cut, _boot),
    "board.reset": Steps(_reset),
    "board.soft_reset": Steps(_soft_reset),
    "message": Steps(_message),
}
