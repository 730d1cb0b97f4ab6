"""Addresses of nodes behind a forwarder (1.2, 5.5): they are addresses like any other.

The core, the state store and the log know a node by the raw address of its forwarder, its node id
and that id's length, one after the other. A link's own addresses all have one length, so an address
of that length is a peer of the link itself, and a longer one is a node behind one.

Limit: a node id has at most 252 bytes, as the encapsulation has no more.
"""

from __future__ import annotations


def address_behind(forwarder: bytes, node_id: bytes) -> bytes:
    return forwarder + node_id + bytes((len(node_id),))


def split(address: bytes, forwarder_bytes: int) -> tuple[bytes, bytes] | None:
    """The forwarder's address and the node id. None for what is no address of such a link: a
    former configuration may have left one of another kind.
    """
    if len(address) <= forwarder_bytes or address[-1] != len(address) - forwarder_bytes - 1:
        return None
    return address[:forwarder_bytes], address[forwarder_bytes:-1]
