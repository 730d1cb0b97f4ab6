"""What the sources gave so far: values that fit, problems, and keys about which nothing is certain.

The sources are gathered in rising precedence, so that a later value replaces an earlier one. A bad
value is a problem even when another source would have replaced it.
"""

from dataclasses import dataclass
from pathlib import Path

from gateway.config.keys import ROOT
from gateway.config.kinds import MismatchError
from gateway.config.problems import (
    COMMAND_LINE,
    DEFAULT,
    PROBLEMS_MAX,
    ConfigError,
    Origin,
    Problem,
)
from gateway.config.schema import Key, Repeated, Table, known_keys
from gateway.config.spelling import KeyPath, in_its_unit, nearest, shown_key


@dataclass(frozen=True, slots=True)
class Given:
    key: Key
    value: object
    origin: Origin


class Gathering:
    def __init__(self) -> None:
        self.given: dict[KeyPath, Given] = {}
        # The entries of each array of tables that a source gave, by who gave them first.
        self.entries: dict[KeyPath, list[Origin]] = {}
        # Keys that were given, perhaps under a misspelled name, but not understood: checks of
        # them would only repeat the problem. None in it means that nothing is certain.
        self.unclear: set[KeyPath | None] = set()
        self._problems: list[Problem] = []
        self._left_out = 0

    def put(self, key: Key, path: KeyPath, raw: object, origin: Origin, folder: Path) -> None:
        """`folder` is where relative paths begin."""
        try:
            value = key.kind.read(raw)
        except MismatchError as mismatch:
            self.add_problem(origin, path, in_its_unit(str(mismatch), path[-1]))
            self.unclear.add(path)
        else:
            value = folder / value if isinstance(value, Path) else value
            self.given[path] = Given(key, value, origin)

    def open_entry(self, part: Repeated, path: KeyPath, index: int, origin: Origin) -> bool:
        """Makes sure of an entry of an array of tables; only an existing or the next one can be."""
        if index > self.highest_index(part, path):
            return False
        origins = self.entries.setdefault(path, _entries_by_default(part))
        if index == len(origins):
            origins.append(origin)
        return True

    def highest_index(self, part: Repeated, path: KeyPath) -> int:
        """Of the entry that exists or could be added."""
        there = self.entries.get(path, _entries_by_default(part))
        return min(len(there), part.entries_max - 1)

    def add_problem(self, origin: Origin, path: KeyPath | None, message: str) -> None:
        if len(self._problems) >= PROBLEMS_MAX:
            self._left_out += 1
            return
        self._problems.append(Problem(origin, None if path is None else shown_key(path), message))

    def add_unknown_key(self, origin: Origin, table: Table, path: KeyPath) -> None:
        """`path` is what was written, `table` the innermost one that was understood."""
        if len(self._problems) >= PROBLEMS_MAX:
            self._left_out += 1
            return
        meant = _meant(table, path)
        usual = _ELSEWHERE_NAMED.get(tuple(part for part in path if not isinstance(part, int)))
        if usual is not None:
            self.add_problem(origin, path, f"unknown key, {usual}")
        elif meant is None:
            known = ", ".join(part.name for part in table.parts)
            where = f"[{shown_key(path[:-1])}]" if path[1:] else "the file"
            self.add_problem(origin, path, f"unknown key, {where} knows {known}")
        else:
            self.unclear.add(meant)
            self.add_problem(origin, path, f"unknown key, did you mean {shown_key(meant)}?")

    def raise_problems(self) -> None:
        """File first, from top to bottom, then variables, then the command line."""
        if self._problems:
            raise ConfigError(sorted(self._problems, key=_reading_order), self._left_out)


# How configurations of other MQTT programs have what is named otherwise here.
_BROKER = 'the broker is in [upstream], as url = "mqtt://HOST:1883"'
_ELSEWHERE_NAMED: dict[KeyPath, str] = {
    **dict.fromkeys([("broker",), ("mqtt",)], _BROKER),
    **dict.fromkeys(
        [("upstream", name) for name in ("host", "hostname", "server", "address", "port", "tls")],
        'host, port and TLS are in upstream.url, as "mqtt://HOST:1883" or "mqtts://HOST:8883"',
    ),
    ("home_assistant_value", "value_template"): "values come as a document of the gateway's, with "
    "names that a template would have to know; Home Assistant's own template sensors make one "
    "value of another",
    ("upstream", "password"): "a password is in a file of its own: upstream.password_file",
}


def _entries_by_default(part: Repeated) -> list[Origin]:
    return [] if part.is_optional else [DEFAULT]


def _reading_order(problem: Problem) -> tuple[bool, bool, int, int]:
    origin = problem.origin
    return origin == COMMAND_LINE, origin.line is None, origin.line or 0, origin.column or 0


def _meant(table: Table, path: KeyPath) -> KeyPath | None:
    """The key of this table that is spelled most alike, else one of that very name elsewhere."""
    name = str(path[-1])
    near = nearest(name, [part.name for part in table.parts])
    if near is not None:
        return (*path[:-1], near)
    elsewhere = [known for known in known_keys(ROOT) if known[-1] == name]
    return elsewhere[0] if len(elsewhere) == 1 else None
