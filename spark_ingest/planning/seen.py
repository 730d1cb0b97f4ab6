"""Which readings a query has had already: a set of sequences for each epoch of each gateway.

It stands in the offset that Spark writes to its checkpoint before each batch, so it must stay
small however many readings there were: runs of full blocks are two numbers, and only blocks with
holes have their bits. An epoch without holes is `[0, n]` and one block.

Rule 1: forgetting makes a repeat possible and never a loss. What is forgotten counts as not seen.
Rule 2: equal sets in equal order have equal text: Spark compares offsets by it.

Limits: EPOCHS_MAX epochs and BLOCKS_MAX blocks with holes, of all gateways together. Beyond, the
gateway that has the most gives way: its epoch that got nothing for longest is forgotten, or the
lowest block of it. So gateways that restart again and again take nothing from one that is away, and
of up to 1000 gateways at least the ten latest epochs of each stay. The last block of an epoch
nearly always has holes, so BLOCKS_MAX is not less than EPOCHS_MAX. `forgotten` counts, for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heapreplace
from typing import Any, cast

from spark_ingest.segments.sequences import BLOCK_BITS, Encoded

EPOCHS_MAX = 10_000
BLOCKS_MAX = 10_000  # of 256 hexadecimal digits each: an offset of 3 MiB at the very worst
# A line of the log.
FORGOTTEN = (
    "there are more lives of gateways, or holes in their sequences, than can be remembered: %d "
    "were forgotten, so repeats of theirs may come through"
)
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
    """All epochs, the one that got something last at the end. `forgotten`: epochs and blocks that
    were, because a limit was reached.
    """

    def __init__(self, forgotten: int = 0) -> None:
        self.by_epoch: dict[GatewayEpoch, SeenOfEpoch] = {}
        self.forgotten = forgotten

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
    def decoded(cls, encoded: list[object], forgotten: object = 0) -> Seen:
        """Raises ValueError or TypeError for what `encoded` did not write."""
        found = cls(int(cast("int", forgotten)))
        for each in encoded:
            gateway, epoch, runs, partial = cast("tuple[Any, Any, Any, Any]", each)
            found.by_epoch[str(gateway), int(epoch)] = SeenOfEpoch(
                [(int(first), int(past)) for first, past in runs],
                {int(block): int(digits, 16) for block, digits in partial},
            )
        return found

    def _forget(self) -> None:
        excess = len(self.by_epoch) - EPOCHS_MAX
        if excess > 0:
            for gateway_epoch in self._of_the_largest(excess, lambda seen: 1):
                del self.by_epoch[gateway_epoch]
        blocks = sum(len(each.partial) for each in self.by_epoch.values()) - BLOCKS_MAX
        if blocks > 0:
            for gateway_epoch in self._of_the_largest(blocks, lambda seen: len(seen.partial)):
                partial = self.by_epoch[gateway_epoch].partial
                del partial[min(partial)]
        self.forgotten += max(excess, 0) + max(blocks, 0)

    def _of_the_largest(
        self, count: int, size_of: Callable[[SeenOfEpoch], int]
    ) -> Iterator[GatewayEpoch]:
        """So many times the gateway that has the most, by its oldest epoch that has some. Of those
        that have as many it is the one whose oldest epoch got nothing for longest.
        """
        units: dict[str, list[GatewayEpoch]] = {}
        oldest: dict[str, int] = {}
        for place, (gateway_epoch, seen) in enumerate(self.by_epoch.items()):
            units.setdefault(gateway_epoch[0], []).extend([gateway_epoch] * size_of(seen))
            oldest.setdefault(gateway_epoch[0], place)
        heap = [(-len(each), oldest[name], iter(each)) for name, each in units.items()]
        heapify(heap)
        for _ in range(count):
            size, place, rest = heap[0]
            yield next(rest)
            heapreplace(heap, (size + 1, place, rest))
