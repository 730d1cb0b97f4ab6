"""What the demo has shown, at its end: for people as a few sentences, for programs as JSON."""

from __future__ import annotations

import statistics
from pathlib import Path

from gateway.cli.demo.screen import in_ms
from gateway.cli.demo.seen import Seen, SensorSeen

SCHEMA = "tidegate.demo/1"


def summary_lines(seen: Seen) -> list[str]:
    sensors = list(seen.sensors.values())
    readings, acknowledged = _sum(sensors, "readings"), _sum(sensors, "acknowledged")
    missing = sum(sensor.acknowledged_missing() for sensor in sensors)
    latencies = [latency for sensor in sensors for latency in sensor.latencies_s]
    up = f"Up:   {readings} readings from {_reporting(sensors)} of {len(sensors)} sensors"
    if latencies:
        worst = max(sensor.latency_max_s for sensor in sensors)
        up += f", median {in_ms(statistics.median(latencies))}, longest {in_ms(worst)}"
    lines = [
        up,
        f"      {acknowledged} acknowledged to the sensors: {missing} of them missing at the "
        f"broker, {_sum(sensors, 'repeats')} twice",
        f"      {_sum(sensors, 'retransmitted')} repeated on the air, "
        f"{_sum(sensors, 'dropped')} dropped, {_sum(sensors, 'reconnects')} reconnects",
        f"Down: {_sum(sensors, 'commands_sent')} commands, "
        f"{_sum(sensors, 'commands_confirmed')} obeyed and confirmed",
    ]
    sleepers = [sensor for sensor in sensors if sensor.sleeps]
    if sleepers:
        lines.append(
            f"Asleep: {len(sleepers)} sensors, {_sum(sleepers, 'naps')} times; they obeyed "
            f"{_sum(sleepers, 'commands_confirmed')} commands after waking"
        )
    return lines


def summary_json(seen: Seen, seconds: float, folder: Path | None) -> dict[str, object]:
    problem = seen.missing()
    return {
        "schema": SCHEMA,
        "ok": problem is None,
        "problem": problem,
        "seconds": round(seconds, 3),
        "folder": None if folder is None else str(folder),
        "sensors": [_sensor_json(sensor) for sensor in seen.sensors.values()],
    }


def _sensor_json(sensor: SensorSeen) -> dict[str, object]:
    return {
        "name": sensor.name,
        "qos": sensor.qos,
        "published": sensor.published,
        "readings": sensor.readings,
        "repeats": sensor.repeats,
        "acknowledged": sensor.acknowledged,
        "acknowledged_missing": sensor.acknowledged_missing(),
        "retransmitted": sensor.retransmitted,
        "dropped": sensor.dropped,
        "reconnects": sensor.reconnects,
        "unreadable": sensor.unreadable,
        "latency_p50_ms": round(sensor.latency_p50_s() * 1000, 3),
        "latency_max_ms": round(sensor.latency_max_s * 1000, 3),
        "sleeps": sensor.sleeps,
        "naps": sensor.naps,
        "commands_sent": sensor.commands_sent,
        "commands_confirmed": sensor.commands_confirmed,
    }


def _reporting(sensors: list[SensorSeen]) -> int:
    return sum(1 for sensor in sensors if sensor.readings)


def _sum(sensors: list[SensorSeen], field: str) -> int:
    return sum(getattr(sensor, field) for sensor in sensors)
