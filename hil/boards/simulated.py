"""A board with the whole application of a node that this machine simulates: what is alike whatever
runs its MicroPython.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

from hil.boards.board import Board, BoardSpec, Can, Node, Place, Reset, Wake
from hil.boards.errors import BoardError
from hil.boards.firmware import firmware_hash, node_command, node_files
from hil.rig.ports import free_udp_port

CAPABILITIES = frozenset(
    {
        Can.UDP,
        Can.SERIAL,
        Can.RESET,
        Can.SOFT_RESET,
        Can.POWER,
        Can.EXACT_POWER,
        Can.STORE,
        Can.TELLS_STORED,
        Can.COMMANDS,
    }
)


class Power(Protocol):
    """The switch of a board that is on."""

    @property
    def wakes(self) -> list[Wake]: ...
    def cut(self) -> None: ...
    def cut_in_wake(self, share: float) -> None: ...
    def soft_reset(self) -> None: ...


class SimulatedNode(Board):
    def __init__(self, spec: BoardSpec, place: Place) -> None:
        self._spec = spec
        self._place = place
        self._log = place.folder / "console.log"
        self._wakes: list[Wake] = []
        self._power: Power | None = None
        self._pause_s = 0.0
        place.folder.mkdir(parents=True, exist_ok=True)
        self._log.touch()

    @abstractmethod
    def _fill(self, files: Mapping[str, bytes]) -> None:
        """An empty flash with these files."""

    @abstractmethod
    def _switched_on(self) -> Power: ...

    def prepare(self, node: Node) -> None:
        self._pause_s = node.pause_s
        if self._spec.transport == "serial":
            others: dict[str, object] = {"uart": {"number": 0, "baud": self._spec.baud}}
        else:
            others = {"gateways": [[node.host, node.port]], "local_port": free_udp_port()}
        files = node_files(self._place.shelf, node, others)
        self.firmware_hash = firmware_hash(files)
        self._fill(files)

    def boot(self) -> None:
        assert self._power is None, "it is on"
        self._power = self._switched_on()

    def reset(self, how: Reset) -> None:
        power = self._must_be_on()
        if how is Reset.SOFT:
            power.soft_reset()
        else:
            self.power_cut()
            self.boot()

    def power_cut(self, at: float | None = None) -> None:
        power = self._must_be_on()
        if at is None:
            power.cut()
        else:
            power.cut_in_wake(at)
        self._forget(power)

    def kill(self) -> None:
        if self._power is not None:
            self._power.cut()
            self._forget(self._power)

    def command(self, number: int) -> tuple[str, bytes]:
        return node_command(number)

    def logs(self) -> str:
        return self._log.read_text(errors="replace")

    def wakes(self) -> Sequence[Wake]:
        return [*self._wakes, *(self._power.wakes if self._power else ())]

    def _must_be_on(self) -> Power:
        if self._power is None:
            raise BoardError("it is off already")
        return self._power

    def _must_be_off(self) -> None:
        if self._power is not None:
            raise BoardError("it is on: cut its power first")

    def _forget(self, power: Power) -> None:
        self._wakes += power.wakes
        self._power = None
