"""What the journal was told, and what it said: so much must it know in the next life.

Every fact has three values. PERHAPS is for what was under way when a life ended; what the next life
then shows, or does not show, settles it for good.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from gateway.core.state_records import ClientId
from gateway.core.values import Reading, contents_of

Key = tuple[ClientId, int]

NOT_LOST = "J1 what was stored comes back until it is finished"
AS_IT_WAS = "J2 as it was, once, in order"
NOTHING_ELSE = "J3 what was finished, dropped or never stored does not come back"
NUMBERS = "J4 a number is given once"
EXCHANGES = "J5 open exchanges, received marks and recent readings are known"
STARTS = "J6 it starts, raises only JournalError, and calls nothing damaged that a crash has torn"
BOUNDED = "J7 it keeps to its budget and comes to rest"
GOES_ON = "J8 full or failed it goes on, and takes readings again when it can"
ROT = "J9 a flipped bit costs one record at most, and is told"


class JournalBrokenPromiseError(AssertionError):
    """A schedule in which the journal did not do what it promises."""


def broken(promise: str, what: str) -> NoReturn:
    raise JournalBrokenPromiseError(f"promise {promise}: {what}")


class Known(Enum):
    NO = "no"
    PERHAPS = "perhaps"
    YES = "yes"


RECEIVED = "received"
NO, PERHAPS, YES = Known.NO, Known.PERHAPS, Known.YES


@dataclass(slots=True, eq=False)
class Told:
    """One reading, and what is known of it."""

    number: int
    fields: tuple[object, ...]
    client_id: ClientId
    message_id: int
    qos: int
    packet_id: int
    unix_ms: int
    received_at: float
    contents: int
    boot: bytes
    life: int
    is_queued: bool
    stored: Known = PERHAPS
    finished: Known = NO
    dropped: Known = NO
    received: Known = NO
    released: Known = NO
    received_in: int = 0  # the broker's session in which it was last said to be received
    has_failed: bool = False  # in this life: not stored, but perhaps on the disk
    is_forgotten: bool = False  # its segment is gone
    is_met: bool = False  # in this life the core has it, or had it

    def __str__(self) -> str:
        facts = ("stored", "finished", "dropped", "received", "released")
        known = (f"{fact} {getattr(self, fact).value}" for fact in facts)
        return f"reading {self.number} of {self.client_id} (life {self.life}; {', '.join(known)})"

    @property
    def key(self) -> Key:
        return self.client_id, self.message_id

    @property
    def opens_exchange(self) -> bool:
        """A will has no message id; nobody ever releases it."""
        return self.qos == 2 and self.message_id != 0

    def is_received_in(self, session: int) -> bool:
        """Or perhaps; so it need not be said again."""
        return self.received is not NO and self.received_in == session

    @property
    def must_be_there(self) -> bool:
        return self.stored is YES and self.finished is self.dropped is NO

    @property
    def may_be_there(self) -> bool:
        return self.stored is not NO and self.finished is not YES and self.dropped is not YES


def fields_of(reading: Reading) -> tuple[object, ...]:
    """All that must come back; `received_at` depends on the clocks."""
    return (
        reading.client_id,
        reading.topic,
        reading.payload,
        reading.qos,
        reading.retain,
        reading.topic_id,
        reading.message_id,
        reading.sequence,
        reading.unix_ms,
        reading.epoch,
        reading.packet_id,
        reading.record,
    )


class Memory:
    def __init__(self) -> None:
        self.told: dict[int, Told] = {}  # by number
        self.by_key: dict[Key, list[Told]] = {}  # QoS 2, by number
        self.life = 0
        self.boot = b""
        self.has_rot = False  # a bit of the files was flipped, or a block cannot be read
        self.spoilt = range(0)  # numbers of the segment that has that block
        self.last_group: set[int] = set()
        self._segments: list[str] = []
        self._asked: list[Told] = []  # to finish, in this life
        self._marks: list[tuple[int, Told | None, str, int]] = []
        self.session = 0  # of the broker, in this life
        self._durable_session = 0

    def begin_life(self, boot: bytes) -> None:
        self.life += 1
        self.boot = boot
        self._marks.clear()
        self._asked.clear()
        self.session = self._durable_session = 0
        for told in self.told.values():
            told.has_failed = told.is_met = False
            told.received_in = 0

    # What the loop told it

    def store(self, reading: Reading, *, is_queued: bool) -> None:
        """It was taken on."""
        number = reading.record
        former = self.told.get(number)
        if former is not None:
            self._replace(former)
        told = Told(
            number,
            fields_of(reading),
            reading.client_id,
            reading.message_id,
            reading.qos,
            reading.packet_id,
            reading.unix_ms,
            reading.received_at,
            contents_of(reading.topic, reading.payload, reading.qos),
            self.boot,
            self.life,
            is_queued,
            is_met=not is_queued,
        )
        self.told[number] = told
        if told.opens_exchange:
            self.by_key.setdefault(told.key, []).append(told)

    def _replace(self, former: Told) -> None:
        # With the whole newest segment its numbers are gone, too.
        may_be_gone = former.number in self.last_group or len(self.spoilt)
        has_rotten = self.has_rot and may_be_gone and not former.is_met
        is_known = former.stored is YES and not has_rotten
        if is_known or (former.stored is PERHAPS and former.life == self.life):
            broken(NUMBERS, f"the next reading has the number of {former}")
        if former.opens_exchange:
            self.by_key[former.key].remove(former)

    def finish(self, number: int) -> None:
        if self.told[number].finished is NO:
            self.told[number].finished = PERHAPS
            self._asked.append(self.told[number])

    def mark(self, mark: int, told: Told, fact: str) -> None:
        """`received` or `released` was asked for under this mark."""
        if getattr(told, fact) is NO:
            setattr(told, fact, PERHAPS)
        if fact == RECEIVED:
            told.received_in = self.session
        self._marks.append((mark, told, fact, self.session))

    def connect(self, mark: int) -> None:
        """The broker may have another session: what it had received is in doubt."""
        self.session += 1
        for told in self.told.values():
            if told.received is YES:
                told.received = PERHAPS
        self._marks.append((mark, None, RECEIVED, self.session))

    @property
    def last_mark(self) -> int:
        """Of those that are awaited; 0 if none is."""
        return self._marks[-1][0] if self._marks else 0

    def open_exchange(self, key: Key) -> Told | None:
        """The newest reading under this message id, if it is not released."""
        for told in reversed(self.by_key.get(key, [])):
            if told.stored is YES:
                return told if told.released is NO else None
        return None

    # What it answered

    def stored(self, numbers: list[int]) -> None:
        for number in numbers:
            self.told[number].stored = YES
        if numbers:
            self.last_group = set(numbers)

    def not_stored(self, number: int, *, was_written: bool) -> None:
        told = self.told[number]
        told.stored = PERHAPS if was_written else NO
        told.has_failed = was_written

    def durable(self, mark: int) -> None:
        while self._marks and self._marks[0][0] <= mark:
            _, told, fact, session = self._marks.pop(0)
            if told is None:
                self._connected(session)
            elif fact != RECEIVED or session == self.session:
                setattr(told, fact, YES)
            elif told.received_in < self._durable_session:
                told.received = NO

    def _connected(self, session: int) -> None:
        self._durable_session = session
        for told in self.told.values():
            if told.received_in < session:
                told.received = NO

    def segment_begun(self) -> None:
        """Its header says that what failed before does not count."""
        for told in self.told.values():
            if told.has_failed:
                told.stored, told.has_failed = NO, False

    def asked_to_finish(self) -> list[Told]:
        """In this life."""
        return list(self._asked)

    def finished(self, asked: list[Told]) -> None:
        for told in asked:
            told.finished = YES
            self._asked.remove(told)

    # Segments that go

    def spoil(self, name: str) -> None:
        """A block of this segment cannot be read."""
        firsts = [int(one.partition("-")[0]) for one in self._segments if one > name]
        self.spoilt = range(int(name.partition("-")[0]), min(firsts, default=1 << 62))

    def has_segments(self, names: list[str]) -> None:
        """Of these segments are the files now: readings of others are not known any more."""
        firsts = [int(name.partition("-")[0]) for name in self._segments] + [1 << 64]
        for place, name in enumerate(self._segments):
            if name in names:
                continue
            for number, told in self.told.items():
                if firsts[place] <= number < firsts[place + 1]:
                    told.is_forgotten = True
        self._segments = sorted(names)

    def drop(self, first: int, end: int) -> list[Told]:
        """These are to be dropped: what waits in a segment to be read back."""
        going = [
            told
            for number in range(first, end)
            if (told := self.told.get(number)) and told.may_be_there and not told.is_met
        ]
        for told in going:
            told.dropped = PERHAPS
        return going

    def dropped(self, going: list[Told], counts: dict[ClientId, int], *, is_sure: bool) -> None:
        for client_id in sorted({told.client_id for told in going} | counts.keys()):
            of_client = [told for told in going if told.client_id == client_id]
            least = sum(told.stored is YES and told.finished is NO for told in of_client)
            if not least <= counts.get(client_id, 0) <= len(of_client):
                broken(
                    NOT_LOST,
                    f"{counts.get(client_id, 0)} readings of {client_id} were said to be dropped, "
                    f"but at least {least} and at most {len(of_client)} were there to be dropped",
                )
        for told in going:
            told.dropped = YES if is_sure else PERHAPS

    def not_dropped(self, going: list[Told]) -> None:
        for told in going:
            told.dropped = NO
