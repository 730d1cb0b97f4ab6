"""The door of the gateway: strangers, clients that connect, and sessions that end.

Whoever is not known may connect, look for gateways, or publish at QoS -1; all else is answered
with DISCONNECT. A session begins here, takes the place of another one here, and ends here.

Limits: those of `routing/admission.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.downlink import Downlink
from gateway.effects import ClientId, Dropped, Effect, Peer, Reason, Send
from gateway.frames import (
    Advertise,
    Connack,
    Connect,
    Disconnect,
    Frame,
    GwInfo,
    Publish,
    SearchGw,
)
from gateway.routing.admission import Admission, Refusal
from gateway.routing.connectionless import Connectionless
from gateway.routing.discovery import Discovery
from gateway.routing.members import Members
from gateway.rules import EngineRules
from gateway.session.session import Session

# What a stranger may say without hearing DISCONNECT: what is meant for other searchers.
_UNANSWERED: tuple[type, ...] = (GwInfo, Advertise)


class Door:
    def __init__(
        self,
        rules: EngineRules,
        members: Members,
        downlink: Downlink,
        perform: Callable[[list[Effect], float], list[Effect]],
        answer: Callable[[Session, list[Effect], float], list[Effect]],
        received: dict[type, int],
    ) -> None:
        """`answer` is `perform` that withholds what waits for the disk; `received` counts frames
        by kind.
        """
        self._rules = rules
        self._members = members
        self._sessions = members.sessions
        self._downlink = downlink
        self._perform = perform
        self._answer = answer
        self._admission = Admission(rules.admission)
        self.discovery = Discovery(rules.discovery, self._admission.may_answer_stranger, received)
        self._connectionless = Connectionless(rules.connectionless, rules.session, rules.predefined)

    def receive(
        self, frame: Frame, peer: Peer, session: Session | None, now: float
    ) -> list[Effect]:
        """CONNECT and SEARCHGW from anyone, or any frame from an address that no client has."""
        if isinstance(frame, Connect):
            return self._receive_connect(frame, peer, session, now)
        if isinstance(frame, SearchGw):
            if session is not None:
                session.heard_at = now
            return self.discovery.search(peer, now)
        dropped = Dropped(Reason.STRANGER, None, type(frame).__name__.upper(), peer)
        if isinstance(frame, _UNANSWERED) or not self._admission.may_answer_stranger(now):
            return [dropped]
        return [dropped, Send(peer, Disconnect())]

    def _receive_connect(
        self, frame: Connect, peer: Peer, at_address: Session | None, now: float
    ) -> list[Effect]:
        client_id = self._admission.client_id_of(frame, self._sessions)
        if isinstance(client_id, Refusal):
            return _turned_away(client_id, peer)
        session = self._sessions.get(client_id)
        effects: list[Effect] = []
        refusal = self._admission.judge(frame, len(self._sessions), known=session is not None)
        if refusal is not None and refusal.reason is Reason.CLIENTS_FULL:
            effects = self._make_room(now)
        if refusal is not None and not effects:
            return _turned_away(refusal, peer)
        if at_address is not None and at_address is not session:
            effects += self._perform(at_address.displace(), now)
        ended: list[Effect] = []
        former = session
        if session is not None:
            self._members.leave_address(session)
            if frame.clean_session:
                ended = self.discard(session, now)
                session = None
        if session is None:
            session = self._sessions[client_id] = self._successor(client_id, peer, former)
        effects += self._answer(session, [*ended, *session.connect(frame, peer, now)], now)
        self._members.enter(session)
        self._members.schedule(session)
        return effects

    def receive_connectionless(
        self, frame: Publish, peer: Peer, session: Session | None, now: float
    ) -> list[Effect]:
        client_id = None
        if session is not None:
            session.heard_at = now
            client_id = session.client_id
        return self._perform([self._connectionless.receive(frame, peer, client_id, now)], now)

    def _successor(self, client_id: ClientId, peer: Peer, former: Session | None) -> Session:
        """A new session, with numbers behind those of the one that it takes the place of."""
        if former is None:
            return self.new_session(client_id, peer)
        next_position = former.delivering.next_position
        return self.new_session(client_id, peer, former.next_topic_id, next_position)

    def new_session(
        self,
        client_id: ClientId,
        peer: Peer,
        first_topic_id: int | None = None,
        first_position: int = 0,
    ) -> Session:
        rules = self._rules
        if first_topic_id is None:
            first_topic_id = rules.first_topic_id
        predefined = rules.clients_predefined.get(client_id, rules.predefined)
        return Session(client_id, peer, rules.session, predefined, first_topic_id, first_position)

    def _make_room(self, now: float) -> list[Effect]:
        """End the session of the client that has been absent the longest, if that is long."""
        absent = self._members.longest_absent()
        if absent is None or now - absent[1] < self._rules.admission.absent_s_min:
            return []
        session, left_at = absent
        detail = f"absent for {(now - left_at) / 3600:.0f} h, and its place is needed"
        dropped = Dropped(Reason.SESSION_ENDED, session.client_id, detail, count=0)
        return [dropped, *self.discard(session, now)]

    def discard(self, session: Session, now: float) -> list[Effect]:
        """The session is over; the engine forgets it."""
        effects = self._perform([*self._downlink.forget(session), *session.end()], now)
        self._members.forget(session)
        return effects


def _turned_away(refusal: Refusal, peer: Peer) -> list[Effect]:
    dropped = Dropped(refusal.reason, None, refusal.detail, peer)
    return [dropped, Send(peer, Connack(refusal.return_code))]
