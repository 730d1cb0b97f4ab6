"""Callers: new clients whose CONNECT was answered and who have said nothing since.

Anyone can send CONNECT in the name of any address, and nobody may be there to hear the answer. So
a caller costs a few hundred bytes and no write: no session, no place among the clients, no row on
disk. Its next frame shows that somebody is there, and makes it a client. Nothing is lost if a
caller is forgotten: it has no subscription, no will and no message yet, and receives DISCONNECT at
its next frame, as after a restart; then it connects again.

A caller is forgotten when it was silent for longer than it declared (looked for every SWEEP_S), or
when its place is needed: `callers_max` who have received CONNACK and, apart from them,
`handshakes_max` who were asked for their will; of each the one that called first gives way,
among those of the host that has the most of them (`host_quota.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from gateway.core.clients.host_quota import ByHost, HostOf
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.events import Output
from gateway.core.session.options import deadline_s
from gateway.core.state_records import ClientId, State
from gateway.core.values import Peer
from gateway.frames import Connect

SWEEP_S = 60.0


@dataclass(slots=True)
class HalfOpenClient:
    """What CONNECT said, from where and when."""

    client_id: ClientId
    peer: Peer
    keep_alive_s: int
    clean: bool
    will: bool
    at: float

    @property
    def state(self) -> State:
        """As what it sees itself."""
        return State.CONNECTING if self.will else State.ACTIVE

    def connect(self) -> Connect:
        """Its CONNECT, once more."""
        raw = self.client_id.encode()
        return Connect(raw, self.keep_alive_s, clean_session=self.clean, will=self.will)


class HalfOpenClients:
    def __init__(
        self, *, callers_max: int, handshakes_max: int, handshake_s: float, host_of: HostOf
    ) -> None:
        self._callers_max = callers_max
        self._handshakes_max = handshakes_max
        self._handshake_s = handshake_s
        self._welcomed: dict[Peer, HalfOpenClient] = {}  # the first to call first
        self._handshakes: dict[Peer, HalfOpenClient] = {}
        self._by_client: dict[ClientId, HalfOpenClient] = {}
        self._welcomed_by_host: ByHost[HalfOpenClient] = ByHost(host_of)
        self._handshakes_by_host: ByHost[HalfOpenClient] = ByHost(host_of)
        self.due_at = inf  # when to look for those that say nothing
        self.returned_at = -inf  # as `ClientTable.returned_at`

    def __len__(self) -> int:
        return len(self._by_client)

    def __iter__(self) -> Iterator[HalfOpenClient]:
        return iter(self._by_client.values())

    def of(self, client_id: ClientId) -> HalfOpenClient | None:
        return self._by_client.get(client_id)

    # From the door

    def at(self, peer: Peer) -> HalfOpenClient | None:
        return self._welcomed.get(peer) or self._handshakes.get(peer)

    def enter(self, caller: HalfOpenClient, now: float) -> list[Output]:
        """CONNECT was answered; forget what the client or the address said before."""
        self.forget(caller.client_id)
        self.take(caller.peer, now)
        table, by_host, most = self._welcomed, self._welcomed_by_host, self._callers_max
        if caller.will:
            table, by_host, most = self._handshakes, self._handshakes_by_host, self._handshakes_max
        effects: list[Output] = []
        if len(table) >= most:
            host = by_host.largest()
            if host is None:
                oldest, why = next(iter(table.values())), f"{most} newer ones called"
            else:
                oldest = next(iter(host.unproven.values()))
                why = f"{most} called, {host.clients} of them from its host"
            self._remove(oldest)
            effects.append(_forgotten(oldest, why))
        table[caller.peer] = caller
        by_host.enter(caller, caller.peer)
        self._by_client[caller.client_id] = caller
        self.due_at = min(self.due_at, now + SWEEP_S)
        return effects

    def take(self, peer: Peer, now: float) -> HalfOpenClient | None:
        """Who called from there, if it may still be heard; it is a caller no longer."""
        caller = self.at(peer)
        if caller is None:
            return None
        self._remove(caller)
        return caller if now < self._deadline(caller) else None

    def forget(self, client_id: ClientId) -> None:
        """The client has connected again, or from elsewhere."""
        caller = self._by_client.get(client_id)
        if caller is not None:
            self._remove(caller)

    # Time

    def paused(self, now: float) -> None:
        """The process runs again since `now`."""
        self.returned_at = now

    def handle_time(self, now: float) -> list[Output]:
        if now < self.due_at:
            return []
        silent = [each for each in self._by_client.values() if now >= self._deadline(each)]
        for caller in silent:
            self._remove(caller)
        self.due_at = now + SWEEP_S if self._by_client else inf
        if not silent:
            return []
        return [_forgotten(silent[-1], "silent for longer than it declared", len(silent))]

    def _deadline(self, caller: HalfOpenClient) -> float:
        """As that of a client, see `SessionLifecycle.deadline`."""
        silence_max_s = inf
        if caller.will:
            silence_max_s = self._handshake_s
        elif caller.keep_alive_s:
            silence_max_s = deadline_s(caller.keep_alive_s)
        deadline = caller.at + silence_max_s
        if self.returned_at <= caller.at:
            return deadline
        return min(self.returned_at, deadline) + silence_max_s

    def _remove(self, caller: HalfOpenClient) -> None:
        del (self._handshakes if caller.will else self._welcomed)[caller.peer]
        del self._by_client[caller.client_id]
        by_host = self._handshakes_by_host if caller.will else self._welcomed_by_host
        by_host.leave(caller.client_id)


def _forgotten(caller: HalfOpenClient, why: str, count: int = 1) -> Dropped:
    detail = f"said nothing after its CONNECT was answered; {why}"
    return Dropped(
        reason=Reason.UNHEARD,
        client_id=caller.client_id,
        detail=detail,
        peer=caller.peer,
        count=count,
    )
