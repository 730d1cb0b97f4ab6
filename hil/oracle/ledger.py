"""What arrived at the broker, compared with what the board offered, stored and got acknowledged.

- *lost*: acknowledged to the board, or stored by it, and not at the broker. Of a board without a
  store that outlasts its power every counter up to the last that arrived is meant, if its power was
  never cut.
- *repeated*: arrived again under another delivery tag. Excused are copies that the network made of
  a first PUBLISH at QoS 1, and readings that the board itself sent as new ones (under another
  message id, after it had given up or lost its power): to a gateway both look like new readings.
- *copies*: arrived again under the same tag, which a consumer drops.
- *out of order*: arrived first after a later one had.
- *corrupt*: its check is wrong, or the board never sent those bytes.
- *commands*: published for the board and not received by it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from hil.oracle.conversation import Conversation
from hil.oracle.readings import read
from hil.rig.witness import Seen, Tag

SHOWN_MAX = 8
FAULTS = ("lost", "repeated", "copies", "out_of_order", "corrupt", "commands")


@dataclass(frozen=True, slots=True)
class Device:
    """What the board itself reports, and what was done to it."""

    stored: Set[int]
    has_store: bool
    was_cut: bool
    commands: Sequence[bytes]  # published for it


@dataclass(frozen=True, slots=True)
class Ledger:
    readings: int  # that arrived, each once
    acknowledged: int
    lost: tuple[int, ...]
    repeated: tuple[int, ...]
    excused: tuple[int, ...]
    copies: tuple[int, ...]
    out_of_order: tuple[int, ...]
    corrupt: tuple[str, ...]
    commands: tuple[str, ...]
    latencies_ms: tuple[float, ...]  # from the air to the broker
    answers_ms: tuple[float, ...]  # from the air to the acknowledgement

    def count(self, fault: str) -> int:
        found: tuple[object, ...] = getattr(self, fault)
        return len(found)

    def described(self, fault: str) -> str:
        found: tuple[object, ...] = getattr(self, fault)
        shown = ", ".join(map(str, found[:SHOWN_MAX])) + ", ..." * (len(found) > SHOWN_MAX)
        return f"{len(found)} {fault.replace('_', ' ')}: {shown}"


def compare(
    conversation: Conversation, seen: Sequence[Seen], device: Device, excused: Set[int]
) -> Ledger:
    arrivals, corrupt = _read(conversation, seen)
    by_tag: dict[Tag, int] = {}
    copies = []
    for counter, one in arrivals:
        if one.tag in by_tag:
            copies.append(counter)
        by_tag.setdefault(one.tag, counter)
    first_at: dict[int, float] = {}
    for counter, one in arrivals:
        first_at.setdefault(counter, one.at)
    times = Counter(by_tag.values())
    again = [counter for counter in times if times[counter] > 1]
    new = conversation.new_publishes
    excused = excused | {counter for counter in again if times[counter] <= new[counter]}
    expected = set(conversation.acknowledged) | device.stored
    if not device.has_store and not device.was_cut and first_at:
        expected |= set(range(1, max(first_at) + 1))
    offered, acknowledged = conversation.offered, conversation.acknowledged
    return Ledger(
        readings=len(first_at),
        acknowledged=len(acknowledged),
        lost=tuple(sorted(expected - first_at.keys())),
        repeated=tuple(counter for counter in again if counter not in excused),
        excused=tuple(counter for counter in again if counter in excused),
        copies=tuple(copies),
        out_of_order=tuple(_overtaken(by_tag.values())),
        corrupt=tuple(corrupt),
        commands=_undelivered(device.commands, conversation.commands),
        latencies_ms=_since(offered, first_at),
        answers_ms=_since(offered, acknowledged),
    )


def _read(
    conversation: Conversation, seen: Iterable[Seen]
) -> tuple[list[tuple[int, Seen]], list[str]]:
    arrivals, corrupt = [], []
    for one in seen:
        found = read(one.payload)
        if found is None or found.device != conversation.device:
            corrupt.append(one.payload.hex())
        elif one.payload not in conversation.payloads.get(found.counter, ()):
            corrupt.append(f"{found.counter} was never said so: {one.payload.hex()}")
        else:
            arrivals.append((found.counter, one))
    return arrivals, corrupt


def _overtaken(counters: Iterable[int]) -> Iterable[int]:
    """In the order of first arrival by tag; one that came again is none."""
    latest = 0
    known = set()
    for counter in counters:
        if counter not in known and counter < latest:
            yield counter
        known.add(counter)
        latest = max(latest, counter)


def _undelivered(published: Sequence[bytes], received: Sequence[bytes]) -> tuple[str, ...]:
    left = Counter(published) - Counter(received)
    return tuple(payload.decode(errors="replace") for payload in left)


def _since(offered: dict[int, float], later: dict[int, float]) -> tuple[float, ...]:
    return tuple(
        (later[counter] - at) * 1000 for counter, at in offered.items() if counter in later
    )


def percentile(values: Sequence[float], share: float) -> float:
    """0 of none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]
