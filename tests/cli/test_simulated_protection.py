"""The envelopes of simulated sensors, by each scheme, against the engine: no clock, no network."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from gateway.cli.sensors.protected import ProtectedPackets
from gateway.cli.simulate import keys
from gateway.core.protection.envelope import SCHEMES, parse
from gateway.frames import Connack, Connect, Frame, Pingreq, Pingresp, ReturnCode, decode, encode
from tests.cli.tidegate import tidegate
from tests.support.protected_sensor import ProtectedBench, key_of

ADDRESS = b"there"


def heard(
    bench: ProtectedBench, sensor: ProtectedPackets, frame: Frame, scheme: str
) -> list[Frame]:
    """What the sensor hears of it, with all questions and answers."""
    frames: list[Frame] = []
    datagrams = sensor.sealed(encode(frame))
    while datagrams:
        datagram = datagrams.pop(0)
        assert parse(datagram).scheme == SCHEMES[scheme]
        bench.take(bench.engine.receive(0, [(ADDRESS, datagram)], bench.at))
        for reply in bench.datagrams_for(ADDRESS):
            assert parse(reply).scheme == SCHEMES[scheme]
            packets, answers = sensor.opened(reply)
            frames += map(decode, packets)
            datagrams += answers
    return frames


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_they_say_and_hear_is_in_envelopes_of_the_scheme(scheme: str) -> None:
    """The gateway takes no other one."""
    if SCHEMES[scheme]:
        pytest.importorskip("cryptography")
    bench = ProtectedBench("sim-1", schemes=frozenset({SCHEMES[scheme]}))
    sensor = ProtectedPackets(key_of("sim-1"), scheme)
    connect = Connect(b"sim-1", 60)
    assert heard(bench, sensor, connect, scheme) == [Connack(ReturnCode.ACCEPTED)]
    for _ in range(5):
        assert heard(bench, sensor, Pingreq(), scheme) == [Pingresp()]
    again = ProtectedPackets(key_of("sim-1"), scheme)  # without a memory
    assert heard(bench, again, connect, scheme) == [Connack(ReturnCode.ACCEPTED)]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_aes_ccm_hides_what_is_inside(scheme: str) -> None:
    if SCHEMES[scheme]:
        pytest.importorskip("cryptography")
    packet = b"\x13\x0c\x00\x00\x01\x00\x00a reading 21"
    (datagram,) = ProtectedPackets(key_of("sim-1"), scheme).sealed(packet)
    assert (packet in datagram) == (not SCHEMES[scheme])


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "has_package", lambda: False)
    assert keys.missing_package("hmac-sha256") is None
    problem = keys.missing_package("aes-ccm-64")
    assert problem is not None
    assert problem.startswith("aes-ccm-64 needs the package cryptography; install it with:")
    monkeypatch.undo()
    assert (keys.missing_package("aes-ccm-128") is None) == (find_spec("cryptography") is not None)


def test_the_scheme_is_one_of_three(tmp_path: Path) -> None:
    done = tidegate("simulate", "--protect", "keys.csv", "--scheme", "aes", folder=tmp_path)
    assert done.returncode == 2
    for scheme in SCHEMES:
        assert scheme in done.stderr
