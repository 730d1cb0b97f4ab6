"""A serial line hears of the gateway as a group does, and tells nothing of other gateways."""

from __future__ import annotations

import pytest

from gateway.core.clients.admission import Admission, AdmissionOptions
from gateway.core.clients.discovery import Discovery, DiscoveryOptions
from gateway.core.effects import Broadcast, DiscoveryRole
from gateway.core.events import Output
from gateway.frames import Advertise, encode

GROUP, LINE = 0, 1


def serving(*, standby: bool) -> Discovery:
    options = DiscoveryOptions(0, advertise_s=10, is_standby=standby, has_groups=True)
    discovery = Discovery(options, Admission(AdmissionOptions(), {}), {})
    discovery.set_serving(None, 0.0)
    return discovery


def said_until(discovery: Discovery, until: float, since: float = 0.0) -> list[tuple[float, int]]:
    """When, and on which link."""
    effects: list[tuple[float, Output]] = []
    while discovery.due_at <= until:
        at = max(since, discovery.due_at)
        effects += [(at, effect) for effect in discovery.handle_time(at)]
    return [(at, effect.link) for at, effect in effects if isinstance(effect, Broadcast)]


def test_a_line_hears_of_the_gateway_when_it_opens_and_then_each_time() -> None:
    discovery = serving(standby=False)
    assert said_until(discovery, 100.0) == []
    discovery.joined(LINE, 100.0, hears=False)
    assert said_until(discovery, 115.0, 100.0) == [(100.0, LINE), (110.0, LINE)]
    discovery.left(LINE)
    assert said_until(discovery, 200.0) == []


@pytest.mark.parametrize("group_at", [None, 500.0])
def test_a_standby_learns_nothing_of_other_gateways_on_a_line(group_at: float | None) -> None:
    discovery = serving(standby=True)
    discovery.joined(LINE, 0.0, hears=False)
    assert said_until(discovery, 500.0) == []
    assert discovery.part is DiscoveryRole.STANDBY
    if group_at is None:
        return
    discovery.joined(GROUP, group_at)
    # Three of its own durations without a word of anybody, and it speaks on both.
    assert said_until(discovery, 535.0) == [(530.0, GROUP), (530.0, LINE)]


def test_a_standby_whose_group_is_gone_waits_for_it_though_the_line_is_there() -> None:
    discovery = serving(standby=True)
    discovery.joined(LINE, 0.0, hears=False)
    discovery.joined(GROUP, 0.0)
    discovery.receive(GROUP, [(b"other", encode(Advertise(7, 10)))], 1.0)
    discovery.left(GROUP)
    assert said_until(discovery, 1000.0) == []
    discovery.joined(GROUP, 1000.0)
    assert said_until(discovery, 1035.0) == [(1030.0, GROUP), (1030.0, LINE)]
