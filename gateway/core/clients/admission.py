"""Who may come in, and how much those get who have not.

Unknown peers, that is addresses from which no client is known to answer, have budgets of their own,
so that a flood of them costs members nothing:

- `answers_per_s_max` DISCONNECTs a second in all, beyond which they hear nothing;
- `connects_per_s_max` CONNECTs, and `connects_at_once_max` at once, as after a power cut. Beyond
  that a CONNECT is dropped unread, but for one with the client id of a session that is there: of
  these as many more may come. So clients that moved are not locked out by random ids.

Clients are bounded by `clients_max`, sessions that are kept for absent clients included. When all
places are taken, a new client gets that of an unproven one of the host with the most clients
(`host_quota.py`), or of the one that has been absent the longest, if for `absent_s_min` at least
(`client_table.py`); else it is answered with congestion. A new client takes its place when it
says more than CONNECT (`half_open.py`).

While memory is scarce no new client comes in, however long others were absent: what a session
takes is not given back at once. Nor does a client then get more than a few topic names
(`Session.refuse_name`): two and a half million of them may be registered by 10,000 clients.

With `is_listed_only` a new client must be in `listed`, or be let in by the operator, who opens the
door for a while (`permit`). Who came in so, and showed that it is there, stays permitted, at most
`clients_max` of them. Others receive "congestion": a sensor that the operator is about to let in
tries again by itself (6.2). Clients that have a session are no new ones.

While joining is open (`Operator.open_joining`), which is for JOIN_S_MAX at most, others come in as
well, but into quarantine: they may do nothing (`access/gate.py`), and wait until the operator
approves of them or rejects them. At most WAITING_MAX wait, over restarts too, and may come again
meanwhile; with so many no further one comes in.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from math import inf

from gateway.core.access.gate import AccessGate
from gateway.core.clients.token_bucket import TokenBucket
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Effect, Save
from gateway.core.session.topic_names import text
from gateway.core.state_records import (
    ClientId,
    PermitDeleted,
    PermitRecord,
    WaitingDeleted,
    WaitingRecord,
)
from gateway.core.values import Peer
from gateway.frames import Connect, ReturnCode

PROTOCOL_ID = 0x01  # MQTT-SN 1.2
WAITING_MAX = 256
_CONNECT = bytes((Connect.KIND,))
_CONNECT_HEAD = 6  # bytes before the client id, in the short form


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    clients_max: int = 10_000
    clients_per_host_max: int = 0  # 0 for no limit
    topics_per_host_max: int = 100_000  # beyond `NAMES_UNCOUNTED` of each client; 0 for no limit
    client_id_bytes_max: int = 64  # 1.2 says 23; gateways in the field take more
    assign_empty_client_id: bool = False
    answers_per_s_max: int = 20
    connects_per_s_max: int = 2000
    connects_at_once_max: int = 12_000
    callers_max: int = 12_000
    handshakes_max: int = 12_000
    packets_per_s_max: int = 0  # from one address; 0 for no limit
    absent_s_min: float = 3600.0  # longer than a restart or a short outage keeps a client away
    is_listed_only: bool = False
    listed: frozenset[str] = frozenset()  # client ids


@dataclass(frozen=True, slots=True)
class Refusal:
    return_code: ReturnCode
    reason: Reason
    detail: str = ""


class Admission:
    def __init__(
        self,
        options: AdmissionOptions,
        known: Container[ClientId] = (),
        access: AccessGate | None = None,
    ) -> None:
        """`known`: the clients that have a session."""
        self._options = options
        self._access = access or AccessGate()
        self._known: Container[object] = known
        self.is_memory_scarce = False
        self._turned_away = 0
        self._turned_away_last = b""
        self._assigned = 0
        self.permitted_until = -inf  # everybody, by the operator
        self.permitted: set[ClientId] = set()
        self.joining_until = -inf  # everybody, into quarantine
        self.waiting: dict[ClientId, None] = {}  # those in quarantine, the first to come first
        self._answers = TokenBucket(options.answers_per_s_max, options.answers_per_s_max)
        at_once = options.connects_at_once_max
        self._connects = TokenBucket(options.connects_per_s_max, at_once)
        self._known_connects = TokenBucket(options.connects_per_s_max, at_once)

    def judge(self, frame: Connect, client_table: int, known: bool) -> Refusal | None:
        """Why this CONNECT is refused, or None; `known`: its client has a session already."""
        if frame.protocol_id != PROTOCOL_ID:
            detail = f"protocol id {frame.protocol_id:#04x}"
            return Refusal(ReturnCode.NOT_SUPPORTED, Reason.PROTOCOL_ID, detail)
        if not known and self.is_memory_scarce:
            detail = "memory is scarce, no new client comes in"
            return Refusal(ReturnCode.CONGESTION, Reason.MEMORY_SCARCE, detail)
        if not known and client_table >= self._options.clients_max:
            detail = f"{self._options.clients_max} clients, all places taken"
            return Refusal(ReturnCode.CONGESTION, Reason.CLIENTS_FULL, detail)
        return None

    def list_only(self, listed: frozenset[str]) -> list[Effect]:
        """Another list of those that may come in; who is in keeps its place, and one that waits and
        is listed now is approved.
        """
        self._options = replace(self._options, listed=listed)
        found = [each for each in self.waiting if each in listed]
        return [effect for each in found for effect in self._end_waiting(each)]

    # Who is in no list

    def restore(self, permitted: Iterable[ClientId], waiting: Iterable[ClientId] = ()) -> None:
        """Those that the operator let in, in a previous run, and those that wait for it."""
        self.permitted.update(permitted)
        if not self._options.is_listed_only:
            return
        for client_id in waiting:
            if client_id not in self._options.listed and client_id not in self.permitted:
                self._wait(client_id)

    def unlisted(self, client_id: ClientId, now: float) -> Refusal | None:
        """Why a new client may not come in, or None."""
        if not self._options.is_listed_only or client_id in self._options.listed:
            return None
        if client_id in self.permitted or client_id in self.waiting:
            return None
        is_joining = now < self.joining_until
        if is_joining and len(self.waiting) < WAITING_MAX:
            return None
        if is_joining and now >= self.permitted_until:
            detail = f"client id {client_id!r}: {WAITING_MAX} wait for approval already"
        elif now >= self.permitted_until:
            detail = f"client id {client_id!r} is not in admission.listed"
        elif len(self.permitted) >= self._options.clients_max:
            detail = f"client id {client_id!r}: {len(self.permitted)} were let in already"
        else:
            return None
        return Refusal(ReturnCode.CONGESTION, Reason.NOT_PERMITTED, detail)

    def came_in(self, client_id: ClientId, peer: Peer, called_at: float) -> list[Effect]:
        """A new client that was let in at `called_at` has shown that it is there; it is permitted
        for good, or waits for approval.
        """
        options = self._options
        if not options.is_listed_only or client_id in options.listed or client_id in self.permitted:
            return []
        if called_at < self.permitted_until:
            return [*self._end_waiting(client_id), *self._permit(client_id)]
        if client_id in self.waiting:
            return []
        self._wait(client_id)
        detail = "a new client waits for approval"
        return [
            Dropped(Reason.NOT_APPROVED, client_id, detail, peer),
            Save(WaitingRecord(client_id)),
        ]

    def approve(self, client_id: ClientId) -> list[Effect]:
        """The operator lets in for good one that waits."""
        return [*self._end_waiting(client_id), *self._permit(client_id)]

    def forget(self, client_id: ClientId) -> list[Effect]:
        """The operator wants it no more."""
        waiting = self._end_waiting(client_id)
        if client_id not in self.permitted:
            return waiting
        self.permitted.remove(client_id)
        return [*waiting, Save(PermitDeleted(client_id))]

    def _permit(self, client_id: ClientId) -> list[Effect]:
        self.permitted.add(client_id)
        return [Save(PermitRecord(client_id))]

    def _wait(self, client_id: ClientId) -> None:
        self.waiting[client_id] = None
        self._access.isolate(client_id)

    def _end_waiting(self, client_id: ClientId) -> list[Effect]:
        if client_id not in self.waiting:
            return []
        del self.waiting[client_id]
        self._access.release(client_id)
        return [Save(WaitingDeleted(client_id))]

    # Names

    def client_id_of(self, frame: Connect, taken: Container[ClientId]) -> ClientId | Refusal:
        """The id as text, or one made up for a client without that wants nothing kept (MQTT has
        the same rule): nobody could come back to such a session.
        """
        raw = frame.client_id
        if not raw and frame.clean_session and self._options.assign_empty_client_id:
            return self._new_client_id(taken)
        client_id = text(raw)
        if not raw or client_id is None or len(raw) > self._options.client_id_bytes_max:
            detail = f"client id {raw[:64]!r} of {len(raw)} bytes"
            return Refusal(ReturnCode.NOT_SUPPORTED, Reason.CLIENT_ID, detail)
        return ClientId(client_id)

    def _new_client_id(self, taken: Container[ClientId]) -> ClientId:
        while True:
            self._assigned += 1
            client_id = ClientId(f"auto-{self._assigned}")
            if client_id not in taken:
                return client_id

    def may_answer_unknown(self, now: float) -> bool:
        """Whether the unknown peers' budget has an answer left."""
        return self._answers.take(now)

    def may_connect(self, address: bytes, datagram: bytes, now: float) -> bool:
        """Whether there is a budget for this datagram from an unknown peer, which is not decoded
        yet.

        Fast, because a flood is made of those for which there is none.
        """
        head = datagram[:_CONNECT_HEAD]
        is_long = head[:1] == b"\x01"
        if head[3:4] != _CONNECT if is_long else head[1:2] != _CONNECT:
            return True
        if self._connects.take(now):
            return True
        client_id = datagram[_CONNECT_HEAD + 2 * is_long :].decode(errors="replace")
        if client_id in self._known and self._known_connects.take(now):
            return True
        self._turned_away += 1
        self._turned_away_last = address
        return False

    def may_rebind(self, now: float) -> bool:
        """Whether there is a budget for a client that is known and comes from elsewhere."""
        return self._known_connects.take(now)

    def turned_away(self, link: int) -> list[Effect]:
        """How many `may_connect` refused since the last time."""
        count, self._turned_away = self._turned_away, 0
        if not count:
            return []
        detail = f"more than {self._options.connects_per_s_max} CONNECTs/s from unknown peers"
        peer = Peer(link, self._turned_away_last)
        return [
            Dropped(
                reason=Reason.TOO_MANY_CONNECTS,
                client_id=None,
                detail=detail,
                peer=peer,
                count=count,
            )
        ]
