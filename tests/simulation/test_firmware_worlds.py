"""Worlds in which the sensors are our own nodes: the very files that boards run, in virtual time.

What the gateway promises must hold with them as with others, and besides: a node's reading that its
program took for acknowledged is safe, and every one is acknowledged in the end.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from gateway.frames import Connect, Disconnect, Pingreq, Publish, Register, Subscribe, decode
from tests.simulation.firmware_world import FirmwareWorld
from tests.simulation.sensor import Sensor
from tests.simulation.watch import BrokenPromiseError
from tests.support.samples import seeds

WORLDS = seeds(50, 2000, each=25)
ORDINARY = (range(25), range(25, 50))
SEEN_MIN = 10  # in those


class Listening(FirmwareWorld):
    """Counts what nodes say."""

    def __init__(self, seed: int, said: Counter[str]) -> None:
        super().__init__(seed)
        self._said = said

    def _from_sensor(self, sensor: Sensor, datagram: bytes) -> None:
        frame: Any = decode(datagram)
        what = type(frame).__name__
        match frame:
            case Publish():
                self._said[f"PUBLISH with QoS {frame.qos}"] += 1
                self._said["PUBLISH with DUP"] += frame.dup
            case Connect():
                self._said["CONNECT with a will"] += frame.will
                self._said["CONNECT with a clean session"] += frame.clean_session
            case Disconnect():
                self._said["DISCONNECT with a duration"] += frame.duration_s is not None
            case Pingreq():
                self._said["PINGREQ with the client id"] += bool(frame.client_id)
            case Register() | Subscribe():
                pass
        self._said[what] += 1
        super()._from_sensor(sensor, datagram)


@cache
def run_of(some: range) -> tuple[list[str], Counter[str]]:
    """Promises broken in these worlds, and what nodes said there."""
    found, said = [], Counter[str]()
    for seed in some:
        try:
            Listening(seed, said).run()
        except BrokenPromiseError as error:
            found.append(str(error))
    return found, said


@pytest.mark.parametrize("some", WORLDS)
def test_our_nodes_lose_nothing_in_any_world(some: range) -> None:
    found, _ = run_of(some)
    assert not found, "\n\n".join(found)


def test_the_same_seed_is_the_same_world() -> None:
    first, again = FirmwareWorld(7).run(), FirmwareWorld(7).run()
    assert (first.digest, first.steps) == (again.digest, again.steps)
    assert FirmwareWorld(8).run().digest != first.digest


def test_nodes_do_all_that_they_can_in_these_worlds() -> None:
    said = sum((run_of(some)[1] for some in ORDINARY), Counter[str]())
    wanted = {
        *(f"PUBLISH with QoS {qos}" for qos in (0, 1, 2)),
        "PUBLISH with DUP",
        "CONNECT with a will",
        "CONNECT with a clean session",
        "DISCONNECT with a duration",
        "PINGREQ with the client id",
        "Pingreq",
        "Pubrel",
        "Register",
        "Regack",
        "Subscribe",
        "Puback",
        "Pubrec",
        "Pubcomp",
        "WillTopic",
        "WillMsg",
    }
    assert {what for what in wanted if said[what] < SEEN_MIN} == set(), said
