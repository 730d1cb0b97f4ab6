"""Who may come in, and how much those get who have not.

Strangers, that is addresses from which no client is known to answer, have budgets of their own, so
that a flood of them costs members nothing:

- `answers_per_s_max` DISCONNECTs a second in all, beyond which they hear nothing;
- `connects_per_s_max` CONNECTs, and `connects_at_once_max` at once, as after a power cut. Beyond
  that a CONNECT is dropped unread, but for one with the client id of a session that is there: of
  these as many may come besides. So clients that moved are not locked out by random ids.

Clients are bounded by `clients_max`, sessions that are kept for absent clients included. When all
places are taken, a new client gets that of the one that has been absent the longest, if for
`absent_s_min` at least; else it is answered with congestion. A new client takes its place when it
says more than CONNECT (`callers.py`).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from gateway.effects import ClientId, Dropped, Effect, Peer, Reason
from gateway.frames import Connect, ReturnCode
from gateway.routing.budget import Budget
from gateway.session.topic_rules import text

PROTOCOL_ID = 0x01  # MQTT-SN 1.2
_CONNECT = bytes((Connect.KIND,))
_CONNECT_HEAD = 6  # octets before the client id, in the short form


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    clients_max: int = 10_000
    client_id_bytes_max: int = 64  # 1.2 says 23; gateways in the field take more
    assign_empty_client_id: bool = False
    answers_per_s_max: int = 20
    connects_per_s_max: int = 2000
    connects_at_once_max: int = 12_000
    callers_max: int = 12_000
    handshakes_max: int = 12_000
    packets_per_s_max: int = 0  # from one address; 0 for no limit
    absent_s_min: float = 3600.0  # longer than a restart or a short outage keeps a client away


@dataclass(frozen=True, slots=True)
class Refusal:
    return_code: ReturnCode
    reason: Reason
    detail: str = ""


class Admission:
    def __init__(self, rules: AdmissionRules, known: Container[ClientId] = ()) -> None:
        """`known`: the clients that have a session."""
        self._rules = rules
        self._known: Container[object] = known
        self._turned_away = 0
        self._turned_away_last = b""
        self._assigned = 0
        self._answers = Budget(rules.answers_per_s_max, rules.answers_per_s_max)
        at_once = rules.connects_at_once_max
        self._connects = Budget(rules.connects_per_s_max, at_once)
        self._known_connects = Budget(rules.connects_per_s_max, at_once)

    def judge(self, frame: Connect, members: int, known: bool) -> Refusal | None:
        """Why this CONNECT is refused, or None; `known`: its client has a session already."""
        if frame.protocol_id != PROTOCOL_ID:
            detail = f"protocol id {frame.protocol_id:#04x}"
            return Refusal(ReturnCode.NOT_SUPPORTED, Reason.PROTOCOL_ID, detail)
        if not known and members >= self._rules.clients_max:
            detail = f"{self._rules.clients_max} clients, all places taken"
            return Refusal(ReturnCode.CONGESTION, Reason.CLIENTS_FULL, detail)
        return None

    def client_id_of(self, frame: Connect, taken: Container[ClientId]) -> ClientId | Refusal:
        """The id as text, or one made up for a client without that wants nothing kept (MQTT has
        the same rule): nobody could come back to such a session.
        """
        raw = frame.client_id
        if not raw and frame.clean_session and self._rules.assign_empty_client_id:
            return self._new_client_id(taken)
        client_id = text(raw)
        if not raw or client_id is None or len(raw) > self._rules.client_id_bytes_max:
            detail = f"client id {raw[:64]!r} of {len(raw)} bytes"
            return Refusal(ReturnCode.NOT_SUPPORTED, Reason.CLIENT_ID, detail)
        return ClientId(client_id)

    def _new_client_id(self, taken: Container[ClientId]) -> ClientId:
        while True:
            self._assigned += 1
            client_id = ClientId(f"auto-{self._assigned}")
            if client_id not in taken:
                return client_id

    def may_answer_stranger(self, now: float) -> bool:
        """Whether the strangers' budget has an answer left."""
        return self._answers.take(now)

    def may_call(self, address: bytes, datagram: bytes, now: float) -> bool:
        """Whether there is a budget for this datagram from a stranger, which is not decoded yet.

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

    def turned_away(self, link: int) -> list[Effect]:
        """How many `may_call` refused since the last time."""
        count, self._turned_away = self._turned_away, 0
        if not count:
            return []
        detail = f"more than {self._rules.connects_per_s_max} CONNECTs/s from strangers"
        peer = Peer(link, self._turned_away_last)
        return [Dropped(Reason.TOO_MANY_CONNECTS, None, detail, peer, count)]
