"""What can be done to a board and to all that it talks to, by the names that scenarios use.

An action *begins*; one that lasts *ends* after `for_s`. `stage` is what the run of a scenario gives
them (hil/rig/stage.py). Each leaves `marks`: one of these counts of `stage.effects` is larger
afterwards, or it did nothing, and the run fails. A new action needs an entry in ACTIONS and nothing
else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hil.boards.board import Can, Reset
from hil.faults.broker_door import HELD_BACK, REFUSED
from hil.faults.cutting_proxy import CUT, CUT_IN_A_PACKET
from hil.faults.lossy_proxy import LOST_WHILE_DOWN, MOVED
from hil.faults.serial_proxy import HELD_LOW, IN_A_BURST, PULLED_OUT
from hil.scenarios.events import Event

if TYPE_CHECKING:
    from hil.rig.stage import Stage

Step = Callable[["Stage", Event], Awaitable[None]]

BROKER_STOPPED, BROKER_KILLED = "broker stopped", "broker killed"
GATEWAY_STOPPED, GATEWAY_KILLED = "gateway stopped", "gateway killed"
GATEWAY_FORGOT, DISK_FULL = "forgotten", "full"
POWER_CUT, RESET, SOFT_RESET = "cut off its power", "reset", "softly reset"
CLOCK_SEEN, MESSAGE = "told another time", "published"

PARAMETERS = ("for_s", "seconds", "share", "octets", "retain", "udp", "serial")


@dataclass(frozen=True, slots=True)
class Action:
    title: str
    begin: Step
    marks: tuple[str, ...]
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


LASTING = ("for_s",)

ACTIONS: dict[str, Action] = {
    "air.down": Action(
        "nothing gets through", _air_down, (LOST_WHILE_DOWN, HELD_LOW), _air_up, LASTING
    ),
    "air.weather": Action(
        "the network is bad", _storm, (), _clear, (*LASTING, "udp", "serial"), ("for_s",)
    ),
    "air.burst": Action(
        "so many octets that come next are anything, as from a motor that starts",
        _burst,
        (IN_A_BURST,),
        None,
        ("octets",),
        ("octets",),
        needs=frozenset({Can.SERIAL}),
    ),
    "air.move": Action(
        "the board has a new address, or its cable is pulled and plugged in",
        _move,
        (MOVED, PULLED_OUT),
        _arrive,
        LASTING,
    ),
    "broker.stop": Action(
        "the broker is asked to end",
        _broker_stops,
        (BROKER_STOPPED,),
        _broker_returns,
        LASTING,
        is_for_own_rig=True,
    ),
    "broker.kill": Action(
        "the broker is killed",
        _broker_dies,
        (BROKER_KILLED,),
        _broker_returns,
        LASTING,
        is_for_own_rig=True,
    ),
    "broker.freeze": Action(
        "the broker answers nothing",
        _broker_freezes,
        (HELD_BACK,),
        _broker_thaws,
        LASTING,
        is_for_own_rig=True,
    ),
    "broker.full": Action(
        "the broker has no room for clients",
        _broker_fills,
        (REFUSED,),
        _broker_has_room,
        LASTING,
        is_for_own_rig=True,
    ),
    "broker.cut": Action("the connection to the broker is cut", _cut, (CUT,), is_for_own_rig=True),
    "broker.cutting": Action(
        "connections to the broker are cut in the middle of packets",
        _cutting,
        (CUT_IN_A_PACKET,),
        _not_cutting,
        LASTING,
        is_for_own_rig=True,
    ),
    "gateway.kill": Action(
        "the gateway is killed",
        _gateway_dies,
        (GATEWAY_KILLED,),
        _gateway_starts,
        LASTING,
        is_for_own_rig=True,
    ),
    "gateway.stop": Action(
        "the gateway is asked to end",
        _gateway_stops,
        (GATEWAY_STOPPED,),
        _gateway_starts,
        LASTING,
        is_for_own_rig=True,
    ),
    "gateway.forget": Action(
        "the gateway is killed and loses all that it kept",
        _gateway_forgets,
        (GATEWAY_FORGOT,),
        _gateway_starts,
        LASTING,
        is_for_own_rig=True,
    ),
    "clock.jump": Action(
        "the gateway's wall clock is set",
        _jump,
        (CLOCK_SEEN,),
        None,
        ("seconds",),
        ("seconds",),
        is_for_own_rig=True,
    ),
    "disk.full": Action(
        "somebody else fills the gateway's disk",
        _fill,
        (DISK_FULL,),
        _free,
        LASTING,
        is_for_own_rig=True,
    ),
    "board.power_cut": Action(
        "the board's power is cut",
        _power_cut,
        (POWER_CUT,),
        _boot,
        (*LASTING, "share"),
        needs=frozenset({Can.POWER}),
        takes_memory=True,
    ),
    "board.reset": Action(
        "the board's button", _reset, (RESET,), needs=frozenset({Can.RESET}), takes_memory=True
    ),
    "board.soft_reset": Action(
        "the board's interpreter starts anew",
        _soft_reset,
        (SOFT_RESET,),
        needs=frozenset({Can.SOFT_RESET}),
        takes_memory=True,
    ),
    "message": Action(
        "a message for the board is published",
        _message,
        (MESSAGE,),
        None,
        ("retain",),
        needs=frozenset({Can.COMMANDS}),
    ),
}
