"""Takes what an operator asks for on the page to the engine's desk, and says what came of it.

Every answer is a sentence for the operator. What cannot be done is refused before the engine hears
of it, but for what only its ways can know: a full outbox, a payload that is too large.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.admin.durations import duration
from gateway.admin.http.operating import CannotError, Publication
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Effect
from gateway.core.engine import Engine
from gateway.core.events import Output
from gateway.core.session.session import LISTENING
from gateway.core.state_records import ClientId, State
from gateway.core.values import Message
from gateway.presence.latest import Latest

_WHY_DROPPED = {
    Reason.OUTBOX_FULL: "as many messages wait for it as limits.outbox_messages_max allows",
    Reason.PAYLOAD_TOO_LARGE: "it is larger than limits.payload_bytes_max or topic_bytes_max",
    Reason.NOT_CONNECTED: "it is not connected, and a message of QoS 0 does not wait; QoS 1 does",
    Reason.ASLEEP: "it sleeps, and a message of QoS 0 does not wait; QoS 1 does",
    Reason.FORBIDDEN: "the rules of access do not let it receive that topic, see [[access]]",
    Reason.EGRESS_FULL: "it gets more than limits.egress_bytes_per_s_max already",
}


class Line(Protocol):
    """A serial line."""

    @property
    def port(self) -> str: ...
    @property
    def released_s(self) -> float | None: ...
    async def release(self, seconds: float) -> bool: ...


@dataclass(frozen=True, slots=True)
class Commands:
    """`perform` applies what the operator's part of the core returned; it returns the effects.
    `clear_retained` clears what the broker has of a device that is not known any more.
    """

    engine: Engine
    perform: Callable[[Sequence[Output]], Sequence[Effect]]
    latest: Latest
    now: Callable[[], float]
    is_listed_only: bool
    waiting: Callable[[], int]  # readings on disk
    line_named: Callable[[str], Awaitable[Line | None]]
    clear_retained: Callable[[ClientId], None]  # presence and announcements of a device

    def pause_drain(self) -> str:
        if self.engine.operator.is_drain_paused:
            raise CannotError("the drain is paused already")
        self.perform(self.engine.operator.pause_drain(is_paused=True))
        return f"paused: {self.waiting()} readings wait on disk, and stay there until you go on"

    def resume_drain(self) -> str:
        if not self.engine.operator.is_drain_paused:
            raise CannotError("the drain is not paused")
        self.perform(self.engine.operator.pause_drain(is_paused=False))
        return "going on"

    def forget(self, client_id: str, *, retained: bool = False) -> str:
        known = ClientId(client_id)
        if known not in self.engine.sessions and self.engine.half_open.of(known) is None:
            if not retained:
                raise _unknown(client_id)
            self.clear_retained(known)
            return "no such sensor is known; what the broker retains of it from here is cleared"
        self.perform(self.engine.operator.forget(known, self.now()))
        self.latest.forget(known)
        return "forgotten: its session, topic ids, subscriptions and what waited for it are gone"

    def publish(self, publication: Publication) -> str:
        client_id, topic = ClientId(publication.client_id), publication.topic
        if client_id not in self.engine.sessions:
            if self.engine.half_open.of(client_id) is not None:
                raise CannotError("it has said CONNECT and nothing else yet: wait a moment")
            raise _unknown(client_id)
        if any(one in topic for one in "+#\0"):
            raise CannotError("a message goes to one topic: no + and no #")
        message = Message(topic, publication.payload, publication.qos)
        for effect in self.perform(self.engine.operator.publish(client_id, message, self.now())):
            if isinstance(effect, Dropped) and effect.reason in _WHY_DROPPED:
                raise CannotError(f"not sent: {_WHY_DROPPED[effect.reason]}")
        return self._whereabouts(client_id)

    def permit(self, minutes: float) -> str:
        if not self.is_listed_only:
            raise CannotError('all sensors may come in: admission.permit is "all"')
        self.engine.operator.permit(self.now() + 60 * minutes)
        if not minutes:
            return "only listed sensors may come in from now on, and those that were let in"
        return f"new sensors may come in for {duration(60 * minutes)}"

    def join(self, seconds: int) -> str:
        if not self.is_listed_only:
            raise CannotError('all sensors may come in: admission.permit is "all"')
        self.engine.operator.open_joining(self.now() + seconds)
        if not seconds:
            return "no new sensor may join from now on; those that wait go on waiting"
        return f"new sensors may join for {duration(seconds)}, and wait for your approval"

    def approve(self, client_id: str) -> str:
        known = self._waiting(client_id)
        self.perform(self.engine.operator.approve(known))
        return "approved: it may come in from now on, and do what the rules of access allow"

    def reject(self, client_id: str) -> str:
        known = self._waiting(client_id)
        self.perform(self.engine.operator.forget(known, self.now()))
        self.latest.forget(known)
        return "rejected: it is gone, and may ask again when joining is open"

    def _waiting(self, client_id: str) -> ClientId:
        if client_id not in self.engine.operator.waiting:
            raise CannotError(f"no sensor {client_id!r} waits for approval")
        return ClientId(client_id)

    def send_aside(self, numbers: Sequence[int] | None) -> str:
        aside = self.engine.uplink.aside
        chosen = list(aside.records) if numbers is None else numbers
        sent = [one for one in chosen if self._send_aside(one)]
        if not sent:
            raise CannotError(_none_of(numbers))
        return f"{_counted(len(sent))} on the way to the broker once more, and leave this list then"

    def _send_aside(self, number: int) -> bool:
        outputs = self.engine.operator.send_aside(number, self.now())
        if outputs is None:
            return False
        self.perform(outputs)
        return True

    def delete_aside(self, numbers: Sequence[int] | None) -> str:
        aside = self.engine.uplink.aside
        chosen = list(aside.records) if numbers is None else numbers
        there = [one for one in dict.fromkeys(chosen) if one in aside.records]
        if not there:
            raise CannotError(_none_of(numbers))
        self.perform(self.engine.operator.delete_aside(there))
        return f"{_counted(len(there))} deleted"

    async def release(self, line: str, minutes: float) -> str:
        """Let another program have a serial port for a while."""
        found = await self.line_named(line)
        if found is None:
            raise CannotError(f"no serial line {line!r}: `tidegate serial` lists them")
        if not minutes and found.released_s is None:
            raise CannotError(f"{found.port} is not released")
        is_free = await found.release(60 * minutes)
        if not minutes:
            return f"{found.port} is opened again"
        if not is_free:
            raise CannotError(f"{found.port} is still being closed: try it in half a minute")
        return f"{found.port} is free for {duration(60 * minutes)}, then it is opened again"

    def _whereabouts(self, client_id: ClientId) -> str:
        session = self.engine.sessions[client_id]
        if session.state in LISTENING:
            return "on its way"
        if session.state is State.ASLEEP:
            return "waits until it wakes up"
        return "waits until it connects again"


def _counted(count: int) -> str:
    return "1 reading is" if count == 1 else f"{count} readings are"


def _none_of(numbers: Sequence[int] | None) -> str:
    return "nothing is set aside" if numbers is None else "none of these is set aside"


def _unknown(client_id: str) -> CannotError:
    return CannotError(f"no sensor {client_id!r} is known, or not any more")
