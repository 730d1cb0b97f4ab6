"""Which readings a query has had already: a set of sequences for each epoch of each gateway.

It stands in the offset that Spark writes to its checkpoint before each batch, so it must stay
small however many readings there were: runs of full blocks are two numbers, and only blocks with
holes have their bits. An epoch without holes is `[0, n]` and one block.

Rule 1: forgetting makes a repeat possible and never a loss. What is forgotten counts as not seen.
Rule 2: equal sets in equal order have equal text: Spark compares offsets by it.

Limits: EPOCHS_MAX epochs; beyond, the one that got nothing for longest is forgotten. BLOCKS_MAX
blocks with holes of all epochs together; beyond, the lowest one of that epoch is. Both are out of
reach of gateways, which number without holes; clients that send tags of their own get there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from spark_ingest.segments.sequences import BLOCK_BITS, Encoded

EPOCHS_MAX = 10_000
BLOCKS_MAX = 4_000  # of 256 hexadecimal digits each: an offset of 1 MiB at the very worst
FULL = (1 << BLOCK_BITS) - 1

GatewayEpoch = tuple[str, int]  # gateway and epoch


class SeenOfEpoch:
    """Sequences of one epoch."""

    __slots__ = ("partial", "runs")

    def __init__(
        self, runs: Iterable[tuple[int, int]] = (), partial: Mapping[int, int] | None = None
    ) -> None:
        self.runs = list(runs)  # of full blocks: the first and the one behind the last, rising
        self.partial = dict(partial or {})  # bits by block

    def add(self, blocks: Encoded) -> Encoded:
        """What of it was there already."""
        repeated: Encoded = []
        for block, digits in blocks:
            assert isinstance(block, int)
            assert isinstance(digits, str)
            bits = int(digits, 16)
            there = self.bits_of(block)
            if there & bits:
                repeated.append([block, f"{there & bits:x}"])
            if there | bits != FULL:
                self.partial[block] = there | bits
            elif there != FULL:
                self.partial.pop(block, None)
                self._fill(block)
        return repeated

    def bits_of(self, block: int) -> int:
        for first, past in self.runs:
            if first <= block < past:
                return FULL
        return self.partial.get(block, 0)

    def holes(self) -> list[tuple[int, int]]:
        """First and last sequence of each hole below the highest sequence there is."""
        found: list[tuple[int, int]] = []
        expected = 0
        for first, past in self._stretches():
            if first > expected:
                found.append((expected, first - 1))
            expected = past
        return found

    def encoded(self) -> list[object]:
        partial = [[block, f"{bits:x}"] for block, bits in sorted(self.partial.items())]
        return [[list(run) for run in self.runs], partial]

    def __len__(self) -> int:
        full = sum(past - first for first, past in self.runs) * BLOCK_BITS
        return full + sum(bits.bit_count() for bits in self.partial.values())

    def _stretches(self) -> list[tuple[int, int]]:
        """Of sequences that are there: the first and the one behind the last, rising."""
        found = [(first * BLOCK_BITS, past * BLOCK_BITS) for first, past in self.runs]
        for block, bits in self.partial.items():
            position = block * BLOCK_BITS
            while bits:
                gap = (bits & -bits).bit_length() - 1
                bits >>= gap
                length = (~bits & (bits + 1)).bit_length() - 1  # how many ones at the low end
                found.append((position + gap, position + gap + length))
                bits >>= length
                position += gap + length
        return sorted(found)

    def _fill(self, block: int) -> None:
        self.runs.append((block, block + 1))
        self.runs.sort()
        joined: list[tuple[int, int]] = []
        for first, past in self.runs:
            if joined and joined[-1][1] == first:
                joined[-1] = (joined[-1][0], past)
            else:
                joined.append((first, past))
        self.runs = joined


class Seen:
    """All epochs, the one that got something last at the end."""

    def __init__(self) -> None:
        self.by_epoch: dict[GatewayEpoch, SeenOfEpoch] = {}
        self.forgotten = 0  # epochs and blocks, because a limit was reached

    def add(self, ids: Mapping[str, Encoded]) -> dict[GatewayEpoch, Encoded]:
        """Takes on what a segment has, by `gateway/epoch`; gives what of it was there already."""
        repeated: dict[GatewayEpoch, Encoded] = {}
        for key, blocks in ids.items():
            gateway, _, epoch = key.rpartition("/")
            gateway_epoch = gateway, int(epoch)
            seen = self.by_epoch.pop(gateway_epoch, None) or SeenOfEpoch()
            self.by_epoch[gateway_epoch] = seen
            if found := seen.add(blocks):
                repeated[gateway_epoch] = found
        self._forget()
        return repeated

    def encoded(self) -> list[object]:
        return [[*gateway_epoch, *seen.encoded()] for gateway_epoch, seen in self.by_epoch.items()]

    @classmethod
    def decoded(cls, encoded: list[object]) -> Seen:
        """Raises ValueError or TypeError for what `encoded` did not write."""
        found = cls()
        for each in encoded:
            gateway, epoch, runs, partial = cast("tuple[Any, Any, Any, Any]", each)
            found.by_epoch[str(gateway), int(epoch)] = SeenOfEpoch(
                [(int(first), int(past)) for first, past in runs],
                {int(block): int(digits, 16) for block, digits in partial},
            )
        return found

    def _forget(self) -> None:
        while len(self.by_epoch) > EPOCHS_MAX:
            del self.by_epoch[next(iter(self.by_epoch))]
            self.forgotten += 1
        excess = sum(len(each.partial) for each in self.by_epoch.values()) - BLOCKS_MAX
        for seen in self.by_epoch.values():
            while excess > 0 and seen.partial:
                del seen.partial[min(seen.partial)]
                excess -= 1
                self.forgotten += 1
