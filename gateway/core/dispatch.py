"""What sensors say, datagram by datagram: to whom it is said, and what comes of it.

Nearly all are new readings of members and their short answers: those need no frame
(`Session.plain`, `Session.plain_answer`). What is not for the session at its address, or not for it
alone, is for the door.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.core.acceptor import Door
from gateway.core.addresses import address_behind
from gateway.core.clients.client_table import CACHED_MAX, Members
from gateway.core.clients.rate_limit import Pace
from gateway.core.effects import Dropped, Effect, Forward, Peer, Reason
from gateway.core.options import EngineRules
from gateway.core.session.outbound import PUBACK_OCTETS
from gateway.core.session.session import Session
from gateway.frames import (
    Connect,
    Forwarded,
    Frame,
    MalformedFrame,
    Puback,
    Publish,
    Pubrel,
    SearchGw,
    decode,
    has_trailing_octets,
)

Datagrams = Sequence[tuple[bytes, bytes]]

_FOR_THE_DOOR = frozenset({Connect, Forwarded, SearchGw})


class Intake:
    def __init__(
        self,
        rules: EngineRules,
        members: Members,
        door: Door,
        received: dict[type, int],
        take: Callable[[Forward, float], list[Effect]],
        perform: Callable[[list[Effect], float], list[Effect]],
        answer: Callable[[Session, list[Effect], float], list[Effect]],
    ) -> None:
        """`received` counts frames by kind; `take` has the readings, the others what sessions ask
        for.
        """
        self.take = take
        self._rules = rules
        self._members = members
        self._door = door
        self._received = received
        self._perform = perform
        self._answer = answer
        packets_max = rules.admission.packets_per_s_max
        self._pace = Pace(packets_max) if packets_max else None

    def receive(self, link: int, datagrams: Datagrams, now: float) -> list[Effect]:
        """All that one look at a link brought, as (address, datagram) pairs."""
        effects: list[Effect] = []
        members = self._members.on_link(link)
        may_call = self._door.admission.may_call
        if self._pace is not None:
            datagrams, effects = self._pace.within(link, datagrams, members, now)
        if len(members) > CACHED_MAX:
            self._members.fetch(members, datagrams)
        plain, received = 0, self._received
        for address, datagram in datagrams:
            session = members.get(address)
            if session is not None:
                if len(datagram) <= PUBACK_OCTETS:  # hardly a reading
                    answered = session.plain_answer(datagram, now)
                    if answered is not None:
                        kind = Pubrel if datagram[1] == Pubrel.KIND else Puback
                        received[kind] = received.get(kind, 0) + 1
                        effects += self._perform(answered, now)
                        continue
                forward = session.plain(datagram, now)
                if forward is not None:
                    plain += 1
                    effects += self.take(forward, now)
                    continue
            elif not may_call(address, datagram, now):
                continue
            effects += self._receive_other(Peer(link, address), datagram, session, now)
        if plain:
            received[Publish] = received.get(Publish, 0) + plain
        effects += self._door.admission.turned_away(link)
        return effects

    def _receive_other(
        self, peer: Peer, datagram: bytes, session: Session | None, now: float
    ) -> list[Effect]:
        """What is no plain reading of a member."""
        try:
            frame = decode(datagram)
        except MalformedFrame as error:
            return [Dropped(Reason.MALFORMED, None, str(error), peer)]
        trailing: list[Effect] = []
        if datagram[0] != len(datagram) and has_trailing_octets(datagram):
            trailing.append(Dropped(Reason.TRAILING_OCTETS, peer=peer))
            if not self._rules.allow_trailing_octets:
                return trailing
        kind = type(frame)
        self._received[kind] = self._received.get(kind, 0) + 1
        if session is None or kind in _FOR_THE_DOOR or (type(frame) is Publish and frame.qos < 0):
            return trailing + self._receive_from_anyone(frame, peer, session, now)
        if type(frame) is Publish:  # moves no timer nearer, and promises nothing that is saved
            return trailing + self._perform(session.receive(frame, now), now)
        effects = trailing + self._answer(session, session.receive(frame, now), now)
        self._members.schedule(session)
        return effects

    def _receive_from_anyone(
        self, frame: Frame, peer: Peer, session: Session | None, now: float
    ) -> list[Effect]:
        """What is not for the session at this address alone."""
        if isinstance(frame, Forwarded):
            return self._receive_forwarded(frame, peer, now)
        if isinstance(frame, Publish) and frame.qos < 0:
            return self._door.receive_connectionless(frame, peer, session, now)
        return self._door.receive(frame, peer, session, now)

    def _receive_forwarded(self, frame: Forwarded, forwarder: Peer, now: float) -> list[Effect]:
        """What a node says, as if it had come from an address of its own; once, because nothing is
        forwarded inside another one.
        """
        link, address = forwarder.link, forwarder.address
        if not self._rules.may_forward(link, address):
            return [Dropped(Reason.FORWARDER, None, f"node {frame.node_id.hex()}", forwarder)]
        return self.receive(link, [(address_behind(address, frame.node_id), frame.inner)], now)
