"""One DTLS listener: a UDP socket (gateway/transports/udp) and the associations of its peers.

Rule 1: an address has an association when it has answered a cookie (records.py), so a flood from
        spoofed addresses leaves nothing. Of handshakes that are not complete there are at most
        `handshakes_max`; the oldest of the host that has the most gives way. Each has
        HANDSHAKE_S_MAX.
Rule 2: what an address has stays until a new handshake from there is complete (RFC 6347, 4.2.8):
        until then both get what is encrypted, and OpenSSL drops what is not for one of them.
Rule 3: an identity has one session. A new handshake of it ends the former one, wherever that is,
        and so does a handshake of another identity at the same address.
Rule 4: a session ends `idle_s` after its peer was heard last, but not while the core has a session
        at its address: one that sleeps lives as long as its sleep. When there are `sessions_max`,
        the one of those that was silent longest ends for a new one; if there is none, the new one
        is refused.
Rule 5: a message to an address without a session is dropped and counted: MQTT-SN says it again.

Nothing that a peer sends raises here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from gateway.core.access.device_keys import DeviceKey, DeviceKeys
from gateway.core.clients.token_bucket import TokenBucket
from gateway.transports.clock import now as clock_now
from gateway.transports.dtls.keys import KeyChoice, KeyHook, name_of
from gateway.transports.dtls.openssl import Association, Contexts, Progress, psk_contexts
from gateway.transports.dtls.options import DtlsOptions
from gateway.transports.dtls.records import (
    Cookies,
    Hello,
    datagrams_of,
    epoch_of,
    hello_of,
    hello_verify_request,
    is_hello,
    is_one_record,
    psk_identity_of,
)
from gateway.transports.socket_address import address_text, host_part

log = logging.getLogger("tidegate.dtls")

HANDSHAKE_S_MAX = 60.0
# Answers to ClientHello without a cookie, and handshakes that are begun, in a second and at once.
HELLOS_PER_S_MAX = 2000
HANDSHAKES_PER_S_MAX = 200
HANDSHAKES_PER_HOST_MAX = 100
HELD_MAX = 4  # datagrams of a handshake while the hook is asked
SWEEP_S = 5.0

# Why a handshake came to nothing, of those whose address has answered a cookie.
FAILED = "failed"  # another key, certificate or suite
UNKNOWN_KEY = "unknown_key"  # no device of that name has a key
NOT_ALLOWED = "not_allowed"  # the subject of its certificate
UNANSWERED = "unanswered"  # not complete in time
REPLACED = "replaced"  # the same address has begun another one
GAVE_WAY = "gave_way"  # too many were under way
SESSIONS_FULL = "sessions_full"
TOO_MANY = "too_many_a_second"
REFUSALS = (
    *(FAILED, UNKNOWN_KEY, NOT_ALLOWED, UNANSWERED, REPLACED, GAVE_WAY, SESSIONS_FULL, TOO_MANY),
)

Datagrams = list[tuple[bytes, bytes]]


class DatagramSocket(Protocol):
    """What is needed of a UDP link."""

    address_bytes: int

    def send(self, address: bytes, datagram: bytes) -> None: ...
    def send_all(self, datagrams: Datagrams) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


@dataclass(slots=True)
class DtlsCounters:
    handshakes: int = 0  # complete
    refused: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REFUSALS, 0))
    hellos: int = 0  # without a cookie that is valid
    hellos_dropped: int = 0  # over the limit a second, in fragments or damaged
    dropped: int = 0  # datagrams of no session, forged ones, repeated ones
    unsent: int = 0  # messages to an address that has no session
    sessions_ended: dict[str, int] = field(default_factory=dict)  # by why


@dataclass(slots=True, eq=False)
class _Session:
    address: bytes
    association: Association
    identity: str
    hello_random: bytes
    heard_at: float


@dataclass(slots=True, eq=False)
class _Handshake:
    address: bytes
    association: Association
    hello_random: bytes
    until: float
    key: DeviceKey | None = None
    is_encrypted: bool = False
    is_unknown: bool = False  # no device of the name that it gave has a key
    due_at: float = inf
    asks: asyncio.Task[None] | None = None
    held: list[bytes] = field(default_factory=list)


class DtlsLink:
    """Messages of peers that have shown who they are, in front of a UDP link that has none."""

    def __init__(
        self,
        udp: DatagramSocket,
        on_messages: Callable[[Datagrams], None],
        *,
        secret: bytes,
        options: DtlsOptions,
        keys: Callable[[], DeviceKeys] | None = None,
        contexts: Contexts | None = None,
        hook: KeyHook | None = None,
        on_identity: Callable[[bytes], None] = lambda _: None,
        used: Callable[[], Container[bytes]] = frozenset,
        now: Callable[[], float] = clock_now,
    ) -> None:
        """Either `keys`, for pre-shared keys, or `contexts` of certificates. `on_identity` is
        called when another identity than before is at an address, before what it sends. `used`:
        addresses at which the core has a session.
        """
        self.udp = udp
        self.address_bytes = udp.address_bytes
        self.counters = DtlsCounters()
        self._on_messages = on_messages
        self._options = options
        self._keys = keys
        self._hook = hook
        self._contexts = psk_contexts(self._psk_of) if contexts is None else contexts
        self._on_identity = on_identity
        self._used = used
        self._now = now
        self._cookies = Cookies(secret)
        self._choice = KeyChoice()
        self._sessions: dict[bytes, _Session] = {}
        self._by_identity: dict[str, _Session] = {}
        # Who was at an address whose session has ended; so many as there may be sessions.
        self._former: OrderedDict[bytes, str] = OrderedDict()
        self._handshakes: dict[bytes, _Handshake] = {}  # the oldest first
        self._current: _Handshake | None = None  # for the callback of OpenSSL
        self._hello_budget = TokenBucket(HELLOS_PER_S_MAX, HELLOS_PER_S_MAX)
        self._handshake_budget = TokenBucket(HANDSHAKES_PER_S_MAX, HANDSHAKES_PER_S_MAX)
        self._second = 0
        self._begun: dict[bytes, int] = {}  # handshakes in this second, by host
        self._alarm: asyncio.TimerHandle | None = None
        self._sweep_at = -inf
        self._keys_seen: DeviceKeys | None = None

    # From the owner

    @property
    def has_certificates(self) -> bool:
        return self._keys is None

    @property
    def session_count(self) -> int:
        return len(self._sessions)

    @property
    def handshake_count(self) -> int:
        return len(self._handshakes)

    def identity_of(self, address: bytes) -> str:
        """Of who is at this address, or was last; nothing of one that is not known."""
        session = self._sessions.get(address)
        return self._former.get(address, "") if session is None else session.identity

    def suite_of(self, address: bytes) -> str:
        session = self._sessions.get(address)
        return "" if session is None else session.association.suite()

    def use(self, contexts: Contexts) -> None:
        """For new handshakes; sessions go on, but for those of subjects that are not allowed any
        more, and of certificates that are revoked now.
        """
        self._contexts = contexts
        for session in list(self._sessions.values()):
            certificate = session.association.certificate()
            if not contexts.is_allowed(session.identity.partition(":")[2]):
                self._end(session, NOT_ALLOWED)
            elif certificate is not None and contexts.is_revoked(certificate):
                self._end(session, "revoked")
        self.udp.flush()

    def keys_changed(self) -> None:
        """Sessions of devices whose keys are gone end."""
        if self._hook is not None:
            self._hook.forget()
        if self._keys is None or self._hook is not None:
            return
        for session in list(self._sessions.values()):
            if not self._keys().of_name(session.identity.partition(":")[2]):
                self._end(session, NOT_ALLOWED)
        self.udp.flush()

    def look(self) -> None:
        """For the daemon, each second: sessions that nothing needs any more end."""
        now = self._now()
        if now < self._sweep_at:
            return
        self._sweep_at = now + SWEEP_S
        if self._keys is not None:
            keys = self._keys()
            if self._keys_seen is not None and keys is not self._keys_seen:
                self.keys_changed()
            self._keys_seen = keys
        idle_since = now - self._options.idle_s
        idle = [each for each in self._sessions.values() if each.heard_at < idle_since]
        if not idle:
            return
        used = self._used()
        for session in idle:
            if session.address not in used:
                self._end(session, "idle")
        self.udp.flush()

    def close(self) -> None:
        """Says so to all peers. May be called twice."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for handshake in list(self._handshakes.values()):
            self._give_up(handshake)
        for session in list(self._sessions.values()):
            self._end(session, "stopped")
        self.udp.close()

    # From the shell

    def send_all(self, messages: Datagrams) -> None:
        sealed: Datagrams = []
        for address, message in messages:
            session = self._sessions.get(address)
            record = None if session is None else session.association.sealed(message)
            if record is None:
                self.counters.unsent += 1
            else:
                sealed.append((address, record))
        self.udp.send_all(sealed)

    # From the socket

    def on_datagrams(self, datagrams: Datagrams) -> None:
        now = self._now()
        sessions = self._sessions
        messages: Datagrams = []
        touches_handshakes = False
        for address, datagram in datagrams:
            epoch = epoch_of(datagram)
            if epoch and address not in self._handshakes:
                session = sessions.get(address)
                if session is None or epoch != 1:
                    self.counters.dropped += 1
                    continue
                if not self._read(session, datagram, messages, now):
                    messages = self._hand_over(messages)
                    self._look_for_end(session)
            elif epoch is None:
                self.counters.dropped += 1
            else:
                # What came before it is for who was there before it.
                messages = self._hand_over(messages)
                touches_handshakes = True
                if epoch == 0 and is_hello(datagram):
                    self._receive_hello(address, datagram, now)
                else:
                    self._receive_for_both(address, datagram, epoch, messages, now)
        self._hand_over(messages)
        if touches_handshakes:
            self._set_alarm(now)

    def _hand_over(self, messages: Datagrams) -> Datagrams:
        if messages:
            self._on_messages(messages)
        return []

    def _read(self, session: _Session, datagram: bytes, messages: Datagrams, now: float) -> bool:
        """Whether there was a message in it."""
        association = session.association
        association.feed(datagram)
        message = association.read()
        if message is None:
            return False
        session.heard_at = now
        messages.append((session.address, message))
        if not is_one_record(datagram):
            while (message := association.read()) is not None:
                messages.append((session.address, message))
            return False
        return True

    def _look_for_end(self, session: _Session) -> None:
        """What came was no message alone: perhaps close_notify, or a flight that is repeated."""
        if session.association.is_ended:
            if self._sessions.get(session.address) is session:
                self._end(session, "closed_by_peer")
            return
        flight = session.association.outgoing()
        if flight:
            self._send_flight(session.address, flight)
        else:
            self.counters.dropped += 1

    # Handshakes

    def _receive_hello(self, address: bytes, datagram: bytes, now: float) -> None:
        hello = hello_of(datagram)
        if hello is None:
            self.counters.hellos_dropped += 1
            return
        session, handshake = self._sessions.get(address), self._handshakes.get(address)
        if not self._cookies.is_valid(address, hello, now):
            self.counters.hellos += 1
            if self._hello_budget.take(now):
                cookie = self._cookies.cookie(address, hello, now)
                self.udp.send(address, hello_verify_request(hello, cookie))
            else:
                self.counters.hellos_dropped += 1
        elif handshake is not None and handshake.hello_random == hello.random:
            self._advance(handshake, datagram)  # repeated, as its answer was lost
        elif session is not None and session.hello_random == hello.random:
            self.counters.dropped += 1  # a copy of what has led to this session
        elif self._may_begin(address, now):
            self._begin(address, hello, datagram, now)
        else:
            self.counters.refused[TOO_MANY] += 1

    def _may_begin(self, address: bytes, now: float) -> bool:
        """One host has a part of what is begun in a second."""
        if int(now) != self._second:
            self._second = int(now)
            self._begun.clear()
        host = host_part(address)
        begun = self._begun.get(host, 0)
        if begun >= HANDSHAKES_PER_HOST_MAX or not self._handshake_budget.take(now):
            return False
        self._begun[host] = begun + 1
        return True

    def _begin(self, address: bytes, hello: Hello, datagram: bytes, now: float) -> None:
        former = self._handshakes.get(address)
        if former is not None:
            self._fail(former, REPLACED)
        elif len(self._handshakes) >= self._options.handshakes_max:
            self._fail(self._handshakes[self._oldest_of_many()], GAVE_WAY)
        association = Association(self._contexts, self._options.mtu)
        if not association.listen(datagram):
            self.counters.hellos_dropped += 1
            return
        handshake = _Handshake(address, association, hello.random, now + HANDSHAKE_S_MAX)
        self._handshakes[address] = handshake
        self._advance(handshake, None)

    def _oldest_of_many(self) -> bytes:
        """The address that gives way: the oldest of the host that has the most."""
        hosts = Counter(map(host_part, self._handshakes))
        most = max(hosts.values())
        return next(each for each in self._handshakes if hosts[host_part(each)] == most)

    def _receive_for_both(
        self, address: bytes, datagram: bytes, epoch: int, messages: Datagrams, now: float
    ) -> None:
        handshake, session = self._handshakes.get(address), self._sessions.get(address)
        # Where there is no handshake, one that is repeated as its end was lost: what is encrypted
        # of it stands behind what is not.
        if session is not None and (epoch or not is_one_record(datagram)):
            is_message = self._read(session, datagram, messages, now)
            if is_message or handshake is None:
                self._look_for_end(session)
                return
        if handshake is None:
            self.counters.dropped += 1
            return
        if epoch:
            handshake.is_encrypted = True
        self._advance(handshake, datagram)

    def _advance(self, handshake: _Handshake, datagram: bytes | None) -> None:
        """As far as it goes; also what the same datagram has behind the end of the handshake."""
        if datagram is not None:
            if self._is_held(handshake, datagram):
                return
            handshake.association.feed(datagram)
        self._current = handshake
        progress = handshake.association.handshake()
        self._current = None
        self._send_flight(handshake.address, handshake.association.outgoing())
        if progress is Progress.FAILED:
            self._fail(handshake, UNKNOWN_KEY if handshake.is_unknown else FAILED)
        elif progress is Progress.DONE:
            self._complete(handshake)
        else:
            wait_s = handshake.association.timeout_s()
            handshake.due_at = inf if wait_s is None else self._now() + wait_s

    def _complete(self, handshake: _Handshake) -> None:
        del self._handshakes[handshake.address]
        association, address, now = handshake.association, handshake.address, self._now()
        key = handshake.key
        subject = association.subject() if key is None else ""
        if key is None and not self._contexts.is_allowed(subject):
            self.counters.refused[NOT_ALLOWED] += 1
            self._send_flight(address, association.close())
            return
        identity = f"cert:{subject}" if key is None else f"psk:{key.name}"
        before = self.identity_of(address)
        # The session before the new one: what the peer knows of is the new one.
        for former in (self._sessions.get(address), self._by_identity.get(identity)):
            if former is not None and self._sessions.get(former.address) is former:
                self._end(former, "taken_over")
        if len(self._sessions) >= self._options.sessions_max and not self._make_room():
            self.counters.refused[SESSIONS_FULL] += 1
            self._send_flight(address, association.close())
            return
        self.counters.handshakes += 1
        session = _Session(address, association, identity, handshake.hello_random, now)
        self._sessions[address] = self._by_identity[identity] = session
        self._former.pop(address, None)
        log.debug("%s at %s, %s", identity, address_text(address), association.suite())
        if before != identity:
            self._on_identity(address)
        messages: Datagrams = []
        while (message := association.read()) is not None:
            messages.append((address, message))
        self._hand_over(messages)
        if association.is_ended:
            self._end(session, "closed_by_peer")

    def _make_room(self) -> bool:
        used = self._used()
        unused = (each for each in self._sessions.values() if each.address not in used)
        silent = min(unused, key=lambda each: each.heard_at, default=None)
        if silent is not None:
            self._end(silent, "gave_way")
        return silent is not None

    def _fail(self, handshake: _Handshake, why: str) -> None:
        self.counters.refused[why] += 1
        if handshake.key is not None and handshake.is_encrypted:
            self._choice.failed(handshake.key)
        self._give_up(handshake)

    def _give_up(self, handshake: _Handshake) -> None:
        if self._handshakes.get(handshake.address) is handshake:
            del self._handshakes[handshake.address]
        if handshake.asks is not None:
            handshake.asks.cancel()

    def _end(self, session: _Session, why: str) -> None:
        ended = self.counters.sessions_ended
        ended[why] = ended.get(why, 0) + 1
        if self._sessions.get(session.address) is session:
            del self._sessions[session.address]
        if self._by_identity.get(session.identity) is session:
            del self._by_identity[session.identity]
        self._former[session.address] = session.identity
        self._former.move_to_end(session.address)
        if len(self._former) > self._options.sessions_max:
            self._former.popitem(last=False)
        self._send_flight(session.address, session.association.close())

    def _send_flight(self, address: bytes, flight: bytes) -> None:
        if flight:
            for datagram in datagrams_of(flight, self._options.mtu):
                self.udp.send(address, datagram)

    # Keys

    def _keys_of(self, name: str) -> tuple[DeviceKey, ...]:
        assert self._keys is not None
        keys = self._keys().of_name(name)
        if not keys and self._hook is not None:
            return self._hook.known(name, self._now()) or ()
        return keys

    def _psk_of(self, identity: bytes) -> bytes | None:
        """From OpenSSL, within `_advance`."""
        name, handshake = name_of(identity), self._current
        if name is None or handshake is None:
            return None
        key = self._choice.choose(self._keys_of(name))
        handshake.key, handshake.is_unknown = key, key is None
        return None if key is None else key.secret

    def _is_held(self, handshake: _Handshake, datagram: bytes) -> bool:
        """Whether it waits for what the hook says of the name that is in it."""
        if self._hook is None or self._keys is None or handshake.key is not None:
            return False
        if handshake.asks is None:
            identity = psk_identity_of(datagram)
            name = None if identity is None else name_of(identity)
            if name is None or self._keys().of_name(name):
                return False
            if self._hook.known(name, self._now()) is not None:
                return False
            asks = self._ask(handshake, self._hook, name)
            handshake.asks = asyncio.get_running_loop().create_task(asks, name="key-hook")
        if len(handshake.held) < HELD_MAX:
            handshake.held.append(datagram)
        return True

    async def _ask(self, handshake: _Handshake, hook: KeyHook, name: str) -> None:
        await hook.ask(name, self._now)
        handshake.asks = None
        held, handshake.held = handshake.held, []
        if hook.known(name, self._now()) is None:
            return  # not answered: the client sends again, and it is asked again
        for datagram in held:
            if self._handshakes.get(handshake.address) is handshake:
                self._advance(handshake, datagram)
            else:
                # Its handshake is complete: what follows is for the session.
                self.on_datagrams([(handshake.address, datagram)])
        self.udp.flush()
        self._set_alarm(self._now())

    # Time

    def _set_alarm(self, now: float) -> None:
        under_way = self._handshakes.values()
        due_at = min((min(each.due_at, each.until) for each in under_way), default=inf)
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if due_at < inf:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(max(0.001, due_at - now), self._ring)

    def _ring(self) -> None:
        self._alarm = None
        now = self._now()
        for handshake in list(self._handshakes.values()):
            is_due = handshake.due_at <= now
            if handshake.until <= now or (is_due and not self._retransmit(handshake, now)):
                self._fail(handshake, UNANSWERED)
        self.udp.flush()
        self._set_alarm(now)

    def _retransmit(self, handshake: _Handshake, now: float) -> bool:
        association = handshake.association
        goes_on = association.handle_timeout()
        self._send_flight(handshake.address, association.outgoing())
        wait_s = association.timeout_s()
        handshake.due_at = inf if wait_s is None else now + max(wait_s, 0.001)
        return goes_on
