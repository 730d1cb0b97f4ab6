"""What the core gets of a configuration, where it is more than the value of one key."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, get_type_hints

import pytest

from gateway.app.core_options import engine_options, same_named, uplink_rules
from gateway.config.settings import (
    HomeAssistantSettings,
    LimitsSettings,
    MqttSnSettings,
    Settings,
    UpstreamSettings,
)
from gateway.core.clients.admission import AdmissionOptions
from gateway.core.engine import EngineOptions
from gateway.core.mqtt.options import MqttOptions
from gateway.core.session.options import SessionOptions
from tests.config.reading import read

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@pytest.mark.parametrize("enable", [False, True])
def test_discovery_is_closed_to_sensors_unless_a_key_opens_it(enable: bool) -> None:
    def prefix(home_assistant: HomeAssistantSettings) -> str | None:
        options = engine_options(Settings(home_assistant=home_assistant), 1, None)
        return options.uplink.discovery_prefix

    assert prefix(HomeAssistantSettings(enable=enable)) == "homeassistant"
    assert prefix(HomeAssistantSettings(enable=enable, discovery_prefix="ha")) == "ha"
    assert prefix(HomeAssistantSettings(enable=enable, sensors_may_configure=True)) is None


def test_a_key_decides_the_option_of_its_name_and_without_it_the_defaults_are_the_same() -> None:
    """A key of tables that concern clients may go to several parts."""
    settings = Settings(
        mqtt_sn=MqttSnSettings(retry_after_s=3.0, allow_trailing_octets=False),
        limits=LimitsSettings(clients_max=5, egress_bytes_per_s_max=7),
        upstream=UpstreamSettings(will_delay_s=11),
    )
    options = engine_options(settings, 1, None)
    assert (options.session.retry_after_s, options.session.egress_bytes_per_s_max) == (3.0, 7)
    assert options.admission.clients_max == 5
    assert not options.allow_trailing_octets
    assert options.upstream.will_delay_s == 11


@pytest.mark.parametrize("options", [SessionOptions, AdmissionOptions, EngineOptions, MqttOptions])
def test_an_option_and_the_key_of_its_name_have_one_type_and_one_default(
    options: type[DataclassInstance],
) -> None:
    """So the core is told the same by its tests as by an empty configuration."""
    tables: tuple[DataclassInstance, ...] = (MqttSnSettings(), LimitsSettings())
    if options is MqttOptions:
        tables = (UpstreamSettings(),)
    by_name = same_named(options, *tables)
    assert by_name
    types = {name: kind for table in tables for name, kind in get_type_hints(type(table)).items()}
    for option in fields(options):
        if option.name in by_name:
            assert get_type_hints(options)[option.name] == types[option.name], option.name
            if option.default is not MISSING:
                assert option.default == by_name[option.name], option.name


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
