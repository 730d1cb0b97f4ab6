"""What the engine and the sessions ask of the access rules; without rules nothing is asked."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.access.rules import AccessRules, Action
from gateway.core.values import Peer

IdentityOf = Callable[[int, bytes], str]


def unknown(_link: int, _address: bytes) -> str:
    return ""


class AccessGate:
    """`rules`: None without any, for those that ask for each message to look first."""

    def __init__(self, rules: AccessRules | None = None, identity_of: IdentityOf = unknown) -> None:
        self.rules = rules
        self.identity_of = identity_of

    def refuses(self, client_id: str, peer: Peer, action: Action, topic: str) -> bool:
        rules = self.rules
        if rules is None:
            return False
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
        identity = self.identity_of(peer.link, peer.address)
        verdict = rules.verdict(client_id, identity, action, topic)
        return not verdict.allows(qos, payload_bytes, retain=retain)
