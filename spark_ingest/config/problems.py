"""What is wrong with a configuration, each problem with its place, and where in a file that is.

tomllib tells no places. So when there is a mistake, and only then, the file is parsed again line
by line: a key stands where it first appears. That is quadratic, hence LINES_SOUGHT_MAX.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

KeyPath = tuple[str | int, ...]

LINES_SOUGHT_MAX = 1000
PROBLEMS_MAX = 50
SHOWN_LENGTH_MAX = 80

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Problem:
    path: KeyPath
    message: str
    source: str  # the file, or "--set"


class ConfigError(Exception):
    """The operator's mistakes, one line each."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__(list(lines))
        self.lines = tuple(lines)

    def __str__(self) -> str:
        return "\n".join(self.lines)


def spoken(problems: Sequence[Problem], file: str, text: str) -> ConfigError:
    """With line and column, in the order of the file."""
    found: list[tuple[tuple[int, int], str]] = []
    for problem in problems[:PROBLEMS_MAX]:
        line, column = place_of(problem.path, text) if problem.source == file else (0, 0)
        where = f"{problem.source}:{line}:{column}" if line else problem.source
        key = f"{dotted(problem.path)}: " if problem.path else ""
        found.append(((line, column), f"{where}: {key}{problem.message}"))
    lines = [message for _, message in sorted(found)]
    if len(problems) > PROBLEMS_MAX:
        lines.append(f"... and {len(problems) - PROBLEMS_MAX} more")
    return ConfigError(lines)


def place_of(path: KeyPath, text: str) -> tuple[int, int]:
    """Line and column, from 1, where the path, or what of it there is, is first named."""
    lines = text.split("\n")
    if not path:
        return 0, 0
    if len(lines) > LINES_SOUGHT_MAX:
        return 0, 0
    began = 0  # the first line behind the last one at which all before it was valid
    for number in range(1, len(lines) + 1):
        try:
            values = tomllib.loads("\n".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue  # in the middle of a value of many lines
        if _has(values, path):
            return began + 1, _column(path, lines[began])
        began = number
    return place_of(path[:-1], text)  # what is missing is missed where it should be


def _has(values: object, path: KeyPath) -> bool:
    for part in path:
        if isinstance(part, int) and isinstance(values, list):
            if part >= len(values):
                return False
            values = values[part]
        elif isinstance(values, Mapping) and part in values:
            values = values[part]
        else:
            return False
    return True


def _column(path: KeyPath, line: str) -> int:
    name = str(next((part for part in reversed(path) if isinstance(part, str)), ""))
    return max(line.find(name), 0) + 1


def dotted(path: KeyPath) -> str:
    """As `--set` takes it."""
    parts = (
        str(part) if isinstance(part, int) or _BARE_KEY.fullmatch(part) else json.dumps(part)
        for part in path
    )
    return shortened(".".join(parts))


def shown(raw: object) -> str:
    """A value as the operator wrote it, on one line."""
    match raw:
        case str():
            return json.dumps(shortened(raw), ensure_ascii=not raw.isprintable())
        case bool():
            return "true" if raw else "false"
        case Mapping():
            return "a table"
        case list():
            return "an array" if raw else "an empty array"
        case int() if abs(raw) >= 10**20:
            return "a number of more than 20 digits"
    return shortened(str(raw))


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}..."
