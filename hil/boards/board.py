"""What every board can do, whatever it is: simulated, emulated, or on the bench.

    board = KIND.make(spec, place)
    board.prepare(node)          # the firmware and its settings are on it
    board.boot()
    board.power_cut()
    board.boot()
    board.kill()                 # off, and nothing of it is left in this machine

All calls block, and are made by one thread at a time; `logs` may be asked at any time. A board that
does not do what is requested raises BoardError, whose text holds what it printed.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from hil.boards.errors import BoardError

_STORED = re.compile(r"\bstored (\d+)\b")
_HEAP = re.compile(r"\bheap (\d+) (\d+)\b")


class Can(StrEnum):
    """What scenarios ask of a board."""

    UDP = "udp"
    SERIAL = "serial"
    RESET = "reset"  # by its button, from outside
    SOFT_RESET = "soft_reset"  # of its interpreter
    POWER = "power"  # it can be cut
    EXACT_POWER = "exact_power"  # at a share of a wake's instructions
    STORE = "store"  # readings outlast a power cut
    TELLS_STORED = "tells_stored"  # its console prints what it has stored
    COMMANDS = "commands"  # it takes messages


class Reset(StrEnum):
    SOFT = "soft"
    HARD = "hard"


@dataclass(frozen=True, slots=True)
class BoardSpec:
    """One [[board]] of bench.toml."""

    id: str
    kind: str
    transport: str
    firmware: str
    port: str = ""  # of its console, or of its line
    baud: int = 115_200
    heap: str = "64k"
    host: str = "127.0.0.1"  # of this machine, as the board sees it
    power: str = "none"
    power_off: tuple[str, ...] = ()
    power_on: tuple[str, ...] = ()
    power_settles_s: float = 1.0
    uart: int = 0  # of the board, where its line is
    line: str = ""  # where that goes here: an adapter's port
    interval_s: int = 5  # between two readings of a board that is real
    stretch: float = 1.0  # of all times of scenarios, for a board that is slower
    secrets: Mapping[str, Any] = field(default_factory=dict)
    capabilities: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Node:
    """The firmware's settings for one scenario."""

    id: str
    topic: str
    host: str
    port: int
    retry_ms: int = 200
    pause_s: float = 0.15  # between two readings; boards that are real sleep as long as they can
    budget_s: int = 8  # the longest wake


@dataclass(frozen=True, slots=True)
class Place:
    """Where a board may work: a folder of its own, the UART's terminal if it has no line itself."""

    folder: Path
    uart: str
    shelf: Path  # for firmware that was built once


@dataclass(frozen=True, slots=True)
class Wake:
    began_at: float  # of the monotonic clock
    ended_at: float
    how: str


class Board(ABC):
    device = ""  # its serial line, where it brings one of its own
    is_line_console = False  # and is needed by the board itself until it has booted
    firmware_hash = ""  # of what is the same on all boards with it; known after `prepare`

    @abstractmethod
    def prepare(self, node: Node) -> None:
        """Firmware and settings, on a board that was emptied."""

    @abstractmethod
    def boot(self) -> None:
        """Power on; its program begins."""

    @abstractmethod
    def power_cut(self, at: float | None = None) -> None:
        """Now, or when so large a share of the next wake's work is done. Returns when it is off."""

    @abstractmethod
    def kill(self) -> None:
        """Does nothing to one that is off."""

    def reset(self, how: Reset) -> None:
        raise BoardError(f"this kind of board has no {how} reset from outside")

    def put(self, files: Mapping[str, bytes]) -> None:
        raise BoardError("this kind of board takes no files")

    def exec(self, code: str) -> str:
        """What the snippet printed, on a board whose own program is stopped for it."""
        raise BoardError("this kind of board runs no snippets")

    def command(self, number: int) -> tuple[str, bytes]:
        """A message that it takes: where, behind its topic, and what."""
        raise BoardError("this kind of board takes no messages")

    def collect_output(self) -> str:
        """Called when the run is over and its line is free, before `kill`."""
        return self.logs()

    @abstractmethod
    def logs(self) -> str:
        """All that it printed since `prepare`."""

    def wakes(self) -> Sequence[Wake]:
        """Where the board itself reports how long it was awake."""
        return ()

    def stored(self) -> set[int]:
        """Readings that it reports as stored."""
        return {int(number) for number in _STORED.findall(self.logs())}

    def heap_used(self) -> tuple[int, int] | None:
        """The most bytes, and of how many."""
        used_and_size = [
            (int(used), int(used) + int(free)) for used, free in _HEAP.findall(self.logs())
        ]
        return max(used_and_size, default=None)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of board; hil/boards/kinds has a file for each."""

    name: str
    title: str
    transports: tuple[str, ...]
    firmwares: tuple[str, ...]  # the first is the default
    capabilities: frozenset[Can]
    why_not: Callable[[BoardSpec], str | None]  # why it is not there; None when it is
    make: Callable[[BoardSpec, Place], Board]
    powers: tuple[str, ...] = ("process",)
    has_button: bool = True  # or it is reset by its power
    is_real: bool = False  # on a port, and as slow as boards are

    @property
    def has_store(self) -> bool:
        return Can.STORE in self.capabilities
