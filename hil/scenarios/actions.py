"""What can be done to a board and to all that it talks to, by the names that scenarios use.

Each action leaves `marks`: one of these counts of `stage.effects` is larger afterwards, or it did
nothing, and the run fails. hil/rig/steps.py performs actions: a new one needs an entry in ACTIONS
and one in STEPS.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from hil.boards.board import Can
from hil.faults.broker_proxy import HELD_BACK, REFUSED
from hil.faults.cutting_proxy import CUT, CUT_IN_A_PACKET
from hil.faults.lossy_proxy import LOST_WHILE_DOWN, MOVED
from hil.faults.serial_proxy import HELD_LOW, IN_A_BURST, PULLED_OUT

BROKER_STOPPED, BROKER_KILLED = "broker stopped", "broker killed"
GATEWAY_STOPPED, GATEWAY_KILLED = "gateway stopped", "gateway killed"
GATEWAY_FORGOT, DISK_FULL = "forgotten", "full"
POWER_CUT, RESET, SOFT_RESET = "cut off its power", "reset", "softly reset"
CLOCK_SEEN, MESSAGE = "told another time", "published"

PARAMETERS = ("for_s", "seconds", "share", "octets", "retain", "udp", "serial")


@dataclass(frozen=True, slots=True)
class Action:
    title: str
    _: KW_ONLY
    marks: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    needs: frozenset[Can] = frozenset()
    is_for_own_rig: bool = False
    takes_memory: bool = False  # of the board


LASTING = ("for_s",)

ACTIONS: dict[str, Action] = {
    "air.down": Action(
        "nothing gets through", marks=(LOST_WHILE_DOWN, HELD_LOW), parameters=LASTING
    ),
    "air.weather": Action(
        "the network is bad", marks=(), parameters=(*LASTING, "udp", "serial"), required=("for_s",)
    ),
    "air.burst": Action(
        "so many bytes that come next are anything, as from a motor that starts",
        marks=(IN_A_BURST,),
        parameters=("octets",),
        required=("octets",),
        needs=frozenset({Can.SERIAL}),
    ),
    "air.move": Action(
        "the board has a new address, or its cable is pulled and plugged in",
        marks=(MOVED, PULLED_OUT),
        parameters=LASTING,
    ),
    "broker.stop": Action(
        "the broker is asked to end",
        marks=(BROKER_STOPPED,),
        parameters=LASTING,
        is_for_own_rig=True,
    ),
    "broker.kill": Action(
        "the broker is killed", marks=(BROKER_KILLED,), parameters=LASTING, is_for_own_rig=True
    ),
    "broker.freeze": Action(
        "the broker answers nothing", marks=(HELD_BACK,), parameters=LASTING, is_for_own_rig=True
    ),
    "broker.full": Action(
        "the broker has no room for clients",
        marks=(REFUSED,),
        parameters=LASTING,
        is_for_own_rig=True,
    ),
    "broker.cut": Action("the connection to the broker is cut", marks=(CUT,), is_for_own_rig=True),
    "broker.cutting": Action(
        "connections to the broker are cut in the middle of packets",
        marks=(CUT_IN_A_PACKET,),
        parameters=LASTING,
        is_for_own_rig=True,
    ),
    "gateway.kill": Action(
        "the gateway is killed", marks=(GATEWAY_KILLED,), parameters=LASTING, is_for_own_rig=True
    ),
    "gateway.stop": Action(
        "the gateway is asked to end",
        marks=(GATEWAY_STOPPED,),
        parameters=LASTING,
        is_for_own_rig=True,
    ),
    "gateway.forget": Action(
        "the gateway is killed and loses all that it kept",
        marks=(GATEWAY_FORGOT,),
        parameters=LASTING,
        is_for_own_rig=True,
    ),
    "clock.jump": Action(
        "the gateway's wall clock is set",
        marks=(CLOCK_SEEN,),
        parameters=("seconds",),
        required=("seconds",),
        is_for_own_rig=True,
    ),
    "disk.full": Action(
        "somebody else fills the gateway's disk",
        marks=(DISK_FULL,),
        parameters=LASTING,
        is_for_own_rig=True,
    ),
    "board.power_cut": Action(
        "the board's power is cut",
        marks=(POWER_CUT,),
        parameters=(*LASTING, "share"),
        needs=frozenset({Can.POWER}),
        takes_memory=True,
    ),
    "board.reset": Action(
        "the board's button", marks=(RESET,), needs=frozenset({Can.RESET}), takes_memory=True
    ),
    "board.soft_reset": Action(
        "the board's interpreter starts again",
        marks=(SOFT_RESET,),
        needs=frozenset({Can.SOFT_RESET}),
        takes_memory=True,
    ),
    "message": Action(
        "a message for the board is published",
        marks=(MESSAGE,),
        parameters=("retain",),
        needs=frozenset({Can.COMMANDS}),
    ),
}
