"""The door of the gateway: unknown peers, clients that connect, and sessions that end.

An unknown peer may connect, look for gateways, or publish at QoS -1; all else is answered
with DISCONNECT. A session begins here, takes the place of another one here, and ends here.

Anyone can send CONNECT in the name of any address. So a new client is a caller until its second
frame (`clients/half_open.py`), and one that is known and comes from another address is in doubt
there (`session/lifecycle.py`). CONNACK to a caller waits for no disk, not even if its
session is to stay: there is nothing in it yet, and what it is promised later waits for its row.

Limits: those of `clients/admission.py` and `clients/half_open.py`.
"""

from __future__ import annotations

from math import inf

from gateway.core.clients.admission import Admission, Refusal
from gateway.core.clients.client_table import ClientTable
from gateway.core.clients.contests import Contest, Contests
from gateway.core.clients.disconnect_echo import DisconnectEchoes
from gateway.core.clients.discovery import Discovery
from gateway.core.clients.former_topics import FormerTopics
from gateway.core.clients.half_open import HalfOpenClient, HalfOpenClients
from gateway.core.clients.message_id_starts import MessageIdStarts
from gateway.core.clients.qos_minus_one import QosMinusOne
from gateway.core.clients.shared_ids import SharedIds
from gateway.core.downlink.downlink import Downlink
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Rebound, Send
from gateway.core.events import FormerOutput, Output, SessionOutput, UnsubscribeFrom
from gateway.core.options import EngineOptions
from gateway.core.session.outbound import AHEAD_MAX
from gateway.core.session.session import ABSENT, Session
from gateway.core.state_records import ClientId, State
from gateway.core.values import Peer
from gateway.frames import (
    Advertise,
    Connack,
    Connect,
    Disconnect,
    Frame,
    GwInfo,
    Pingreq,
    Publish,
    ReturnCode,
    SearchGw,
    Suback,
    Unsuback,
    WillMsgReq,
    WillMsgResp,
    WillTopicReq,
    WillTopicResp,
)

# What an unknown peer may say without receiving DISCONNECT: what only gateways say. Who says that
# is no client, and two gateways must not talk to each other for ever.
_UNANSWERED: tuple[type, ...] = (
    GwInfo,
    Advertise,
    Connack,
    WillTopicReq,
    WillMsgReq,
    Suback,
    Unsuback,
    WillTopicResp,
    WillMsgResp,
)
PINGREQ_HEAD_BYTES = 2
# A former session and the one beside it have messages at the same time, and no position twice.
POSITIONS_APART = 1 << 20
_NOT_BOUND = "its client id is bound to another identity"
_NOT_REBOUND = "PINGREQ of a client that sleeps elsewhere; see mqtt_sn.rebind_sleepers"


class Acceptor:
    def __init__(
        self,
        *,
        options: EngineOptions,
        client_table: ClientTable,
        downlink: Downlink,
        received: dict[type, int],
    ) -> None:
        """`received` counts frames by kind."""
        self._options = options
        self._client_table = client_table
        self._sessions = client_table.sessions
        self._downlink = downlink
        self._access = options.session.access
        self.admission = Admission(options.admission, client_table.sessions, self._access)
        self.discovery = Discovery(options.discovery, self.admission, received)
        self.half_open = HalfOpenClients(
            callers_max=options.admission.callers_max,
            handshakes_max=options.admission.handshakes_max,
            handshake_s=options.session.patience_s,
            host_of=options.host_of,
        )
        self.contests = Contests()
        self.former_topics = FormerTopics()
        self._message_id_starts = MessageIdStarts(options.message_id_secret)
        self.shared_ids = SharedIds()
        self._disconnect_echoes = DisconnectEchoes()
        self._qos_minus_one = QosMinusOne(
            options.qos_minus_one, options.session, options.predefined
        )

    def receive(
        self, frame: Frame, peer: Peer, session: Session | None, now: float
    ) -> list[Output]:
        """CONNECT and SEARCHGW from anyone, or any frame from an address that no client has."""
        if isinstance(frame, Connect):
            return self._receive_connect(frame, peer, session, now)
        if isinstance(frame, SearchGw):
            if session is not None:
                session.last_received_at = now
            return self.discovery.search(peer, now)
        dropped = Dropped(
            reason=Reason.STRANGER, client_id=None, detail=type(frame).__name__.upper(), peer=peer
        )
        if isinstance(frame, _UNANSWERED):  # to everyone, so it shows nothing either
            return [dropped]
        known = self._client_table.unvalidated_at(peer) or self.contests.former_at(peer)
        if known is not None:
            return self._receive_known(known, frame, peer, now)
        caller = self.half_open.take(peer, now)
        if caller is not None:
            return self._receive_caller(caller, frame, now)
        sleeper = self._sleeper(frame)
        if sleeper is not None:
            dropped = Dropped(
                reason=Reason.STRANGER, client_id=sleeper.client_id, detail=_NOT_REBOUND, peer=peer
            )
            not_bound = self._not_bound(sleeper.client_id, peer)
            if not_bound is not None:
                dropped = Dropped(Reason.NOT_BOUND, None, f"PINGREQ: {not_bound}", peer)
            elif self._may_rebind(sleeper, peer, now):
                return self._rebind(sleeper, frame, peer, now)
        return [dropped, *self._disconnect_unknown(frame, peer, now)]

    def _disconnect_unknown(self, frame: Frame, peer: Peer, now: float) -> list[Output]:
        """What an unknown peer hears, if anything: that it is none of ours."""
        if isinstance(frame, Disconnect) and self._disconnect_echoes.is_echo(peer, now):
            return []
        if not self.admission.may_answer_unknown(now):
            return []
        self._disconnect_echoes.sent(peer, now)
        return [_disconnect(peer)]

    def _receive_connect(
        self, frame: Connect, peer: Peer, at_address: Session | None, now: float
    ) -> list[Output]:
        client_id = self.admission.client_id_of(frame, self._sessions)
        if isinstance(client_id, Refusal):
            return _turned_away(client_id, peer)
        not_bound = self._not_bound(client_id, peer)
        if not_bound is not None:
            refused = Refusal(ReturnCode.NOT_SUPPORTED, Reason.NOT_BOUND, f"CONNECT: {not_bound}")
            return _turned_away(refused, peer)
        session = self._sessions.get(client_id)
        refusal = None
        if session is None:
            refusal = self.admission.unlisted(client_id, now)
            refusal = refusal or self._client_table.hosts.refusal(peer)
        refusal = refusal or self._downgrade(client_id, session, peer)
        refusal = refusal or self.admission.judge(
            frame, len(self._sessions), known=session is not None
        )
        if refusal is not None and self._gives_way_to(peer, refusal, now) is None:
            return _turned_away(refusal, peer)
        effects: list[Output] = []
        if at_address is None:
            at_address = self._client_table.unvalidated_at(peer)
        if at_address is not None and at_address is not session:
            effects += at_address.displace()
        effects += self._displace_former(client_id, peer)
        if session is not None and self._sender(peer) and not self._sender(session.peer):
            why = "its client sends protected packets from now on"
            effects += self._end(Dropped(Reason.SESSION_ENDED, client_id, why, count=0))
            session = None
        if session is None:
            return effects + self._welcome_caller(frame, client_id, peer, now)
        return effects + self._connect_again(frame, session, peer, now)

    def may_be_at(self, peer: Peer) -> bool:
        """Whether who is there protects its packets, where all must."""
        protection = self._options.protection
        return (
            protection is None or not protection.is_required(peer.link) or bool(self._sender(peer))
        )

    def _sender(self, peer: Peer) -> bytes:
        """The sender id of a protected peer; empty for others."""
        protection = self._options.protection
        return b"" if protection is None else protection.sender_of(peer.link, peer.address)

    def _downgrade(
        self, client_id: ClientId, session: Session | None, peer: Peer
    ) -> Refusal | None:
        """Who has protected its packets is that sender, and no other one, however it connects."""
        if self._options.protection is None:
            return None
        caller = self.half_open.of(client_id)
        known = session.peer if session is not None else None if caller is None else caller.peer
        owner = b"" if known is None else self._sender(known)
        if not owner or owner == self._sender(peer):
            return None
        detail = f"client id {client_id!r} is that of the sender {owner.hex()}"
        return Refusal(ReturnCode.NOT_SUPPORTED, Reason.UNPROTECTED, detail)

    def _connect_again(
        self, frame: Connect, session: Session, peer: Peer, now: float
    ) -> list[Output]:
        """CONNECT in the name of a client that has a session."""
        client_id = session.client_id
        effects: list[Output] = []
        if peer != session.peer:
            effects += self.shared_ids.moved(client_id, session.peer, peer, now)
        contest = self.contests.of(client_id)
        begins = frame.clean_session and not session.is_blank
        latest = session
        if contest is not None and (peer != session.peer or begins):
            effects += self._dismiss(contest, "another CONNECT")
            session = contest.former
        self.half_open.take(peer, now)
        self._client_table.leave_address(session)
        ended: list[Output] = []
        takes_over = peer == session.peer or self._access.is_proven(client_id, peer)
        if frame.clean_session and not session.is_blank:
            ended, session = self._begin_anew(session, contest, takes_over=takes_over)
        elif not takes_over and not session.is_newcomer and self.contests.may_begin(session):
            ended, session = self._continue(session, latest, contest)
        outputs = [*ended, *session.connect(frame, peer, now)]
        self._client_table.enter(session)
        return [*effects, SessionOutput(client_id, outputs)]

    def _welcome_caller(
        self, frame: Connect, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        keep_alive_s, clean, will = frame.duration_s, frame.clean_session, frame.will
        caller = HalfOpenClient(
            client_id=client_id,
            peer=peer,
            keep_alive_s=keep_alive_s,
            clean=clean,
            will=will,
            at=now,
        )
        answer = WillTopicReq() if will else Connack(ReturnCode.ACCEPTED)
        return [*self.half_open.enter(caller, now), Send(peer, answer)]

    def _receive_caller(self, caller: HalfOpenClient, frame: Frame, now: float) -> list[Output]:
        """The second frame of a new client, which makes it one."""
        client_id, peer = caller.client_id, caller.peer
        effects: list[Output] = []
        refusal = self._client_table.hosts.refusal(peer)
        refusal = refusal or self.admission.judge(
            caller.connect(), len(self._sessions), known=False
        )
        if refusal is not None:
            gives_way = self._gives_way_to(peer, refusal, now)
            if gives_way is None:
                return [
                    Dropped(
                        reason=refusal.reason, client_id=client_id, detail=refusal.detail, peer=peer
                    ),
                    _disconnect(peer),
                ]
            effects += self._end(gives_way)
        session = self._sessions[client_id] = self.new_session(client_id, peer)
        self._client_table.enter(session)
        effects += self.admission.came_in(client_id, peer, caller.at)
        effects += session.connect_received(caller.connect(), caller.at)
        return [*effects, SessionOutput(client_id, session.receive(frame, now))]

    def _receive_known(
        self, session: Session, frame: Frame, peer: Peer, now: float
    ) -> list[Output]:
        """A frame from where a client is said to be, or was."""
        if session.is_newcomer:
            return self._receive_newcomer(session, frame, now)
        if self.contests.former_at(peer) is session:
            return self._receive_former(session, frame, now)
        return self._receive_unvalidated(session, frame, now)

    def _receive_unvalidated(self, session: Session, frame: Frame, now: float) -> list[Output]:
        """A frame from where a client is said to be."""
        if isinstance(frame, Pingreq) and frame.client_id:
            outputs = _said_again(session, frame, now)
        else:
            self._client_table.leave_address(session)
            outputs = session.address_validated(frame, now)
            if session.state not in ABSENT:
                self._client_table.enter(session)
        return [SessionOutput(session.client_id, outputs)]

    # Who may use which client id

    def _not_bound(self, client_id: ClientId, peer: Peer) -> str | None:
        """Why who is there may not use this client id, if so."""
        if not self._access.refuses_client_id(client_id, peer):
            return None
        return f"{client_id!r} is not for {self._access.identity_of(peer.link, peer.address)}"

    def end_foreign(self) -> list[Output]:
        """Bindings are others now. Who is where its client id may not be used any more is gone, but
        not lost, and hears so: what waits for the client is for its own device.
        """
        callers = [each.client_id for each in self.half_open]
        found = dict.fromkeys([*callers, *self._sessions])
        return [output for each in found for output in self._end_foreign(each)]

    def end_foreign_at(self, peer: Peer) -> list[Output]:
        """The same of one address, where another identity is now."""
        there = [
            self._client_table.on_link(peer.link).get(peer.address),
            self._client_table.unvalidated_at(peer),
            self.contests.former_at(peer),
            self.half_open.at(peer),
        ]
        found = dict.fromkeys(each.client_id for each in there if each is not None)
        return [output for each in found for output in self._end_foreign(each)]

    def _end_foreign(self, client_id: ClientId) -> list[Output]:
        caller, session = self.half_open.of(client_id), self._sessions.get(client_id)
        outputs: list[Output] = []
        if caller is not None and self._access.is_foreign(client_id, caller.peer):
            self.half_open.forget(client_id)
            outputs += self._told_not_bound(client_id, caller.peer)
        contest = self.contests.of(client_id)
        if contest is not None:
            newcomer, former = contest.newcomer, contest.former
            if self._access.is_foreign(client_id, newcomer.peer):
                outputs += self._told_not_bound(client_id, newcomer.peer)
                before, session = newcomer.state, former
                outputs += self._dismiss(contest, _NOT_BOUND)
                if before is not former.state:
                    outputs.append(contest.returned(before, _NOT_BOUND))
            elif former.state not in ABSENT and self._access.is_foreign(client_id, former.peer):
                outputs += self._told_not_bound(client_id, former.peer)
                self.contests.leave_address(former)
                outputs.append(FormerOutput(client_id, former.displace(_NOT_BOUND)))
        if session is None or session.is_newcomer or session.state in ABSENT:
            return outputs
        if self._access.is_foreign(client_id, session.peer):
            outputs += self._told_not_bound(client_id, session.peer)
            outputs.append(SessionOutput(client_id, session.displace(_NOT_BOUND)))
        return outputs

    def _told_not_bound(self, client_id: ClientId, peer: Peer) -> list[Output]:
        return [
            Dropped(Reason.NOT_BOUND, client_id, self._not_bound(client_id, peer) or "", peer),
            _disconnect(peer),
        ]

    # Two conversations in one client's name

    def _displace_former(self, client_id: ClientId, peer: Peer) -> list[Output]:
        """This client comes to where another one's former session was."""
        former = self.contests.former_at(peer)
        if former is None or former.client_id == client_id:
            return []
        self.contests.leave_address(former)
        return [FormerOutput(former.client_id, former.displace())]

    def _begin_anew(
        self, former: Session, before: Contest | None, *, takes_over: bool
    ) -> tuple[list[Output], Session]:
        """A clean session for a known client, in place of the former one or, as long as it is not
        known who says that, beside it. `before`: the contest that has just ended.
        """
        client_id = former.client_id
        if takes_over:
            ended = self.discard(former)
            successor = self._sessions[client_id] = self._successor(former)
            return ended, successor
        return self._begin_beside(former, before)

    def _begin_beside(
        self, former: Session, before: Contest | None, *, is_continued: bool = False
    ) -> tuple[list[Output], Session]:
        """A session for what is said in the client's name elsewhere."""
        client_id = former.client_id
        held = self._downlink.hold(former)
        former.held = ()  # its client is told again when it asks again
        newcomer = self._sessions[client_id] = self._successor(
            former, POSITIONS_APART, former if is_continued else None
        )
        self._client_table.formers[client_id] = former
        self.contests.begin(former, newcomer, before)
        return held, newcomer

    def _continue(
        self, former: Session, latest: Session, before: Contest | None
    ) -> tuple[list[Output], Session]:
        """The client is said to go on elsewhere with what it has; `latest`: what it did last."""
        held, newcomer = self._begin_beside(former, before, is_continued=True)
        newcomer.continue_from(former, latest)
        self._downlink.continue_from(former, newcomer)
        return held, newcomer

    def _receive_newcomer(self, session: Session, frame: Frame, now: float) -> list[Output]:
        """A frame of one that connected in another one's name, or returned to another address."""
        contest = self.contests.of(session.client_id)
        assert contest is not None, "it is a newcomer"
        answers = session.outbound.answers(frame)
        if not self.contests.judge(contest, answers, now):
            session.last_received_at = now
            if answers:
                session.outbound.wait_on(now)
            kind = type(frame).__name__.upper()
            return [Dropped(Reason.UNPROVEN, session.client_id, f"{kind} as a guess", session.peer)]
        if session.is_address_validated:
            outputs = session.receive(frame, now)
        elif isinstance(frame, Pingreq) and frame.client_id:
            outputs = _said_again(session, frame, now)
        else:
            outputs = session.address_validated(frame, now)
        received: list[Output] = [SessionOutput(session.client_id, outputs)]
        if contest.is_proven and (session.is_continued or not session.asking()):
            received += self._succeed(contest, "who connected elsewhere has shown that it is there")
        return received

    def _receive_former(self, former: Session, frame: Frame, now: float) -> list[Output]:
        """The client is where it was."""
        contest = self.contests.of(former.client_id)
        assert contest is not None, "it is a former one"
        ended = self.shared_ids.moved(former.client_id, contest.newcomer.peer, former.peer, now)
        before, why = contest.newcomer.state, "the client is heard where it was"
        ended += self._dismiss(contest, why)
        if before is not former.state:
            ended.append(contest.returned(before, why))
        former.return_topics()
        return [*ended, SessionOutput(former.client_id, former.receive(frame, now))]

    def _dismiss(self, contest: Contest, why: str) -> list[Output]:
        """What came in the client's name from elsewhere is over."""
        newcomer = contest.newcomer
        dropped = Dropped(Reason.UNPROVEN, newcomer.client_id, why, newcomer.peer)
        self._client_table.leave_address(newcomer)
        return [dropped, *self.discard(newcomer)]

    def _succeed(self, contest: Contest, why: str) -> list[Output]:
        """The former session is over; the newcomer's is its client's, and saved from now on."""
        former, newcomer = contest.former, contest.newcomer
        client_id = newcomer.client_id
        self._client_table.leave_address(newcomer)
        self._end_former(contest)
        self._client_table.enter(newcomer)
        dropped = Dropped(Reason.SESSION_ENDED, client_id, why, count=0)
        if newcomer.is_continued:
            ended = self._downlink.end_former(former)
        else:
            ended = self._ended_former(former)
        return [dropped, *ended, *newcomer.succeed(former)]

    def _end_former(self, contest: Contest) -> None:
        former = self.contests.end(contest.former.client_id).former
        del self._client_table.formers[former.client_id]
        former.scheduled_at = inf

    def _ended_former(self, former: Session) -> list[Output]:
        """What is over with it; its subscriptions are under another name."""
        self._client_table.hosts.forget_names(former)
        ended = [each for each in former.end() if not isinstance(each, UnsubscribeFrom)]
        return [*self._downlink.end_former(former), *ended]

    def former_moved(self, client_id: ClientId, now: float) -> list[Output]:
        """A former session's client fell silent where it was, or another one came there."""
        contest = self.contests.of(client_id)
        assert contest is not None, "it is a former one"
        if contest.former.state not in ABSENT:
            return []
        self.contests.leave_address(contest.former)
        contest.former.outbound.forget_offered()
        if not contest.former.clean:
            return []  # it would be kept without the newcomer too
        return self._succeed(contest, "silent where it was, and it connected elsewhere")

    def _sleeper(self, frame: Frame) -> Session | None:
        """Who wakes up at an address that nobody has: behind a NAT a sleeper has another one each
        time.
        """
        if not isinstance(frame, Pingreq):
            return None
        session = self._sessions.get(ClientId(frame.client_id.decode(errors="replace")))
        return session if session and session.state in (State.ASLEEP, State.AWAKE) else None

    def _may_rebind(self, session: Session, peer: Peer, now: float) -> bool:
        former = session.peer
        return (
            former.link == peer.link
            and self._sender(former) == self._sender(peer)
            and self._options.may_rebind(former.address, peer.address)
            and self.admission.may_rebind(now)
        )

    def _rebind(self, session: Session, frame: Frame, peer: Peer, now: float) -> list[Output]:
        """It is said to be there from now on."""
        effects: list[Output] = []
        rebound = Rebound(session.client_id, session.peer, peer)
        contest = self.contests.of(session.client_id)
        latest = session
        if contest is not None:
            effects += self._dismiss(contest, "it wakes up elsewhere")
            session = contest.former
        self._client_table.leave_address(session)
        held: list[Output] = []
        takes_over = self._access.is_proven(session.client_id, peer)
        if not takes_over:
            held, session = self._continue(session, latest, contest)
        session.moved_to(peer, len(session.client_id.encode()) + PINGREQ_HEAD_BYTES)
        outputs = [*held, rebound, *session.receive(frame, now)]
        if takes_over:  # else its row has the address once that is proven
            outputs += session.row_again()
        self._client_table.enter(session)
        return [*effects, SessionOutput(session.client_id, outputs)]

    def receive_qos_minus_one(
        self, frame: Publish, peer: Peer, session: Session | None, now: float
    ) -> list[Output]:
        """It shows nothing of who is there: nobody waits for an answer to it."""
        client_id = None
        known = session or self._client_table.unvalidated_at(peer)
        if known is not None:
            known.last_received_at = now
            client_id = known.client_id
        elif (caller := self.half_open.at(peer)) is not None:
            client_id = caller.client_id
        return [self._qos_minus_one.receive(frame, peer, client_id, now)]

    def _successor(
        self, former: Session, positions_apart: int = 0, beside: Session | None = None
    ) -> Session:
        """A new session, with numbers behind those of the one that it takes the place of."""
        next_position = former.outbound.next_position + positions_apart
        if beside is None:  # else it has the same topics
            self.former_topics.note(former.client_id, former.topics)
        session = self.new_session(former.client_id, former.peer, next_position, beside)
        if not former.is_address_validated:
            session.outbound.require_validation(0)
        session.began_at = former.began_at
        if former.state not in ABSENT:
            session.take_over()
        return session

    def new_session(
        self,
        client_id: ClientId,
        peer: Peer,
        first_position: int = 0,
        beside: Session | None = None,
    ) -> Session:
        options = self._options
        predefined = options.clients_predefined.get(client_id, options.predefined)
        start = self._message_id_starts.take()
        if first_position:  # of a client that had others, which count as behind it
            start = first_position + start % AHEAD_MAX
        return Session(
            client_id=client_id,
            peer=peer,
            options=options.session,
            predefined=predefined,
            first_topic_id=options.first_topic_id,
            former_ids=self.former_topics.take(client_id),
            first_position=start,
            beside=beside,
        )

    def _gives_way_to(self, peer: Peer, refusal: Refusal, now: float) -> Dropped | None:
        """The end of whose session makes room for a new client that would be refused."""
        if refusal.reason is not Reason.CLIENTS_FULL:
            return None
        return self._client_table.gives_way_to(peer, now, self._options.admission.absent_s_min)

    def names_numbered(self, client_id: ClientId) -> list[Output]:
        """A client with many names has further ones, and its host may have no room left."""
        gives_way = self._client_table.gives_names_to(self._sessions[client_id])
        return [] if gives_way is None else self._end(gives_way)

    def _end(self, dropped: Dropped) -> list[Output]:
        """End this client's session; it hears so if it is there."""
        assert dropped.client_id is not None
        session = self._sessions[dropped.client_id]
        self._client_table.leave_address(session)
        ended = [dropped, *self.discard(session)]
        return ended if session.state in ABSENT else [*ended, _disconnect(session.peer)]

    def forget(self, client_id: ClientId, now: float) -> list[Output]:
        """The operator wants a client no more: it is an unknown peer from now on, and hears so."""
        effects: list[Output] = []
        caller, session = self.half_open.of(client_id), self._sessions.get(client_id)
        if caller is not None:
            self.half_open.forget(client_id)
            effects.append(_disconnect(caller.peer))
        contest = self.contests.of(client_id)
        if contest is not None:
            self._end_former(contest)
            effects += self._ended_former(contest.former)
        if session is not None:
            dropped = Dropped(Reason.SESSION_ENDED, client_id, "by the operator", count=0)
            effects += self._end(dropped)
        return effects + self.admission.forget(client_id)

    def discard(self, session: Session) -> list[Output]:
        """The session is over."""
        if session.is_newcomer:
            return self._discard_newcomer(session)
        outputs = [*self._downlink.forget(session), *session.end()]
        self._client_table.forget(session)
        self.former_topics.note(session.client_id, session.topics)
        return outputs

    def _discard_newcomer(self, session: Session) -> list[Output]:
        """It is over, and the former session is its client's again, under the same names: so what
        ends with the newcomer ends first.
        """
        contest = self.contests.of(session.client_id)
        assert contest is not None, "it is a newcomer"
        former = contest.former
        outputs = self._downlink.forget(session)
        ended = session.end_beside(former) if session.is_continued else session.end()
        for output in ended:
            if isinstance(output, UnsubscribeFrom):
                outputs += self._downlink.unsubscribe(output)
            else:
                outputs.append(output)
        self._client_table.forget(session)
        self._end_former(contest)
        self._sessions[session.client_id] = former
        if not session.is_continued:
            former.topics.skip_to(session.topics.next_id)
        self._downlink.reinstate(former)
        if former.state in ABSENT:
            self._client_table.note_absence(former, session.last_received_at)
        else:
            self._client_table.enter(former)
            self._client_table.schedule(former)
        return outputs


def _said_again(session: Session, frame: Pingreq, now: float) -> list[Output]:
    """PINGREQ with a client id only says again where the client is, which proves nothing."""
    session.moved_to(session.peer, len(frame.client_id) + PINGREQ_HEAD_BYTES)
    return session.receive(frame, now)


def _disconnect(peer: Peer) -> Send:
    return Send(peer, Disconnect())


def _turned_away(refusal: Refusal, peer: Peer) -> list[Output]:
    dropped = Dropped(reason=refusal.reason, client_id=None, detail=refusal.detail, peer=peer)
    return [dropped, Send(peer, Connack(refusal.return_code))]
