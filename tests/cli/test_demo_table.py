"""What the table draws, at the widths and heights that terminals have."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gateway.cli.demo.gateway_process import Ports
from gateway.cli.demo.seen import Notice, Seen, SensorSeen
from gateway.cli.demo.table import LiveTable
from gateway.cli.sensors import senml

PORTS = Ports(broker=65001, udp=65002, admin=65003)


def a_view(sensors: int) -> Seen:
    """Every sensor has the longest values that are usual."""
    seen = Seen({f"sensor-{n}": SensorSeen(f"sensor-{n}", n % 3) for n in range(1, sensors + 1)})
    for name, sensor in seen.sensors.items():
        measured = (
            senml.Measurement("temperature", "Cel", 24.25),
            senml.Measurement("humidity", "%RH", 45.2),
            senml.Measurement("battery", "V", 3.117),
            senml.Measurement("interval", "s", 0.5),
        )
        for second in range(3):
            pack = senml.Pack(name + "/", 100.0 + second, measured)
            sensor.reading(pack, sensor.qos, 100.0123 + second)
        seen.presence(name, "asleep until 14:32:05")
        seen.command(sensor, b"0.5", 102.5, ours=True)
        sensor.reading(senml.Pack(name + "/", 102.6, measured), sensor.qos, 102.6)
    return seen


def drawn(seen: Seen, width: int, height: int, notice: Notice | None = None) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    table = LiveTable(console)
    table.opened(PORTS, seen)
    if notice is not None:
        table.show(notice)
    with console.capture() as capture:
        console.print(table.picture())
    table.close()
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize("width", [80, 104, 105, 132, 133, 160])
@pytest.mark.parametrize("sensors", [5, 200])
def test_nothing_is_cut_off(width: int, sensors: int) -> None:
    text = "\n".join(drawn(a_view(sensors), width, 300))
    assert "…" not in text
    assert "sensor-5" in text
    assert "24.2°C" in text
    assert ("3.12V" in text) == (width >= 105)
    assert "asleep until 14:32:05" in text
    assert "every 0.5 s, 100 ms" in text


def test_a_wide_terminal_shows_the_topics_too() -> None:
    assert "demo/sensor-1" in drawn(a_view(5), 133, 24)[3]
    assert "demo/sensor-1" not in drawn(a_view(5), 120, 24)[3]


@pytest.mark.parametrize("height", [24, 40, 60])
def test_two_hundred_sensors_fit_the_height(height: int) -> None:
    lines = drawn(a_view(200), 80, height)
    assert len(lines) <= height
    assert any("more" in line for line in lines)


@pytest.mark.parametrize("width", [66, 70, 79])
def test_a_narrow_terminal_does_without_values(width: int) -> None:
    lines = drawn(a_view(9), width, 24)
    (heading,) = [line for line in lines if line.startswith("sensor ")]
    assert heading.split()[:3] == ["sensor", "state", "QoS"]
    assert not [line for line in lines if "…" in line]


def test_it_says_what_to_type_next() -> None:
    text = "\n".join(drawn(a_view(5), 80, 24))
    assert "tidegate watch --set upstream.url=mqtt://127.0.0.1:65001" in text
    assert "mosquitto_pub -p 65001 -t demo/sensor-5/set -m 3" in text
    assert "tidegate clients --set admin.listen=127.0.0.1:65003" in text
    assert "curl http://127.0.0.1:65003/metrics" in text


def test_a_notice_is_shown() -> None:
    notice = Notice("sensor-2", "connects again: no answer")
    text = "\n".join(drawn(a_view(5), 80, 24, notice))
    assert "sensor-2 connects again: no answer" in text


def test_before_the_first_reading_there_are_dashes() -> None:
    seen = Seen({"sensor-1": SensorSeen("sensor-1", 0)})
    assert "sensor-1" in "\n".join(drawn(seen, 80, 24))
