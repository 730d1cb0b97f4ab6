"""A day at two gateways, played in half a minute, with all that goes wrong in it.

The sensors were out of reach for a day and have kept what they measured, with the time of each: now
they deliver it. In the middle the collector is away and the broker is killed, with messages in its
memory that it had acknowledged: those of `harbour` are gone for ever, and its numbering has a gap;
`lighthouse` keeps readings until they are ingested, and sends them again. One sensor fell silent at
six in the evening, and some values are none.
"""

from __future__ import annotations

import json
import math
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from spark_ingest.demo.processes import Chain, Gateway, Part, free_port, mosquitto, wait_until
from spark_ingest.demo.sensors import Sensor, send_all
from spark_ingest.segments.shelf import segment_numbers, segment_path

PERIOD_S = 120
DAY_S = 86_400
LOST_S = (10 * 3600, 10 * 3600 + 2400)  # what the broker takes with it
SILENT_S = 18 * 3600
BAD_EVERY, HOT_EVERY = 907, 1301
KEEP_CONFIG = "keep_until_ingested = true\ningest_timeout_s = 2\n"
CONFIG = """\
[lake]
path = "{lake}"
[broker]
url = "mqtt://127.0.0.1:{port}"
reconnect_delay_s_max = 0.5
[collector]
name = "c1"
topics = ["site/#"]
[acknowledge]
every_s = 0.5
[[schema]]
name = "climate"
topic = "site/+/climate"
format = "json"
time_field = "ts"
fields.t = {{ kind = "number", unit = "Cel", min = -40, max = 85 }}
fields.rh = {{ kind = "number", unit = "%RH", min = 0, max = 100 }}
"""


@dataclass(slots=True)
class DayResult:
    day: date  # on which the readings were measured
    sent: int
    lost: int  # with the broker
    sent_again: int


def run_day(folder: Path, lake: Path, devices: int, report: Callable[[str], None]) -> DayResult:
    """Raises ChainError, NoAnswerError and OSError."""
    day = (datetime.now(UTC) - timedelta(days=1)).date()
    with Chain(folder) as chain:
        port = free_port(socket.SOCK_STREAM)
        broker = _broker(folder, port)
        chain.add(broker)
        wait_until(lambda: _answers(port), "mosquitto listens")
        collector = _collector(folder, lake, port)
        chain.add(collector)
        gateways = [
            Gateway(folder=folder, name="harbour", broker_port=port),
            Gateway(folder=folder, name="lighthouse", broker_port=port, journal=KEEP_CONFIG),
        ]
        for gateway in gateways:
            chain.add(gateway)
        for each in (collector, *gateways):
            each.wait_for("connected to broker")
        report("two gateways, mosquitto and a collector are at work")
        sensors = [
            Sensor(f"node-{n + 1}", f"site/{n + 1}/climate", gateways[n % 2].port)
            for n in range(devices)
        ]
        sent = _deliver(sensors, day, 0, LOST_S[0])
        report(f"{sent} readings of a morning; the collector goes, the sensors go on")
        wait_until(lambda: _messages_in(lake) >= sent, "the morning is in the lake")
        collector.kill()
        lost_with_broker = _deliver(sensors, day, *LOST_S)
        broker.kill()
        report(f"the broker is killed, with {lost_with_broker} readings that it had acknowledged")
        broker.start()
        collector.start()
        collector.wait_for("connected to broker", 2)
        evening = _deliver(sensors, day, LOST_S[1], DAY_S)
        lighthouse = gateways[1]
        wait_until(
            lambda: _kept_readings(lighthouse) == 0,
            "lighthouse has all of its readings ingested",
            90,
        )
        everything = sent + evening + _of_lighthouse(devices)
        wait_until(lambda: _messages_in(lake) >= everything, "the day is in the lake")
        again = lighthouse.status()["ingest"]["sent_again"]
        report(f"lighthouse has sent {again} readings again, harbour lacks what it sent")
    return DayResult(
        day=day,
        sent=sent + lost_with_broker + evening,
        lost=lost_with_broker - _of_lighthouse(devices),
        sent_again=again,
    )


def _broker(folder: Path, port: int) -> Part:
    config = folder / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n"
        "max_queued_messages 0\nmax_inflight_messages 1000\n"
    )
    return Part(folder, "mosquitto", [mosquitto() or "mosquitto", "-c", str(config)])


def _collector(folder: Path, lake: Path, port: int) -> Part:
    config = folder / "ingest.toml"
    config.write_text(CONFIG.format(lake=lake, port=port), encoding="utf-8")
    command = [sys.executable, "-m", "spark_ingest", "collect", "--config", str(config)]
    return Part(folder, "collector", command)


def _deliver(sensors: list[Sensor], day: date, first_s: int, end_s: int) -> int:
    midnight_s = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    for number, sensor in enumerate(sensors):
        last_s = min(end_s, SILENT_S) if number == len(sensors) - 1 else end_s
        for second in range(first_s, last_s, PERIOD_S):
            sensor.waiting.append(_payload(number, len(sensors), second, midnight_s))
    count = sum(len(sensor.waiting) for sensor in sensors)
    send_all(sensors)
    return count


def _of_lighthouse(devices: int) -> int:
    """Of what the broker took with it, what lighthouse had sent."""
    return devices // 2 * len(range(*LOST_S, PERIOD_S))


def _payload(device: int, devices: int, second: int, midnight_s: int) -> bytes:
    number = second // PERIOD_S * devices + device
    sun = math.sin((second / DAY_S - 0.3) * 2 * math.pi)
    wind = math.sin(second / 1700 + device) / 3
    temperature = 190.0 if number % HOT_EVERY == HOT_EVERY - 1 else 8 + 6 * sun + wind + device / 4
    humidity = 70 - 15 * sun - wind * 4 - device / 2
    reading: dict[str, object] = {"t": round(temperature, 2), "rh": round(humidity, 1)}
    if number % BAD_EVERY == BAD_EVERY - 1:
        reading["t"] = "wet"
    return json.dumps({**reading, "ts": midnight_s + second + device}).encode()


def _kept_readings(gateway: Gateway) -> int:
    found = gateway.status().get("ingest", {})
    return int(found["kept"]) if found.get("receipts") else -1


def _messages_in(lake: Path) -> int:
    """Each once, as long as nothing but copies comes twice."""
    from spark_ingest.segments.segment import read_footer
    from spark_ingest.segments.sequences import Sequences, sequences_by_epoch

    if not (lake / "segments" / "c1").exists():
        return 0
    seen: dict[tuple[str, int], set[int]] = {}
    for number in segment_numbers(lake, "c1"):
        footer = read_footer(segment_path(lake, "c1", number))
        by_epoch: dict[tuple[str, int], Sequences] = sequences_by_epoch(footer.ids)
        for gateway_epoch, sequences in by_epoch.items():
            seen.setdefault(gateway_epoch, set()).update(sequences)
    return sum(map(len, seen.values()))


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
