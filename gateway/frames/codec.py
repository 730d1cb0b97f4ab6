"""One datagram, one frame: finds where the message starts and ends, and who reads it.

Rules: `decode` raises MalformedFrame and nothing else, on any bytes. Both length forms are read
at any size, and the short one is written up to 255 bytes. One message per datagram.

Where the spec is silent we are liberal, and `has_trailing_octets` tells those who count or are
strict: bytes after the declared length are not ours to read. Only when the 3-byte form declares
two bytes fewer than there are is the datagram right and the length wrong: Paho's C library forgets
its two extra length bytes when a PUBLISH has 248 bytes of payload.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Never, get_args

from gateway.frames import messages as m
from gateway.frames.fields import MalformedFrame
from gateway.frames.forwarder import Forwarded
from gateway.frames.layout import LONG_OCTETS_MAX

#: Every message of MQTT-SN 1.2, and the encapsulation of a forwarder.
Frame = (
    m.Advertise
    | m.SearchGw
    | m.GwInfo
    | m.Connect
    | m.Connack
    | m.WillTopicReq
    | m.WillTopic
    | m.WillMsgReq
    | m.WillMsg
    | m.Register
    | m.Regack
    | m.Publish
    | m.Puback
    | m.Pubcomp
    | m.Pubrec
    | m.Pubrel
    | m.Subscribe
    | m.Suback
    | m.Unsubscribe
    | m.Unsuback
    | m.Pingreq
    | m.Pingresp
    | m.Disconnect
    | m.WillTopicUpd
    | m.WillTopicResp
    | m.WillMsgUpd
    | m.WillMsgResp
    | Forwarded
)

ENVELOPE_KIND = 0xFF  # reserved in 1.2: what protects packets has it (core/protection/envelope.py)
_LONG_HEAD_OCTETS = 4

_Reader = Callable[[bytes, int, int], Frame]


def _refuse_reserved(datagram: bytes, start: int, end: int) -> Never:
    raise MalformedFrame(f"message type 0x{datagram[start - 1]:02X} is reserved")


_READER_OF_KIND: dict[int, _Reader] = {kind.KIND: kind.from_octets for kind in get_args(Frame)}
_READERS: tuple[_Reader, ...] = tuple(
    _READER_OF_KIND.get(kind, _refuse_reserved) for kind in range(256)
)
_NAMES: dict[int, str] = {kind.KIND: kind.__name__.upper() for kind in get_args(Frame)}


def decode(datagram: bytes) -> Frame:
    """The one message of a datagram (5.2). Raises MalformedFrame and nothing else."""
    size = len(datagram)
    if size > 1 and datagram[0] == size:  # nearly all there are; a 1 here has a size of 1
        start, end = 2, size
    else:
        start, end = _bounds(datagram)
    return _READERS[datagram[start - 1]](datagram, start, end)


def encode(frame: Frame) -> bytes:
    """As bytes, ready to be sent. Raises ValueError when a field does not fit its place."""
    try:
        return frame.to_octets()
    except (struct.error, KeyError) as error:
        raise ValueError(f"does not fit its layout ({error}): {frame!r:.200}") from error


def has_trailing_octets(datagram: bytes) -> bool:
    """Whether bytes follow the declared length, which `decode` does not read.

    Looks at the length alone and never raises; after a length that makes no sense there is nothing.
    All that a forwarder carries is inner message: ask again with that.
    """
    try:
        return _bounds(datagram)[1] < len(datagram)
    except MalformedFrame:
        return False


def kind_of(datagram: bytes) -> int | None:
    """Its message type, whatever else may be wrong with it; None where it is too short for one."""
    size = len(datagram)
    if size > 1 and datagram[0] != 0x01:
        return datagram[1]
    return datagram[_LONG_HEAD_OCTETS - 1] if size >= _LONG_HEAD_OCTETS else None


def _bounds(datagram: bytes) -> tuple[int, int]:
    """Where the first field starts and where the message ends, if it is all there."""
    size = len(datagram)
    if size < 2:
        raise MalformedFrame(f"a message has at least 2 bytes, the datagram has {size}")
    declared = datagram[0]
    if declared == 0x01:
        return _LONG_HEAD_OCTETS, _long_end(datagram)
    if declared == 0:
        raise MalformedFrame("length byte is 0, a message has at least 2 bytes")
    if datagram[1] == Forwarded.KIND:
        return 2, size
    return 2, _end(declared, datagram[1], size)


def _long_end(datagram: bytes) -> int:
    size = len(datagram)
    if size < _LONG_HEAD_OCTETS:
        raise MalformedFrame(f"datagram of {size} bytes ends inside its 3-byte length or type")
    declared = datagram[1] << 8 | datagram[2]
    if declared < _LONG_HEAD_OCTETS:
        raise MalformedFrame(
            f"3-byte length is {declared}, such a message has at least {_LONG_HEAD_OCTETS} bytes"
        )
    if size == declared + 2 and size <= LONG_OCTETS_MAX:
        return size
    return _end(declared, datagram[3], size)


def _end(declared: int, kind: int, size: int) -> int:
    if declared > size:
        name = _NAMES.get(kind, f"message type 0x{kind:02X}")
        raise MalformedFrame(f"{name} declares {declared} bytes, the datagram has {size}")
    return declared
