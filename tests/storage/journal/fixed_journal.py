"""A journal with every kind of record in it, the same bytes each time.

`tests/golden/written_before.tar.xz` holds the files that an earlier revision wrote for these calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.storage.journal.options import JournalOptions, WhenFull
from gateway.storage.journal.records import READING_BYTES_MIN
from tests.storage.journal.support import (
    BOOT,
    NEXT_BOOT,
    NOW,
    SMALL,
    UNIX_MS_AT_ZERO,
    Driven,
    new_reading,
)

ÄNN = "änn"
BOB = "bob"
# Between the two boots the machine was off for a minute, and its monotonic clock began at zero.
NEXT_NOW = 20.0
NEXT_UNIX_MS_AT_ZERO = UNIX_MS_AT_ZERO + (NOW + 60.0 - NEXT_NOW) * 1000
BULK = range(18, 678)
UNRELEASED = 100  # of those the one at QoS 2
TORN = 678  # whose record a power cut left without its first bytes


@dataclass
class FixedJournal:
    """`waiting`: the readings that the broker has not acknowledged, in their order."""

    folder: Path
    waiting: list[Reading] = field(default_factory=list)
    salts: Random = field(default_factory=lambda: Random(11))

    def options(self) -> JournalOptions:
        return JournalOptions(SMALL, WhenFull.REJECT, salt=lambda: self.salts.getrandbits(32))

    def write(self) -> None:
        """Two runs, each ended by a power cut."""
        self._first_run()
        self._second_run()

    def _first_run(self) -> None:
        life = Driven(self.folder, self.options(), now=NOW, boot=BOOT)
        journal = life.journal
        journal.begin_session()
        first = life.store(*(_reading(position) for position in range(12)), is_queued=True)
        taken = life.store(*(_reading(position) for position in range(12, 18)))
        for reading in (first[2], first[5], taken[2]):  # at QoS 2
            journal.receive(reading)
        journal.release(ClientId(ÄNN), first[2].message_id)
        journal.keep(first[1].record)
        life.finish(first[0], first[4], taken[0])
        # Until the first segments are used again, and what they say of others is written anew.
        for start in BULK[::30]:
            bulk = [_bulk(position, life.now) for position in BULK if 0 <= position - start < 30]
            life.finish(*life.store(*bulk))
            life.now += 10.0
        journal.begin_session()
        journal.receive(first[5])
        life.run()
        torn, last = life.store(_reading(TORN), _reading(TORN + 1), is_queued=True)
        journal.close()
        self._tear(torn)
        finished = (first[0], first[4], taken[0])
        self.waiting += [each for each in (*first, *taken, last) if each not in finished]

    def _tear(self, reading: Reading) -> None:
        """Of the last write of a run not all comes to the disk."""
        newest = max(self.folder.glob("*.segment"))
        octets = newest.read_bytes()
        begin = (
            octets.rindex(reading.client_id.encode() + reading.topic.encode()) - READING_BYTES_MIN
        )
        newest.write_bytes(
            octets[:begin] + bytes(READING_BYTES_MIN) + octets[begin + READING_BYTES_MIN :]
        )

    def _second_run(self) -> None:
        now, at_zero = NEXT_NOW, NEXT_UNIX_MS_AT_ZERO
        life = Driven(self.folder, self.options(), now=now, boot=NEXT_BOOT, unix_ms_at_zero=at_zero)
        life.journal.begin_session()
        last = life.store(
            *(_reading(position, now) for position in range(680, 686)), is_queued=True
        )
        life.journal.receive(last[3])  # at QoS 2
        life.finish(last[1])
        life.journal.close()
        self.waiting += [each for each in last if each is not last[1]]


def _reading(position: int, received_at: float = NOW) -> Reading:
    """QoS 0, 1 and 2 in turn, of two clients, each field another value than its default."""
    reading = new_reading(
        position,
        client=(ÄNN, BOB)[position % 2],
        topic=f"gewächshaus/{position % 4}",
        payload=bytes(range(position % 5 * 20)),
        qos=position % 3,
        received_at=received_at + position / 1000,
    )
    reading.retain = position % 4 == 3
    reading.topic_id = 700 + position
    reading.epoch = 41
    return reading


def _bulk(position: int, received_at: float) -> Reading:
    qos, client = (2, BOB) if position == UNRELEASED else (1, "bulk")
    payload = b"x" * 1500
    return new_reading(position, client=client, payload=payload, qos=qos, received_at=received_at)
