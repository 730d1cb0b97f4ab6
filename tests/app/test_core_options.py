"""What the core gets of a configuration, where it is more than the value of one key."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.app.core_options import engine_options, uplink_rules
from gateway.config.settings import HomeAssistantSettings, Settings
from tests.config.reading import read


@pytest.mark.parametrize("enable", [False, True])
def test_discovery_is_closed_to_sensors_unless_a_key_opens_it(enable: bool) -> None:
    def prefix(home_assistant: HomeAssistantSettings) -> str | None:
        options = engine_options(Settings(home_assistant=home_assistant), 1, None)
        return options.uplink.discovery_prefix

    assert prefix(HomeAssistantSettings(enable=enable)) == "homeassistant"
    assert prefix(HomeAssistantSettings(enable=enable, discovery_prefix="ha")) == "ha"
    assert prefix(HomeAssistantSettings(enable=enable, sensors_may_configure=True)) is None


TOPICS = """
[[topic]]
filter = "cmd/#"
deliver_within_s = 3600
[[topic]]
filter = "#"
message_expiry_s = 60
"""


def test_a_topic_has_a_time_for_messages_and_one_for_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = uplink_rules(read(TOPICS).settings)
    found = [(name, each.deliver_within_s, each.expiry_s) for name, each in options.overrides]
    assert found == [("cmd/#", 3600.0, 0.0), ("#", 0.0, 60.0)]
    assert options.default.deliver_within_s == 0.0, "none is given to what no filter names"
