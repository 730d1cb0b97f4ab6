"""What the broker retains of this gateway from a previous run, and of other gateways.

The first connection after a start looks for messages of this gateway that nothing here knows of:
the state folder was lost, or is an older one. With Home Assistant each connection waits for the
claims of other gateways before anything about a device is published or cleared (claims.py).

It has come when the broker has granted the subscriptions and nothing more came for `QUIET_S`, or
after `SETTLE_S_MAX`. Where the broker refuses them, all is as if there were no other gateway.

Limits: `FOUND_MAX` devices of a previous run; further ones are found at the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gateway.core.state_records import ClientId
from gateway.presence.claims import Claim, Claims
from gateway.presence.topics import Topics, text_of

if TYPE_CHECKING:
    from gateway.presence.homeassistant.identities import Identities

QUIET_S = 1.0
SETTLE_S_MAX = 10.0
FOUND_MAX = 10_000


class RetainedSearch:
    def __init__(self, topics: Topics, identities: Identities | None) -> None:
        self.identities = identities
        self.claims = Claims(topics) if identities is None else identities.claims
        self.is_granted: Callable[[str], bool] = lambda _filter: False
        self._base = topics.base
        self._of_claims = f"{topics.prefix}tidegate/+/announced/+"
        self._of_states = f"{topics.prefix}tidegate/+/state"
        self._of_presence = f"{topics.base}/clients/+"
        self._of_values = f"{topics.base}/values/+"
        self._states_beginning = f"{topics.prefix}tidegate/"
        self._name = topics.name
        self._refused: set[str] = set()
        self._is_first = True
        self._found: dict[ClientId, None] = {}
        self._with_values: set[ClientId] = set()
        self._since: float | None = None  # the first look in this connection
        self._quiet_since: float | None = None
        self.is_settled = False

    # From the connection

    def connected(self) -> None:
        if self.identities is None and not self._is_first:
            return  # nothing is to be known any more
        self.is_settled = False
        self._since = self._quiet_since = None
        if self.identities is not None:
            self.identities.connected()

    def refused(self, topic_filter: str) -> bool:
        """The broker does not grant it; whether it is one of these, for the first time."""
        is_new = topic_filter in self.filters and topic_filter not in self._refused
        self._refused.add(topic_filter)
        return is_new

    def receive(self, topic: str, payload: bytes, now: float, *, is_retained: bool) -> None:
        base, _, rest = topic.removeprefix(self._states_beginning).partition("/")
        kind, _, level = rest.partition("/")
        if not self.is_settled:
            self._quiet_since = now
        if kind == "announced":
            self.claims_received(topic, payload, now)
        elif base == self._name:
            self._own_received(kind, level, payload)
        elif self.identities is None:
            return
        elif kind == "state" and not level:
            self.identities.state_received(base, payload, now)
        elif kind == "clients":
            self.identities.presence_received(topic, payload, now, is_retained=is_retained)

    def claims_received(self, topic: str, payload: bytes, now: float) -> None:
        if self.identities is None:
            self.claims.receive(topic, payload)
        else:
            self.identities.claim_received(topic, payload, now)

    def _own_received(self, kind: str, level: str, payload: bytes) -> None:
        if not self._is_first or not payload or kind not in ("clients", "values"):
            return
        client_id = ClientId(text_of(level))
        if len(self._found) < FOUND_MAX:
            self._found[client_id] = None
            if kind == "values":
                self._with_values.add(client_id)

    # Time

    @property
    def filters(self) -> Iterable[str]:
        """What is to be subscribed to at present."""
        found = [self._of_claims] if self._is_first or self.identities is not None else []
        if self.identities is not None:
            found += [self._of_states, *self.identities.watched]
        if self._is_first:
            found += [self._of_presence, self._of_values]
        return found

    def settle(self, now: float) -> bool:
        """Whether what is retained has come just now."""
        if self.is_settled:
            return False
        if self._since is None:
            self._since = now
        needed = [self._of_claims]
        if self._is_first:
            needed += [self._of_presence, self._of_values]
        if all(self.is_granted(each) or each in self._refused for each in needed):
            if self._quiet_since is None:
                self._quiet_since = now
            is_quiet = now >= self._quiet_since + QUIET_S
        else:
            is_quiet = False
        if not is_quiet and now < self._since + SETTLE_S_MAX:
            return False
        self.is_settled = True
        if self.identities is not None:
            self.identities.settle(now)
        return True

    def take_found(self) -> list[tuple[ClientId, Claim | None, bool]]:
        """Once: devices of which the broker has something, each with the claim of this gateway, and
        whether there are values of it.
        """
        if not self._is_first:
            return []
        self._is_first = False
        clients = dict.fromkeys([*self._found, *self.claims.own])
        self._found = {}
        return [(each, self.claims.own.get(each), each in self._with_values) for each in clients]
