"""Where each key and value of a TOML text stands, because `tomllib` gives the values only.

The scanner runs over text that tomllib has accepted, so it knows just enough TOML to find its way:
strings are skipped whole, everything else is told apart by its first character. It also runs over
the accepted beginning of a text with a key given twice, to say where the first one was.
Lines and columns count from 1, in characters, as tomllib counts them.
"""

import re
import tomllib
from bisect import bisect_right
from contextlib import suppress
from typing import NamedTuple

from gateway.config.spelling import KeyPath

_SPACE = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]+")
# The longer quotes first. Up to two quotes may stand directly before the closing three.
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})|'
    r"'''.*?'''(?:'{0,2})|"
    r'"(?:\\.|[^"\\\n])*"|'
    r"'[^'\n]*'",
    re.DOTALL,
)


class Position(NamedTuple):
    line: int
    column: int


class Place(NamedTuple):
    """For a table, and for an element of an array, both are the same."""

    key: Position
    value: Position


def places(text: str) -> dict[KeyPath, Place]:
    return _Scanner(text).document().places


def last_key(text: str) -> tuple[KeyPath, Position, Place | None]:
    """The last key of the text, where it stands, and where the same key stood before, if it did.

    The text may end anywhere.
    """
    scanner = _Scanner(text)
    with suppress(ValueError, IndexError):
        scanner.document()
    path, at, before = scanner.latest
    return path, scanner.position(at), before


def key_parts(text: str) -> tuple[list[str], str] | None:
    """A dotted key at the beginning of the text, and what follows; None if there is no such key."""
    scanner = _Scanner(text)
    try:
        parts = [name for name, _ in scanner.key()]
    except ValueError:
        return None
    return parts, text[scanner.at :]


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line_starts = [0, *(newline.end() for newline in re.finditer("\n", text))]
        self.places: dict[KeyPath, Place] = {}
        self.latest: tuple[KeyPath, int, Place | None] = ((), 0, None)
        self._lengths: dict[KeyPath, int] = {}  # of arrays of tables

    def position(self, at: int) -> Position:
        line = bisect_right(self.line_starts, at)
        return Position(line, at - self.line_starts[line - 1] + 1)

    def document(self) -> "_Scanner":
        table: KeyPath = ()
        self.skip(_SPACE)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)
            self.skip(_SPACE)
        return self

    def header(self) -> KeyPath:
        repeated = self.text.startswith("[[", self.at)
        self.at += 2 if repeated else 1
        path: KeyPath = ()
        for name, at in self.key():
            path = (*self._inside(path), name)
            self._found(path, at)
        if repeated:
            self._lengths[path] = self._lengths.get(path, 0) + 1
            self._found(self._inside(path), self.latest[1])
        self.at += 2 if repeated else 1
        return self._inside(path)

    def _inside(self, path: KeyPath) -> KeyPath:
        """Keys below an array of tables belong to its newest element."""
        length = self._lengths.get(path)
        return path if length is None else (*path, length - 1)

    def pair(self, table: KeyPath) -> None:
        path = table
        for name, at in self.key():
            path = (*path, name)
            self._found(path, at)
        self.skip(_BLANK)
        self.at += len("=")
        self.skip(_BLANK)
        key_at = self.places[path].key
        self.places[path] = Place(key_at, self.position(self.at))
        self.value(path)

    def _found(self, path: KeyPath, at: int) -> None:
        position = self.position(at)
        self.latest = (path, at, self.places.get(path))
        self.places.setdefault(path, Place(position, position))

    def key(self) -> list[tuple[str, int]]:
        """The parts of a dotted key, each with where it begins."""
        parts = []
        while True:
            self.skip(_BLANK)
            at, name = self.at, self._key_part()
            parts.append((name, at))
            self.skip(_BLANK)
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1

    def _key_part(self) -> str:
        if bare := _BARE_KEY.match(self.text, self.at):
            self.at = bare.end()
            return bare.group()
        if string := _STRING.match(self.text, self.at):
            self.at = string.end()
            name = tomllib.loads(f"name = {string.group()}")["name"]
            assert isinstance(name, str)
            return name
        raise ValueError("no key here")

    def value(self, path: KeyPath) -> None:
        match self.text[self.at]:
            case "{":
                self.inline_table(path)
            case "[":
                self.array(path)
            case '"' | "'":
                self.skip(_STRING)
            case _:
                self.skip(_SCALAR)

    def inline_table(self, path: KeyPath) -> None:
        self.at += len("{")
        while not self._closed("}"):
            self.pair(path)

    def array(self, path: KeyPath) -> None:
        self.at += len("[")
        index = 0
        while not self._closed("]"):
            here = self.position(self.at)
            self.places[(*path, index)] = Place(here, here)
            self.value((*path, index))
            index += 1

    def _closed(self, bracket: str) -> bool:
        """Moves to the next element and tells whether there is none."""
        self.skip(_SPACE)
        if self.text.startswith(",", self.at):
            self.at += 1
            self.skip(_SPACE)
        if self.text.startswith(bracket, self.at):
            self.at += 1
            return True
        return False

    def skip(self, pattern: re.Pattern[str]) -> None:
        if found := pattern.match(self.text, self.at):
            self.at = found.end()
