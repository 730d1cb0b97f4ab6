"""The operator's desk: what a person asks of the running gateway, as inputs like any other.

Nothing here goes a way of its own. A message to a client waits in its outbox, is saved and repeated
as one from the broker is; a client that is forgotten ends as one that gives up its place does.

Limits: those of the ways that are gone. What is asked for lasts until it is asked otherwise or the
gateway restarts, but for who was let in, which is saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gateway.core.acceptor import Acceptor
from gateway.core.access.gate import AccessGate
from gateway.core.access.rules import AccessRules
from gateway.core.downlink.downlink import Downlink
from gateway.core.events import Output
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId
from gateway.core.uplink.uplink import Uplink
from gateway.core.values import Message

if TYPE_CHECKING:
    from gateway.core.access.bindings import Bindings


class Operator:
    def __init__(
        self,
        *,
        sessions: Mapping[ClientId, Session],
        acceptor: Acceptor,
        uplink: Uplink,
        downlink: Downlink,
        access: AccessGate,
    ) -> None:
        self.is_drain_paused = False
        self._sessions = sessions
        self._acceptor = acceptor
        self._uplink = uplink
        self._downlink = downlink
        self._access = access

    def pause_drain(self, *, is_paused: bool) -> list[Output]:
        """Readings that wait on disk stay there, or go on to the broker."""
        self.is_drain_paused = is_paused
        return self._uplink.pause_drain(is_paused=is_paused)

    def send_aside(self, number: int, now: float) -> list[Output] | None:
        """A reading that was set aside goes to the broker once more; None if it is not there."""
        return self._uplink.send_aside(number, now)

    def delete_aside(self, numbers: Iterable[int]) -> list[Output]:
        """Readings that were set aside are gone."""
        return self._uplink.aside.delete(numbers)

    def forget(self, client_id: ClientId, now: float) -> list[Output]:
        """End its session, without its will; it may come again as a new client, if new ones may.
        Its readings that wait on disk go on.
        """
        return self._acceptor.forget(client_id, now)

    def publish(self, client_id: ClientId, message: Message, now: float) -> list[Output]:
        """A message for one client; nothing if it has no session."""
        session = self._sessions.get(client_id)
        return [] if session is None else self._downlink.send_to(session, message, now)

    def permit(self, until: float) -> None:
        """Let in clients that no list names, until then."""
        self._acceptor.admission.permitted_until = until

    def open_joining(self, until: float) -> None:
        """Let in clients that no list names, into quarantine, until then."""
        self._acceptor.admission.joining_until = until

    def approve(self, client_id: ClientId) -> list[Output]:
        """One that waits in quarantine is let in for good."""
        return [*self._acceptor.admission.approve(client_id)]

    def list_only(self, listed: frozenset[str]) -> list[Output]:
        """Another list of clients that may come in, in place of the configuration's."""
        return [*self._acceptor.admission.list_only(listed)]

    def use_access(self, rules: AccessRules | None, *, narrows: bool = False) -> list[Output]:
        """Other rules of access. What a client has and may not have any more ends: subscriptions,
        and its will. What waits for it is looked at when its turn comes.
        """
        self._access.use(rules, narrows=narrows)
        return self.end_forbidden()

    def end_forbidden(self) -> list[Output]:
        """Subscriptions and wills that the rules do not allow, such as those of a previous run."""
        if self._access.rules is None:
            return []
        return [output for session in self._sessions.values() for output in session.end_forbidden()]

    def use_bindings(self, bindings: Bindings | None) -> list[Output]:
        """Other bindings. Clients that are where they may not be any more hear DISCONNECT."""
        self._access.bindings = bindings
        return self._acceptor.end_foreign()

    # For who looks

    @property
    def permitted_until(self) -> float:
        return self._acceptor.admission.permitted_until

    @property
    def joining_until(self) -> float:
        return self._acceptor.admission.joining_until

    @property
    def waiting(self) -> list[ClientId]:
        """Who waits for approval, the first to come first."""
        return list(self._acceptor.admission.waiting)

    @property
    def permitted(self) -> int:
        """How many that no list names were let in."""
        return len(self._acceptor.admission.permitted)
