"""What the engine and the sessions ask of bindings and access rules; without any, nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.core.access.rules import (
    HEAR,
    HEAR_PART,
    RECEIVE,
    SUBSCRIBE,
    AccessRules,
    Action,
)
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Denied, Dropped
from gateway.core.state_records import ClientId
from gateway.core.values import Peer

if TYPE_CHECKING:  # most have no bindings
    from gateway.core.access.bindings import Bindings

IdentityOf = Callable[[int, bytes], str]
SHOWN_MAX = 64  # characters of a topic, in the log


def unknown(_link: int, _address: bytes) -> str:
    return ""


class AccessGate:
    """`narrows`: a subscription wider than the rules is granted, and brings what they allow.
    `bindings`: None without any. `rules`: None without any, for those that ask for each message
    to look first. As long as a client is in quarantine there are some: it may do nothing, and all
    others as much as before.
    """

    def __init__(
        self,
        rules: AccessRules | None = None,
        identity_of: IdentityOf = unknown,
        bindings: Bindings | None = None,
        *,
        narrows: bool = False,
    ) -> None:
        self.rules = rules
        self.narrows = narrows
        _load_search(narrows)
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

    def use(self, rules: AccessRules | None, *, narrows: bool = False) -> None:
        """Others than before."""
        self._given = rules
        self.narrows = narrows
        _load_search(narrows)
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

    def refuses_subscription(self, client_id: str, peer: Peer, topic_filter: str) -> bool:
        """For what it brings; where subscriptions are narrowed, if that is nothing."""
        action = HEAR_PART if self.narrows else SUBSCRIBE
        return self.refuses(client_id, peer, action, topic_filter)

    def keeps_back(self, client_id: str, peer: Peer, topic: str) -> bool:
        """Of a message that came from the broker for one of its subscriptions."""
        return self._refuses_down(client_id, peer, HEAR, topic)

    def refuses_delivery(self, client_id: str, peer: Peer, topic: str) -> bool:
        """Of a message whose turn has come, however it came to wait."""
        return self._refuses_down(client_id, peer, RECEIVE, topic)

    def _refuses_down(self, client_id: str, peer: Peer, action: Action, topic: str) -> bool:
        rules = self.rules
        if rules is None:
            return False
        if client_id in self._quarantine:
            return True
        identity = self.identity_of(peer.link, peer.address)
        if (not identity or peer.link < 0) and self.is_unknown(peer):
            return False
        return not rules.verdict(client_id, identity, action, topic).is_allowed

    def is_unknown(self, peer: Peer) -> bool:
        """Whether it is not known who is there, as where a restart ended its session of DTLS, or
        where its link is gone: what comes for the client waits, and nothing is sent there until it
        is known.
        """
        if peer.link < 0:
            return True
        return self.identity_of is not unknown and not self.identity_of(peer.link, peer.address)

    def denied(self, client_id: str | None, peer: Peer, action: Action, topic: str) -> Dropped:
        """The news of a refusal. `topic` is a filter for a subscription."""
        identity = self.identity_of(peer.link, peer.address)
        return Dropped(
            Reason.FORBIDDEN,
            None if client_id is None else ClientId(client_id),
            f"{action} {topic[:SHOWN_MAX]!r}",
            peer,
            denied=Denied(identity, action, topic),
        )

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


def _load_search(is_wanted: bool) -> None:
    """Now, not when a client asks: the disk may be gone then."""
    if is_wanted:
        import gateway.core.access.parts  # noqa: F401
