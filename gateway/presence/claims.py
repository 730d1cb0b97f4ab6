"""Which gateway announces which device to Home Assistant: small retained messages, one a device.

`tidegate/NAME/announced/ID` says where (`topic`, of the announcement), and the how manieth gateway
this one is that does so (`turn`, from 0). Announcements themselves do not serve for that: they are
larger than the packets that a gateway takes, and a broker may have very many of other programs.

Rule 1: of two claims to one topic the higher turn counts, then the name of the gateway that comes
        later. So whichever gateway is started first, and whatever each of them missed meanwhile,
        all of them come to the same result.
Rule 2: what was not there after a new connection is gone: it was cleared meanwhile.

Limits: `CLAIMS_MAX`, further ones are not known; `PAYLOAD_BYTES_MAX`, larger ones are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from gateway.core.state_records import ClientId
from gateway.presence.documents import as_json
from gateway.presence.topics import Topics, is_announcement, text_of

CLAIMS_MAX = 20_000
PAYLOAD_BYTES_MAX = 4096
TURN_MAX = 1 << 31

Key = TypeVar("Key", bound=str)


class Claim(NamedTuple):
    turn: int
    gateway: str
    topic: str  # of the announcement
    client_id: ClientId

    def beats(self, other: Claim) -> bool:
        """Rule 1."""
        return self[:2] > other[:2]

    @property
    def payload(self) -> bytes:
        return as_json({"client": self.client_id, "topic": self.topic, "turn": self.turn})


class Claims:
    """`own`: those of this gateway as the broker had them when it started, by client."""

    def __init__(self, topics: Topics) -> None:
        self.own: dict[ClientId, Claim] = {}
        self._topics = topics
        self._beginning = f"{topics.prefix}tidegate/"
        self._of: dict[str, Claim] = {}  # by the topic of the claim
        self._to: dict[str, dict[str, Claim]] = {}  # by the topic that is claimed, and gateway
        self._by_client: dict[ClientId, dict[str, Claim]] = {}
        self._ignored: set[str] = set()
        self._unconfirmed: set[str] = set()

    def ignore(self, topic: str) -> None:
        """A claim of this gateway under a former name of its own, which is being cleared."""
        self._ignored.add(topic)

    def connected(self) -> None:
        self._unconfirmed = set(self._of)

    def settled(self) -> list[Claim]:
        """Rule 2; what was there has come. Those that are gone."""
        gone = [self._of[topic] for topic in self._unconfirmed]
        for topic in self._unconfirmed:
            self._drop(topic)
        self._unconfirmed = set()
        return gone

    def receive(self, topic: str, payload: bytes) -> tuple[Claim | None, Claim | None]:
        """A claim of another gateway: as it was, and as it is now."""
        gateway, _, level = topic.removeprefix(self._beginning).partition("/announced/")
        if not topic.startswith(self._beginning) or not level or topic in self._ignored:
            return None, None
        after = _read(gateway, ClientId(text_of(level)), payload)
        if gateway == self._topics.name:
            self._receive_own(ClientId(text_of(level)), after)
            return None, None
        self._unconfirmed.discard(topic)
        before = self._drop(topic)
        if after is not None and len(self._of) < CLAIMS_MAX:
            self._of[topic] = after
            self._to.setdefault(after.topic, {})[gateway] = after
            self._by_client.setdefault(after.client_id, {})[gateway] = after
        return before, self._of.get(topic)

    def _receive_own(self, client_id: ClientId, claim: Claim | None) -> None:
        if claim is None:
            self.own.pop(client_id, None)
        elif len(self.own) < CLAIMS_MAX:
            self.own[client_id] = claim

    def _drop(self, topic: str) -> Claim | None:
        claim = self._of.pop(topic, None)
        if claim is not None:
            _remove(self._to, claim.topic, claim.gateway)
            _remove(self._by_client, claim.client_id, claim.gateway)
        return claim

    def best_to(self, topic: str) -> Claim | None:
        """Another gateway's claim to this announcement, if there is one."""
        return max(self._to.get(topic, {}).values(), default=None)

    def of_client(self, client_id: ClientId) -> Iterable[Claim]:
        """Of other gateways, the strongest one first."""
        return sorted(self._by_client.get(client_id, {}).values(), reverse=True)


def _remove(index: dict[Key, dict[str, Claim]], key: Key, gateway: str) -> None:
    found = index[key]
    del found[gateway]
    if not found:
        del index[key]


def _read(gateway: str, client_id: ClientId, payload: bytes) -> Claim | None:
    """None of what is none."""
    if not payload or len(payload) > PAYLOAD_BYTES_MAX:
        return None
    try:
        match json.loads(payload):
            case {"client": str(name), "topic": str(topic), "turn": int(turn)}:
                is_ours = name == client_id and is_announcement(topic) and 0 <= turn <= TURN_MAX
                return Claim(turn, gateway, topic, client_id) if is_ours else None
    except (ValueError, RecursionError):
        return None
    return None
