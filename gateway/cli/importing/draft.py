"""A configuration made from another program's: what was taken over, what was not, and why.

Only values that their keys take get into it, so that `tidegate check` accepts the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap

from gateway.config import ConfigError, Settings, load
from gateway.config.keys import ROOT
from gateway.config.kinds import MismatchError
from gateway.config.schema import Key, Named, Node, Repeated, Table
from gateway.config.spelling import KeyPath, dotted, printable

COMMENT_COLUMN = 42
WIDTH = 96
ROUNDS_MAX = 10


@dataclass(frozen=True, slots=True)
class Source:
    """Where something stands in the files that are read."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Note:
    """What was not taken over. `is_fault`: it has an equivalent, and is wrong, or missing."""

    source: Source
    text: str
    is_fault: bool

    def __str__(self) -> str:
        return f"{printable(str(self.source))}: {printable(self.text)}"


@dataclass(frozen=True, slots=True)
class _Entry:
    literal: str
    source: Source
    name: str  # as the other program calls it


@dataclass(slots=True)
class Draft:
    made_from: str
    notes: list[Note] = field(default_factory=list)
    _entries: dict[KeyPath, _Entry] = field(default_factory=dict)

    def put(self, path: KeyPath, raw: object, source: Source, name: str = "") -> bool:
        """Whether the key takes the value; a note says why not."""
        key = _key_at(path)
        try:
            value = key.kind.read(raw)
        except MismatchError as mismatch:
            self.fault(source, f"{name or dotted(path)}: {mismatch}")
            return False
        literal = key.kind.written(value)
        assert literal is not None
        self._entries[path] = _Entry(literal, source, name)
        return True

    def put_number(self, path: KeyPath, text: str, source: Source, name: str) -> None:
        """What is no number is refused by the key, in its words."""
        is_number = text.isascii() and text.isdigit() and len(text) < 10
        self.put(path, int(text) if is_number else text, source, name)

    def has(self, path: KeyPath) -> bool:
        return path in self._entries

    def leave(self, source: Source, text: str) -> None:
        """It has no equivalent."""
        self.notes.append(Note(source, text, is_fault=False))

    def fault(self, source: Source, text: str) -> None:
        self.notes.append(Note(source, text, is_fault=True))

    @property
    def notes_in_order(self) -> list[Note]:
        return sorted(self.notes, key=lambda note: (note.source.file, note.source.line or 0))

    @property
    def is_whole(self) -> bool:
        return not any(note.is_fault for note in self.notes)

    def settle(self, path: Path) -> Settings:
        """As the file at `path` would be read; what is refused there is left out, with a note."""
        for _ in range(ROUNDS_MAX):
            try:
                content = "\n".join(self._tables()).encode()
                return load(path, environment={}, overrides=(), content=content).settings
            except ConfigError as error:
                for problem in error.problems:
                    self._drop(problem.key, problem.message)
        raise AssertionError("what is left of a draft is refused again and again")

    def _drop(self, refused: str | None, why: str) -> None:
        """A key, or all below a table."""
        below = f"{refused}."
        dropped = [path for path in self._entries if f"{dotted(path)}.".startswith(below)]
        assert dropped, f"{refused}: {why}"
        for path in dropped:
            entry = self._entries.pop(path)
            self.fault(entry.source, f"{entry.name or dotted(path)}: {why}")

    def drop(self, path: KeyPath, why: str) -> None:
        if path in self._entries:
            self._drop(dotted(path), why)

    # As a file

    def toml(self) -> str:
        lines = [
            f"# Made by `tidegate import` from {printable(self.made_from)}.",
            "# All other keys have their defaults: `tidegate init` writes them, explained.",
            "",
            *self._tables(),
        ]
        if self.notes:
            lines.append("# Not taken over:")
            for note in self.notes_in_order:
                lines += [f"# {line}" for line in wrap(f"- {note}", WIDTH, subsequent_indent="  ")]
        return "\n".join(lines).rstrip("\n") + "\n"

    def _tables(self) -> Iterator[str]:
        order = [part.name for part in ROOT.parts]
        tables: dict[KeyPath, list[KeyPath]] = {}
        for path in sorted(self._entries, key=lambda path: order.index(str(path[0]))):
            tables.setdefault(path[:-1], []).append(path)
        for table, paths in tables.items():
            yield f"[[{table[0]}]]" if isinstance(table[-1], int) else f"[{dotted(table)}]"
            for path in paths:
                entry = self._entries[path]
                line = f"{dotted(path[-1:])} = {entry.literal}"
                yield f"{line.ljust(COMMENT_COLUMN)}  # {_comment(entry)}"
            yield ""


def _comment(entry: _Entry) -> str:
    where = f"line {entry.source.line}" if entry.source.line else entry.source.file
    return printable(f"{entry.name}, {where}" if entry.name else f"{entry.source}")


def _key_at(path: KeyPath) -> Key:
    node: Node | None = ROOT
    for part in path:
        match node:
            case Table():
                node = node.part(str(part))
            case Repeated() | Named():
                node = node.entry
    assert isinstance(node, Key), path
    return node
