"""A day of readings of sensors that do not exist, as two collectors would have written them.

There is something in it for each table: a gateway that was away for six hours and comes back with
all it had, one reading in a hundred twice, a hole in the numbering, a sensor that falls silent, and
payloads that are none. It is the same each time.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from spark_ingest.payload.record import Delivery
from spark_ingest.payload.registry import Field, Kind, Registry, SchemaOptions
from spark_ingest.segments.rows import RowOptions
from spark_ingest.segments.shelf import Shelf
from spark_ingest.segments.writing import SegmentWriter

DAY = date(2026, 11, 20)
MIDNIGHT_S = 1_795_132_800  # of that day, UTC
PERIOD_S = 60
DAY_S = 86_400
AWAY_S = (8 * 3600, 14 * 3600)  # when the second gateway had no network
SILENT_S = 18 * 3600  # from when on the last sensor says nothing
HOLE = range(1000, 1012)  # sequences of the first gateway that nobody has
SEGMENT_MESSAGES = 2000
CLIMATE = SchemaOptions(
    "climate",
    "site/+/climate",
    fields={
        "t": Field(kind=Kind.NUMBER, unit="Cel", least=-40.0, most=85.0),
        "rh": Field(kind=Kind.NUMBER, unit="%RH", least=0.0, most=100.0),
    },
)


@dataclass(slots=True)
class Made:
    readings: int = 0
    repeats: int = 0
    segments: int = 0


def write_day(lake: Path, devices: int) -> Made:
    made = Made()
    dice = random.Random(7)
    arriving: list[Delivery] = []
    for delivery in _deliveries(devices):
        arriving.append(delivery)
        made.readings += 1
        if dice.random() < 0.01:
            arriving.append(delivery)
            made.repeats += 1
    arriving.sort(key=lambda each: each.received_us)
    shares = {"c1": arriving[::2], "c2": arriving[1::2]}
    for name, share in shares.items():
        with Shelf(lake, name) as shelf:
            writer = SegmentWriter(shelf, Registry([CLIMATE]), RowOptions())
            for first in range(0, len(share), SEGMENT_MESSAGES):
                writer.write(share[first : first + SEGMENT_MESSAGES])
                made.segments += 1
    return made


def _deliveries(devices: int) -> Iterator[Delivery]:
    sequences = [0, 0]  # of each gateway
    for second in range(0, DAY_S, PERIOD_S):
        for device in range(devices):
            if device == devices - 1 and second >= SILENT_S:
                continue
            gateway = device % 2
            sequence = sequences[gateway]
            sequences[gateway] += 1
            if gateway == 0 and sequence in HOLE:
                continue
            yield _delivery(device, gateway, sequence, second + device * PERIOD_S / devices)


def _delivery(device: int, gateway: int, sequence: int, second: float) -> Delivery:
    taken_on_s = MIDNIGHT_S + second
    is_away = gateway == 1 and AWAY_S[0] <= second < AWAY_S[1]
    received_s = MIDNIGHT_S + AWAY_S[1] + second / 1000 if is_away else taken_on_s + 0.2
    return Delivery(
        topic=f"site/{device + 1}/climate",
        payload=_payload(device, sequence, second),
        qos=1,
        retain=False,
        properties=[
            ("gw", ("harbour", "lighthouse")[gateway]),
            ("client", f"node-{device + 1}"),
            ("epoch", "1"),
            ("seq", str(sequence)),
            ("ts", str(round(taken_on_s * 1000))),
        ],
        received_us=round(received_s * 1e6),
        packet_id=1,
        connection=1,
    )


def _payload(device: int, sequence: int, second: float) -> bytes:
    if sequence % 1009 == 1008:
        return b"\xff\x00 not a payload"
    sun = math.sin((second / DAY_S - 0.3) * 2 * math.pi)
    temperature = 190.0 if sequence % 1511 == 1510 else round(8 + 6 * sun + device / 10, 2)
    return json.dumps({"t": temperature, "rh": round(70 - 15 * sun, 1)}).encode()
