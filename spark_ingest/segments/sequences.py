"""Which sequences of a gateway's epoch are there: sets of numbers as bits, in blocks.

Readings come without holes but for those that other collectors have, so bits are the shortest form:
about a quarter of a byte for each. Numbers far apart, which only an unknown peer sends, cost
a block each and not all the bits between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

BLOCK_BITS = 1024

# Blocks of a set for JSON: the number of each and its bits as hexadecimal digits.
Encoded = list[list[int | str]]


class Sequences:
    """A set of numbers from 0 up."""

    __slots__ = ("_blocks",)

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._blocks: dict[int, int] = {}
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> bool:
        """Whether it is new."""
        block, bit = number // BLOCK_BITS, 1 << number % BLOCK_BITS
        there = self._blocks.get(block, 0)
        if there & bit:
            return False
        self._blocks[block] = there | bit
        return True

    def __contains__(self, number: int) -> bool:
        return bool(self._blocks.get(number // BLOCK_BITS, 0) >> number % BLOCK_BITS & 1)

    def __iter__(self) -> Iterator[int]:
        """In rising order."""
        for block, bits in sorted(self._blocks.items()):
            while bits:
                lowest = bits & -bits
                yield block * BLOCK_BITS + lowest.bit_length() - 1
                bits ^= lowest

    def __len__(self) -> int:
        return sum(bits.bit_count() for bits in self._blocks.values())

    def encoded(self) -> Encoded:
        return [[block, f"{bits:x}"] for block, bits in sorted(self._blocks.items())]

    @classmethod
    def decoded(cls, encoded: Encoded) -> Sequences:
        """Raises ValueError or TypeError for what `encoded` did not write."""
        found = cls()
        for block, digits in encoded:
            if not isinstance(block, int) or not isinstance(digits, str) or block < 0:
                raise TypeError("a block is a number and hexadecimal digits")
            bits = int(digits, 16)
            if not 0 < bits < 1 << BLOCK_BITS:
                raise ValueError("a block of a wrong size")
            found._blocks[block] = bits
        return found


class Identities:
    """The readings of a segment: sequences by gateway and epoch."""

    def __init__(self) -> None:
        self._by_epoch: dict[tuple[str, int], Sequences] = {}

    def add(self, gateway: str, epoch: int, sequence: int) -> bool:
        """Whether it is new."""
        gateway_epoch = (gateway, epoch)
        found = self._by_epoch.get(gateway_epoch)
        if found is None:
            found = self._by_epoch[gateway_epoch] = Sequences()
        return found.add(sequence)

    def encoded(self) -> dict[str, Encoded]:
        """By `gateway/epoch`; the epoch is behind the last slash."""
        return {f"{gw}/{epoch}": each.encoded() for (gw, epoch), each in self._by_epoch.items()}


def sequences_by_epoch(encoded: Mapping[str, Encoded]) -> dict[tuple[str, int], Sequences]:
    """By gateway and epoch. Raises ValueError or TypeError as `Sequences.decoded`."""
    by_epoch = {}
    for key, blocks in encoded.items():
        gateway, _, epoch = key.rpartition("/")
        by_epoch[gateway, int(epoch)] = Sequences.decoded(blocks)
    return by_epoch
