"""One Home Assistant and one broker for all tests; each has a gateway and devices of its own.

They are soak tests, as they need half a gigabyte that `make home-test` installs. After each, Home
Assistant's log has no warning and no error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.rig.mosquitto import Mosquitto
from tests.home_assistant.home import Home
from tests.home_assistant.installing import why_not_there
from tests.home_assistant.site import Gateway, gateway, home_with_broker

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.soak)


@pytest.fixture(scope="session")
def site() -> Iterator[tuple[Mosquitto, Home]]:
    if why := why_not_there():
        pytest.skip(f"not run: {why}")
    with home_with_broker() as both:
        yield both


@pytest.fixture
def broker(site: tuple[Mosquitto, Home]) -> Mosquitto:
    return site[0]


@pytest.fixture
def home(site: tuple[Mosquitto, Home]) -> Iterator[Home]:
    home = site[1]
    home.complaints()
    yield home
    assert home.complaints() == []


@pytest.fixture
def serving(tmp_path: Path, broker: Mosquitto, home: Home) -> Iterator[Gateway]:
    """A gateway whose configuration has nothing of its own."""
    del home  # which must not see this gateway go
    with gateway(tmp_path / "gateway", broker) as running:
        yield running
