"""Addresses of nodes behind a forwarder (1.2, 5.5): they are addresses like any other.

The core, the state store and the log know a node by the raw address of its forwarder, its node id
and that id's length, one after the other. A link's own addresses all have one length, so an address
of that length is a peer of the link itself, and a longer one is a node behind one.

A peer that protects its packets is the address of its transport, or of its node, with its sender id
and one byte FF behind it. No length of a node id is FF, so none of the two is taken for the other.

Limit: a node id has at most 252 bytes, as the encapsulation has no more.
"""

from __future__ import annotations

PROTECTED_MARK = b"\xff"
SENDER_ID_BYTES = 8
PROTECTED_TAIL_BYTES = SENDER_ID_BYTES + len(PROTECTED_MARK)


def protected_address(address: bytes, sender_id: bytes) -> bytes:
    return address + sender_id + PROTECTED_MARK


def unprotected(address: bytes, plain_bytes: int) -> tuple[bytes, bytes]:
    """The address that is before a sender id, and that id; empty where there is none. A link's own
    addresses have `plain_bytes`.
    """
    tail = PROTECTED_TAIL_BYTES
    if len(address) < plain_bytes + tail or not address.endswith(PROTECTED_MARK):
        return address, b""
    return address[:-tail], address[-tail:-1]


def address_behind(forwarder: bytes, node_id: bytes) -> bytes:
    return forwarder + node_id + bytes((len(node_id),))


def split(address: bytes, forwarder_bytes: int) -> tuple[bytes, bytes] | None:
    """The forwarder's address and the node id. None for what is no address of such a link: a
    former configuration may have left one of another kind.
    """
    if len(address) <= forwarder_bytes or address[-1] != len(address) - forwarder_bytes - 1:
        return None
    return address[:forwarder_bytes], address[forwarder_bytes:-1]
