"""What sensors say, datagram by datagram: to whom it is said, and what comes of it.

Nearly all are new readings of members and their short answers: those need no frame
(`Session.plain`, `Session.plain_answer`). What is not for the session at its address, or not for it
alone, is for the door.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.core.acceptor import Acceptor
from gateway.core.addresses import address_behind
from gateway.core.clients.client_table import CACHED_MAX, ClientTable
from gateway.core.clients.rate_limit import RateLimit
from gateway.core.effects import Dropped, Effect, Peer, Reading, Reason
from gateway.core.options import EngineOptions
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


class Dispatcher:
    def __init__(
        self,
        *,
        options: EngineOptions,
        client_table: ClientTable,
        acceptor: Acceptor,
        received: dict[type, int],
        take: Callable[[Reading, float], list[Effect]],
        perform: Callable[[list[Effect], float], list[Effect]],
        answer: Callable[[Session, list[Effect], float], list[Effect]],
    ) -> None:
        """`received` counts frames by kind; `take` has the readings, the others what sessions ask
        for.
        """
        self.take = take
        self._options = options
        self._client_table = client_table
        self._acceptor = acceptor
        self._received = received
        self._perform = perform
        self._answer = answer
        packets_max = options.admission.packets_per_s_max
        self._pace = RateLimit(packets_max) if packets_max else None

    def receive(self, link: int, datagrams: Datagrams, now: float) -> list[Effect]:
        """All that one look at a link brought, as (address, datagram) pairs."""
        effects: list[Effect] = []
        client_table = self._client_table.on_link(link)
        may_connect = self._acceptor.admission.may_connect
        if self._pace is not None:
            datagrams, effects = self._pace.within(link, datagrams, client_table, now)
        if len(client_table) > CACHED_MAX:
            self._client_table.fetch(client_table, datagrams)
        plain, received = 0, self._received
        for address, datagram in datagrams:
            session = client_table.get(address)
            if session is not None:
                if len(datagram) <= PUBACK_OCTETS:  # hardly a reading
                    answered = session.plain_answer(datagram, now)
                    if answered is not None:
                        kind = Pubrel if datagram[1] == Pubrel.KIND else Puback
                        received[kind] = received.get(kind, 0) + 1
                        effects += self._perform(answered, now)
                        continue
                reading = session.plain(datagram, now)
                if reading is not None:
                    plain += 1
                    effects += self.take(reading, now)
                    continue
            elif not may_connect(address, datagram, now):
                continue
            effects += self._receive_other(Peer(link, address), datagram, session, now)
        if plain:
            received[Publish] = received.get(Publish, 0) + plain
        effects += self._acceptor.admission.turned_away(link)
        return effects

    def _receive_other(
        self, peer: Peer, datagram: bytes, session: Session | None, now: float
    ) -> list[Effect]:
        """What is no plain reading of a member."""
        try:
            frame = decode(datagram)
        except MalformedFrame as error:
            return [Dropped(reason=Reason.MALFORMED, client_id=None, detail=str(error), peer=peer)]
        trailing: list[Effect] = []
        if datagram[0] != len(datagram) and has_trailing_octets(datagram):
            trailing.append(Dropped(Reason.TRAILING_OCTETS, peer=peer))
            if not self._options.allow_trailing_octets:
                return trailing
        kind = type(frame)
        self._received[kind] = self._received.get(kind, 0) + 1
        if session is None or kind in _FOR_THE_DOOR or (type(frame) is Publish and frame.qos < 0):
            return trailing + self._receive_from_anyone(frame, peer, session, now)
        if type(frame) is Publish:  # moves no timer nearer, and promises nothing that is saved
            return trailing + self._perform(session.receive(frame, now), now)
        effects = trailing + self._answer(session, session.receive(frame, now), now)
        self._client_table.schedule(session)
        return effects

    def _receive_from_anyone(
        self, frame: Frame, peer: Peer, session: Session | None, now: float
    ) -> list[Effect]:
        """What is not for the session at this address alone."""
        if isinstance(frame, Forwarded):
            return self._receive_forwarded(frame, peer, now)
        if isinstance(frame, Publish) and frame.qos < 0:
            return self._acceptor.receive_qos_minus_one(frame, peer, session, now)
        return self._acceptor.receive(frame, peer, session, now)

    def _receive_forwarded(self, frame: Forwarded, forwarder: Peer, now: float) -> list[Effect]:
        """What a node says, as if it had come from an address of its own; once, because nothing is
        forwarded inside another one.
        """
        link, address = forwarder.link, forwarder.address
        if not self._options.may_forward(link, address):
            return [
                Dropped(
                    reason=Reason.FORWARDER,
                    client_id=None,
                    detail=f"node {frame.node_id.hex()}",
                    peer=forwarder,
                )
            ]
        return self.receive(link, [(address_behind(address, frame.node_id), frame.inner)], now)
