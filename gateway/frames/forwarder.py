"""Forwarder encapsulation (5.5): how a radio bridge carries the messages of many nodes.

`L FE ctrl node-id inner`. The length byte is always one and leaves the inner message out, so this
is no shape like the others. The inner message stays bytes: the caller that unwraps it decodes it,
and then speaks to (bridge, node id). One encapsulation inside another is legal in theory; no bridge
sends it, and it would have no end, so it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from gateway.frames.fields import MalformedFrame

_HEAD_OCTETS = 3  # length, type, control
_LENGTH_MAX = 255
_RADIUS_MASK = 0x03

NODE_ID_OCTETS_MAX = _LENGTH_MAX - _HEAD_OCTETS


@dataclass(frozen=True, slots=True)
class Forwarded:
    """`radius` is the broadcast radius, from the gateway to the forwarder only."""

    KIND: ClassVar[int] = 0xFE

    node_id: bytes
    inner: bytes
    radius: int = 0

    @classmethod
    def from_octets(cls, datagram: bytes, start: int, end: int) -> Self:
        if start != 2:
            raise MalformedFrame("forwarder encapsulation in the 3-byte length form")
        length = datagram[0]
        if length < _HEAD_OCTETS:
            raise MalformedFrame(
                f"forwarder encapsulation declares {length} bytes, its smallest has {_HEAD_OCTETS}"
            )
        if length >= end:
            raise MalformedFrame(
                f"forwarder encapsulation of {length} bytes has nothing inside: "
                f"the datagram has {end}"
            )
        inner = datagram[length:end]
        if _is_forwarded(inner):
            raise MalformedFrame("forwarder encapsulation inside another one")
        return cls(datagram[_HEAD_OCTETS:length], inner, datagram[2] & _RADIUS_MASK)

    def to_octets(self) -> bytes:
        length = _HEAD_OCTETS + len(self.node_id)
        if length > _LENGTH_MAX:
            raise ValueError(f"a node id has at most {NODE_ID_OCTETS_MAX} bytes")
        if self.radius & ~_RADIUS_MASK:
            raise ValueError(f"a broadcast radius is 0 to {_RADIUS_MASK}")
        if not self.inner or _is_forwarded(self.inner):
            raise ValueError("a forwarder carries one whole message, and no encapsulation")
        return bytes((length, self.KIND, self.radius)) + self.node_id + self.inner


def _is_forwarded(inner: bytes) -> bool:
    kind_at = 3 if inner[0] == 0x01 else 1
    return len(inner) > kind_at and inner[kind_at] == Forwarded.KIND
