"""docs/examples/consumers/telegraf.conf: its shape and its Starlark everywhere, and the whole of it
by a real Telegraf in the long tests.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hil.rig.logged_process import LoggedProcess
from hil.rig.mosquitto import Mosquitto
from tests.examples import EXAMPLES
from tests.examples.published import Message, mixed_pack, packs, publish
from tests.examples.telegraf import telegraf
from tests.support.waiting import until

TEXT = (EXAMPLES / "consumers" / "telegraf.conf").read_text()
SETTINGS = tomllib.loads(TEXT)
SECOND_NS = 1_000_000_000


class Metric:
    """What Telegraf gives to Starlark."""

    def __init__(self, name: str, fields: dict[str, Any], device: str = "d/") -> None:
        self.tags = {"device": device, "name": name}
        self.fields = fields
        self.time = 1_790_000_000 * SECOND_NS


def starlark() -> Callable[[Metric], Metric | None]:
    """Starlark is a part of Python, as far as it is used here."""
    names: dict[str, Any] = {}
    exec(SETTINGS["processors"]["starlark"][0]["source"], names)
    apply: Callable[[Metric], Metric | None] = names["apply"]
    return apply


def test_each_input_keeps_what_comes_while_telegraf_is_away() -> None:
    inputs = SETTINGS["inputs"]["mqtt_consumer"]
    assert [each["data_format"] for each in inputs] == ["xpath_cbor", "xpath_json"]
    assert len({each["client_id"] for each in inputs}) == len(inputs)
    for each in inputs:
        assert each["persistent_session"]
        assert each["qos"] == 1
        [selected] = each["xpath"]
        assert set(selected["fields"]) == {"value", "text", "truth", "base_time", "time", "seq"}


@pytest.mark.parametrize(
    ("fields", "age_s"),
    [({}, 0), ({"time": -5}, 5), ({"base_time": -5400, "time": 0.5}, 5399.5)],
)
def test_a_time_before_now_is_an_age(fields: dict[str, Any], age_s: float) -> None:
    metric = starlark()(Metric("x", {"value": 1, **fields}))
    assert metric is not None
    assert metric.time == 1_790_000_000 * SECOND_NS - int(age_s * SECOND_NS)
    assert metric.fields == {"value": 1.0}


def test_a_unix_time_is_the_time_and_numbers_are_floats() -> None:
    metric = starlark()(Metric("x", {"value": 7, "base_time": 1_763_690_400, "time": 1, "seq": 3}))
    assert metric is not None
    assert metric.time == 1_763_690_401 * SECOND_NS
    assert repr(metric.fields) == "{'value': 7.0}"


def test_a_repeat_is_known_by_device_name_and_seq() -> None:
    apply = starlark()
    given = [
        ("x", 1, "a"),
        ("y", 1, "a"),
        ("x", 1, "b"),
        ("x", 2, "a"),
        ("x", 1, "a"),
        ("x", 0, "a"),
    ]
    given.append(("x", 0, "a"))
    found = [apply(Metric(name, {"seq": seq}, device)) for name, seq, device in given]
    assert [each is not None for each in found] == [True, True, True, True, False, True, True]


def test_at_least_the_last_ten_thousand_are_known() -> None:
    apply = starlark()
    for seq in range(1, 15_001):
        assert apply(Metric("x", {"seq": seq})) is not None
    assert not any(apply(Metric("x", {"seq": seq})) for seq in range(5_001, 15_001))


class RealTelegraf(LoggedProcess):
    def __init__(self, folder: Path, broker: Mosquitto) -> None:
        super().__init__(folder / "telegraf.log")
        self.lines = folder / "metrics"
        self._settings = folder / "telegraf.conf"
        text = TEXT.replace("127.0.0.1:1883", f"127.0.0.1:{broker.port}")
        self._settings.write_text(text.replace('"stdout"', json.dumps(str(self.lines))))
        self._program = telegraf()

    def start(self) -> None:
        self.launch([str(self._program), str(self._settings)])
        self.wait_for_log("Connected(?s:.*)Connected")


@pytest.mark.soak
def test_a_real_telegraf_decodes_both_forms_and_drops_repeats(tmp_path: Path) -> None:
    found = packs()
    cbor = [Message(each.cbor, {}) for each in found]
    # Another device's: repeats are known by device and seq.
    renamed = [each.json.replace(b'/"', b'-json/"') for each in found]
    as_json = [Message(each, {}, "sensors-json/x") for each in renamed]
    wrong = [Message(b"hello", {}), Message(b"{", {}, "sensors-json/x")]
    with Mosquitto() as broker, RealTelegraf(tmp_path, broker) as program:
        publish(broker, [*cbor, *as_json, *wrong, *cbor, *as_json, Message(mixed_pack().cbor, {})])
        until(lambda: program.lines.exists() and "name=cell" in program.lines.read_text())
        program.stop()
    lines = program.lines.read_text().splitlines()
    assert len(lines) == 2 * sum(len(each.values) for each in found) + len(mixed_pack().values)
    for pack in found:
        for name, unit, value, at in pack.values:
            device, _, short = name.partition("/")
            for suffix in ("", "-json"):
                start = f"reading,device={device}{suffix}/,name={short},"
                [line] = [
                    each for each in lines if each.startswith(start) and f" value={value} " in each
                ]
                assert unit is None or f"unit={unit}" in line
                told_s = int(line.rsplit(" ", 1)[1]) / SECOND_NS
                assert told_s == at or at > 1_789_000_000
    assert 'text="auto"' in "\n".join(lines)
    assert "truth=false" in "\n".join(lines)
