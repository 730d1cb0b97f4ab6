"""What the core gets of a configuration, where it is more than the value of one key."""

from __future__ import annotations

import pytest

from gateway.app.core_options import engine_options
from gateway.config.settings import HomeAssistantSettings, Settings


@pytest.mark.parametrize("enable", [False, True])
def test_discovery_is_closed_to_sensors_unless_a_key_opens_it(enable: bool) -> None:
    def prefix(home_assistant: HomeAssistantSettings) -> str | None:
        options = engine_options(Settings(home_assistant=home_assistant), 1, None)
        return options.uplink.discovery_prefix

    assert prefix(HomeAssistantSettings(enable=enable)) == "homeassistant"
    assert prefix(HomeAssistantSettings(enable=enable, discovery_prefix="ha")) == "ha"
    assert prefix(HomeAssistantSettings(enable=enable, sensors_may_configure=True)) is None
