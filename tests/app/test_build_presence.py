"""From the settings: how long devices are available when they are away."""

from __future__ import annotations

import pytest

from gateway.app.build_presence import fixed_times
from gateway.config.settings import PresenceClientSettings, PresenceSettings, Settings
from gateway.core.state_records import ClientId


@pytest.mark.parametrize(
    ("visitor", "available_s", "expected"),
    [
        (None, 60, 60.0),
        (True, 60, 60.0),
        (True, None, 900.0),
        (True, 0, 900.0),
        (False, None, 0.0),
        (None, 0, None),
    ],
)
def test_what_is_said_of_clients(
    visitor: bool | None, available_s: int | None, expected: float | None
) -> None:
    settings = Settings(
        presence=PresenceSettings(visitors=("tank",), visitor_available_s=900),
        presence_client=(
            PresenceClientSettings(client="meter-*", visitor=visitor, available_s=available_s),
        ),
    )
    fixed = fixed_times(settings)
    assert fixed.of(ClientId("meter-7")) == expected
    assert fixed.of(ClientId("tank")) == 900.0
    assert fixed.of(ClientId("other")) is None
