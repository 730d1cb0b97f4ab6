"""Which boards there are: bench.toml, a table [[board]] for each.

docs/hil.md describes the keys. What is wrong is reported with file and line, all at once. Without a
file of one's own hil/bench.toml is used, whose boards need no hardware.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hil.boards.board import BoardSpec, Can, Kind
from hil.boards.power import POWERS
from hil.boards.registry import kinds
from hil.scenarios.mistakes import Page, Table

DEFAULT = Path(__file__).parents[1] / "bench.toml"
BOARDS_MAX = 64
STRETCH = 15.0  # of a board that is real: 5 s between readings, where simulated ones take 0.3
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,18}")  # with "hil-" before it is a client id


@dataclass(frozen=True, slots=True)
class Listed:
    """A board of the inventory."""

    spec: BoardSpec
    kind: Kind

    @property
    def why_not(self) -> str | None:
        """Why it is not there now; None when it is."""
        for port in (self.spec.port, self.spec.line):
            if port and not Path(port).exists():
                return f"there is no {port}: is it plugged in?"
        return self.kind.why_not(self.spec)

    def lacks(self, needs: frozenset[Can]) -> frozenset[Can]:
        return needs - self.spec.capabilities


def read(path: Path) -> list[Listed]:
    """Raises MistakesError."""
    page = Page(path)
    known = kinds()
    tables = page.table.tables("board")
    if not tables and not page.problems:
        page.note((), "no [[board]]: at least one is needed")
    if len(tables) > BOARDS_MAX:
        page.note(("board", BOARDS_MAX), f"{len(tables)} boards, at most {BOARDS_MAX}")
    listed = [_board(table, known) for table in tables[:BOARDS_MAX]]
    names = [board.spec.id for board in listed]
    for at, table in enumerate(tables[:BOARDS_MAX]):
        if names[at] in names[:at]:
            table.wrong("id", f"{names[at]} is another board already")
    page.end()
    return listed


def _board(table: Table, known: dict[str, Kind]) -> Listed:
    name = table.text("id")
    if name and not _ID.fullmatch(name):
        table.wrong("id", "expected small letters, digits and hyphens, at most 19")
    kind_name = table.text("kind", None, [*known])
    # Of an unknown one as little as possible is required.
    kind = known.get(kind_name) or next(kind for kind in known.values() if not kind.is_real)
    transport = table.text("transport", kind.transports[0], kind.transports)
    port = table.text("port", None if kind.is_real else "")
    can = frozenset(kind.capabilities) - _others({Can(transport)})
    line = table.text("line", None if _needs_line(kind, transport) else "")
    power = table.text("power", kind.powers[0], kind.powers)
    if power == "none":
        can -= {Can.POWER, Can.EXACT_POWER}
        can -= set() if kind.has_button else {Can.RESET}
    power_off, power_on = POWERS[power](table)
    lacks = table.texts("lacks", [*Can])
    spec = BoardSpec(
        id=name,
        kind=kind_name,
        transport=transport,
        firmware=table.text("firmware", kind.firmwares[0], kind.firmwares),
        port=port,
        baud=table.whole("baud", 115_200, 1200, 921_600),
        heap=table.text("heap", "64k"),
        host=table.text("host", "127.0.0.1"),
        uart=table.whole("uart", 0, 0, 8),
        line=line,
        stretch=table.number("stretch", STRETCH if kind.is_real else 1.0, 0.1, 1000.0),
        interval_s=table.whole("interval_s", 5, 5, 86_400),
        power=power,
        power_off=power_off,
        power_on=power_on,
        power_settles_s=table.number("power_settles_s", 1.0, 0.0, 60.0),
        secrets=table.free("secrets"),
        capabilities=can - {need for need in can if need in lacks},
    )
    return Listed(spec, kind)


def _needs_line(kind: Kind, transport: str) -> bool:
    """A micro:bit's port is its line."""
    return kind.is_real and transport == "serial" and "udp" in kind.transports


def _others(mine: set[Can]) -> set[Can]:
    return {Can.UDP, Can.SERIAL} - mine
