"""In which order the gateway took on what sensors with several readings under way sent, life by
life, and whether it kept that order, towards the broker and on the disk.

The order in which such a sensor measured says nothing: the network may turn it round. A reading
that the gateway's end made it forget is taken anew in the next life; by the epoch of its tag it is
known in which life the one that arrives was taken. A sensor that begins anew sends again what it
has no answer for, perhaps in another order, and that is taken anew as well: which of the two
arrives cannot be told, as a power cut may take what was left behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from gateway.core.session.lifecycle import ABSENT
from gateway.core.session.session import Session
from gateway.core.state_records import State
from gateway.frames import Connect, Frame, Publish, ReturnCode
from tests.simulation.plan import PlannedReading


@dataclass(slots=True)
class Take:
    """When the gateway heard a reading first in one session of a life, and in which connection
    last.
    """

    reading: PlannedReading
    number: int
    session: Session
    connection: int
    copies: int = 0  # how often it heard it


class TurnsWatch:
    def __init__(self, readings: list[PlannedReading], is_safe: Callable[[bytes], bool]) -> None:
        """`is_safe`: whether a power cut now would leave a reading with this payload to the disk or
        the broker.
        """
        self.epoch = 1
        self._readings = {each.payload: each for each in readings if each.qos > 0}
        self._is_safe = is_safe
        self._takes: dict[tuple[int, bytes], list[Take]] = {}
        self._taken = 0
        self._connections: Counter[str] = Counter()
        self._last: dict[tuple[str, str], int] = {}

    def heard(self, client_id: str, frame: Frame, session: Session | None) -> None:
        """A datagram reached the gateway, in this session if it listens to this client."""
        if isinstance(frame, Connect):
            self._connections[client_id] += 1
        if not isinstance(frame, Publish) or frame.payload not in self._readings:
            return
        if session is None or not _takes_readings(session):
            return
        connection = self._connections[client_id]
        takes = self._takes.setdefault((self.epoch, frame.payload), [])
        if not takes or takes[-1].session is not session:
            self._taken += 1
            takes.append(Take(self._readings[frame.payload], self._taken, session, connection))
        takes[-1].connection = connection
        takes[-1].copies += 1

    def refused(self, payload: bytes, return_code: int) -> None:
        """Whatever was taken of it before, its sensor is told to send it again; but a late copy
        with a topic id of a former session is refused by itself.
        """
        takes = self._takes.get((self.epoch, payload), [])
        if takes and (return_code != ReturnCode.INVALID_TOPIC_ID or takes[-1].copies == 1):
            takes.pop()

    def arrives_late(self, reading: PlannedReading, epoch: int) -> bool:
        """It arrives for the first time, with a tag of this epoch: note that, and say whether one
        that was taken after it had arrived before.
        """
        takes = self._takes.get((epoch, reading.payload))
        if not takes:
            return False
        key = (reading.client_id, reading.topic)
        last = self._last.get(key, 0)
        in_turn = [take.number for take in takes if take.number >= last]
        self._last[key] = min(in_turn, default=last)
        return not in_turn

    def left_behind(self, excused: Callable[[bytes], bool]) -> PlannedReading | None:
        """At the end of a life: one that is lost although a later one of its topic is safe.

        What a client left behind when it began anew may be. Of those that were taken in a former
        life, too, nobody knows which of the two is safe.
        """
        taken = {key: takes[-1] for key, takes in self._takes.items() if takes}
        first_epochs = {payload: epoch for epoch, payload in sorted(taken, reverse=True)}
        safe: set[tuple[str, str]] = set()
        of_this_life = [take for (epoch, _), take in taken.items() if epoch == self.epoch]
        for take in sorted(of_this_life, key=lambda take: -take.number):
            reading = take.reading
            key = (reading.client_id, reading.topic)
            if self._is_safe(reading.payload):
                if first_epochs[reading.payload] == self.epoch:
                    safe.add(key)
                continue
            listens = take.connection == self._connections[reading.client_id]
            if key in safe and listens and not excused(reading.payload):
                return reading
        return None


def _takes_readings(session: Session) -> bool:
    """Also in a will handshake, if a reading shows that its CONNECT was a copy."""
    interrupted = session._interrupted
    if session.state is not State.CONNECTING:
        return True
    return interrupted is not None and interrupted.state not in ABSENT
