"""What a node must know of its conversation after a deep sleep, in RTC memory or in a file.

    rtc.memory(take(client))               # before machine.deepsleep
    put_back(client, rtc.memory())         # after it; False: there was nothing, so begin again

A gateway knows a node by its address: `transport.local_port` must be set, and the same each time.
With it a node wakes, publishes under the topic numbers that it had and receives PUBACK: one round
trip without CONNECT, REGISTER or SUBSCRIBE. About 20 bytes and each name with 4 more; bytes that
are damaged, or of another version, are nothing.

Layout, big-endian: version, state, gateway, message id, ids of the last reading and of the last
message with a flag each, seconds of the sleep, number of topics, number of subscriptions. For each
topic its number, length and name; for each subscription its QoS, length and name, or 255 and a
predefined id. CRC-32 of all that.
"""

from binascii import crc32
from struct import calcsize, pack, unpack_from

try:
    from micropython import const
except ImportError:
    from .cpython import const

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .client import Client

_VERSION = const(1)
_HEAD = const(">BBBHIIHBB")
_PREDEFINED = const(255)  # in the place of a length


def take(client: "Client") -> bytes:
    engine = client.engine
    parts = [
        pack(">BBBH", _VERSION, engine.state, client.transport.index, engine.message_id),
        pack(">IIH", engine.reading_id, engine.received, client.duration_s),
        pack(">BB", len(engine.topics), len(client.subscriptions)),
    ]
    for name, number in engine.topics.items():
        parts += (pack(">HB", number, len(name)), name)
    for topic, qos in client.subscriptions.items():
        if isinstance(topic, int):
            parts.append(pack(">BBH", qos, _PREDEFINED, topic))
        else:
            parts += (pack(">BB", qos, len(topic)), topic)
    kept = b"".join(parts)
    return kept + pack(">I", crc32(kept))


def put_back(client: "Client", kept: bytes) -> bool:
    engine = client.engine
    size = len(kept) - 4
    if size < calcsize(_HEAD) or unpack_from(">I", kept, size)[0] != crc32(kept[:size]):
        return False
    version, state, gateway, message_id, reading_id, received, duration_s, topics, asked = (
        unpack_from(_HEAD, kept)
    )
    if version != _VERSION or gateway >= client.transport.gateways:
        return False
    client.transport.index = gateway
    client.duration_s = duration_s
    engine.state, engine.message_id = state, message_id
    engine.reading_id, engine.received = reading_id, received
    at = calcsize(_HEAD)
    for _ in range(topics):
        number, length = unpack_from(">HB", kept, at)
        at += 3 + length
        engine.topics[bytes(kept[at - length : at])] = number
    for _ in range(asked):
        qos, length = unpack_from(">BB", kept, at)
        at += 2
        if length == _PREDEFINED:
            client.subscriptions[unpack_from(">H", kept, at)[0]] = qos
            at += 2
        else:
            client.subscriptions[bytes(kept[at : at + length])] = qos
            at += length
    return True
