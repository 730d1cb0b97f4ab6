"""What the engine and the sessions ask of the access rules; without rules nothing is asked."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.access.rules import AccessRules, Action
from gateway.core.values import Peer

IdentityOf = Callable[[int, bytes], str]


def unknown(_link: int, _address: bytes) -> str:
    return ""


class AccessGate:
    """`rules`: None without any, for those that ask for each message to look first. As long as a
    client is in quarantine there are some: it may do nothing, and all others as much as before.
    """

    def __init__(self, rules: AccessRules | None = None, identity_of: IdentityOf = unknown) -> None:
        self.rules = rules
        self.identity_of = identity_of
        self._given = rules
        self._quarantine: set[str] = set()

    def use(self, rules: AccessRules | None) -> None:
        """Others than before."""
        self._given = rules
        self._decide()

    def isolate(self, client_id: str) -> None:
        """This client may do nothing, whatever the rules say."""
        self._quarantine.add(client_id)
        self._decide()

    def release(self, client_id: str) -> None:
        """The rules count for it again."""
        self._quarantine.discard(client_id)
        self._decide()

    def _decide(self) -> None:
        self.rules = self._given
        if self._given is None and self._quarantine:
            self.rules = AccessRules((), is_allowed=True)

    def refuses(self, client_id: str, peer: Peer, action: Action, topic: str) -> bool:
        rules = self.rules
        if rules is None:
            return False
        if client_id in self._quarantine:
            return True
        identity = self.identity_of(peer.link, peer.address)
        return not rules.verdict(client_id, identity, action, topic).is_allowed

    def refuses_message(
        self,
        client_id: str,
        peer: Peer,
        action: Action,
        topic: str,
        *,
        qos: int,
        payload_bytes: int,
        retain: bool,
    ) -> bool:
        """Of one that a client sends."""
        rules = self.rules
        if rules is None:
            return False
        if client_id in self._quarantine:
            return True
        identity = self.identity_of(peer.link, peer.address)
        verdict = rules.verdict(client_id, identity, action, topic)
        return not verdict.allows(qos, payload_bytes, retain=retain)
