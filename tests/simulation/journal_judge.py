"""Holds what a journal recovers against what it was told in its former lives.

With `Memory.has_rot` one bit of its files was flipped, or a block cannot be read: then one record,
or that block, may be missing, and what it said of others (finished, released, received) forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.state_records import ClientId, Exchanges
from gateway.core.values import Reading
from gateway.storage.journal.options import RECENT_PER_CLIENT_MAX
from gateway.storage.journal.recovered import Recovered
from tests.simulation.journal_memory import (
    AS_IT_WAS,
    EXCHANGES,
    NO,
    NOT_LOST,
    NOTHING_ELSE,
    PERHAPS,
    ROT,
    STARTS,
    YES,
    Key,
    Memory,
    Told,
    broken,
    fields_of,
)

CLOCK_IS_SET_MS = 1_704_067_200_000  # 2024-01-01
LOST = "is lost"
TOLERANCE_S = 0.002  # times are kept in milliseconds


@dataclass(slots=True)
class Clock:
    """Monotonic seconds, and the wall's milliseconds at their zero."""

    now: float
    unix_ms_at_zero: float
    boot: bytes

    @property
    def unix_ms(self) -> int:
        return int(self.unix_ms_at_zero + self.now * 1000)

    def age(self, told: Told) -> float:
        """Of a reading that was recovered now."""
        if told.boot == self.boot:
            return max(0.0, self.now - told.received_at)
        if min(told.unix_ms, self.unix_ms) < CLOCK_IS_SET_MS or self.unix_ms < told.unix_ms:
            return 0.0
        return (self.unix_ms - told.unix_ms) / 1000


class JournalChecker:
    """Of one life."""

    def __init__(self, memory: Memory, clock: Clock, recent_s: float, *, has_strays: bool) -> None:
        """`has_strays`: there may be files that only look like the journal's."""
        self._memory = memory
        self._clock = clock
        self._recent_s = recent_s
        self._has_strays = has_strays
        self._has_reported = False
        self._last_read = -1
        self._missing: dict[str, set[int]] = {}  # with rot, by promise

    # At the start

    def recovered(self, recovered: Recovered) -> None:
        self._has_reported = bool(recovered.report.damaged)
        for reading in recovered.received:
            told = self._meet(reading)
            if told.received is NO and not self._memory.has_rot:
                broken(EXCHANGES, f"nobody recorded that the broker received {told}")
            told.received = YES
        numbers = [reading.record for reading in recovered.received]
        if numbers != sorted(numbers):
            broken(AS_IT_WAS, f"received ones are not in order: {numbers}")
        self._missing_received()
        self._queued(recovered.queued)
        self._unreleased(recovered.exchanges)
        if not self._memory.has_rot:
            self._recent(recovered.exchanges)
            self._last_packet_id(recovered.last_packet_id)
        if self._has_reported and not (self._memory.has_rot or self._has_strays):
            broken(STARTS, f"called damaged: {recovered.report.damaged}")

    def _missing_received(self) -> None:
        for told in self._memory.told.values():
            if told.is_met or told.received is NO:
                continue
            if told.received is PERHAPS:
                told.received = NO
            elif told.must_be_there and not self._memory.has_rot:
                broken(EXCHANGES, f"is not on record as received by the broker: {told}")

    def _queued(self, queued: dict[ClientId, int]) -> None:
        waiting = [told for told in self._memory.told.values() if not told.is_met]
        for client_id in sorted({told.client_id for told in waiting} | queued.keys()):
            of_client = [told for told in waiting if told.client_id == client_id]
            sure = [told for told in of_client if told.number not in self._memory.spoilt]
            least = sum(told.must_be_there for told in sure)
            most = sum(told.may_be_there for told in of_client)
            count = queued.get(client_id, 0)
            if count < least - self._memory.has_rot:
                broken(NOT_LOST, f"{count} readings of {client_id} wait, {least} were stored")
            if count > most and not self._memory.has_rot:
                broken(NOTHING_ELSE, f"{count} readings of {client_id} wait, {most} could")

    def _unreleased(self, exchanges: dict[ClientId, Exchanges]) -> None:
        found: dict[Key, int] = {}
        for client_id, of_client in exchanges.items():
            for message_id, contents in of_client.unreleased:
                if (client_id, message_id) in found:
                    broken(EXCHANGES, f"{client_id} has message id {message_id} open twice")
                found[client_id, message_id] = contents
        for key in sorted(found.keys() | self._memory.by_key.keys()):
            self._exchange(key, found.get(key))

    def _exchange(self, key: Key, contents: int | None) -> None:
        """The newest reading under a message id says whether it is open."""
        of_key = [told for told in self._memory.by_key.get(key, []) if told.stored is not NO]
        for told in reversed(of_key):
            if contents == told.contents and (told.released is not YES or self._memory.has_rot):
                alike = [each for each in of_key if each.contents == contents]
                if told.stored is YES or alike == [told]:  # else it may be any of them
                    told.stored, told.released = YES, NO
                return
            if told.released is PERHAPS and contents is None:
                told.released = YES
            if told.stored is PERHAPS:
                told.stored = NO
            if told.stored is YES and told.released is NO:
                self._miss_exchange(told, contents)
            if told.stored is YES:
                break
        if contents is not None and not self._memory.has_rot:
            broken(EXCHANGES, f"the exchange {key} is open with contents {contents:08x}")

    def _recent(self, exchanges: dict[ClientId, Exchanges]) -> None:
        found: dict[ClientId, set[tuple[int, int]]] = {}
        for client_id, of_client in exchanges.items():
            known = found.setdefault(client_id, set(of_client.unreleased))
            for message_id, contents, age in of_client.recent:
                known.add((message_id, contents))
                self._is_recent(client_id, message_id, contents, age)
        newer: dict[ClientId, int] = {}
        for told in sorted(self._memory.told.values(), key=lambda told: -told.number):
            if not told.message_id or told.stored is NO:
                continue
            newer[told.client_id] = newer.get(told.client_id, 0) + 1
            if (
                told.stored is YES
                and told.dropped is NO
                and not told.is_forgotten
                and newer[told.client_id] <= RECENT_PER_CLIENT_MAX
                and self._clock.age(told) < self._recent_s - TOLERANCE_S
                and (told.message_id, told.contents) not in found.get(told.client_id, set())
            ):
                broken(EXCHANGES, f"{told} is {self._clock.age(told):.1f} s old and unknown")

    def _is_recent(self, client_id: ClientId, message_id: int, contents: int, age: float) -> None:
        for told in self._memory.told.values():
            if (told.client_id, told.message_id, told.contents) == (
                client_id,
                message_id,
                contents,
            ) and abs(self._clock.age(told) - age) < TOLERANCE_S:
                return
        broken(EXCHANGES, f"{client_id} sent no {message_id} with {contents:08x} {age:.3f} s ago")

    def _last_packet_id(self, packet_id: int) -> None:
        """The newest reading on the disk; it may be newer than the newest unfinished one."""
        allowed = set()
        for told in sorted(self._memory.told.values(), key=lambda told: -told.number):
            allowed.add(told.packet_id)
            if told.must_be_there:
                break
        else:
            allowed.add(0)
        if packet_id not in allowed:
            broken(EXCHANGES, f"the last packet id is said to be {packet_id}, not of {allowed}")

    # The backlog

    def read(self, readings: list[Reading]) -> None:
        for reading in readings:
            if reading.record <= self._last_read:
                broken(AS_IT_WAS, f"{reading.record} was read behind {self._last_read}")
            self._last_read = reading.record
            told = self._meet(reading)
            if told.received is YES and not self._memory.has_rot:
                broken(EXCHANGES, f"was parked though the broker has received it: {told}")

    def read_to_its_end(self, waiting: set[int]) -> None:
        """Nothing is left to be read, and `waiting` are yet to be written."""
        for told in self._memory.told.values():
            if told.is_met or told.number in waiting or told.has_failed:
                continue
            if told.must_be_there:
                self._miss(told, NOT_LOST, LOST)
            self._settle_absent(told)

    def _settle_absent(self, told: Told) -> None:
        if told.finished is PERHAPS:
            told.finished = YES
        elif told.dropped is PERHAPS:
            told.dropped = YES
        elif told.stored is PERHAPS:
            told.stored = NO

    def _meet(self, reading: Reading) -> Told:
        told = self._memory.told.get(reading.record)
        if told is None:
            broken(NOTHING_ELSE, f"{reading} was never stored")
        if told.is_met:
            broken(AS_IT_WAS, f"came twice: {told}")
        if not told.may_be_there and not self._memory.has_rot:
            broken(NOTHING_ELSE, f"came back: {told}")
        if fields_of(reading) != told.fields:
            broken(AS_IT_WAS, f"{told} was {told.fields} and is {fields_of(reading)}")
        age = self._clock.now - reading.received_at
        if told.life == self._memory.life:
            expected = self._clock.now - told.received_at
        else:
            expected = self._clock.age(told)
        if abs(age - expected) > TOLERANCE_S and not self._memory.has_rot:
            broken(AS_IT_WAS, f"{told} is {expected:.3f} s old and is said to be {age:.3f} s old")
        told.is_met = True
        told.stored = YES
        told.finished = told.dropped = NO
        return told

    def _miss(self, told: Told, promise: str, what: str) -> None:
        if not self._memory.has_rot:
            broken(promise, f"{told} {what}")
        missing = self._missing.setdefault(what, set())
        missing.add(told.number)
        if len([number for number in missing if number not in self._memory.spoilt]) > 1:
            broken(ROT, f"{sorted(missing)} {what}")

    def _miss_exchange(self, told: Told, contents: int | None) -> None:
        """Any may have been restated in a block that cannot be read."""
        if not self._memory.spoilt:
            self._miss(told, EXCHANGES, f"is not released, but open is {contents}")

    def told_of_rot(self) -> None:
        """In the last group it looks like a write that a crash cut short."""
        lost = self._missing.get(LOST, set()) - self._memory.last_group
        if lost and not self._has_reported:
            broken(ROT, f"{lost} is lost and nobody was told")
