"""Readings from the broker into a table of SQLite, each once.

    python readings_to_sqlite.py readings.db mqtt.example.org 'sensors/+'

Needs paho-mqtt (2.0 or newer) and cbor2. A message is acknowledged when its rows are on the disk:
what comes while this program is away, or as it ends, comes again. What comes twice has the delivery
tag (gw, epoch, seq) of the first time, which is the key of the table.
"""

import argparse
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

import cbor2
import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

WEEK_S = 7 * 24 * 3600
# What is retained comes with the first subscription, not with each connection.
AS_NEW = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
# RFC 8428, table 4: the labels of SenML in CBOR, and its names in JSON.
NAMES = {-2: "bn", -3: "bt", -4: "bu", -5: "bv", 0: "n", 1: "u", 2: "v", 3: "vs", 4: "vb", 6: "t"}
# Below this a time is relative to now (RFC 8428, 4.5.3); readings are then as old as they say.
RELATIVE_BELOW = 2**28
TABLE = """
CREATE TABLE IF NOT EXISTS readings (
    gw TEXT, epoch INTEGER, seq INTEGER,  -- the delivery tag
    record INTEGER,                       -- which value of the message
    client TEXT, topic TEXT, name TEXT, unit TEXT, value, unix_time REAL,
    PRIMARY KEY (gw, epoch, seq, record)
)
"""


def records(payload: bytes) -> list[dict[str, Any]]:
    """A SenML pack, in JSON or CBOR. Raises ValueError for what is none."""
    pack = json.loads(payload) if payload[:1] == b"[" else cbor2.loads(payload)
    if not isinstance(pack, list) or not all(isinstance(record, dict) for record in pack):
        raise ValueError("no SenML")
    return [{NAMES.get(key, key): value for key, value in record.items()} for record in pack]


def values(payload: bytes, now: float) -> Iterator[tuple[str, str | None, Any, float]]:
    """Name, unit, value and Unix time of each; `now` is when the gateway took the message."""
    base_name, base_time, base_unit, base_value = "", 0.0, None, 0.0
    for record in records(payload):
        base_name = record.get("bn", base_name)
        base_time = record.get("bt", base_time)
        base_unit = record.get("bu", base_unit)
        base_value = record.get("bv", base_value)
        value = record.get("vs", record.get("vb"))
        if "v" in record:
            value = base_value + record["v"]
        if value is not None:
            at = base_time + record.get("t", 0.0)
            at = at if at >= RELATIVE_BELOW else now + at
            yield base_name + record.get("n", ""), record.get("u", base_unit), value, at


def rows(message: mqtt.MQTTMessage) -> Iterator[tuple[Any, ...]]:
    tag = dict(getattr(message.properties, "UserProperty", []))
    now = int(tag["ts"]) / 1000 if "ts" in tag else time.time()
    # QoS 0 has no place in the sequence, and what others publish has no tag: key those by arrival.
    key = (tag.get("gw", ""), int(tag.get("epoch", -1)), int(tag.get("seq", time.time_ns())))
    for number, (name, unit, value, at) in enumerate(values(message.payload, now)):
        yield (*key, number, tag.get("client"), message.topic, name, unit, value, at)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("database")
    parser.add_argument("host")
    parser.add_argument("topic_filter")
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--username")
    parser.add_argument("--ca-file", help="TLS, and whom to trust")
    arguments = parser.parse_args()

    table = sqlite3.connect(arguments.database, check_same_thread=False)
    table.execute(TABLE)
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2,
        "readings-to-sqlite",
        protocol=mqtt.MQTTv5,
        manual_ack=True,
    )

    def connected(*_: object) -> None:
        client.subscribe(arguments.topic_filter, options=AS_NEW)

    def subscribed(*_: object) -> None:
        print("subscribed", flush=True)

    def heard(_client: object, _userdata: object, message: mqtt.MQTTMessage) -> None:
        try:
            found = list(rows(message))
        except Exception as error:  # somebody else's message; it would come again for ever
            print(f"{message.topic}: left out: {error!r}", flush=True)
        else:
            with table:  # one transaction, on the disk at its end
                marks = ", ".join("?" * 10)
                table.executemany(f"INSERT OR IGNORE INTO readings VALUES ({marks})", found)
        client.ack(message.mid, message.qos)

    client.on_connect = connected
    client.on_subscribe = subscribed
    client.on_message = heard
    if arguments.username is not None:
        client.username_pw_set(arguments.username, os.environ.get("MQTT_PASSWORD"))
    if arguments.ca_file is not None:
        client.tls_set(arguments.ca_file)
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = WEEK_S
    client.connect(arguments.host, arguments.port, clean_start=False, properties=properties)
    client.loop_forever()


if __name__ == "__main__":
    main()
