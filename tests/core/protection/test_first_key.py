"""The first device gets a key while the gateway runs."""

from __future__ import annotations

from random import Random

from gateway.core.access.device_keys import DeviceKeys
from gateway.core.effects import Save
from gateway.core.engine import Engine, EngineOptions
from gateway.core.protection.protection import ProtectionOptions
from gateway.core.state_records import ProtectionRecord, StateRecords
from gateway.frames import Connack, Connect
from tests.support.engine_bench import UPSTREAM
from tests.support.protected_sensor import ProtectedBench, ProtectedSensor, key_of

KEYS = DeviceKeys([key_of("tank")])
OPTIONS = ProtectionOptions(keys=lambda: KEYS, random=Random(1).randbytes)
CONNECT = Connect(b"tank", 60, clean_session=True)


def without_keys(*records: ProtectionRecord) -> ProtectedBench:
    bench = ProtectedBench("tank")
    bench.engine = Engine(EngineOptions(UPSTREAM))
    bench.take(bench.engine.restore(StateRecords([], [], [], [], [], protection=[*records]), 0.0))
    bench.connect_broker()
    return bench


def test_a_sensor_with_it_is_served_from_then_on() -> None:
    bench = without_keys()
    sensor = ProtectedSensor(bench, "tank")
    assert sensor.say(CONNECT) == []
    bench.ask(bench.engine.begin_protection(OPTIONS))
    assert sensor.say(CONNECT) == [Connack(0)]
    assert bench.engine.begin_protection(OPTIONS) == []


def test_counters_of_an_earlier_run_that_had_the_key_are_not_used_again() -> None:
    key = key_of("tank")
    known = ProtectionRecord(key.sender_id, 1, 77, 1000, 78, 2000)
    bench = without_keys(known)
    outputs = bench.engine.begin_protection(OPTIONS)
    (saved,) = [each.change for each in outputs if isinstance(each, Save)]
    assert isinstance(saved, ProtectionRecord)
    assert saved.series == known.series
    assert saved.next_counter > known.next_counter
