"""Addresses of nodes behind a forwarder (1.2, 5.5): they are addresses like any other.

The core, the state store and the log know a node by the raw address of its forwarder, its node id
and that id's length, one after the other. A link's own addresses all have one length, so an address
of that length is a peer of the link itself, and a longer one is a node behind one.

A protected peer is the address of its transport, or of a node, then its sender id of 8 bytes and a
byte 0xFF, which is no length of a node id: protected and plain packets of one address are two
peers.

Limit: a node id has at most 252 bytes, as the encapsulation has no more.
"""

from __future__ import annotations

PROTECTED_MARK = 0xFF
PROTECTED_TAIL_BYTES = 9


def is_protected(address: bytes) -> bool:
    """Whether it is a protected peer's. The address of a link's own peers may end so by chance,
    where it is no longer than IPv4's (8 bytes).
    """
    return len(address) > PROTECTED_TAIL_BYTES and address[-1] == PROTECTED_MARK


def address_behind(forwarder: bytes, node_id: bytes) -> bytes:
    return forwarder + node_id + bytes((len(node_id),))


def split(address: bytes, forwarder_bytes: int) -> tuple[bytes, bytes] | None:
    """The forwarder's address and the node id. None for what is no address of such a link: a
    former configuration may have left one of another kind.
    """
    if len(address) <= forwarder_bytes or address[-1] != len(address) - forwarder_bytes - 1:
        return None
    return address[:forwarder_bytes], address[forwarder_bytes:-1]
