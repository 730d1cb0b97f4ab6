"""Our own writer of readings against the codec package."""

from __future__ import annotations

import mqtt5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.mqtt.publish_encoder import PublishEncoder
from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from tests.core.mqtt.broker_side import options

names = st.text(st.characters(codec="utf-8", exclude_characters="\0#+"), min_size=1, max_size=40)
payloads = st.one_of(st.binary(max_size=40), st.integers(0, 5000).map(lambda size: b"x" * size))
numbers = st.one_of(st.integers(0, 300), st.integers(0, 2**63))


@given(
    st.lists(st.tuples(names, names, payloads, st.booleans(), numbers, numbers), max_size=4),
    st.integers(1, 65_535), st.integers(0, 2), st.booleans(), st.sampled_from(["", "site/ö/"]),
    st.sampled_from([3, 2]),
)  # fmt: skip
def test_the_writer_agrees_with_the_codec_package_octet_by_octet(
    contents: list[tuple[str, str, bytes, bool, int, int]],
    packet_id: int, qos: int, dup: bool, prefix: str, epoch: int,
) -> None:  # fmt: skip
    """Several readings by one writer, of two lives."""
    writer = PublishEncoder(options(topic_prefix=prefix))
    for topic, client, payload, retain, sequence, unix_ms in contents * 2:
        reading = Reading(ClientId(client), topic, payload, qos, retain, 1, 7, 0.0)
        reading.sequence, reading.unix_ms, reading.upstream_qos = sequence, unix_ms, qos
        reading.epoch = epoch
        numbered = [("epoch", str(epoch)), ("seq", str(sequence))] if qos else []
        expected = mqtt5.PublishPacket(
            prefix + topic,
            payload,
            qos=mqtt5.QoS(qos),
            retain=retain,
            duplicate=dup,
            packet_id=packet_id if qos else None,
            user_properties=[("gw", "gh"), ("client", client), *numbered, ("ts", str(unix_ms))],
        )
        assert writer.write(reading, packet_id, dup=dup) == expected.write()


def test_a_broker_without_retained_messages_is_sent_none() -> None:
    writer = PublishEncoder(options())
    writer.retain_available = False
    reading = Reading(ClientId("s1"), "t", b"", 0, True, 1, 7, 0.0)
    assert writer.write(reading, 0)[0] == 0x30
    assert reading.retain, "the next broker may keep it"


@pytest.mark.parametrize("octets", [255, 256, 65_535])
def test_long_names_have_their_length_as_well(octets: int) -> None:
    name = "n" * octets
    packet = PublishEncoder(options()).write(
        Reading(ClientId(name), name, b"", 0, False, 1, 7, 0.0), 0
    )
    read, _ = mqtt5.read(memoryview(packet))
    assert isinstance(read, mqtt5.PublishPacket)
    assert (read.topic, read.user_properties[1]) == (name, ("client", name))
