"""Under which id each device is announced, where other gateways of the broker may know it as well.

In Home Assistant another id is another device, without its names and history. So a sensor that
moves here from another gateway keeps the id that it has there, once it is gone there; the other
gateway sees our claim to it (claims.py) and lets go of it.

Rule 1: a device that has an id keeps it, until another gateway has a stronger claim to it.
Rule 2: one without an id that other gateways announce waits until it was received here, and gets
        the id that it has at a gateway which is offline, for which it is lost or disconnected, or
        which has forgotten it.
Rule 3: a gateway that received it, and was received of it again here after that, has a device of
        its own by the same name: then this one gets an id of its own. So it does where nothing is
        known of the other gateway, and for all that wait beyond `WAITING_MAX`.
Rule 4: an id is taken over by this gateway at most `MOVES_MAX` times in `MOVES_S`, each time after
        a pause that is twice as long; then rule 3. So two sensors of one name that come and go in
        turns do not move an id back and forth for good.
Rule 5: whose claim is the stronger one announces again when the other withdraws its own: what that
        gateway announced meanwhile is replaced.
Rule 6: nothing is decided before the claims that the broker retains have come.

The clocks of two gateways are not compared: rule 3 counts a time `last_seen` of the other gateway
only when it is later than one that was published since the device came here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from enum import Enum
from math import inf

from gateway.core.state_records import ClientId
from gateway.presence.claims import Claim, Claims
from gateway.presence.standing import OFFLINE
from gateway.presence.topics import Topics, announcement, usual_device_id

WAITING_MAX = 500
RIVALS_MAX = 4  # gateways that announce the same client id
# A gateway that restarts is offline for a moment.
OFFLINE_S = 60.0
# After a subscription was granted, for what is retained there.
RETAINED_S = 5.0
# Without an answer of the broker about a gateway.
UNKNOWN_S = 30.0
MOVES_MAX = 4
MOVES_S = 24 * 3600.0
PAUSE_S = 60.0
# Before it is announced again because of another gateway's claim, and between two times.
AGAIN_AFTER_S = 2.0
AGAIN_S = 60.0
NOTES_MAX = 1000
_GONE = frozenset(each.value for each in OFFLINE)


class Verdict(Enum):
    """About one other gateway that announces the device."""

    UNKNOWN = "unknown"
    UNREADABLE = "unreadable"
    HERE = "here"
    ALSO_THERE = "also there"
    GONE = "gone"


class _Rival:
    """Another gateway that announces a device which is waiting."""

    __slots__ = ("granted_at", "heard_at", "is_there", "last_seen", "since", "state", "updates")

    def __init__(self, now: float) -> None:
        self.since = now
        self.granted_at: float | None = None
        self.state: str | None = None  # of the device there; empty: it has none
        self.last_seen = ""
        self.updates = 0  # live ones with a later time
        self.heard_at: float | None = None  # here, when it was certain that it was received there
        self.is_there = False

    def receive(self, payload: bytes, now: float, *, is_retained: bool) -> None:
        try:
            document = json.loads(payload) if payload else {}
            self.state = str(document.get("state", ""))
            last_seen = str(document.get("last_seen") or "")
        except (ValueError, RecursionError, AttributeError):
            return
        if last_seen > self.last_seen and not is_retained:
            self.updates += 1
            if self.updates > 1:
                self.heard_at = now
        self.last_seen = max(self.last_seen, last_seen)


class Identities:
    """`heard_at`: when a device was received last in this run, by the clock of the core; None: not
    in this run. `is_granted`: whether the broker has granted a subscription of the gateway.
    """

    def __init__(
        self,
        *,
        topics: Topics,
        prefix: str,
        heard_at: Callable[[ClientId], float | None],
    ) -> None:
        self.claims = Claims(topics)
        self.is_settled = False
        self.is_granted: Callable[[str], bool] = lambda _topic: False
        self._topics = topics
        self._prefix = prefix
        self._heard_at = heard_at
        self._own: dict[ClientId, Claim] = {}  # what is announced here, or will be
        self._client_of: dict[str, ClientId] = {}  # by topic of the announcement
        self._states: dict[str, float | None] = {}  # of other gateways: since when offline
        self._waiting: dict[ClientId, dict[str, _Rival]] = {}
        self._watched: dict[str, tuple[ClientId, str]] = {}  # by topic of the presence
        self._moves: dict[ClientId, list[float]] = {}
        self._let_go: dict[ClientId, str] = {}
        self._again_at: dict[ClientId, float] = {}
        self._last_again: dict[ClientId, float] = {}
        self._notes: list[str] = []

    # Over restarts

    def restore(self, client_id: ClientId, topic: str, turn: int) -> None:
        """It is announced at this topic."""
        self._enter(Claim(turn, self._topics.name, topic, client_id))

    # From the connection

    def connected(self) -> None:
        self.is_settled = False
        self._states.clear()
        self.claims.connected()
        for rivals in self._waiting.values():
            for each in rivals.values():
                each.granted_at = None

    def settle(self, now: float) -> None:
        """What is retained has come (rule 6)."""
        self.is_settled = True
        for gone in self.claims.settled():
            self._changed(gone, None, now)
        for client_id in list(self._own):
            self._compare(client_id, now)

    def state_received(self, gateway: str, payload: bytes, now: float) -> None:
        is_offline = payload == b"offline"
        if not payload:
            self._states.pop(gateway, None)
        elif not is_offline:
            self._states[gateway] = None
        elif self._states.get(gateway) is None:
            self._states[gateway] = now

    def claim_received(self, topic: str, payload: bytes, now: float) -> None:
        before, after = self.claims.receive(topic, payload)
        if self.is_settled and before != after:
            self._changed(before, after, now)

    def presence_received(
        self, topic: str, payload: bytes, now: float, *, is_retained: bool
    ) -> None:
        """Of a device that waits, at another gateway."""
        client_id, gateway = self._watched.get(topic, (ClientId(""), ""))
        rival = self._waiting.get(client_id, {}).get(gateway)
        if rival is not None:
            rival.receive(payload, now, is_retained=is_retained)

    def _changed(self, before: Claim | None, after: Claim | None, now: float) -> None:
        for claim in (before, after):
            client_id = None if claim is None else self._client_of.get(claim.topic)
            if client_id is not None and not self._compare(client_id, now):
                # Rule 5: once more when it is withdrawn, and where the other does not know ours.
                last = self._last_again.get(client_id, -inf)
                at = max(now + AGAIN_AFTER_S, last + AGAIN_S)
                self._again_at.setdefault(client_id, at)

    def _compare(self, client_id: ClientId, now: float) -> bool:
        """Whether another gateway's claim is stronger: then this one lets go."""
        own = self._own[client_id]
        other = self.claims.best_to(own.topic)
        if other is None or not other.beats(own):
            return False
        self.forget(client_id)
        self._let_go[client_id] = own.topic
        self._note(f"{client_id} is at gateway {other.gateway} now, which announces it from now on")
        return True

    # From the announcements

    def claim_of(self, client_id: ClientId) -> Claim | None:
        """Where it is announced, if that is known."""
        return self._own.get(client_id)

    def decide(self, client_id: ClientId, now: float) -> Claim | None:
        """Where it is to be announced; None: that is not certain yet."""
        found = self._own.get(client_id)
        if found is not None:
            return found
        if not self.is_settled:
            return None
        before = self.claims.own.get(client_id)
        if before is not None and before.topic.startswith(f"{self._prefix}/device/"):
            other = self.claims.best_to(before.topic)
            if other is None or before.beats(other):
                is_here = self._heard_at(client_id) is not None
                return self._enter(before) if is_here else None
        rivals = list(self._rivals(client_id))
        if not rivals:
            return self._with_own_id(client_id)
        return self._decide_among(client_id, rivals, now)

    def _rivals(self, client_id: ClientId) -> Iterable[Claim]:
        found = [
            each
            for each in self.claims.of_client(client_id)
            if each.topic.startswith(f"{self._prefix}/device/")
            and self.claims.best_to(each.topic) == each
            and each.topic not in self._client_of
        ]
        return found[:RIVALS_MAX]

    def _decide_among(self, client_id: ClientId, rivals: list[Claim], now: float) -> Claim | None:
        heard_at = self._heard_at(client_id)
        if heard_at is None:
            return None
        waiting = self._waiting.get(client_id)
        if waiting is None:
            if len(self._waiting) >= WAITING_MAX:
                return self._with_own_id(client_id)
            waiting = self._waiting[client_id] = {}
        for each in rivals:
            if each.gateway not in waiting:
                waiting[each.gateway] = _Rival(now)
                self._watched[self._presence_topic(each)] = client_id, each.gateway
        verdicts = {
            each: self._verdict(each, waiting[each.gateway], heard_at, now) for each in rivals
        }
        gone = [each for each, verdict in verdicts.items() if verdict is Verdict.GONE]
        if gone:
            return self._take_over(gone[0], now)
        if Verdict.UNKNOWN in verdicts.values() or Verdict.HERE in verdicts.values():
            return None
        names = ", ".join(each.gateway for each in rivals)
        if Verdict.ALSO_THERE in verdicts.values():
            self._note(f"{client_id} is also at gateway {names}: each has a device of its own")
        else:
            self._note(f"{client_id} is announced by gateway {names}, of which nothing is known")
        return self._with_own_id(client_id)

    def _verdict(self, claim: Claim, rival: _Rival, heard_at: float, now: float) -> Verdict:
        offline_since = self._states.get(claim.gateway, inf)
        topic = self._presence_topic(claim)
        if offline_since is not None and now >= offline_since + OFFLINE_S:
            return Verdict.GONE
        if rival.granted_at is None and self.is_granted(topic):
            rival.granted_at = now
        if offline_since == inf or (rival.state is None and rival.granted_at is None):
            return Verdict.UNREADABLE if now >= rival.since + UNKNOWN_S else Verdict.UNKNOWN
        if offline_since is not None:
            return Verdict.HERE  # for less than a minute
        if rival.state is None or not rival.state:
            is_sure = rival.granted_at is not None and now >= rival.granted_at + RETAINED_S
            return Verdict.GONE if is_sure else Verdict.UNKNOWN
        if rival.state in _GONE:
            return Verdict.GONE
        is_there = rival.heard_at is not None and heard_at > rival.heard_at
        return Verdict.ALSO_THERE if is_there else Verdict.HERE

    def _presence_topic(self, claim: Claim) -> str:
        return Topics(self._topics.prefix, claim.gateway).client(claim.client_id)

    def _take_over(self, claim: Claim, now: float) -> Claim | None:
        """Rule 4."""
        client_id = claim.client_id
        moves = [each for each in self._moves.get(client_id, ()) if now < each + MOVES_S]
        if len(moves) >= MOVES_MAX:
            self._note(
                f"{client_id} came from gateway {claim.gateway} and went back {MOVES_MAX} times "
                "within a day: it is announced as a device of its own"
            )
            return self._with_own_id(client_id)
        if moves and now < moves[-1] + PAUSE_S * 2 ** (len(moves) - 1):
            return None
        self._moves.pop(client_id, None)
        self._moves[client_id] = [*moves, now]
        if len(self._moves) > WAITING_MAX:
            del self._moves[next(iter(self._moves))]
        self._note(f"{client_id} came from gateway {claim.gateway}: it keeps its device")
        return self._enter(claim._replace(turn=claim.turn + 1, gateway=self._topics.name))

    def _with_own_id(self, client_id: ClientId) -> Claim:
        number, usual = 1, usual_device_id(self._topics.name, client_id)
        device, topic = usual, announcement(self._prefix, usual)
        while self.claims.best_to(topic) is not None or topic in self._client_of:
            number += 1
            device = usual_device_id(self._topics.name, f"{client_id}/{number}")
            topic = announcement(self._prefix, device)
        return self._enter(Claim(0, self._topics.name, topic, client_id))

    def _enter(self, claim: Claim) -> Claim:
        self._stop_waiting(claim.client_id)
        claim = claim._replace(gateway=self._topics.name)
        self._own[claim.client_id] = claim
        self._client_of[claim.topic] = claim.client_id
        return claim

    def forget(self, client_id: ClientId) -> None:
        self._stop_waiting(client_id)
        self.claims.own.pop(client_id, None)
        self._again_at.pop(client_id, None)
        self._last_again.pop(client_id, None)
        claim = self._own.pop(client_id, None)
        if claim is not None:
            self._client_of.pop(claim.topic, None)

    def _stop_waiting(self, client_id: ClientId) -> None:
        if self._waiting.pop(client_id, None) is not None:
            self._watched = {
                topic: whose for topic, whose in self._watched.items() if whose[0] != client_id
            }

    def is_anothers(self, topic: str) -> bool:
        """Whether another gateway announces a device at this topic: it must not be cleared."""
        other = self.claims.best_to(topic)
        client_id = self._client_of.get(topic)
        if other is None:
            return False
        return client_id is None or other.beats(self._own[client_id])

    # Time

    @property
    def watched(self) -> Iterable[str]:
        """What is to be subscribed to for the devices that wait."""
        return self._watched

    def take_due(self, now: float) -> list[ClientId]:
        """Devices that waited and can be announced now, and those to be announced again."""
        if not self.is_settled:
            return []
        found = [each for each in list(self._waiting) if self.decide(each, now) is not None]
        for client_id, at in list(self._again_at.items()):
            if now >= at:
                del self._again_at[client_id]
                self._last_again[client_id] = now
                found.append(client_id)
        return found

    def take_let_go(self) -> dict[ClientId, str]:
        """Devices that another gateway has now, with the topics of their announcements."""
        let_go, self._let_go = self._let_go, {}
        return let_go

    def take_notes(self) -> list[str]:
        notes, self._notes = self._notes, []
        return notes

    def _note(self, line: str) -> None:
        if len(self._notes) < NOTES_MAX:
            self._notes.append(line)
