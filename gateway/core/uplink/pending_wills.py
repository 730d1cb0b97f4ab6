"""Wills of clients that are lost, until they are durably accepted: the journal's or the broker's.

A will is saved as *due* in one transaction with the loss of its client, and goes the way of every
reading (uplink.py) at the same time: so it waits for no disk, and neither a crash nor a full
journal costs it. After a crash it is one of these:

- the loss was not saved: the client is there again, is lost again when its time is over, and its
  will comes then, perhaps a second time and under another delivery tag. It takes a crash in the
  milliseconds before the transaction;
- it is saved as due: it goes out again, with the delivery tag that it had;
- it is in the journal, which repeats as it always does.

A will that has nowhere to go, because the journal takes nothing while the broker is away, is
offered again every `OFFER_AGAIN_S` and when the broker is back. One that the broker refuses for
good is given up, as a reading would be. QoS 0 is forwarded and forgotten.

Limits: one for each client, whose next one takes its place; `DUE_MAX` in all, beyond which the
oldest is given up and counted. At most `OFFERS_MAX` are offered at once.
"""

from __future__ import annotations

from itertools import islice
from math import inf

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Save, WhenSaved
from gateway.core.events import Output
from gateway.core.mqtt.publisher import Publisher
from gateway.core.state_records import ClientId, DueWillDeleted, DueWillRecord
from gateway.core.values import Reading
from gateway.frames import ReturnCode

OFFER_AGAIN_S = 60.0
OFFERS_MAX = 100
# As many as clients by default; the clean session of one that is lost is no longer among them.
DUE_MAX = 10_000


class PendingWills:
    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher  # gives a will its delivery tag and its packet id
        self._due: dict[ClientId, Reading] = {}
        self._refused: dict[ClientId, Reading] = {}  # of these, those with nowhere to go
        self.due_at = inf  # when to offer the refused again

    @property
    def is_any(self) -> bool:
        return bool(self._due)

    @property
    def oldest(self) -> Reading | None:
        """Of those on their way; None if it has nowhere to go and is offered again."""
        for client_id, will in self._due.items():
            return None if client_id in self._refused else will
        return None

    def __contains__(self, reading: Reading) -> bool:
        return self._due.get(reading.client_id) is reading

    def restore(self, rows: list[DueWillRecord], now: float) -> None:
        """What a previous run left; `offer` brings them."""
        for row in rows:
            will = Reading(
                client_id=row.client_id,
                topic=row.topic,
                payload=row.payload,
                qos=row.qos,
                retain=row.retain,
                topic_id=0,
                message_id=0,
                received_at=now,
            )
            will.epoch, will.sequence = row.epoch, row.sequence
            will.packet_id, will.unix_ms = row.packet_id, row.unix_ms
            will.machine_at = -1.0  # the stamp alone says when it was due
            self._due[row.client_id] = self._refused[row.client_id] = will
            self.due_at = now

    def received(self, readings: list[Reading]) -> list[Output]:
        """Those that the journal knows at the broker are due no more."""
        tags = {(each.epoch, each.sequence) for each in readings}
        known = [will for will in self._due.values() if (will.epoch, will.sequence) in tags]
        return [effect for will in known for effect in self.acknowledged(will)]

    # From the engine

    def begin(self, will: Reading) -> list[Output]:
        """What is saved of a will before it goes its way."""
        if will.qos == 0:
            return []
        self._publisher.tag(will)
        given_up = self._make_room(will.client_id)
        self._due[will.client_id] = will
        self._refused.pop(will.client_id, None)
        row = DueWillRecord(
            client_id=will.client_id,
            topic=will.topic,
            payload=will.payload,
            qos=will.qos,
            retain=will.retain,
            epoch=will.epoch,
            sequence=will.sequence,
            packet_id=will.packet_id,
            unix_ms=will.unix_ms,
        )
        return [*given_up, Save(row), WhenSaved([])]

    def acknowledged(self, reading: Reading) -> list[Output]:
        """The journal or the broker has it, if it is a will."""
        if reading not in self:
            return []
        del self._due[reading.client_id]
        self._refused.pop(reading.client_id, None)
        return [Save(DueWillDeleted(reading.client_id))]

    def refused(self, reading: Reading, return_code: int, now: float) -> list[Output]:
        """Nobody takes it, at present or for good."""
        if return_code != ReturnCode.CONGESTION:
            return self.acknowledged(reading)
        if reading in self:
            self._refused[reading.client_id] = reading
            self.due_at = min(self.due_at, now + OFFER_AGAIN_S)
        return []

    def opened(self, now: float) -> None:
        """The broker is back, and may take what had nowhere to go."""
        if self._refused:
            self.due_at = now

    def _make_room(self, client_id: ClientId) -> list[Output]:
        if client_id in self._due or len(self._due) < DUE_MAX:
            return []
        oldest = self._due[next(iter(self._due))]
        detail = f"its will; more than {DUE_MAX} are due"
        dropped = Dropped(Reason.WAITING_FULL, oldest.client_id, detail)
        return [dropped, *self.acknowledged(oldest)]

    # Time

    def offer(self, now: float) -> list[Reading]:
        """Those that shall go their way once more."""
        if now < self.due_at:
            return []
        offered = list(islice(self._refused.values(), OFFERS_MAX))
        for will in offered:
            del self._refused[will.client_id]
        self.due_at = now + OFFER_AGAIN_S if self._refused else inf
        return offered
