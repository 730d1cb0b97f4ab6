"""What the engine and the sessions ask of bindings and access rules; without any, nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.core.access.rules import AccessRules, Action
from gateway.core.values import Peer

if TYPE_CHECKING:  # most have no bindings
    from gateway.core.access.bindings import Bindings

IdentityOf = Callable[[int, bytes], str]


def unknown(_link: int, _address: bytes) -> str:
    return ""


class AccessGate:
    """`bindings`: None without any. `rules`: None without any, for those that ask for each message
    to look first. As long as a client is in quarantine there are some: it may do nothing, and all
    others as much as before.
    """

    def __init__(
        self,
        rules: AccessRules | None = None,
        identity_of: IdentityOf = unknown,
        bindings: Bindings | None = None,
    ) -> None:
        self.rules = rules
        self.identity_of = identity_of
        self.bindings = bindings
        self._given = rules
        self._quarantine: set[str] = set()

    def refuses_client_id(self, client_id: str, peer: Peer) -> bool:
        """Whether who is there may not use it."""
        bindings = self.bindings
        if bindings is None:
            return False
        return not bindings.verdict(client_id, self.identity_of(peer.link, peer.address)).is_allowed

    def is_foreign(self, client_id: str, peer: Peer) -> bool:
        """Whether a client that is there already may not be. As long as it is not known who is
        there, it may: nothing comes from there until it is.
        """
        return bool(self.bindings and self.identity_of(peer.link, peer.address)) and (
            self.refuses_client_id(client_id, peer)
        )

    def is_proven(self, client_id: str, peer: Peer) -> bool:
        """Whether a key or a certificate shows that this is the client's own device."""
        bindings = self.bindings
        if bindings is None:
            return False
        return bindings.is_proven(client_id, self.identity_of(peer.link, peer.address))

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
