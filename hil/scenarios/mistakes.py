"""TOML files that people write, read strictly: every mistake at once, each with file and line.

    page = Page(path)
    table = page.table
    loss = table.number("loss", 0.0, most=1.0)
    page.end()                                      # raises MistakesError

A key that is not read is a mistake, and the nearest known one is named. What is wrong stands
in `page.problems`; the value that was asked for is then its default, so that reading goes on.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([\w-]+)(?:\.[\w.-]+)?\s*=")
_LINE_IN_ERROR = re.compile(r"\(at line (\d+)")

Place = tuple[str | int, ...]


class MistakesError(Exception):
    """The text has a line for each: what is wrong, where, and what would be right."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))


class Page:
    """One file."""

    def __init__(self, path: Path) -> None:
        """Raises MistakesError when there is nothing to read."""
        self.path = path
        self._found: list[tuple[int, str]] = []
        try:
            text = path.read_text(encoding="utf-8")
            given = tomllib.loads(text)
        except OSError as error:
            raise MistakesError([f"{path}: {error.strerror}"]) from None
        except UnicodeDecodeError:
            raise MistakesError([f"{path}: it is not UTF-8"]) from None
        except tomllib.TOMLDecodeError as error:
            found = _LINE_IN_ERROR.search(str(error))
            where = f"{path}:{found.group(1)}" if found else f"{path}"
            raise MistakesError([f"{where}: {str(error).split(' (at')[0]}"]) from None
        self._lines = dict(_places(text))
        self.table = Table(self, (), given)

    def note(self, place: Place, problem: str) -> None:
        line = next(
            (
                self._lines[place[:end]]
                for end in range(len(place), 0, -1)
                if place[:end] in self._lines
            ),
            1,
        )
        self._found.append((line, problem))

    @property
    def problems(self) -> list[str]:
        """In the order of the file."""
        ordered = sorted(self._found, key=lambda found: found[0])
        return [f"{self.path}:{line}: {problem}" for line, problem in ordered]

    def end(self) -> None:
        self.table.refuse_unknown()
        if self.problems:
            raise MistakesError(self.problems)


def _places(text: str) -> Iterator[tuple[Place, int]]:
    """Where each table and each key begins."""
    counts: dict[Place, int] = {}
    here: Place = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _HEADER.match(line):
            names: Place = tuple(found.group(2).replace(" ", "").split("."))
            if found.group(1) == "[[":
                counts[names] = counts.get(names, -1) + 1
                names = (*names, counts[names])
            here = names
            yield here, number
        elif found := _KEY.match(line):
            yield (*here, found.group(1)), number


class Table:
    def __init__(self, page: Page, place: Place, given: dict[str, Any]) -> None:
        self._page = page
        self._place = place
        self._given = given
        self._used: set[str] = set()
        self._inner: list[Table] = []

    def __contains__(self, key: str) -> bool:
        return key in self._given

    @property
    def keys(self) -> list[str]:
        return list(self._given)

    def is_text(self, key: str) -> bool:
        return isinstance(self._given.get(key), str)

    def text(self, key: str, default: str | None = None, choices: Collection[str] = ()) -> str:
        """Without a default it must be there."""
        value = self._value(key, str, "a text", default)
        if choices and value not in choices and key in self._given:
            self.wrong(
                key, f"expected one of {', '.join(choices)}, got {value!r}{_near(value, choices)}"
            )
            return default or ""
        return str(value)

    def number(
        self, key: str, default: float | None = None, least: float = 0.0, most: float = 1e9
    ) -> float:
        value = self._value(key, (int, float), "a number", default)
        if not least <= value <= most:
            self.wrong(key, f"expected {least:g} to {most:g}, got {value:g}")
            return least
        return float(value)

    def whole(self, key: str, default: int | None = None, least: int = 0, most: int = 10**9) -> int:
        value = self._value(key, int, "a whole number", default)
        if not least <= value <= most:
            self.wrong(key, f"expected {least} to {most}, got {value}")
            return least
        return int(value)

    def texts(self, key: str, choices: Collection[str] = ()) -> tuple[str, ...]:
        values = self._value(key, list, "a list of texts", [])
        if not all(isinstance(each, str) for each in values):
            self.wrong(key, f"expected a list of texts, got {values!r}")
            return ()
        for each in values:
            if choices and each not in choices:
                self.wrong(
                    key, f"no {each!r}; there are {', '.join(choices)}{_near(each, choices)}"
                )
        return tuple(values)

    def free(self, key: str) -> dict[str, Any]:
        """A table whose keys are anybody's."""
        return dict(self._value(key, dict, "a table", {}))

    def table(self, key: str) -> Table:
        return self._made((*self._place, key), self._value(key, dict, "a table", {}))

    def tables(self, key: str) -> list[Table]:
        values = self._value(key, list, f"tables, each as [[{key}]]", [])
        if not all(isinstance(each, dict) for each in values):
            self.wrong(key, f"expected tables, each as [[{key}]]")
            return []
        return [self._made((*self._place, key, at), each) for at, each in enumerate(values)]

    def wrong(self, key: str, problem: str) -> None:
        self._page.note((*self._place, key), f"{key}: {problem}")

    def refuse_unknown(self) -> None:
        for key in self._given:
            if key not in self._used:
                known = sorted(self._used)
                self.wrong(
                    key, f"unknown here{_near(key, known) or '; known: ' + ', '.join(known)}"
                )
        for each in self._inner:
            each.refuse_unknown()

    def _made(self, place: Place, given: dict[str, Any]) -> Table:
        self._inner.append(Table(self._page, place, given))
        return self._inner[-1]

    def _value(self, key: str, kind: Any, what: str, default: Any) -> Any:
        self._used.add(key)
        if key not in self._given:
            if default is None:
                self.wrong(key, f"is missing: {what}")
                default = kind() if isinstance(kind, type) else 0
            return default
        value = self._given[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            self.wrong(key, f"expected {what}, got {value!r}")
            return default if default is not None else (kind() if isinstance(kind, type) else 0)
        return value


def _near(word: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
