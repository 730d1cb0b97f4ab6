"""Holds what docs/guarantees.md promises of wills, over lives of the gateway.

A will is *promised* once the gateway has said CONNACK to a client that gave one; it is *due* when
the gateway finds its client lost, and must then reach the broker. What the gateway itself does not
know after a crash, because a goodbye was said a moment before, is excused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Effect, StateChanged
from gateway.core.session.session import ABSENT, Session
from gateway.core.state_records import AsideRecord, Change, ClientId, State
from gateway.frames import Connack, Disconnect, Frame, ReturnCode
from tests.simulation.adversary import is_adversary
from tests.simulation.model_broker import Publication
from tests.simulation.plan import Plan, Trouble, will_of
from tests.simulation.watch import broken

WILLS = "7 wills"
# A goodbye is not waited for: it is on the disk after 0.25 s and two commits of a slow disk.
GOODBYE_S = 8.0


class WillWatch:
    def __init__(
        self, plan: Plan, is_on_disk: Callable[[bytes], bool], *, is_late: bool = False
    ) -> None:
        """`is_on_disk`: whether a power cut now would leave a will with this payload. `is_late`:
        what is to be saved may wait for the gateway's loop.
        """
        self._plan = plan
        self._is_on_disk = is_on_disk
        self._is_late = is_late
        self._clients = {will_of(one.client_id)[1]: one.client_id for one in plan.sensors}
        self._promised: set[str] = set()
        self._promised_to_adversary: set[str] = set()  # of those
        self._due: set[str] = set()
        self._was_lost: set[str] = set()
        self._left_at: dict[str, float] = {}
        self._dead: set[str] = set()
        self._connecting: set[str] = set()
        self.routed_count = 0

    # At the gateway

    def heard(self, client_id: str, frame: Frame, session: Session | None, now: float) -> None:
        if isinstance(frame, Disconnect) and not frame.duration_s and session is not None:
            self._promised.discard(client_id)
            if not session.is_newcomer:  # else it may be somebody who says so in its name
                self._left_at[client_id] = now

    def said(self, client_id: str, frame: Frame, session: Session | None) -> None:
        if not isinstance(frame, Connack) or frame.return_code != ReturnCode.ACCEPTED:
            return
        if session is None or session.state in ABSENT:
            return
        self._left_at.pop(client_id, None)  # also by a late copy of CONNECT
        if session.will is not None:
            self._promised.add(client_id)
            by_adversary = is_adversary(session.peer)
            (set.add if by_adversary else set.discard)(self._promised_to_adversary, client_id)

    def told(self, news: Effect) -> None:
        if isinstance(news, Dropped) and news.reason is Reason.BROKER_REFUSED:
            client_id = news.client_id or ""
            if repr(will_of(client_id)[0]) in news.detail:
                self._due.discard(client_id)
        if not isinstance(news, StateChanged):
            return
        if news.after is State.CONNECTING:
            self._connecting.add(news.client_id)
            if news.before in ABSENT:
                self._promised.discard(news.client_id)  # it is about to give another
            return
        self._connecting.discard(news.client_id)
        if news.before is State.CONNECTING and news.after is State.DISCONNECTED:
            self._promised.discard(news.client_id)  # and has not
        elif news.after is State.LOST:
            self._was_lost.add(news.client_id)
            speaks_elsewhere = news.client_id in self._promised - self._promised_to_adversary
            if news.peer is not None and is_adversary(news.peer) and speaks_elsewhere:
                return  # a session in its name, beside which its own goes on
            if news.client_id in self._promised:
                self._promised.discard(news.client_id)
                self._due.add(news.client_id)

    def saved(self, change: Change) -> None:
        """A will that is set aside is safe, and due no more."""
        if isinstance(change, AsideRecord):
            self._due.discard(self._clients.get(change.payload, ""))

    def restored(self, sessions: Mapping[ClientId, Session], now: float) -> None:
        for client_id in sorted(self._connecting):  # one that had moved is nowhere now
            session = sessions.get(ClientId(client_id))
            if session is None or session.state in ABSENT:
                self._promised.discard(client_id)
        self._connecting.clear()
        for client_id in sorted(self._due):
            session = sessions.get(ClientId(client_id))
            if session is not None and session.state not in ABSENT:
                self._due.discard(client_id)
                self._promised.add(client_id)
        for client_id, left_at in list(self._left_at.items()):
            session = sessions.get(ClientId(client_id))
            if session is None or session.state in ABSENT:
                continue
            is_excused = now - left_at < GOODBYE_S or self._has_disk_trouble()
            if not is_excused:
                broken(WILLS, f"{client_id} sent DISCONNECT, and is {session.state.value} again")
            del self._left_at[client_id]

    def _has_disk_trouble(self) -> bool:
        troubles = (
            Trouble.FAILING_DISK,
            Trouble.FULL_DISK,
            Trouble.SLOW_DISK,
            Trouble.HUNG_DISK,
        )
        return self._is_late or any(self._plan.has(trouble) for trouble in troubles)

    # At the disk

    def on_disk(self) -> set[str]:
        """Whose due will is there."""
        payloads = self._clients.items()
        return {one for payload, one in payloads if one in self._due and self._is_on_disk(payload)}

    def taken_away(self, before: set[str]) -> None:
        """Somebody did something to files; of what was on the disk before, what is nowhere now."""
        self._due -= before - self.on_disk()

    # At the sensor

    def died(self, client_id: str) -> None:
        self._dead.add(client_id)

    # At the broker

    def routed(self, publication: Publication) -> None:
        client_id = self._clients.get(publication.payload)
        if client_id is None:
            return
        if publication.topic != will_of(client_id)[0]:
            return  # somebody else's, who did not know what it changed
        self.routed_count += 1
        if client_id not in self._was_lost:
            broken(WILLS, f"the will of {client_id}, which nobody lost")
        self._due.discard(client_id)

    # At the end

    def unfinished(self) -> list[str]:
        waits = self._due | (self._dead & self._promised)
        return [f"the will of {client_id}" for client_id in sorted(waits)]
