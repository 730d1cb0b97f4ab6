"""Reads `matrix.txt`, whose head explains it: what is said, and what comes of it in each state.

A cell is one message, one shape and one state. Each cell has exactly one row; a row may stand for
many cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.frames.golden import FRAME_TYPES

MATRIX = Path(__file__).with_name("matrix.txt")

SHAPES = ("well", "short", "wide", "long", "strict")
SIZES = re.compile(r"(?:(\d+)/)?(?:(\d+)(\+)?)")
TYPE_NAMED: dict[str, int] = {kind.__name__.upper(): kind.KIND for kind in FRAME_TYPES}
FORWARDED = TYPE_NAMED["FORWARDED"]
RESERVED = sorted(set(range(256)) - set(TYPE_NAMED.values()))

Outcome = tuple[str, str, str, str]  # answered, state that follows, counted, passed on


@dataclass(frozen=True)
class Said:
    """A whole message, well-formed. `sizes`: those that such a message may have; `before`: what
    happened to the client before it went into its state.
    """

    name: str
    octets: bytes
    sizes: str = "="
    before: str = "-"

    @property
    def kind(self) -> int:
        return self.octets[1]

    def datagrams(self, shape: str) -> list[bytes]:
        match shape:
            case "short":
                return [*self._cut(), *self._too_small()]
            case "wide":
                return [*self._too_large()]
            case "long" | "strict":
                trailing = (b"\0", b"\x02\x16", b"x" * 300)
                return [self.octets + more for more in trailing] + self._long_form(b"\0")
        return [self.octets, *self._long_form()]

    def _cut(self) -> Iterator[bytes]:
        """The datagram ends before the message does. What a forwarder carries is cut by itself."""
        for whole in (self.octets, *self._long_form()):
            end = whole[0] + 1 if self.kind == FORWARDED else len(whole)
            yield from (whole[:size] for size in range(end))

    def _too_small(self) -> Iterator[bytes]:
        """The length is right, and a field is missing."""
        for size in range(2, len(self.octets)):
            if not self._may_have(size):
                yield bytes((size,)) + self.octets[1:size]

    def _too_large(self) -> Iterator[bytes]:
        """The length is right, and there is more than the message's fields."""
        for size in (len(self.octets) + more for more in (1, 2, 7)):
            if not self._may_have(size):
                yield bytes((size,)) + self.octets[1:].ljust(size - 1, b"\0")

    def _may_have(self, size: int) -> bool:
        if self.sizes == "=":
            return False
        found = SIZES.fullmatch(self.sizes)
        assert found is not None, self.sizes
        other, least, is_open_ended = found.groups()
        return str(size) == other or (size >= int(least) if is_open_ended else str(size) == least)

    def _long_form(self, trailing: bytes = b"") -> list[bytes]:
        """With a length of three bytes, which forwarders do not have."""
        if self.kind == FORWARDED:
            return []
        return [b"\x01" + (len(self.octets) + 2).to_bytes(2, "big") + self.octets[1:] + trailing]


@dataclass(frozen=True)
class Row:
    messages: tuple[str, ...]
    shapes: tuple[str, ...]
    states: tuple[str, ...]
    outcome: Outcome
    line: int

    def is_for(self, said: Said, shape: str, state: str) -> bool:
        return shape in self.shapes and state in self.states and self.says(said)

    def says(self, said: Said) -> bool:
        return any(_stands_for(pattern, said) for pattern in self.messages)


def _stands_for(pattern: str, said: Said) -> bool:
    """`PUBLISH*` is every PUBLISH, `* but PUBLISH` all of the specification's types but that."""
    if said.kind in RESERVED:
        return pattern == "reserved"
    wanted, _, exception = pattern.partition(" but ")
    if exception and exception in said.name:
        return False
    if wanted.endswith("*"):
        return wanted == "*" or said.name.split()[0] == wanted[:-1]
    return wanted == said.name


@dataclass(frozen=True)
class Matrix:
    said: tuple[Said, ...]
    rows: tuple[Row, ...]

    def rows_for(self, said: Said, shape: str, state: str) -> list[Row]:
        return [row for row in self._rows_saying[said.name] if row.is_for(said, shape, state)]

    @cached_property
    def _rows_saying(self) -> dict[str, list[Row]]:
        """Of each message: a hundred thousand cells are looked up."""
        return {said.name: [row for row in self.rows if row.says(said)] for said in self.said}

    def outcome_of(self, said: Said, shape: str, state: str) -> Outcome:
        """`as well` is what the well-formed message gets."""
        (row,) = self.rows_for(said, shape, state)
        if "as well" not in row.outcome[2]:
            return row.outcome
        well = self.outcome_of(said, "well", state)
        counted = row.outcome[2].replace("as well", well[2])
        counted = ", ".join(word for word in counted.split(", ") if word != "-")
        return well[0], well[1], counted, well[3]


def sections(text: str) -> dict[str, list[tuple[int, list[str]]]]:
    """The lines of each section, taken apart, with their numbers."""
    found: dict[str, list[tuple[int, list[str]]]] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if heading := re.fullmatch(r"\[([\w ]+)\]", line.strip()):
            section = heading[1]
            found[section] = []
        elif line.strip() and not line.startswith("#"):
            found[section].append((number, [part.strip() for part in line.split("|")]))
    return found


def read(text: str) -> Matrix:
    parts = sections(text)
    groups = {name: tuple(words.split()) for _, (name, words) in parts["groups"]}
    said = tuple(
        Said(name, bytes.fromhex(octets), sizes, before)
        for _, (name, octets, sizes, before) in parts["messages"]
    )
    reserved = tuple(Said(f"type {kind:02X}", bytes((2, kind))) for kind in RESERVED)
    rows = []
    for number, (messages, shapes, states, *outcome) in parts["cells"]:
        answered, follows, counted, passed_on = outcome
        row = Row(
            tuple(messages.split(" / ")),
            tuple(shapes.split()),
            tuple(state for word in states.split() for state in groups.get(word, (word,))),
            (answered, follows, counted, passed_on),
            number,
        )
        rows.append(row)
    return Matrix(said + reserved, tuple(rows))


MATRIX_OF_THE_SPECIFICATION = read(MATRIX.read_text(encoding="ascii"))
