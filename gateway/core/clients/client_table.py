"""The sessions of all clients: by client id, by address, by when each wants time; who is absent.

Addresses are compared raw, per link, so that finding a session costs two dictionary lookups. A
session whose address is not validated yet (`session/lifecycle.py`) is not found there, but
by `unvalidated_at`: so the way of a reading need not ask. All timers are in one heap: a session's
entry may be early (hearing a client only moves its deadline away), never late. Entries that nearer
ones replaced stay until they are due or too many.

Limit: `clients_max`, kept by `admission.py`; the heap holds at most two entries for each session
and `TIMERS_SPARE`.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from math import inf

from gateway.core.clients.admission import AdmissionOptions
from gateway.core.clients.host_quota import HostOf, HostQuota
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId
from gateway.core.values import Peer

TIMERS_SPARE = 64  # entries beyond two for each session, so that few sessions do not rebuild often
ABSENT_LOOKS_MAX = 64  # of those that are absent for long, to find one whose place may be taken


class ClientTable:
    def __init__(self, host_of: HostOf, options: AdmissionOptions) -> None:
        self.hosts = HostQuota(host_of, options.clients_per_host_max, options.topics_per_host_max)
        self.sessions: dict[ClientId, Session] = {}
        self._by_address: dict[int, dict[bytes, Session]] = {}
        self._doubted: dict[Peer, Session] = {}
        self.formers: dict[ClientId, Session] = {}  # beside those that came in their names
        self._absent: dict[ClientId, float] = {}  # since when; the longest absent first
        self._timers: list[tuple[float, int, Session]] = []
        self._timers_made = 0
        self.returned_at = -inf  # when the process ran again after the last pause

    # Sessions and where they are

    def on_link(self, link: int) -> dict[bytes, Session]:
        """The sessions of a link by address; the dictionary stays the same."""
        return self._by_address.setdefault(link, {})

    def unvalidated_at(self, peer: Peer) -> Session | None:
        """The session that is said to be there."""
        return self._doubted.get(peer)

    def enter(self, session: Session) -> None:
        """The session is at its peer's address from now on."""
        if session.is_address_validated and not session.is_newcomer:
            self.on_link(session.peer.link)[session.peer.address] = session
        else:
            self._doubted[session.peer] = session
        self._absent.pop(session.client_id, None)
        self.hosts.count_names(session)
        if not session.is_newcomer:  # its client has its place where it was
            self.hosts.enter(session, session.peer)

    def leave_address(self, session: Session) -> None:
        client_table = self.on_link(session.peer.link)
        if client_table.get(session.peer.address) is session:
            del client_table[session.peer.address]
        elif self._doubted.get(session.peer) is session:
            del self._doubted[session.peer]

    def forget(self, session: Session) -> None:
        """The session is over."""
        del self.sessions[session.client_id]
        self._absent.pop(session.client_id, None)
        session.scheduled_at = inf
        self.hosts.forget_names(session)
        if not session.is_newcomer:
            self.hosts.leave(session.client_id)

    # Absence

    def note_absence(self, session: Session, now: float) -> None:
        self._absent[session.client_id] = now
        self.hosts.count_names(session)
        self.hosts.enter(session, session.peer)

    def absent_since(self, client_id: ClientId) -> float | None:
        """When a client left or was lost; None while it is here."""
        return self._absent.get(client_id)

    # When all places are taken

    def gives_way_to(self, peer: Peer, now: float, absent_s_min: float) -> Dropped | None:
        """Whose place a new client from there takes, and why; None where it gets none."""
        unproven = self.hosts.gives_way_to(peer, self.formers)
        if unproven is not None:
            clients = self.hosts.clients(unproven.peer)
            detail = f"its host has {clients} clients, the most, and another one needs a place"
            return Dropped(Reason.GAVE_WAY, unproven.client_id, detail, unproven.peer)
        for client_id, left_at in islice(self._absent.items(), ABSENT_LOOKS_MAX):
            if now - left_at < absent_s_min:
                break
            if self.hosts.may_replace(self.sessions[client_id], peer):
                detail = f"absent for {(now - left_at) / 3600:.0f} h, and its place is needed"
                return Dropped(Reason.SESSION_ENDED, client_id, detail, count=0)
        return None

    def gives_names_to(self, session: Session) -> Dropped | None:
        """Whose end makes room for names of this one's host, if that has as many as it may have."""
        host_names = self.hosts.count_names(session)
        if host_names is None or not host_names.is_full:
            return None
        other = self.hosts.gives_names_to(session, self.formers)
        if other is None:
            return None
        detail = f"its host has {host_names.names} topic names, and this one {len(other.topics)}"
        return Dropped(Reason.GAVE_WAY, other.client_id, detail, other.peer)

    # Time

    def paused(self, now: float) -> None:
        """The process runs again since `now`."""
        self.returned_at = now

    def wake_at(self) -> float:
        return self._timers[0][0] if self._timers else inf

    def schedule(self, session: Session) -> None:
        """Note when the session wants time next, if that is sooner than what is noted already."""
        wake_at = session.wake_at(self.returned_at)
        if wake_at < session.scheduled_at:
            session.scheduled_at = wake_at
            self._timers_made += 1
            heappush(self._timers, (wake_at, self._timers_made, session))
            known = len(self.sessions) + len(self.formers)
            if len(self._timers) > 2 * known + TIMERS_SPARE:
                self._rebuild_timers()

    def due(self, now: float) -> Iterator[Session]:
        """Each session that wants time by now; it must be scheduled again."""
        while self._timers and self._timers[0][0] <= now:
            due_at, _, session = heappop(self._timers)
            if session.scheduled_at == due_at:  # else an entry that a nearer one replaced
                session.scheduled_at = inf
                yield session

    def _rebuild_timers(self) -> None:
        """Leave out the entries that nearer ones replaced, and those of sessions that are over."""
        everyone = [*self.sessions.values(), *self.formers.values()]
        scheduled = [each for each in everyone if each.scheduled_at < inf]
        self._timers = [(each.scheduled_at, n, each) for n, each in enumerate(scheduled)]
        heapify(self._timers)
