"""Scenarios are data: what happens to a board, its network, the gateway and the broker, and when.

A scenario is a TOML file; its name is the file's. docs/hil.md describes the keys. Everything that
is wrong in one is told with file and line (hil/scenarios/mistakes.py).

Limits: EVENTS_MAX events, TIMES_MAX of each; LIMIT_S_MAX for the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hil.boards.board import Can
from hil.faults.lossy_proxy import CALM, Impairment
from hil.faults.serial_proxy import LineImpairment
from hil.oracle.ledger import FAULTS
from hil.scenarios.actions import ACTIONS, PARAMETERS
from hil.scenarios.events import Event
from hil.scenarios.mistakes import Page, Table

FOLDER = Path(__file__).parent
ACKNOWLEDGE = ("auto", "journal", "upstream")
ANY = "any"
EVENTS_MAX = 100
TIMES_MAX = 100
LIMIT_S_MAX = 3600.0


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    path: Path
    title: str
    needs: frozenset[Can]
    readings: int  # so many are to arrive, and `after` of them behind the end of the last fault
    after: int
    limit_s: float
    retry_ms: int
    pause_s: float
    acknowledge: str
    linger_ms: int  # the gateway's journal waits so long before it writes, as for a slow card
    gateway_config: str
    disk_mib: int  # of the gateway's own disk; 0: that of this machine
    broker_config: tuple[str, ...]
    udp: Impairment
    line: LineImpairment
    baud: int
    events: tuple[Event, ...]
    most: dict[str, int | None]  # of each fault of the ledger; None: any number
    p95_ms: float  # from the air to the broker; 0: it does not matter
    is_quick: bool

    @property
    def is_for_own_rig(self) -> bool:
        """Whether gateway and broker must be ours."""
        events = any(ACTIONS[event.do].is_for_own_rig for event in self.events)
        return events or bool(self.gateway_config or self.broker_config or self.disk_mib)

    @property
    def sets_clock(self) -> bool:
        return any(event.do == "clock.jump" for event in self.events)

    @property
    def cuts_power(self) -> bool:
        return any(ACTIONS[event.do].takes_memory for event in self.events)


def scenarios_in(folder: Path) -> list[Scenario]:
    """Raises MistakesError."""
    return [read(path) for path in sorted(folder.glob("*.toml"))]


def read(path: Path) -> Scenario:
    """Raises MistakesError."""
    page = Page(path)
    table = page.table
    node, gateway, broker = table.table("node"), table.table("gateway"), table.table("broker")
    air, expect = table.table("air"), table.table("expect")
    line = air.table("serial")
    disk_mib = gateway.whole("disk_mib", 0, 0, 64)
    given = table.tables("event")
    if len(given) > EVENTS_MAX:
        page.note(("event", EVENTS_MAX), f"{len(given)} events, at most {EVENTS_MAX}")
    events = tuple(_event(each, disk_mib) for each in given[:EVENTS_MAX])
    known = set(Can)
    needs = frozenset(Can(need) for need in table.texts("needs", [*Can]) if need in known)
    scenario = Scenario(
        name=path.stem,
        path=path,
        title=table.text("title"),
        needs=needs.union(*(needs_of(event) for event in events)),
        readings=table.whole("readings", 10, 1, 100_000),
        after=table.whole("after", 3, 0, 100_000),
        limit_s=table.number("limit_s", 40.0, 1.0, LIMIT_S_MAX),
        retry_ms=node.whole("retry_ms", 200, 50, 15_000),
        pause_s=node.number("pause_s", 0.15, 0.0, 60.0),
        acknowledge=gateway.text("acknowledge", "auto", ACKNOWLEDGE),
        linger_ms=gateway.whole("linger_ms", 2, 0, 1000),
        gateway_config=gateway.text("config", ""),
        disk_mib=disk_mib,
        broker_config=broker.texts("config"),
        udp=_impairment(air.table("udp")),
        line=_line_impairment(line),
        baud=line.whole("baud", 115_200, 1200, 921_600),
        events=events,
        most={fault: _most(expect, fault) for fault in FAULTS},
        p95_ms=expect.number("p95_ms", 0.0),
        is_quick="quick" in table.texts("tags", ["quick"]),
    )
    page.end()
    return scenario


def needs_of(event: Event) -> frozenset[Can]:
    needs = ACTIONS[event.do].needs
    return needs | {Can.EXACT_POWER} if event.share else needs


def _event(table: Table, disk_mib: int) -> Event:
    do = table.text("do", None, [*ACTIONS])
    if do not in ACTIONS:
        do = next(iter(ACTIONS))
    action = ACTIONS[do]
    for name in PARAMETERS:
        if name in table and name not in action.parameters:
            table.wrong(name, f"{do} has no such thing; it has {', '.join(action.parameters)}")
    for name in action.required:
        if name not in table:
            table.wrong(name, f"{do} needs it")
    if do == "disk.full" and not disk_mib:
        table.wrong("do", "disk.full needs a disk of its own: disk_mib in [gateway]")
    if "later_s" in table and "at_reading" not in table:
        table.wrong("later_s", "is later than a reading: at_reading says which")
    if "at_reading" in table and "at_s" in table:
        table.wrong("at_s", "at_reading is there already; an event begins once")
    return Event(
        do=do,
        at_reading=table.whole("at_reading", 0, 0, 100_000),
        at_s=table.number("at_s", 0.0, 0.0, LIMIT_S_MAX),
        later_s=table.number("later_s", 0.0, 0.0, 60.0),
        is_before_boot="at_reading" not in table and "at_s" not in table,
        for_s=table.number("for_s", 0.0, 0.0, LIMIT_S_MAX),
        times=table.whole("times", 1, 1, TIMES_MAX),
        every_s=table.number("every_s", 0.5, 0.0, LIMIT_S_MAX),
        seconds=table.number("seconds", 0.0, -1e10, 1e10),
        share=table.number("share", 0.0, 0.0, 1.0),
        octets=table.whole("octets", 0, 0, 100_000),
        is_retained=table.text("retain", "no", ("yes", "no")) == "yes",
        udp=_impairment(table.table("udp")),
        line=_line_impairment(table.table("serial")),
    )


def _impairment(table: Table) -> Impairment:
    shares = {
        name: table.number(name, 0.0, 0.0, 1.0) for name in ("loss", "copies", "delayed", "damaged")
    }
    calm = replace(CALM, delay_s_max=table.number("delay_s_max", 0.1, 0.0, 60.0))
    return replace(calm, mtu=table.whole("mtu", 0, 0, 65_535), **shares)


def _line_impairment(table: Table) -> LineImpairment:
    flips, drops = (table.number(name, 0.0, 0.0, 1.0) for name in ("flips", "drops"))
    return LineImpairment(flips, drops)


def _most(expect: Table, fault: str) -> int | None:
    if fault in expect and expect.is_text(fault):
        expect.text(fault, ANY, (ANY,))
        return None
    return expect.whole(fault, 0)
