"""What sensors send, datagram by datagram: which session it is for, and what comes of it.

What is not for the session at its address, or not for it alone, is for the acceptor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.core.acceptor import Acceptor
from gateway.core.addresses import address_behind
from gateway.core.clients.client_table import ClientTable
from gateway.core.clients.rate_limit import RateLimit
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Effect, Save, Send, SendDatagram
from gateway.core.events import Output, SessionOutput
from gateway.core.options import EngineOptions
from gateway.core.session.session import Session
from gateway.core.values import Peer
from gateway.frames import (
    ENVELOPE_KIND,
    Connack,
    Connect,
    Forwarded,
    Frame,
    MalformedFrame,
    Publish,
    Register,
    ReturnCode,
    SearchGw,
    decode,
    has_trailing_octets,
    kind_of,
)

if TYPE_CHECKING:  # imported only where there are keys
    from gateway.core.protection.protection import Protection

Datagrams = Sequence[tuple[bytes, bytes]]

_FOR_THE_ACCEPTOR = frozenset({Connect, Forwarded, SearchGw})


class Dispatcher:
    def __init__(
        self,
        *,
        options: EngineOptions,
        client_table: ClientTable,
        acceptor: Acceptor,
        received: dict[type, int],
        protection: Protection | None = None,
    ) -> None:
        """`received` counts frames by kind. `protection`: None where there are no keys."""
        self._options = options
        self._clients = client_table
        self._acceptor = acceptor
        self._received = received
        self._protection = protection
        packets_max = options.admission.packets_per_s_max
        self._rate_limit = RateLimit(packets_max) if packets_max else None

    # In this order, for all that one look at a link brought

    def use_protection(self, protection: Protection) -> None:
        """From the next datagram on."""
        self._protection = protection

    def admitted(
        self, link: int, datagrams: Datagrams, now: float
    ) -> tuple[Datagrams, list[Effect]]:
        """Those that the rate limit lets through, and what became of the others."""
        if self._rate_limit is None:
            return datagrams, []
        return self._rate_limit.within(link, datagrams, self._clients.on_link(link), now)

    def dispatch(  # noqa: C901, one call on the way of each datagram, and not two
        self,
        link: int,
        address: bytes,
        datagram: bytes,
        session: Session | None,
        now: float,
        is_opened: bool = False,
    ) -> Sequence[Output]:
        """One datagram; `session`: the one at its address. `is_opened`: it was in an envelope."""
        protection = self._protection
        if protection is not None and not is_opened:
            if kind_of(datagram) == ENVELOPE_KIND:
                return self._receive_protected(protection, link, address, datagram, now)
            if protection.refuses_plain(link, datagram):
                return self._refuse_plain(datagram, Peer(link, address), now)
        if session is None and not self._acceptor.admission.may_connect(address, datagram, now):
            return []
        try:
            frame = decode(datagram)
        except MalformedFrame as error:
            return [Dropped(Reason.MALFORMED, None, str(error), Peer(link, address))]
        trailing: list[Output] = []
        if datagram[0] != len(datagram) and has_trailing_octets(datagram):
            trailing.append(Dropped(Reason.TRAILING_OCTETS, peer=Peer(link, address)))
            if not self._options.allow_trailing_octets:
                return trailing
        kind = type(frame)
        self._received[kind] = self._received.get(kind, 0) + 1
        if (
            session is None
            or kind in _FOR_THE_ACCEPTOR
            or (type(frame) is Publish and frame.qos < 0)
        ):
            return trailing + self._receive_from_anyone(frame, Peer(link, address), session, now)
        if type(frame) is Register and self._acceptor.admission.is_memory_scarce:
            refused = session.refuse_name(frame, now)
            if refused:
                return [*trailing, *refused]
        outputs = session.receive(frame, now)
        if type(frame) is Publish:  # moves no timer nearer, and promises nothing that is saved
            return trailing + outputs if trailing else outputs
        return [*trailing, SessionOutput(session.client_id, outputs)]

    def ended(self, link: int) -> list[Effect]:
        """All of them were dispatched; how many of unknown peers were not looked at."""
        return self._acceptor.admission.turned_away(link)

    def _receive_from_anyone(
        self, frame: Frame, peer: Peer, session: Session | None, now: float
    ) -> list[Output]:
        """What is not for the session at this address alone."""
        if isinstance(frame, Forwarded):
            return self._receive_forwarded(frame, peer, now)
        if isinstance(frame, Publish) and frame.qos < 0:
            return self._acceptor.receive_qos_minus_one(frame, peer, session, now)
        return self._acceptor.receive(frame, peer, session, now)

    def _receive_protected(
        self, protection: Protection, link: int, address: bytes, datagram: bytes, now: float
    ) -> Sequence[Output]:
        """What is in an envelope, as if it had come from an address of its own."""
        if protection.is_held:
            why = "counters of packets"
            return [Dropped(Reason.STATE_NOT_SAVED, None, why, Peer(link, address))]
        members = self._clients.on_link(link)
        opened = protection.open_next(address, datagram, members)
        if opened is not None:
            return self._dispatch_opened(link, opened, members, now)
        received = protection.open(address, datagram, members, now)
        outputs: list[Output] = [Save(each) for each in protection.take_changes()]
        protected = Peer(link, received.address)
        if received.dropped is not None:
            outputs.append(Dropped(received.dropped, None, received.detail, protected))
        if received.reply:
            outputs.append(SendDatagram(Peer(link, address), received.reply))
        if not received.packet:
            return outputs
        opened = (received.address, received.packet)
        return [*outputs, *self._dispatch_opened(link, opened, members, now)]

    def _dispatch_opened(
        self, link: int, opened: tuple[bytes, bytes], members: Mapping[bytes, Session], now: float
    ) -> Sequence[Output]:
        """A packet that was in an envelope, with the address of its peer."""
        address, packet = opened
        if self._rate_limit is None:
            return self.dispatch(link, address, packet, members.get(address), now, True)
        datagrams, effects = self.admitted(link, [opened], now)
        outputs: list[Output] = [*effects]
        for address, packet in datagrams:
            outputs += self.dispatch(link, address, packet, members.get(address), now, True)
        return outputs

    def _refuse_plain(self, datagram: bytes, peer: Peer, now: float) -> list[Output]:
        """CONNECT is answered, so that who set the device up sees why."""
        dropped = Dropped(Reason.UNPROTECTED, None, "this link takes protected packets alone", peer)
        is_connect = kind_of(datagram) == Connect.KIND
        if not is_connect or not self._acceptor.admission.may_answer_unknown(now):
            return [dropped]
        return [dropped, Send(peer, Connack(ReturnCode.NOT_SUPPORTED))]

    def _receive_forwarded(self, frame: Forwarded, forwarder: Peer, now: float) -> list[Output]:
        """What a node sent, as if it had come from an address of its own; once, because nothing is
        forwarded inside another one.
        """
        link = forwarder.link
        if not self._options.may_forward(link, forwarder.address):
            return [Dropped(Reason.FORWARDER, None, f"node {frame.node_id.hex()}", forwarder)]
        inner = (address_behind(forwarder.address, frame.node_id), frame.inner)
        datagrams, effects = self.admitted(link, [inner], now)
        outputs: list[Output] = [*effects]
        for address, datagram in datagrams:
            session = self._clients.on_link(link).get(address)
            outputs += self.dispatch(link, address, datagram, session, now)
        return outputs
