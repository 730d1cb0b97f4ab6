"""Readings as MQTT 5 PUBLISH packets with their delivery tag.

A reading's PUBLISH carries five user properties (the delivery tag), of which only the sequence
and the time differ from one reading of a client to its next. Written piece by piece from what is
the same for all it takes a third of the time of a general encoder. Nothing is remembered of topics
and clients: to encode their names takes as long as to look them up, and with very many it would be
the slower way. Tests hold it against the codec package byte by byte.
"""

from __future__ import annotations

from struct import Struct

from gateway.core.mqtt.options import MqttOptions
from gateway.core.values import Reading
from gateway.frames.layout import OCTETS
from gateway.packets.codec import LENGTH_BYTES, PUBLISH
from gateway.packets.repair import varint

USER_PROPERTY = b"\x26"
DIGITS_MAX = 20  # of a number of 64 bits

_VARINTS_MAX = 2048
_VARINTS = tuple(varint(value) for value in range(_VARINTS_MAX))
_two_bytes = Struct(">H").pack
_TABLED = 256  # lengths of names, nearly all
_LENGTHS = tuple(map(_two_bytes, range(_TABLED)))
_FIRST = tuple(bytes((PUBLISH | flags,)) for flags in range(16))


def user_property(name: str, value: str) -> bytes:
    return USER_PROPERTY + _string(name) + _string(value)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _two_bytes(len(encoded)) + encoded


class PublishEncoder:
    """Readings as MQTT 5 PUBLISH packets with their delivery tag."""

    def __init__(self, options: MqttOptions) -> None:
        self._prefix = options.topic_prefix.encode()
        # Before the client's name.
        self._tag = user_property("gw", options.gateway_name) + USER_PROPERTY + _string("client")
        self._epoch = options.epoch
        # Before a sequence, by how many digits it has.
        sequence = user_property("epoch", str(options.epoch)) + USER_PROPERTY + _string("seq")
        self._sequence = tuple(sequence + _two_bytes(digits) for digits in range(DIGITS_MAX + 1))
        self._time: tuple[int, bytes] = (-1, b"")
        self.retain_available = True

    def write(self, reading: Reading, packet_id: int, *, dup: bool = False) -> bytes:
        """The packet; `packet_id` counts for QoS 1 and 2 only."""
        unix_ms, payload, qos = reading.unix_ms, reading.payload, reading.upstream_qos
        time = self._time[1] if self._time[0] == unix_ms else self._stamp(unix_ms)
        retain = reading.retain and self.retain_available
        first = _FIRST[qos << 1 | retain | dup << 3]
        prefix, topic = self._prefix, reading.topic.encode()
        tag, client = self._tag, reading.client_id.encode()
        if not qos:
            high = low = behind = digits = b""
        else:
            high, low = OCTETS[packet_id >> 8], OCTETS[packet_id & 0xFF]
            digits = b"%d" % reading.sequence
            if reading.epoch == self._epoch:  # nearly always
                behind = self._sequence[len(digits)]
            else:
                behind, digits = b"", _numbers(reading)
        client_size, topic_size = len(client), len(prefix) + len(topic)
        named = _LENGTHS[client_size] if client_size < _TABLED else _two_bytes(client_size)
        headed = _LENGTHS[topic_size] if topic_size < _TABLED else _two_bytes(topic_size)
        size = len(tag) + LENGTH_BYTES + client_size + len(behind) + len(digits) + len(time)
        properties = _VARINTS[size] if size < _VARINTS_MAX else varint(size)
        size += LENGTH_BYTES + topic_size + len(properties) + len(payload)
        size += len(high) + len(low)
        length = _VARINTS[size] if size < _VARINTS_MAX else varint(size)
        # Compiled, formatting takes half the time of joining.
        return b"%b%b%b%b%b%b%b%b%b%b%b%b%b%b%b" % (
            first, length, headed, prefix, topic, high, low,
            properties, tag, named, client, behind, digits, time, payload,
        )  # fmt: skip

    def _stamp(self, unix_ms: int) -> bytes:
        encoded = user_property("ts", str(unix_ms))
        self._time = (unix_ms, encoded)
        return encoded


def _numbers(reading: Reading) -> bytes:
    """Epoch and sequence of a reading that a previous run took on."""
    epoch = user_property("epoch", str(reading.epoch))
    return epoch + user_property("seq", str(reading.sequence))
