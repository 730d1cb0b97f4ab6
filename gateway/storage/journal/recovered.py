"""What a previous run of the gateway left in the journal, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.core.state_records import PACKET_IDS, ClientId, Exchanges
from gateway.core.values import KeptRecords, Reading


@dataclass(slots=True)
class RecoveryReport:
    """For the log and for `tidegate buffer`."""

    segments: int = 0
    records: int = 0
    waiting: int = 0  # readings that the broker has not acknowledged
    torn_bytes: int = 0  # of writes that a crash cut short; nothing acknowledged was among them
    damaged: list[str] = field(default_factory=list)  # one sentence for each damaged segment
    seconds: float = 0.0  # set by the caller, which has a clock


@dataclass(slots=True)
class Recovered:
    """`queued`: how many unfinished readings of each client `Journal.read` will bring; `received`:
    QoS 2 readings with the broker's PUBREC on record; `kept`: those that it has taken. In the order
    of the journal.
    """

    queued: dict[ClientId, int] = field(default_factory=dict)
    received: list[Reading] = field(default_factory=list)
    kept: list[KeptRecords] = field(default_factory=list)
    exchanges: dict[ClientId, Exchanges] = field(default_factory=dict)
    last_packet_id: int = 0  # the newest one, 0 if there is none
    newest_epoch: int = 0  # of its readings, 0 if there is none
    report: RecoveryReport = field(default_factory=RecoveryReport)


def newest_packet_id(packet_ids: Iterable[int]) -> int:
    """The one that was given last, of those in the order of the journal; 0 if there is none.

    Not the last one there: a reading that the broker was too slow for is stored behind some that
    came after it. Readings of QoS 0 have 0.
    """
    newest = 0
    for packet_id in filter(None, packet_ids):
        if not newest or 0 < (packet_id - newest) % PACKET_IDS < PACKET_IDS // 2:
            newest = packet_id
    return newest
