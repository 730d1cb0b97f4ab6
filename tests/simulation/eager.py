"""A sensor that does not wait for an acknowledgement before it sends its next reading.

The specification allows one at a time; clients that were made for MQTT have several, and the
gateway takes them (session/inbound.py). Each of up to `plan.window` readings has retries of its
own. After a CONNECT all that are not acknowledged are said again, in the order in which they were
measured; a network that overtakes may bring them in another. It sleeps when none is under way; one
that talks in its sleep says them without CONNECT, and asks for its own messages after the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gateway.frames import Frame, Puback, Pubcomp, Pubrec, Pubrel, ReturnCode
from tests.simulation.sensor import N_RETRY, T_RETRY_S, Outstanding, Sensor
from tests.simulation.sleeper import Sleeper


@dataclass(slots=True, eq=False)
class Flight(Outstanding):
    """A reading under way."""

    tries: int = 0  # in this connection; 0: it was not said yet
    said: int = 0  # ever


class Eager(Sleeper):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._flights: dict[int, Flight] = {}  # by message id, as they were measured

    @property
    def under_way(self) -> int:
        """How many readings are."""
        return len(self._flights)

    @property
    def is_carrying(self) -> bool:
        return bool(self._flights)

    def reboot(self) -> None:
        if not self.is_done_for and not self.plan.keeps:
            self._flights.clear()
        super().reboot()

    def receive(self, frame: Frame) -> None:
        if self._is_talking and not self._is_deaf:
            Sensor.receive(self, frame)
        else:
            super().receive(frame)

    # Saying it

    def _connect(self) -> None:
        self._begin_anew()
        super()._connect()

    def _register_again(self) -> None:
        self._begin_anew()
        super()._register_again()

    def _begin_anew(self) -> None:
        """All that is under way is said again, as soon as it is ready."""
        self.ready = False
        for flight in self._flights.values():
            flight.tries = 0

    def _carry_on(self) -> None:
        for flight in list(self._flights.values()):
            if not flight.tries:
                self._say_flight(flight)
        while self.waiting and len(self._flights) < self.plan.window:
            message_id = self._next_message_id()
            if message_id is None:
                return
            flight = self._flights[message_id] = Flight(self.waiting.popleft(), message_id)
            self._say_flight(flight)

    def _say_flight(self, flight: Flight) -> None:
        flight.tries += 1
        flight.said += 1
        self._send(self._frame_of(flight))
        self._agenda.after(T_RETRY_S, self._again, flight, flight.said)

    def _again(self, flight: Flight, said: int) -> None:
        is_current = self._flights.get(flight.message_id) is flight and flight.said == said
        if not is_current or not self.ready or not self._on:
            return
        if flight.tries > N_RETRY:
            self._connect()
        else:
            self._say_flight(flight)

    # What answers it

    def _receive_own_puback(self, frame: Puback) -> None:
        flight = self._flights.get(frame.message_id)
        if flight is None or flight.released or not flight.sent:
            return
        if frame.return_code == ReturnCode.CONGESTION:
            return  # T_WAIT: the retry timer sends it again
        if frame.return_code == ReturnCode.INVALID_TOPIC_ID:
            if self.ready:
                self._register_again()
            return
        if frame.return_code == ReturnCode.NOT_SUPPORTED:
            self.on_refused(self, flight.reading)
            self._land(flight)
            return
        assert frame.return_code == ReturnCode.ACCEPTED, frame
        if flight.reading.qos == 1:
            self.on_acknowledged(self, flight.reading)
            self._land(flight)

    def _receive_own_pubrec(self, frame: Pubrec) -> None:
        flight = self._flights.get(frame.message_id)
        if flight is None:
            self._send(Pubrel(frame.message_id))
        elif flight.reading.qos == 2 and flight.sent and not flight.released:
            self.on_acknowledged(self, flight.reading)
            flight.released = True
            flight.tries = 0
            if self.ready:
                self._say_flight(flight)

    def _receive_own_pubcomp(self, frame: Pubcomp) -> None:
        flight = self._flights.get(frame.message_id)
        if flight is not None and flight.released:
            self._land(flight)

    def _land(self, flight: Flight) -> None:
        del self._flights[flight.message_id]
        self._used_at[flight.message_id] = self._agenda.now
        self._go_on()


Eager.receivers = {
    **Sleeper.receivers,
    Puback: Eager._receive_own_puback,
    Pubrec: Eager._receive_own_pubrec,
    Pubcomp: Eager._receive_own_pubcomp,
}
