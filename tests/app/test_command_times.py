"""Which topics are those of a command, and how long it is worth delivering."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.app.core_options import uplink_rules
from gateway.config.reader import load

TWO = """
[[home_assistant_command]]
name = "valve"
kind = "switch"
client = "valve-*"
topic = "valves/{client}/set"
expiry_s = 30
[[home_assistant_command]]
name = "valve"
kind = "switch"
topic = "valves/{client}/set"
expiry_s = 600
[[home_assistant_command]]
name = "siren"
kind = "switch"
client = "siren"
topic = "siren/set"
[[home_assistant_command]]
name = "twice"
kind = "text"
topic = "{client}/{client}!"
expiry_s = 7
"""


def command_within_s(text: str, *, enable: bool = True) -> dict[str, float] | None:
    enabled = f"[home_assistant]\nenable = {str(enable).lower()}\n"
    content = f"{enabled}{text}".encode()
    settings = load(Path("c.toml"), environment={}, overrides=(), content=content).settings
    found = uplink_rules(settings).command_within_s
    return None if found is None else {topic: found(topic) for topic in TOPICS}


TOPICS = {
    "valves/valve-1/set": 30.0,
    "valves/valve-1/2/set": 30.0,
    "valves/pump/set": 600.0,
    "valves//set": 0.0,
    "valves/pump/get": 0.0,
    "siren/set": 0.0,
    "ab/ab!": 7.0,
    "ab/ac!": 0.0,
    "ab/abc!": 0.0,
}


def test_the_first_entry_that_fits_the_topic_decides() -> None:
    assert command_within_s(TWO) == TOPICS


@pytest.mark.parametrize(
    ("text", "enable"), [("", True), (TWO, False), (TWO.replace("expiry_s", "qos = 1 #"), True)]
)
def test_where_no_command_expires_nothing_is_looked_up(text: str, enable: bool) -> None:
    assert command_within_s(text, enable=enable) is None
