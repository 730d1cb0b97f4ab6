"""Receipts: which readings are durable here, so that gateways need not keep them any more. Pure.

    tidegate/ingest/<gateway>/ack/<collector>    {"v":1,"epochs":{"1764000000":[[0,1203]]}}

Ranges are of sequences, both ends included; retained, so that a gateway gets them after an outage.

Rule 1: a receipt has only what is in a segment on the disk. What a previous run has not sent yet is
        in the footers of its newest segments.
Rule 2: each collector sends its own; the gateway unites them. With several, what one has is full of
        holes, so a receipt goes as far back as `RANGES_MAX` ranges reach. What is older was sent
        before, and if that was lost the gateway sends the reading again, and gets a receipt again.
Rule 3: QoS 0. Everything is sent again after each connection, and every `REPEAT_S` as a sign of
        life.
Rule 4: the gateway's name in a message becomes a part of a topic: only if it is one level of it.

Limits: RANGES_MAX for a gateway, GATEWAYS_MAX gateways; the one without readings for the longest
time is forgotten, which costs copies of the readings that it then sends again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from spark_ingest.segments.sequences import BLOCK_BITS, Encoded

VERSION = 1
RANGES_MAX = 1000
GATEWAYS_MAX = 10_000
REPEAT_S = 60.0
NAME_LENGTH_MAX = 64  # of a gateway
_NO_LEVEL = frozenset("/+#\0")

Span = tuple[int, int, int]  # epoch, first and last sequence


@dataclass(frozen=True, slots=True)
class ReceiptOptions:
    topic: str = "tidegate/ingest/{gw}/ack/{collector}"
    collector: str = ""
    every_s: float = 5.0
    is_on: bool = True


@dataclass(frozen=True, slots=True)
class Receipt:
    topic: str
    payload: bytes


@dataclass(slots=True)
class _Gateway:
    spans: list[Span] = field(default_factory=list)  # rising, none touches another
    unsent: list[Span] = field(default_factory=list)  # not sent yet
    sent_at: float = -inf


class Receipts:
    def __init__(self, options: ReceiptOptions) -> None:
        self.sent_count = 0
        self._options = options
        self._gateways: dict[str, _Gateway] = {}  # the one with the newest readings last
        self._due_at = inf

    def add(self, ids: Mapping[str, Encoded], now: float) -> None:
        """A segment is durable; `ids` as its footer has them."""
        if not self._options.is_on:
            return
        for key, blocks in ids.items():
            name, _, epoch = key.rpartition("/")
            if not _is_level(name):
                continue
            gateway = self._gateways.pop(name, None) or _Gateway()
            self._gateways[name] = gateway
            gateway.unsent += [(int(epoch), first, last) for first, last in ranges_of(blocks)]
            if len(self._gateways) > GATEWAYS_MAX:
                del self._gateways[next(iter(self._gateways))]
            self._due_at = min(self._due_at, max(now, gateway.sent_at + self._options.every_s))

    def repeat(self, now: float) -> None:
        """There is a new connection: send everything again."""
        for gateway in self._gateways.values():
            gateway.sent_at = -inf
        if self._gateways:
            self._due_at = now

    def due_at(self) -> float:
        return self._due_at

    def due(self, now: float) -> list[Receipt]:
        """To be published, in this order."""
        if now < self._due_at:
            return []
        self._due_at = inf
        receipts: list[Receipt] = []
        for name, gateway in self._gateways.items():
            wait_s = self._options.every_s if gateway.unsent else REPEAT_S
            if now >= gateway.sent_at + wait_s:
                receipts += self._of(name, gateway)
                gateway.sent_at, wait_s = now, REPEAT_S
            self._due_at = min(self._due_at, gateway.sent_at + wait_s)
        self.sent_count += len(receipts)
        return receipts

    def cleared(self) -> list[Receipt]:
        """Clears what the broker retains, when the collector has ended for good."""
        return [Receipt(self._topic(name), b"") for name in self._gateways]

    def is_one(self, topic: str) -> bool:
        """Whether it is a receipt, of any collector: no reading."""
        before, _, rest = self._options.topic.partition("{gw}")
        after = rest.partition("{collector}")[0]
        if not self._options.is_on or not topic.startswith(before):
            return False
        level, slash, others = topic.removeprefix(before).partition("/")
        return bool(level) and (slash + others).startswith(after)

    def _of(self, name: str, gateway: _Gateway) -> Iterator[Receipt]:
        unsent = _merged(gateway.unsent)
        gateway.unsent = []
        gateway.spans = _merged(gateway.spans + unsent)[-RANGES_MAX:]
        oldest = gateway.spans[0]
        beyond = [span for span in unsent if span < oldest]
        starts = range(0, len(beyond), RANGES_MAX)
        for spans in (*(beyond[at : at + RANGES_MAX] for at in starts), gateway.spans):
            yield Receipt(self._topic(name), _payload(spans))

    def _topic(self, name: str) -> str:
        return self._options.topic.format(gw=name, collector=self._options.collector)


def ranges_of(blocks: Encoded) -> Iterator[tuple[int, int]]:
    """First and last of each run of bits, in a block; neighbours of two blocks are two."""
    for block, digits in blocks:
        bits, at = int(str(digits), 16), int(block) * BLOCK_BITS
        while bits:
            low = (bits & -bits).bit_length() - 1
            bits >>= low
            length = (bits ^ (bits + 1)).bit_length() - 1
            yield at + low, at + low + length - 1
            bits >>= length
            at += low + length


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for epoch, first, last in sorted(spans):
        if merged and merged[-1][0] == epoch and first <= merged[-1][2] + 1:
            merged[-1] = (epoch, merged[-1][1], max(last, merged[-1][2]))
        else:
            merged.append((epoch, first, last))
    return merged


def _payload(spans: list[Span]) -> bytes:
    epochs: dict[str, list[list[int]]] = {}
    for epoch, first, last in spans:
        epochs.setdefault(str(epoch), []).append([first, last])
    return json.dumps({"v": VERSION, "epochs": epochs}, separators=(",", ":")).encode()


def _is_level(name: str) -> bool:
    return 0 < len(name) <= NAME_LENGTH_MAX and _NO_LEVEL.isdisjoint(name) and name.isprintable()
