"""How a real board's power is cut: which commands that takes, by `power` in bench.toml.

- `none`: not at all; scenarios that need it are not run on this board.
- `uhubctl`: by a USB hub that can switch its ports. `hub` and `hub_port` are what uhubctl lists.
- `command`: by commands of your own, `power_off` and `power_on`, as for a relay.
- `process`: of boards that are none.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping

from hil.boards import programs
from hil.boards.board import BoardSpec
from hil.boards.errors import BoardError
from hil.scenarios.mistakes import Table

SWITCH_S_MAX = 30.0
Commands = tuple[tuple[str, ...], tuple[str, ...]]  # off, on


def _none(table: Table) -> Commands:
    return (), ()


def _uhubctl(table: Table) -> Commands:
    hub, port = table.text("hub"), table.whole("hub_port", None, 1, 32)
    command = ("uhubctl", "-l", hub, "-p", str(port), "-a")
    return (*command, "off"), (*command, "on")


def _command(table: Table) -> Commands:
    return _error_output(table, "power_off"), _error_output(table, "power_on")


def _error_output(table: Table, key: str) -> tuple[str, ...]:
    try:
        found = tuple(shlex.split(table.text(key)))
    except ValueError as error:
        table.wrong(key, f"no command: {error}")
        return ()
    if not found and key in table:
        table.wrong(key, "is empty")
    return found


POWERS: Mapping[str, Callable[[Table], Commands]] = {
    "process": _none,
    "none": _none,
    "uhubctl": _uhubctl,
    "command": _command,
}


class Switch:
    def __init__(self, spec: BoardSpec) -> None:
        self._spec = spec

    @property
    def is_there(self) -> bool:
        return bool(self._spec.power_off)

    def off(self) -> None:
        """Returns when what the board's capacitors hold is gone as well."""
        self._run(self._spec.power_off)
        time.sleep(self._spec.power_settles_s)

    def on(self) -> None:
        self._run(self._spec.power_on)

    def _run(self, command: tuple[str, ...]) -> None:
        if not command:
            raise BoardError(f"{self._spec.id} has no power switch (power = {self._spec.power!r})")
        programs.run(command[0], command[1:], SWITCH_S_MAX)
