"""Ports for programs that are about to start: nobody else is given the same one meanwhile."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack, suppress

import pytest

from hil.rig import ports
from hil.rig.ports import CLAIMS_MAX, free_udp_port
from tests.cli.tidegate import REPOSITORY


def test_a_port_is_given_once_while_its_program_may_still_be_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ports, "PORTS", range(24_000, 24_150))
    with ExitStack() as in_use:
        for port in range(24_000, 24_030):
            in_use.enter_context(taken(port))
        given = [free_udp_port() for _ in range(CLAIMS_MAX)]
        assert len(set(given)) == CLAIMS_MAX
        others = given_to_another_process(20)
    assert len(others) == 20
    assert others.isdisjoint(given)
    again = [free_udp_port() for _ in range(CLAIMS_MAX)]
    assert not set(again).isdisjoint(given), "what was given first is free again"


def taken(port: int) -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with suppress(OSError):  # by another test: it is in use just as well
        held.bind(("127.0.0.1", port))
    return held


def given_to_another_process(count: int) -> set[int]:
    program = (
        "from hil.rig import ports; ports.PORTS = range(24_000, 24_150);"
        f"print(*(ports.free_udp_port() for _ in range({count})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return set(map(int, done.stdout.split()))


def test_when_all_are_taken_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "CLAIMS_MAX", 1000)
    monkeypatch.setattr(ports, "PORTS", range(24_200, 24_300))
    given: list[int] = []
    with pytest.raises(OSError, match="are all in use"):
        given.extend(iter(free_udp_port, None))  # others may have some of them
    assert 50 < len(given) == len(set(given)) <= 100
    while ports._claims:
        ports._claims.popleft().close()
