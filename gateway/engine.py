"""The gateway as a value: every input in, every effect out, no I/O.

The engine knows which session a datagram belongs to, hands it there, and does what the session's
effects ask of the rest of the core: readings to the upstream session, subscriptions to the
downlink. What remains in the list it returns is for the shell, in order.

Addresses are compared raw, per link, so that finding a session costs two dictionary lookups. All
timers are in one heap: a session's entry may be early (hearing a client only moves its deadline
away), never late. Entries that nearer ones replaced stay until they are due or too many.

Limits: clients and answers to strangers in `routing/admission.py`, the rest where it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any

from gateway.downlink import Downlink
from gateway.effects import (
    Arrived,
    ClientId,
    Dropped,
    Effect,
    Forward,
    Granted,
    Peer,
    Reason,
    Refused,
    Send,
    Settled,
    State,
    StateChanged,
    SubscribeTo,
    SubscriptionRefused,
    Transmit,
    UnsubscribeFrom,
    UpstreamUp,
)
from gateway.frames import (
    Advertise,
    Connack,
    Connect,
    Disconnect,
    Frame,
    GwInfo,
    MalformedFrame,
    Publish,
    SearchGw,
    decode,
    has_trailing_octets,
)
from gateway.routing.admission import Admission, AdmissionRules, Refusal
from gateway.routing.connectionless import Connectionless, ConnectionlessRules
from gateway.routing.retained import Retained
from gateway.session.rules import PredefinedTopics, SessionRules
from gateway.session.session import Session
from gateway.session.topic_registry import TOPIC_ID_MIN
from gateway.upstream.rules import UpstreamRules
from gateway.upstream.session import UpstreamSession

TIMERS_SPARE = 64  # entries beyond two for each session, so that few sessions do not rebuild often

Datagrams = Iterable[tuple[bytes, bytes]]

# What a stranger may say without hearing DISCONNECT: discovery, and what gateways say.
_UNANSWERED: tuple[type, ...] = (SearchGw, GwInfo, Advertise)


@dataclass(frozen=True, slots=True)
class EngineRules:
    upstream: UpstreamRules
    session: SessionRules = field(default_factory=SessionRules)
    admission: AdmissionRules = field(default_factory=AdmissionRules)
    connectionless: ConnectionlessRules = field(default_factory=ConnectionlessRules)
    predefined: PredefinedTopics = field(default_factory=PredefinedTopics)
    clients_predefined: Mapping[str, PredefinedTopics] = field(default_factory=dict)
    retained_messages_max: int = 10_000
    retained_bytes_max: int = 16 << 20
    allow_trailing_octets: bool = True
    first_topic_id: int = TOPIC_ID_MIN


class Engine:
    def __init__(self, rules: EngineRules) -> None:
        self.sessions: dict[ClientId, Session] = {}
        self.upstream = UpstreamSession(rules.upstream)
        self.received: dict[type, int] = {}  # frames, by kind
        self.forwarded = [0, 0, 0]  # readings taken on, by QoS
        self._rules = rules
        self._members: dict[int, dict[bytes, Session]] = {}  # by link and address
        self._absent: dict[ClientId, float] = {}  # since when; the longest absent first
        self._admission = Admission(rules.admission)
        self._connectionless = Connectionless(rules.connectionless, rules.session, rules.predefined)
        retained = Retained(rules.retained_messages_max, rules.retained_bytes_max)
        self.downlink = Downlink(
            self.sessions, self.upstream, retained, rules.session, self._schedule
        )
        self._timers: list[tuple[float, int, Session]] = []
        self._timers_made = 0

    # From the sensors

    def receive(self, link: int, datagrams: Datagrams, now: float) -> list[Effect]:
        """All that one look at a link brought, as (address, datagram) pairs."""
        effects: list[Effect] = []
        members = self._members.setdefault(link, {})
        received = self.received
        for address, datagram in datagrams:
            try:
                frame = decode(datagram)
            except MalformedFrame as error:
                effects.append(self._malformed(link, address, error))
                continue
            if datagram[0] != len(datagram) and has_trailing_octets(datagram):
                effects.append(Dropped(Reason.TRAILING_OCTETS, peer=Peer(link, address)))
                if not self._rules.allow_trailing_octets:
                    continue
            kind = type(frame)
            received[kind] = received.get(kind, 0) + 1
            session = members.get(address)
            if type(frame) is Publish and frame.qos < 0:
                effects += self._receive_connectionless(frame, Peer(link, address), session, now)
            elif session is None or kind is Connect:
                effects += self._receive_at_the_door(frame, Peer(link, address), session, now)
            elif kind is Publish:  # moves no timer nearer
                effects += self._perform(session.receive(frame, now), now)
            else:
                effects += self._perform(session.receive(frame, now), now)
                self._schedule(session)
        return effects

    # From the broker

    def opened(self, now: float) -> list[Effect]:
        """The connection to the broker is there."""
        return self.upstream.opened(now)

    def receive_upstream(self, data: bytes, now: float) -> list[Effect]:
        """Octets from the broker, cut anywhere."""
        effects: list[Effect] = []
        sessions = self.sessions
        for effect in self.upstream.receive(data, now):
            if type(effect) is Settled:  # nearly all there are, so they take no detour
                session = sessions.get(effect.forward.client_id)
                if session is not None:
                    effects += session.settled(effect.forward)
            elif type(effect) is Transmit:
                effects.append(effect)
            else:
                effects += self._perform([effect], now)
        return effects

    def closed(self, now: float) -> list[Effect]:
        """The connection to the broker is gone."""
        self.upstream.closed()
        return self.downlink.closed(now)

    def set_clogged(self, *, is_clogged: bool) -> None:
        """Say whether what was to be transmitted piles up in the shell."""
        self.upstream.readings.is_clogged = is_clogged

    def set_wall_clock(self, unix_ms_at_zero: float) -> None:
        """Unix milliseconds at the zero of the monotonic clock, for the time stamps of readings."""
        self.upstream.readings.unix_ms_at_zero = unix_ms_at_zero

    def stop(self, _now: float) -> list[Effect]:
        """Say goodbye to the broker."""
        return self.upstream.stop()

    # Time

    def wake_at(self) -> float:
        """When `handle_time` is due, in the core's seconds; infinity for never."""
        earliest = min(self.upstream.wake_at(), self.downlink.wake_at())
        return min(earliest, self._timers[0][0]) if self._timers else earliest

    def handle_time(self, now: float) -> list[Effect]:
        effects = self.upstream.handle_time(now)
        self.downlink.handle_time(now)
        while self._timers and self._timers[0][0] <= now:
            due_at, _, session = heappop(self._timers)
            if session.scheduled_at != due_at:
                continue  # an entry that a nearer one replaced
            session.scheduled_at = inf
            effects += self._perform(session.handle_time(now), now)
            self._schedule(session)
        return effects

    # What sessions and the upstream session ask for

    def _perform(self, asked: list[Effect], now: float) -> list[Effect]:
        """Do what concerns the core; the rest is for the shell, in order."""
        if len(asked) == 1 and type(asked[0]) is Forward:  # most of all there are
            return self._forward(asked[0], now)
        effects: list[Effect] = []
        for effect in asked:
            performer = _PERFORMERS.get(type(effect))
            if performer is None:
                effects.append(effect)
            else:
                effects += performer(self, effect, now)
        return effects

    def _forward(self, forward: Forward, now: float) -> list[Effect]:
        self.forwarded[forward.qos] += 1
        sent = self.upstream.readings.publish(forward)
        if sent is None:
            return []
        return [sent] if type(sent) is Transmit else self._perform([sent], now)

    def _refused(self, news: Refused, _now: float) -> list[Effect]:
        client_id = news.forward.client_id
        dropped = Dropped(news.reason, client_id, news.detail)
        session = self.sessions.get(client_id)
        if session is None:
            return [dropped]
        return [dropped, *session.refused(news.forward, news.return_code)]

    def _state_changed(self, news: StateChanged, now: float) -> list[Effect]:
        """A client that left has no address; a clean session ends with its connection."""
        if news.after not in (State.DISCONNECTED, State.LOST):
            return [news]
        session = self.sessions[news.client_id]
        self._leave_address(session)
        if session.clean:
            return [news, *self._discard(session, now)]
        self._absent[session.client_id] = now
        return [news]

    def _up(self, news: UpstreamUp, now: float) -> list[Effect]:
        self.downlink.opened(now)
        return [news]

    # At the door

    def _receive_at_the_door(
        self, frame: Frame, peer: Peer, session: Session | None, now: float
    ) -> list[Effect]:
        """CONNECT from anyone, or any frame from an address that no client has."""
        if isinstance(frame, Connect):
            return self._receive_connect(frame, peer, session, now)
        dropped = Dropped(Reason.STRANGER, None, type(frame).__name__.upper(), peer)
        if isinstance(frame, _UNANSWERED) or not self._admission.may_answer_stranger(now):
            return [dropped]
        return [dropped, Send(peer, Disconnect())]

    def _receive_connect(
        self, frame: Connect, peer: Peer, at_address: Session | None, now: float
    ) -> list[Effect]:
        client_id = self._admission.client_id_of(frame, self.sessions)
        if isinstance(client_id, Refusal):
            return _turned_away(client_id, peer)
        session = self.sessions.get(client_id)
        effects: list[Effect] = []
        refusal = self._admission.judge(frame, len(self.sessions), known=session is not None)
        if refusal is not None and refusal.reason is Reason.CLIENTS_FULL:
            effects = self._make_room(now)
        if refusal is not None and not effects:
            return _turned_away(refusal, peer)
        self._absent.pop(client_id, None)
        if at_address is not None and at_address is not session:
            effects += self._perform(at_address.displace(), now)
        first_topic_id = self._rules.first_topic_id
        if session is not None:
            self._leave_address(session)
            if frame.clean_session:
                first_topic_id = session.next_topic_id
                effects += self._discard(session, now)
                session = None
        if session is None:
            session = self.sessions[client_id] = self._new_session(client_id, peer, first_topic_id)
        self._members.setdefault(peer.link, {})[peer.address] = session
        effects += self._perform(session.connect(frame, peer, now), now)
        self._schedule(session)
        return effects

    def _receive_connectionless(
        self, frame: Publish, peer: Peer, session: Session | None, now: float
    ) -> list[Effect]:
        client_id = None
        if session is not None:
            session.heard_at = now
            client_id = session.client_id
        return self._perform([self._connectionless.receive(frame, peer, client_id, now)], now)

    def _new_session(self, client_id: ClientId, peer: Peer, first_topic_id: int) -> Session:
        predefined = self._rules.clients_predefined.get(client_id, self._rules.predefined)
        return Session(client_id, peer, self._rules.session, predefined, first_topic_id)

    def _make_room(self, now: float) -> list[Effect]:
        """End the session of the client that has been absent the longest, if that is long."""
        for client_id, left_at in self._absent.items():
            if now - left_at < self._rules.admission.absent_s_min:
                break
            detail = f"absent for {(now - left_at) / 3600:.0f} h, and its place is needed"
            dropped = Dropped(Reason.SESSION_ENDED, client_id, detail, count=0)
            return [dropped, *self._discard(self.sessions[client_id], now)]
        return []

    def _leave_address(self, session: Session) -> None:
        members = self._members[session.peer.link]
        if members.get(session.peer.address) is session:
            del members[session.peer.address]

    def _discard(self, session: Session, now: float) -> list[Effect]:
        """The session is over; the engine forgets it."""
        effects = self.downlink.forget(session) + self._perform(session.end(), now)
        del self.sessions[session.client_id]
        self._absent.pop(session.client_id, None)
        session.scheduled_at = inf
        return effects

    def _malformed(self, link: int, address: bytes, error: MalformedFrame) -> Dropped:
        return Dropped(Reason.MALFORMED, None, str(error), Peer(link, address))

    # Timers

    def _schedule(self, session: Session) -> None:
        """Note when the session wants time next, if that is sooner than what is noted already."""
        wake_at = session.wake_at()
        if wake_at < session.scheduled_at:
            session.scheduled_at = wake_at
            self._timers_made += 1
            heappush(self._timers, (wake_at, self._timers_made, session))
            if len(self._timers) > 2 * len(self.sessions) + TIMERS_SPARE:
                self._rebuild_timers()

    def _rebuild_timers(self) -> None:
        """Leave out the entries that nearer ones replaced, and those of sessions that are over."""
        scheduled = [each for each in self.sessions.values() if each.scheduled_at < inf]
        self._timers = [(each.scheduled_at, n, each) for n, each in enumerate(scheduled)]
        heapify(self._timers)


def _turned_away(refusal: Refusal, peer: Peer) -> list[Effect]:
    dropped = Dropped(refusal.reason, None, refusal.detail, peer)
    return [dropped, Send(peer, Connack(refusal.return_code))]


def _subscribe(engine: Engine, effect: SubscribeTo, now: float) -> list[Effect]:
    return engine.downlink.subscribe(effect, now)


def _unsubscribe(engine: Engine, effect: UnsubscribeFrom, _now: float) -> list[Effect]:
    return engine.downlink.unsubscribe(effect)


def _arrived(engine: Engine, effect: Arrived, now: float) -> list[Effect]:
    return engine.downlink.arrived(effect, now)


def _granted(engine: Engine, effect: Granted, now: float) -> list[Effect]:
    return engine.downlink.granted(effect, now)


def _subscription_refused(engine: Engine, effect: SubscriptionRefused, _now: float) -> list[Effect]:
    return engine.downlink.refused(effect)


_PERFORMERS: dict[type, Callable[[Engine, Any, float], list[Effect]]] = {
    Forward: Engine._forward,
    Refused: Engine._refused,
    StateChanged: Engine._state_changed,
    UpstreamUp: Engine._up,
    SubscribeTo: _subscribe,
    UnsubscribeFrom: _unsubscribe,
    Arrived: _arrived,
    Granted: _granted,
    SubscriptionRefused: _subscription_refused,
}
