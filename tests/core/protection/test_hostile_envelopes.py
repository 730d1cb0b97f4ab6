"""Forged, replayed, truncated and reflected envelopes: none is taken, nothing grows, and the honest
sensors beside them are served.

10,000 of them here, 100,000 in `make soak`.
"""

from __future__ import annotations

import sys
import time
from random import Random

import pytest

from gateway.core.effects import Dropped, Effect
from gateway.frames import Connect, Pingreq, Publish, encode
from tests.support.engine_bench import short
from tests.support.protected_sensor import ProtectedBench, ProtectedSensor
from tests.support.samples import seeds

SENSORS = 20
BATCH = 50
ANSWERED_S_MAX = 0.05
GROWTH_BLOCKS_MAX = 5_000  # of memory; a session has hundreds
PARTS = seeds(1, 10, each=1)


def altered(datagram: bytes, dice: Random) -> bytes:
    match dice.randrange(5):
        case 0:
            return datagram[: dice.randrange(2, len(datagram))]
        case 1:
            place = dice.randrange(len(datagram))
            changed = bytes((datagram[place] ^ 1 << dice.randrange(8),))
            return datagram[:place] + changed + datagram[place + 1 :]
        case 2:
            return datagram[:-8] + dice.randbytes(8)
        case 3:
            return datagram[:4] + dice.randbytes(8) + datagram[12:]
    return datagram


@pytest.mark.parametrize("some", PARTS)
def test_none_is_taken_and_the_sensors_are_served(some: range) -> None:
    for part in some:
        attack(part)


def attack(part: int) -> None:
    dice = Random(part)
    names = [f"s{number}" for number in range(SENSORS)]
    bench = ProtectedBench(*names, seed=part)
    sensors = [ProtectedSensor(bench, each, address=each.encode()) for each in names]
    for sensor, name in zip(sensors, names, strict=True):
        sensor.say(Connect(name.encode(), 60), Pingreq())
    said = [encode(short(b"21.5", 0, 0))] * SENSORS
    recorded: list[tuple[bytes, bytes]] = []
    for sensor, packet in zip(sensors, said, strict=True):
        for _ in range(100):
            sensor.put(sensor.channel.seal(packet))
        recorded += [(sensor.address, each) for each in sensor.sent]
        answer = bench.engine.sealed(sensor.peer, packet)
        assert answer is not None
        recorded.append(answer)  # reflected
    took: list[float] = []
    blocks = 0
    for number in range(10_000 // BATCH):
        bench.at += 0.05
        hostile = []
        for _ in range(BATCH):
            address, datagram = dice.choice(recorded)
            if dice.random() < 0.3:
                address = b"elsewhere%d" % dice.randrange(1000)
            hostile.append((address, altered(datagram, dice)))
        before = sum(bench.engine.received.values())
        effects = bench.engine.receive(0, hostile, bench.at)
        assert sum(bench.engine.received.values()) == before, "one was taken"
        assert all(isinstance(each, Dropped) or not _is_reading(each) for each in effects)
        sensor = sensors[number % SENSORS]
        began = time.process_time()
        sealed = sensor.channel.seal(said[0])
        bench.engine.receive(0, [(sensor.address, sealed)], bench.at)
        took.append(time.process_time() - began)
        assert sum(bench.engine.received.values()) == before + 1, "the sensor beside them"
        bench.datagrams.clear()
        if number == 20:
            blocks = sys.getallocatedblocks()
    grown = sys.getallocatedblocks() - blocks
    took.sort()
    p99_s = took[len(took) * 99 // 100]
    sys.stderr.write(
        f"\npart {part}: 10,000 hostile, none taken; {grown} blocks more; p99 {p99_s * 1e3:.2f} ms"
    )
    assert grown < GROWTH_BLOCKS_MAX
    assert p99_s < ANSWERED_S_MAX
    assert set(bench.engine.sessions) == set(names)


def _is_reading(effect: Effect) -> bool:
    return isinstance(getattr(effect, "frame", None), Publish)
