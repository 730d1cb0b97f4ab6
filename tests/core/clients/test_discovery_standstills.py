"""A gateway that stood still, and whose ADVERTISE others may have missed."""

from __future__ import annotations

from gateway.core.clients.discovery import DiscoveryOptions
from gateway.frames import Advertise
from tests.core.clients.test_discovery import Gateway, turn_s


def test_whose_advertise_was_missed_says_it_when_it_runs_again() -> None:
    gateway = Gateway(DiscoveryOptions(gateway_id=1, advertise_s=900))
    gateway.pass_time(10.0)
    assert len(gateway.said) == 1
    gateway.discovery.paused(800.0, gateway.at)
    gateway.pass_time(20.0)
    assert len(gateway.said) == 1, "none was missed"
    gateway.discovery.paused(1000.0, gateway.at)
    gateway.pass_time(20.0 + turn_s(1))
    assert len(gateway.said) == 2


def test_a_standby_that_stood_still_says_nothing_for_it() -> None:
    gateway = Gateway(DiscoveryOptions(gateway_id=1, advertise_s=900, is_standby=True))
    gateway.hear(Advertise(2, 900))
    gateway.pass_time(10.0)
    gateway.discovery.paused(10_000.0, gateway.at)
    gateway.pass_time(2600.0)
    assert gateway.said == []
