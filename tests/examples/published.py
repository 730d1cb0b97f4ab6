"""Messages as the gateway publishes them, and what is in them, for those who read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import cbor2
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from gateway.presence.readings import SENML_NAMES
from hil.rig.mosquitto import Mosquitto
from tests.examples import REPOSITORY

PATIENCE_S = 200.0
TAKEN_AT = 1_790_000_000.0
RELATIVE_BELOW = 2**28


@dataclass(frozen=True)
class Message:
    payload: bytes
    tag: dict[str, str]
    topic: str = "sensors/greenhouse-3"


def tag(seq: int, *, epoch: int = 3, gateway: str = "gh") -> dict[str, str]:
    return {
        "gw": gateway,
        "client": "greenhouse-3",
        "epoch": str(epoch),
        "seq": str(seq),
        "ts": str(int(TAKEN_AT * 1000)),
    }


@dataclass(frozen=True)
class Pack:
    """A row of tests/golden/senml.jsonl: `values` are name, unit, value, Unix time."""

    cbor: bytes
    json: bytes
    values: list[tuple[str, str | None, object, float]]


def packs() -> list[Pack]:
    rows = (REPOSITORY / "tests/golden/senml.jsonl").read_text().splitlines()
    return [_pack(json.loads(row)) for row in rows]


def mixed_pack() -> Pack:
    """Text, truth, a base value, a base unit, and a time of its own."""
    records = [
        {-2: "d/", -4: "V", -5: 10, 0: "mode", 3: "auto"},
        {0: "door", 4: False, 6: -5},
        {0: "cell", 2: 0.5},
    ]
    named = [{SENML_NAMES[key]: value for key, value in record.items()} for record in records]
    values: list[tuple[str, str | None, object, float]] = [
        ("d/mode", "V", "auto", TAKEN_AT),
        ("d/door", "V", False, TAKEN_AT - 5),
        ("d/cell", "V", 10.5, TAKEN_AT),
    ]
    return Pack(cbor2.dumps(records), json.dumps(named).encode(), values)


def _pack(row: dict[str, object]) -> Pack:
    records = row["decoded"]
    assert isinstance(records, list)
    named = [{SENML_NAMES[int(key)]: value for key, value in record.items()} for record in records]
    at = float(named[0].get("bt", 0))
    at = at if at >= RELATIVE_BELOW else TAKEN_AT + at
    name = named[0]["bn"]
    values = [(name + each["n"], each.get("u"), each["v"], at) for each in named]
    payload_hex = row["payload_hex"]
    assert isinstance(payload_hex, str)
    return Pack(bytes.fromhex(payload_hex), json.dumps(named).encode(), values)


def publish(broker: Mosquitto, messages: Sequence[Message]) -> None:
    """At QoS 1, in order; returns when the broker has all."""
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    try:
        for message in messages:
            properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
            if message.tag:
                properties.UserProperty = list(message.tag.items())
            sent = client.publish(message.topic, message.payload, 1, properties=properties)
            sent.wait_for_publish(PATIENCE_S)
            assert sent.is_published()
    finally:
        client.disconnect()
        client.loop_stop()
