"""Which records of a batch are repeats, where a batch has no footers: a Kafka topic. Pure.

Of the records of one reading the first by partition and offset stays, if no former batch had one.
So it follows from the batch and from what was seen before alone, and a batch that is repeated
leaves out the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_ingest.planning.seen import GatewayEpoch, Seen
from spark_ingest.segments.sequences import Identities, Sequences

Position = tuple[int, int]  # partition and offset
Tagged = tuple[int, int, str, int, int]  # and gateway, epoch, sequence


def repeats(records: Iterable[Tagged], seen: Seen) -> list[Position]:
    """To be left out. `seen` takes on what the batch has."""
    in_order = sorted(records)
    left_out: list[Position] = []
    firsts: dict[GatewayEpoch, dict[int, Position]] = {}
    identities = Identities()
    for partition, offset, gateway, epoch, sequence in in_order:
        if identities.add(gateway, epoch, sequence):
            firsts.setdefault((gateway, epoch), {})[sequence] = (partition, offset)
        else:
            left_out.append((partition, offset))
    for gateway_epoch, blocks in seen.add(identities.encoded()).items():
        left_out += [firsts[gateway_epoch][sequence] for sequence in Sequences.decoded(blocks)]
    return left_out
