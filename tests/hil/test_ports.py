"""Ports for programs that are about to start: nobody else is given the same one meanwhile."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hil.rig import ports
from hil.rig.ports import CLAIMS_MAX, free_udp_port
from tests.cli.tidegate import REPOSITORY


def test_a_port_is_given_once_while_its_program_may_still_be_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ports, "PORTS", range(24_000, 24_120))
    given = [free_udp_port() for _ in range(CLAIMS_MAX)]
    assert len(set(given)) == CLAIMS_MAX
    program = (
        "from hil.rig import ports; ports.PORTS = range(24_000, 24_120);"
        "print(*(ports.free_udp_port() for _ in range(20)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    others = set(map(int, done.stdout.split()))
    assert len(others) == 20
    assert others.isdisjoint(given)
    again = [free_udp_port() for _ in range(CLAIMS_MAX)]
    assert not set(again).isdisjoint(given), "what was given first is free again"


def test_when_all_are_taken_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "CLAIMS_MAX", 1000)
    monkeypatch.setattr(ports, "PORTS", range(24_200, 24_300))
    given: list[int] = []
    with pytest.raises(OSError, match="are all in use"):
        given.extend(iter(free_udp_port, None))  # others may have some of them
    assert 50 < len(given) == len(set(given)) <= 100
    while ports._claims:
        ports._claims.popleft().close()
