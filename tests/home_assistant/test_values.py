"""Values in Home Assistant: none lost, stale or wrong."""

from __future__ import annotations

import struct
import time
from datetime import timedelta
from pathlib import Path

import cbor2
import pytest

from hil.rig.mosquitto import Mosquitto
from tests.home_assistant.api import eventually, now
from tests.home_assistant.home import Home
from tests.home_assistant.site import ENABLED, Gateway, gateway, new_name, sensor
from tests.support.waiting import until

PULSE_S = 0.25
DECIMAL_FRACTION = 4  # tag of CBOR


def senml(*records: dict[str, object]) -> list[dict[str, object]]:
    return list(records)


def float32(value: float) -> bytes:
    """A pack of one record in CBOR, whose value has 32 bits."""
    return b"\x81\xa2\x00" + cbor2.dumps("level") + b"\x02\xfa" + struct.pack(">f", value)


# Values that are kept


@pytest.mark.parametrize("clean", [False, True])
def test_one_that_connects_publishes_and_disconnects_at_once_is_available(
    home: Home, serving: Gateway, clean: bool
) -> None:
    with sensor(serving) as visitor:
        for number in range(4):
            visitor.visit("site/tank", {"t": number}, clean=clean)
            home.api.shows(visitor.client_id, T=str(number))
            if number == 0:
                began = now()
        entity_id = home.api.entity_id(visitor.client_id, "T")
    assert home.api.history(entity_id, began) == ["0", "1", "2", "3"]


def test_a_reading_without_a_value_leaves_that_value_as_it_was(
    home: Home, serving: Gateway
) -> None:
    with sensor(serving) as tank:
        tank.connect()
        tank.publish("site/tank", {"t": 1, "bat": 90, "door": True})
        home.api.shows(tank.client_id, T="1", Bat="90", Door="on")
        tank.publish("site/tank", {"t": 2})
        home.api.shows(tank.client_id, T="2", Bat="90", Door="on")
        home.restart()
        home.api.shows(tank.client_id, T="2", Bat="90", Door="on")


def test_values_of_twenty_topics_are_kept_over_restarts(home: Home, serving: Gateway) -> None:
    with sensor(serving) as tank:
        tank.connect()
        for number in range(20):
            tank.publish(f"site/tank/level{number}", {f"level{number}": number})
        expected = {f"Level{number}": str(number) for number in range(20)}
        home.api.shows(tank.client_id, **expected)
        serving.restart()
        tank.connect()
        tank.publish("site/tank/level0", {"level0": 42})
        home.api.shows(tank.client_id, **expected | {"Level0": "42"})
        home.restart()
        home.api.shows(tank.client_id, **expected | {"Level0": "42"})


@pytest.mark.parametrize("nothing", ["null", "NaN"])
def test_no_number_is_unknown(home: Home, serving: Gateway, nothing: str) -> None:
    with sensor(serving) as tank:
        tank.connect()
        tank.publish("site/tank", {"t": 21.5, "bat": 90})
        home.api.shows(tank.client_id, T="21.5", Bat="90")
        tank.publish("site/tank", f'{{"t":{nothing},"bat":91}}')
        home.api.shows(tank.client_id, T="unknown", Bat="91")


def test_a_value_that_its_sensor_has_renamed_becomes_unknown(home: Home, serving: Gateway) -> None:
    with sensor(serving) as tank:
        tank.connect()
        for number in range(20):
            tank.publish("site/tank", {"old": number})
        home.api.shows(tank.client_id, Old="19")
        for number in range(40):
            tank.publish("site/tank", {"new": number})
        home.api.shows(tank.client_id, Old="unknown", New="39")


def test_a_unit_that_changes_leaves_state_and_statistics_right(
    home: Home, serving: Gateway
) -> None:
    with sensor(serving) as tank:
        tank.connect()
        for unit, value, shown in (("Cel", 21.5, "21.5"), ("K", 295.65, "22.5")):
            tank.publish("site/tank", senml({"n": "temperature", "u": unit, "v": value}))
            home.api.shows(tank.client_id, Temperature=shown)
        state = home.api.state(tank.client_id, "Temperature")
        assert state is not None
        assert state["attributes"]["unit_of_measurement"] == "°C"
        rows = home.api.statistics(state["entity_id"])
        assert max(row["max"] for row in rows) == 22.5
        assert home.api.statistics_issues(state["entity_id"]) == []


def test_a_device_whose_gateway_has_lost_its_state_is_unavailable(
    home: Home, serving: Gateway
) -> None:
    with sensor(serving) as tank:
        tank.connect()
        tank.publish("site/tank", {"t": 1})
        home.api.shows(tank.client_id, T="1")
        lose_state(serving)
        home.api.shows(tank.client_id, T="unavailable")


def test_a_device_of_a_lost_state_can_be_forgotten(home: Home, serving: Gateway) -> None:
    with sensor(serving) as tank:
        tank.connect()
        tank.publish("site/tank", {"t": 1})
        home.api.shows(tank.client_id, T="1")
        lose_state(serving)
        serving.forget(tank.client_id, "--retained")
        eventually(lambda: home.api.device(tank.client_id) is None, "the device is gone")


def lose_state(gateway: Gateway) -> None:
    gateway.stop()
    state = gateway.folder / "state"
    for path in state.rglob("*"):
        if path.is_file():
            path.unlink()
    gateway.start()


def test_last_seen_is_known_after_a_restart_of_the_gateway(home: Home, serving: Gateway) -> None:
    with sensor(serving) as tank:
        tank.visit("site/tank", {"t": 1})
        name = tank.client_id
        home.api.shows(name, T="1")
        seen = home.api.state(name, "Last seen")
        assert seen is not None
        serving.restart()
        entity_id = home.api.entity_id(name, "Last seen")
        eventually(lambda: home.api.states()[entity_id]["state"] == seen["state"], "last seen")


# What is shown at once


def test_a_pulse_is_in_the_history(home: Home, serving: Gateway) -> None:
    with sensor(serving) as tank:
        tank.connect()
        tank.publish("site/tank", {"leak": False})
        home.api.shows(tank.client_id, Leak="off")
        began = now()
        tank.publish("site/tank", {"leak": True})
        time.sleep(PULSE_S)  # the input itself
        tank.publish("site/tank", {"leak": False})
        entity_id = home.api.entity_id(tank.client_id, "Leak")
        until(lambda: home.api.history(entity_id, began) == ["off", "on", "off"])
        changes = home.api.changes(entity_id, began)
        assert changes[2] - changes[1] == pytest.approx(PULSE_S, abs=PULSE_S / 2)


# What is in a reading


def test_every_name_of_a_pack_is_an_entity(home: Home, serving: Gateway) -> None:
    records = senml(
        {"bn": "urn:dev:a:", "n": "t", "v": 1},
        {"n": "h", "v": 2},
        {"bn": "urn:dev:b:", "n": "t", "v": 3},
    )
    deep = {"a": {"b": {"c": 4}}, "a.b": {"d": 5}, "x" * 61 + "1": 6, "x" * 61 + "2": 7}
    with sensor(serving) as tank:
        tank.connect()
        tank.publish("site/senml", records)
        tank.publish("site/json", deep)
        expected = {"Urn:dev:a:t": "1", "Urn:dev:a:h": "2", "Urn:dev:b:t": "3"}
        expected |= {"A.b.c": "4", "A.b.d": "5", "X" + "x" * 60 + "1": "6"}
        home.api.shows(tank.client_id, **expected, **{"X" + "x" * 60 + "2": "7"})


def test_sums_decimals_nested_values_and_long_texts_are_shown(home: Home, serving: Gateway) -> None:
    with sensor(serving) as tank:
        tank.connect()
        tank.publish("site/sum", senml({"n": "energy", "u": "J", "s": 1.5}))
        tank.publish(
            "site/decimal", cbor2.dumps({"level": cbor2.CBORTag(DECIMAL_FRACTION, [-2, 413])})
        )
        tank.publish("site/nested", {"soil": {"temp": 12}, "list": [1, 2]})
        tank.publish("site/text", {"note": "a" * 200, "longer": "b" * 300})
        home.api.shows(
            tank.client_id,
            Level="4.13",
            Note="a" * 200,
            Longer="b" * 252 + "...",
            **{"Energy.sum": "1.5", "Soil.temp": "12", "List.0": "1", "List.1": "2"},
        )
        serving.wait_for_log("characters of text are cut")


def test_64_values_are_entities_and_the_next_one_is_an_alarm(home: Home, serving: Gateway) -> None:
    with sensor(serving) as tank:
        tank.connect()
        for first in range(0, 65, 13):
            names = range(first, first + 13)
            tank.publish("site/tank", {f"v{number}": number for number in names})
        home.api.shows(tank.client_id, **{f"V{number}": str(number) for number in range(64)})
        assert "V64" not in home.api.entities(tank.client_id)
        serving.wait_for_log("more than 64 values")


def test_numbers_are_as_their_sensors_wrote_them(home: Home, serving: Gateway) -> None:
    with sensor(serving) as tank:
        tank.connect()
        tank.publish("site/float", float32(41.3))
        tank.publish("site/whole", senml({"n": "battery", "u": "%EL", "v": 80.0}))
        tank.publish("site/large", {"count": 2**53 + 1})
        home.api.shows(tank.client_id, Level="41.3", Battery="80", Count="9007199254740993")


def test_counters_of_our_own_nodes_are_disabled_at_first(home: Home, serving: Gateway) -> None:
    with sensor(serving) as node:
        node.connect()
        pack = senml(
            {"bn": f"{node.client_id}:", "n": "seq", "v": 7},
            {"n": "undated", "v": 1},
            {"n": "temperature", "u": "Cel", "v": 21.5},
        )
        node.publish("site/node", pack)
        home.api.shows(node.client_id, Temperature="21.5")
        assert set(home.api.entities(node.client_id)) == {"Temperature", "State", "Last seen"}


# Sensors of other kinds


def test_a_sensor_that_never_connects_is_a_device(
    home: Home, broker: Mosquitto, tmp_path: Path
) -> None:
    topic = new_name("barn/door")
    config = f'{ENABLED}[qos_minus_one]\nallow = true\n[predefined_topics]\n"{topic}" = 7\n'
    with gateway(tmp_path / "gateway", broker, config) as serving, sensor(serving) as barn:
        barn.does(barn.publishing(7, b'{"open":true}', qos=-1, kind=1))
        home.api.shows(f"topic:{topic}", Open="on")


def test_a_sleeper_stays_available(home: Home, serving: Gateway) -> None:
    with sensor(serving) as tank:
        began = now() - timedelta(seconds=1)
        tank.connect()
        tank.publish("site/tank", {"t": 1})
        tank.leave(sleep_s=600)
        home.api.shows(tank.client_id, T="1", State="asleep")
        serving.kill()
        serving.start()
        home.api.shows(tank.client_id, T="1", State="asleep")
        entity_id = home.api.entity_id(tank.client_id, "T")
        assert "1" in home.api.history(entity_id, began)
