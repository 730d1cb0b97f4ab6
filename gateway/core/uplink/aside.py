"""Readings that the broker does not take, set aside: durable, and for an operator to see.

Set aside is what was acknowledged to its sensor and then refused by the broker, and what the broker
ends the connection for. An operator lists them, exports them, has them sent once more or deletes
them. One that is sent again keeps its delivery tag, so that nothing counts it twice, but is not
retained: it is old, and must not take the place of a newer value.

Limits: `ASIDE_MAX` readings and `ASIDE_BYTES_MAX`. What finds no room stays in the journal if it is
there: it is tried again after a restart, and the journal's own limit holds.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.core.drop_reasons import Reason
from gateway.core.effects import AsideSaved, Dropped, Save, SetAside, WhenSaved
from gateway.core.events import Output
from gateway.core.state_records import AsideDeleted, AsideRecord
from gateway.core.values import Reading

ASIDE_MAX = 1000
ASIDE_BYTES_MAX = 4 << 20
REASON_LENGTH_MAX = 300
OVERHEAD_BYTES = 400  # of each beside its topic and payload, roughly


class Aside:
    def __init__(self) -> None:
        self.records: dict[int, AsideRecord] = {}  # by number, the oldest first
        self.tags: set[tuple[int, int]] = set()  # epoch and sequence of these
        self.bytes = 0
        self.set_aside = 0  # since the start
        self.without_room = 0  # likewise
        self._next = 1
        self._sent_again: dict[Reading, int] = {}  # on their way into the journal

    def restore(self, records: Iterable[AsideRecord]) -> None:
        """What was set aside before the start."""
        for record in records:
            self._add(record)
            self._next = max(self._next, record.number + 1)

    # From the uplink

    def take(self, reading: Reading, reason: str, unix_ms: int) -> list[Output]:
        """A reading that is not to be sent; it leaves the journal when it is durable here."""
        record = AsideRecord(
            number=self._next,
            client_id=reading.client_id,
            topic=reading.topic,
            payload=reading.payload,
            qos=reading.qos,
            retain=reading.retain,
            epoch=reading.epoch,
            sequence=reading.sequence,
            packet_id=reading.packet_id,
            unix_ms=reading.unix_ms,
            set_aside_ms=unix_ms,
            reason=reason[:REASON_LENGTH_MAX],
        )
        if len(self.records) >= ASIDE_MAX or self.bytes + _cost(record) > ASIDE_BYTES_MAX:
            self.without_room += 1
            detail = f"{reading.topic!r}: {len(self.records)} readings are set aside, no room"
            return [Dropped(Reason.ASIDE_FULL, reading.client_id, detail)]
        self._next += 1
        self._add(record)
        self.set_aside += 1
        return [SetAside(record), Save(record), WhenSaved([AsideSaved(reading)])]

    def has(self, reading: Reading) -> bool:
        """Whether a reading that the journal still has, after a crash, was set aside before."""
        return (reading.epoch, reading.sequence) in self.tags

    def stored(self, reading: Reading) -> list[Output]:
        """One that is sent once more is in the journal again."""
        number = self._sent_again.pop(reading, None)
        return [] if number is None else self.delete([number])

    def acknowledged(self, readings: Iterable[Reading]) -> list[Output]:
        """By the broker, which may have one that the journal did not take."""
        if not self._sent_again:
            return []
        return [each for reading in readings for each in self.stored(reading)]

    def not_stored(self, reading: Reading) -> bool:
        """The journal did not take it, so it stays here; whether it is one of ours."""
        return self._sent_again.pop(reading, None) is not None

    @property
    def is_sending(self) -> bool:
        return bool(self._sent_again)

    # From the operator

    def delete(self, numbers: Iterable[int]) -> list[Output]:
        """Those that are there."""
        outputs: list[Output] = []
        for number in numbers:
            record = self.records.pop(number, None)
            if record is not None:
                self.bytes -= _cost(record)
                self.tags.discard((record.epoch, record.sequence))
                outputs.append(Save(AsideDeleted(number)))
        return outputs

    def send_again(self, number: int, now: float) -> Reading | None:
        """With the delivery tag that it had, and as one that the broker may have half of: it goes
        as it is, however old. One of QoS 0 had no number, and gets one. None if it is not there,
        or on its way already.
        """
        record = self.records.get(number)
        if record is None or number in self._sent_again.values():
            return None
        reading = reading_of(record, now)
        reading.qos = max(record.qos, 1)
        reading.retain = False
        reading.upstream_qos = record.qos
        if record.sequence < 0:
            reading.epoch = 0
        self._sent_again[reading] = number
        return reading

    # Helpers

    def _add(self, record: AsideRecord) -> None:
        self.records[record.number] = record
        self.bytes += _cost(record)
        if record.sequence >= 0:
            self.tags.add((record.epoch, record.sequence))


def reading_of(record: AsideRecord, received_at: float) -> Reading:
    """As it was when it was set aside, but for the topic id and message id of its sensor."""
    return Reading(
        client_id=record.client_id,
        topic=record.topic,
        payload=record.payload,
        qos=record.qos,
        retain=record.retain,
        topic_id=0,
        message_id=0,
        received_at=received_at,
        sequence=record.sequence,
        unix_ms=record.unix_ms,
        epoch=record.epoch,
        packet_id=record.packet_id,
    )


def _cost(record: AsideRecord) -> int:
    return len(record.payload) + len(record.topic) + OVERHEAD_BYTES
