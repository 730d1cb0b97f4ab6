"""Readings as the broker gets them, held against `tests/golden/upstream.jsonl`.

Each row is a reading and its MQTT 5 packet; whoever consumes readings tests against the same rows.
`epoch` and `seq` are null where a reading has none (QoS 0, and QoS -1, which travels as QoS 0).
The packet id is `seq % 65000 + 1`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mqtt5
import pytest

from gateway.core.mqtt.inflight import InFlight
from gateway.core.mqtt.publish_encoder import PublishEncoder
from gateway.core.state_records import PACKET_IDS, ClientId
from gateway.core.values import Reading
from tests.core.mqtt.broker_side import options, tag
from tests.support.mqtt_packets import packets_in

FILE = Path(__file__).parents[2] / "golden" / "upstream.jsonl"
ROWS = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
EVERY_ROW = pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])


def forward_of(row: dict[str, Any]) -> Reading:
    payload = bytes.fromhex(row["payload_hex"])
    reading = Reading(
        ClientId(row["client"]), row["topic"], payload, row["qos"], row["retain"], 1, 7, 0.0
    )
    reading.upstream_qos, reading.unix_ms = row["qos"], row["ts"]
    reading.sequence = -1 if row["seq"] is None else row["seq"]
    reading.epoch, reading.packet_id = row["epoch"] or 0, reading.sequence % PACKET_IDS + 1
    return reading


@EVERY_ROW
def test_a_reading_is_written_as_the_row_says(row: dict[str, Any]) -> None:
    reading = forward_of(row)
    writer = PublishEncoder(options(gateway_name=row["gw"], epoch=row["epoch"] or 1))
    packet_id = InFlight(1, 1).publish(reading) if row["qos"] else 0
    assert writer.write(reading, packet_id).hex() == row["packet_hex"]


@EVERY_ROW
def test_the_packet_of_a_row_says_what_the_row_says(row: dict[str, Any]) -> None:
    (packet,) = packets_in(bytes.fromhex(row["packet_hex"]))
    assert isinstance(packet, mqtt5.PublishPacket)
    assert (packet.topic, packet.payload.hex()) == (row["topic"], row["payload_hex"])
    assert (int(packet.qos), packet.retain) == (row["qos"], row["retain"])
    names = ("gw", "client", "epoch", "seq", "ts")
    assert tag(packet) == {name: str(row[name]) for name in names if row[name] is not None}
    assert packet.packet_id == (row["seq"] % 65_000 + 1 if row["qos"] else None)


def test_there_are_rows_of_every_kind() -> None:
    kinds = {(row["qos"], row["retain"], row["payload_hex"] == "") for row in ROWS}
    assert {(0, False, False), (1, False, False), (2, False, False), (1, True, True)} <= kinds
    assert any(row["client"] == "" for row in ROWS)
