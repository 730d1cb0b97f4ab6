"""Holds what docs/guarantees.md promises for readings, at every step and at the end of a world.

Each `broken` names the promise. What a sensor's radio does to a reading is counted as *licences*:
the gateway may give a reading as many tags as it heard the reading for the first time in a session
(a clean CONNECT begins another), and one more for each copy of a QoS 1 PUBLISH that the network
made of the first one: without the DUP flag it may be another reading. So may a copy that comes
COPY_S after the last one that the gateway listened to, and after a restart one of a reading that
was taken on before the wall clock was set ahead: nothing tells how old it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Effect
from gateway.core.session.inbound import COPY_S
from gateway.core.session.session import Session
from gateway.core.state_records import (
    AsideRecord,
    Change,
    ClientId,
    DueWillDeleted,
    DueWillRecord,
    State,
)
from gateway.core.topic_options import Acknowledge
from gateway.core.uplink.indeterminate_writes import HELD_S
from gateway.core.values import Reading
from gateway.frames import Frame, Puback, Publish, Pubrec, Pubrel, ReturnCode
from tests.simulation.model_broker import Publication, Restart, Tag, matches
from tests.simulation.plan import Plan, PlannedReading
from tests.simulation.turns_watch import TurnsWatch

SAFE = "1 acknowledged means safe"
ONCE = "2 once"
IN_ORDER = "3 in order"
NO_HOLES = "5 no holes in seq"
_REFUSED = frozenset({Reason.BROKER_REFUSED, Reason.PAYLOAD_TOO_LARGE})


Sequence = tuple[str, str, int]  # client, topic, QoS if it matters


class BrokenPromiseError(AssertionError):
    """A world in which the gateway did not do what it promises."""


@dataclass(slots=True)
class Fate:
    """What became of one reading."""

    reading: PlannedReading
    licences: int = 0
    taken: int | None = None  # in which order the gateway heard it
    taken_before: int | None = None  # what was heard last may be refused
    copies: int = 0  # how often the gateway heard it
    released: bool = False  # the gateway heard its sensor's PUBREL
    unstored: bool = False  # the journal could not take it, so the gateway's end forgets it
    is_taken: bool = False  # somebody took away the file that it was in
    looks_old: bool = False  # the wall clock was set ahead since the gateway heard it
    # The disk may have it though its write failed; until when it may not go on (0: it had before).
    held_until: float | None = None
    routed_at: float = 0.0  # first
    taken_at: float = 0.0
    last_received_at: float = 0.0
    tags: dict[Tag, int] = field(default_factory=dict)  # how often the broker routed each
    routed: int = 0
    acknowledged: bool = False
    refused: bool = False  # for good: its sensor was sent that
    is_aside: bool = False  # at the end

    @property
    def is_promised(self) -> bool:
        return self.acknowledged and self.reading.qos > 0


class ReadingsWatch:
    def __init__(self, plan: Plan, is_on_disk: Callable[[bytes], bool]) -> None:
        """`is_on_disk`: whether a power cut now would leave a reading with this payload."""
        self._plan = plan
        self._is_on_disk = is_on_disk
        self._roots: dict[Session, Session] = {}  # what a session was in the gateway's first life
        self._excused: dict[str, set[int]] = {}  # sequences that were given up, by epoch
        self._coalesced = 0
        self._refused = 0  # by the broker, or in its place
        self._due: dict[ClientId, DueWillRecord] = {}
        self._eager = {sensor.client_id for sensor in plan.sensors if sensor.window > 1}
        theirs = [reading for reading in plan.readings if reading.client_id in self._eager]
        self.turns = TurnsWatch(theirs, self._is_safe)
        self.fates = {reading.payload: Fate(reading) for reading in plan.readings}
        self._heard: dict[tuple[str, int], Fate] = {}
        self._heard_in: set[tuple[bytes, Session]] = set()
        self._owners: dict[Tag, Fate] = {}
        self._taken = 0
        self._last_number: dict[Sequence, int] = {}
        self._to_follow: dict[
            tuple[str, str], PlannedReading
        ] = {}  # after one that was left out once
        self._last_taken: dict[Sequence, int] = {}
        self._sequences: dict[str, set[int]] = {}
        self.breaks = 0
        self.ended_by_broker = 0  # connections
        self._unanswered = 0
        self._has_taken = False  # files with readings, or with what is known of them

    # At the gateway

    def heard(self, client_id: str, frame: Frame, session: Session | None, now: float) -> None:
        """A datagram of this client reached the gateway, in this session."""
        self.turns.heard(client_id, frame, session)
        if isinstance(frame, Pubrel):
            fate = self._heard.get((client_id, frame.message_id))
            if fate is not None:
                fate.released = True
        if not isinstance(frame, Publish):
            return
        fate = self.fates[frame.payload]
        if frame.qos > 0:
            self._heard[client_id, frame.message_id] = fate
        if session is None:
            return
        root = self._roots.get(session, session)
        if (frame.payload, root) not in self._heard_in:
            self._heard_in.add((frame.payload, root))
            fate.licences += 1
        elif frame.qos == 1 and (not frame.dup or now - fate.last_received_at >= COPY_S):
            fate.licences += 1
        if session.state is not State.CONNECTING:  # where nothing but the handshake is listened to
            fate.last_received_at = now
        fate.copies += 1
        fate.taken_before = fate.taken
        if fate.taken is None:
            self._taken += 1
            fate.taken = self._taken
            fate.taken_at = now

    def said(self, client_id: str, frame: Frame) -> None:
        """The gateway acknowledges: promise 1 must hold at this very moment."""
        if not isinstance(frame, Puback | Pubrec):
            return
        fate = self._heard.get((client_id, frame.message_id))
        if isinstance(frame, Puback) and frame.return_code != ReturnCode.ACCEPTED:
            if fate is not None:
                fate.taken = fate.taken_before
                self.turns.refused(fate.reading.payload, frame.return_code)
        elif fate is None:
            broken(SAFE, f"{client_id}: {frame} for what it never heard")
        else:
            self._check_safe(fate, f"{frame} before disk or broker has {fate.reading}")

    def _is_safe(self, payload: bytes) -> bool:
        return self.fates[payload].routed > 0 or self._is_on_disk(payload)

    def _check_safe(self, fate: Fate, evidence: str) -> None:
        if not fate.routed and not fate.is_taken and not self._is_superseded(fate):
            payload = fate.reading.payload
            if self._mode_of(fate.reading) is Acknowledge.UPSTREAM or not self._is_on_disk(payload):
                broken(SAFE, evidence)

    def _is_superseded(self, fate: Fate) -> bool:
        """Left out, because a later retained value of its topic is safe."""
        reading = fate.reading
        return (
            self._plan.coalesce
            and reading.retain
            and any(
                later.reading.topic == reading.topic
                and later.reading.retain
                and (later.reading.number > reading.number or later.licences > 1)
                and (later.routed > 0 or self._is_on_disk(later.reading.payload))
                for later in self.fates.values()
            )
        )

    def _mode_of(self, reading: PlannedReading) -> Acknowledge:
        for topic_filter, acknowledge in self._plan.overrides.items():
            if matches(topic_filter, reading.topic):
                return acknowledge
        return self._plan.acknowledge

    def stored(self, readings: list[Reading]) -> None:
        """What a failed write has left of these is void."""
        for reading in readings:
            if reading.payload in self.fates:
                self.fates[reading.payload].held_until = None

    def indeterminate(self, reading: Reading, is_on_its_way: bool, now: float) -> None:
        """Its write failed, but the next life may find it."""
        self.unstored([reading])
        fate = self.fates.get(reading.payload)
        if fate is not None and (fate.held_until is None or is_on_its_way):
            fate.held_until = 0.0 if is_on_its_way else now + HELD_S

    def saved(self, change: Change) -> None:
        """Of a client that is lost twice before its will has gone anywhere the first one is not
        sent.
        """
        if isinstance(change, AsideRecord):
            self._excused.setdefault(str(change.epoch), set()).add(change.sequence)
        elif isinstance(change, DueWillRecord):
            before = self._due.get(change.client_id)
            if before is not None:
                self._excused.setdefault(str(before.epoch), set()).add(before.sequence)
            self._due[change.client_id] = change
        elif isinstance(change, DueWillDeleted):
            self._due.pop(change.client_id, None)

    def unstored(self, readings: list[Reading]) -> None:
        """The journal could not take these."""
        for reading in readings:
            if reading.payload in self.fates:  # else it is a will
                self.fates[reading.payload].unstored = True
            self._excused.setdefault(str(reading.epoch), set()).add(reading.sequence)

    def on_disk(self) -> set[bytes]:
        return {payload for payload in self.fates if self._is_on_disk(payload)}

    def taken_away(self, before: set[bytes]) -> set[bytes]:
        """Somebody did something to files; of what was on the disk before, what is nowhere now."""
        self._has_taken = True
        gone = before - self.on_disk()
        for payload in gone:
            self.fates[payload].is_taken = True
        return gone

    def has_lost(self, gone: set[bytes]) -> bool:
        """Whether one of these was acknowledged and has not come, because its file is gone."""
        fates = [self.fates[payload] for payload in sorted(gone)]
        return any(fate.is_taken and fate.is_promised and not fate.routed for fate in fates)

    def brought_back(self) -> None:
        for payload in self.on_disk():
            self.fates[payload].is_taken = False

    def told(self, news: Effect) -> None:
        if isinstance(news, Dropped) and news.reason is Reason.COALESCED:
            self._coalesced += 1
        elif isinstance(news, Dropped) and news.reason in _REFUSED:
            self._refused += 1

    def clock_set_ahead(self) -> None:
        for fate in self.fates.values():
            fate.looks_old = fate.looks_old or fate.copies > 0

    def ended(self) -> None:
        """The gateway's life ends; it forgets what is not on its disk."""
        lost = self.turns.left_behind(
            lambda payload: self.fates[payload].unstored or self._has_taken
        )
        if lost is not None:
            broken(IN_ORDER, f"{lost} is lost, and a later one is not")
        for fate in self.fates.values():
            if not fate.copies:
                continue
            fate.last_received_at = fate.taken_at  # of copies the journal knows nothing
            reading = fate.reading
            mode = self._mode_of(reading)
            from_memory = mode is Acknowledge.UPSTREAM or (
                reading.qos == 1 and mode is Acknowledge.AUTO
            )
            # Of an open exchange the journal always knows.
            is_settled = reading.qos == 1 or fate.released
            is_forgotten = fate.looks_old or not self._plan.remembers_all
            from_memory = from_memory or (is_settled and is_forgotten)
            fate.licences += from_memory or fate.unstored or self._has_taken
            if not fate.routed and not self._is_on_disk(reading.payload):
                fate.taken = None

    def restored(
        self, before: Mapping[ClientId, Session], after: Mapping[ClientId, Session], epoch: int
    ) -> None:
        """The sessions of the life before, and what they are now in the life with this epoch."""
        self.turns.epoch = epoch
        for client_id, session in after.items():
            if client_id in before:
                old = before[client_id]
                self._roots[session] = self._roots.get(old, old)

    def connect_unanswered(self) -> None:
        self._unanswered += 1

    # At the sensor

    def acknowledged(self, reading: PlannedReading) -> None:
        fate = self.fates[reading.payload]
        fate.acknowledged, fate.refused = True, False
        self._check_safe(fate, f"a sensor was told so of {reading}")

    def refused(self, reading: PlannedReading) -> None:
        fate = self.fates[reading.payload]
        fate.refused = not fate.acknowledged

    # At the broker

    def routed(self, publication: Publication, now: float) -> None:
        if publication.tag is not None:
            self._sequences.setdefault(publication.tag[1], set()).add(int(publication.tag[2]))
        fate = self.fates.get(publication.payload)
        if fate is None:
            return
        reading = fate.reading
        if self._plan.keeps and publication.tag in fate.tags:
            if publication.retain and not reading.retain:
                broken(ONCE, f"{reading} became {publication}")
            fate.routed += 1  # again, perhaps as old news
            return
        if (publication.topic, publication.qos, publication.retain, publication.client_id) != (
            reading.topic,
            reading.qos,
            reading.retain,
            reading.client_id,
        ):
            broken(ONCE, f"{reading} became {publication}")
        fate.routed += 1
        self._note_follower(reading)
        fate.routed_at = fate.routed_at or now
        if publication.tag is not None:
            self._count(fate, publication.tag)
        if fate.routed == 1:
            self._check_order(fate)

    def _count(self, fate: Fate, tag: Tag) -> None:
        if self._owners.setdefault(tag, fate) is not fate:
            broken(ONCE, f"{fate.reading} has the tag of {self._owners[tag].reading}")
        times = fate.tags[tag] = fate.tags.get(tag, 0) + 1
        if len(fate.tags) > fate.licences:
            broken(ONCE, f"{fate.reading} has the tags {sorted(fate.tags)}")
        if times > 1 and not self._may_repeat(fate):
            broken(ONCE, f"the broker got {fate.reading} {times} times")

    def _may_repeat(self, fate: Fate) -> bool:
        """Only a break makes a repeat, and at QoS 2 only a broker that is not trusted or forgot, or
        a disk that failed for long.

        A break between CONNECT and CONNACK leaves open which session the broker has.
        """
        if not (self.breaks or self.ended_by_broker):
            return False
        faithful = self._plan.trust_session and self._plan.restarts() <= {Restart.KEPT}
        faithful = faithful and not self._unanswered and not self._has_taken
        went_on = fate.held_until is not None and fate.routed_at >= fate.held_until
        return fate.reading.qos == 1 or not faithful or went_on

    def _check_order(self, fate: Fate) -> None:
        """As the sensor made them at QoS 1 and 2; as the gateway heard them at QoS 0 and 1.

        A broker routes a QoS 2 message only when it is released, so a QoS 0 reading may pass it.
        """
        reading = fate.reading
        if self._plan.coalesce and reading.retain and fate.copies > 1:
            return  # left out for a copy of it that was taken for a newer one
        topic = (reading.client_id, reading.topic)
        if reading.client_id in self._eager:
            if any(self.turns.arrives_late(reading, int(tag[1])) for tag in fate.tags):
                broken(IN_ORDER, f"{reading} after a later one")
            return
        if self._comes_after_all(reading):
            self._to_follow[topic] = reading
            return
        if reading.qos > 0:
            self._check_turn(self._last_number, (*topic, 0), reading.number, reading)
        # Of a QoS 0 reading the network's first copy may be lost, and the second come late.
        if fate.taken is not None and (reading.qos == 1 or (reading.qos == 0 and fate.copies == 1)):
            self._check_turn(self._last_taken, (*topic, 0), fate.taken, reading)

    def _comes_after_all(self, reading: PlannedReading) -> bool:
        """It was left out for a later retained one, and the power went before that was durable: so
        both come again, in their order.
        """
        last = self._last_number.get((reading.client_id, reading.topic, 0), -1)
        may_be = self._plan.coalesce and reading.retain and reading.qos > 0 and self.breaks > 0
        return may_be and reading.number < last

    def _note_follower(self, reading: PlannedReading) -> None:
        topic = (reading.client_id, reading.topic)
        before = self._to_follow.get(topic)
        if before is not None and reading.number > before.number:
            del self._to_follow[topic]

    def _check_turn(
        self, last: dict[Sequence, int], key: Sequence, number: int, reading: PlannedReading
    ) -> None:
        if number < last.get(key, -1):
            broken(IN_ORDER, f"{reading} after a later one")
        last[key] = number

    # At the end

    def check_end(self, epoch: int, forgetful: set[str]) -> None:
        """`forgetful` sensors lost readings themselves, with their memory."""
        for fate in self.fates.values():
            reading = fate.reading
            is_ended = fate.acknowledged or fate.refused or reading.client_id in forgetful
            if reading.qos > 0 and not is_ended:
                broken(SAFE, f"{reading} was never acknowledged")
            is_lost = fate.acknowledged and not (fate.routed or fate.is_taken or fate.is_aside)
            if is_lost and not self._is_superseded(fate):
                broken(SAFE, f"{reading} was acknowledged and is lost")
        for reading in self._to_follow.values():
            broken(IN_ORDER, f"{reading} after a later one, which did not come again")
        self._check_holes(str(epoch))
        if not self._plan.has_restarts and len(self._sequences) > 1:
            broken(NO_HOLES, f"epochs {sorted(self._sequences)}")

    def _check_holes(self, epoch: str) -> None:
        """Of the last epoch, which no crash ended."""
        sequences = self._sequences.get(epoch, set())
        known = sequences | self._excused.get(epoch, set())
        holes = set(range(max(sequences, default=-1) + 1)) - known
        taken = sum(fate.is_taken for fate in self.fates.values())
        if len(holes) > self._coalesced + self._refused + taken:
            broken(NO_HOLES, f"epoch {epoch}: {sorted(sequences)}")


def broken(promise: str, evidence: str) -> NoReturn:
    raise BrokenPromiseError(f"promise {promise}: {evidence}")
