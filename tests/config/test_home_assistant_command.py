"""What `tidegate check` says of a `[[home_assistant_command]]`, and that Home Assistant takes the
announcement of each that is right.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.app.build_homeassistant import announcements_of, last_values_of
from gateway.config.keys import COMMAND_KINDS
from gateway.config.kinds import CommandClass, CommandName, MismatchError
from gateway.config.problems import ConfigError
from gateway.config.reader import Configuration, load
from gateway.core.state_records import ClientId
from gateway.presence.pending_commands import PendingCommands
from gateway.presence.topics import Topics
from tests.support.home_assistant import objections

BASE = 'name = "x"\ntopic = "a/{client}/set"\n'


def loaded(text: str) -> Configuration:
    content = f'[gateway]\nname = "a"\n[[home_assistant_command]]\n{text}\n'.encode()
    return load(Path("c.toml"), environment={}, overrides=(), content=content)


def checked(text: str) -> list[str]:
    """The problems, without their places."""
    try:
        loaded(text)
    except ConfigError as error:
        return [line.partition("home_assistant_command.0")[2] for line in str(error).splitlines()]
    return []


def warned(text: str) -> list[str]:
    found = loaded(text).warnings
    return [line.partition("home_assistant_command.")[2] for line in found if "command" in line]


RIGHT = [
    'kind = "number"',
    'kind = "number"\nmin = -5\nmax = 5\nstep = 0.5\nmode = "slider"\nstate = "t"',
    'kind = "number"\ndevice_class = "temperature"\nunit = "°C"\nentity_category = "config"',
    'kind = "number"\ndevice_class = "duration"\npayload = \'{"s": {value}}\'\nexpiry_s = 60',
    'kind = "switch"\ndevice_class = "outlet"\npayload_on = "1"\npayload_off = "0"\nstate = "o"',
    'kind = "switch"\nretain = true\nqos = 2\nicon = "mdi:pump"\nentity_category = "none"',
    'kind = "light"\nstate = "on"\nstate_topic = "a/+/state"',
    'kind = "button"\npayload_press = "go"\ndevice_class = "identify"\nenabled_by_default = false',
    'kind = "select"\noptions = ["a", "b"]\nstate = "m"\nqos = 0',
    'kind = "text"\nmin = 1\nmax = 20\nmode = "password"\npayload = "say {value}"',
    'kind = "text"\nstate = "t"\nlabel = "T"',
]


@pytest.mark.parametrize("text", RIGHT)
def test_what_is_right_is_announced_as_home_assistant_takes_it(text: str) -> None:
    assert warned(BASE + text) == []
    settings = loaded(BASE + text).settings
    topics = Topics("", settings.gateway.name)
    pending = PendingCommands({})
    announcements = announcements_of(settings, topics, last_values_of(settings), pending)
    announcements.presence_published(ClientId("tank"))
    announcements.next_announcement()  # of the gateway
    message = announcements.next_announcement()
    assert message is not None
    assert objections("homeassistant", message.topic, message.payload) == []
    assert json.loads(message.payload)["components"]["command-x"]["command_topic"] == "a/tank/set"


def test_each_kind_is_tried() -> None:
    assert {text.split('"')[1] for text in RIGHT} == set(COMMAND_KINDS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('kind = "button"\ntopic = "a"\nclient = "b"', ": expected a name, such as"),
        ('name = "x"\ntopic = "a"\nclient = "b"', ": expected what it is, such as"),
        ('name = "x"\nkind = "button"', ": expected where it is sent, such as"),
        ('name = "x"\nkind = "button"\ntopic = "a/+/b"', ".topic: expected text of 1 to"),
        ('name = "x"\nkind = "button"\ntopic = "a"', ".topic: expected {client} in it"),
        ('name = "x"\nkind = "button"\ntopic = "a"\nclient = "b*"', ".topic: expected {client}"),
        ('name = "x"\nkind = "button"\ntopic = "tidegate/{client}"', ".topic: expected a topic"),
        ('name = "x"\nkind = "button"\ntopic = "$SYS/{client}"', ".topic: expected a topic of"),
        ('name = "x"\nkind = "button"\ntopic = "{client}/{id}"', ".topic: expected no other"),
        ('name = "x y"\nkind = "button"\ntopic = "{client}"', ".name: expected text of 1 to 64"),
        (f'{BASE}kind = "pump"', '.kind: expected "number", "switch"'),
        (f'{BASE}kind = "button"\nretain = true', ".retain: expected false: a button"),
        (f'{BASE}kind = "button"\ndevice_class = "outlet"', ".device_class: expected one of a b"),
        (f'{BASE}kind = "switch"\ndevice_class = "door"', ".device_class: expected a device cl"),
        (
            f'{BASE}kind = "number"\ndevice_class = "temperature"\nunit = "mAh"',
            ".unit: expected another one: temperature goes with",
        ),
        (f'{BASE}kind = "number"\nmin = 5\nmax = 4', ".max: expected another one: nothing is"),
        (f'{BASE}kind = "number"\nmin = 101', ".min: expected another one: nothing is from 101"),
        (f'{BASE}kind = "number"\nmode = "text"', ".mode: expected auto or box or slider for a"),
        (f'{BASE}kind = "number"\npayload = "5"', ".payload: expected {value} in it"),
        (f'{BASE}kind = "text"\nmax = 256', ".max: expected whole characters from 0 to 255"),
        (f'{BASE}kind = "text"\nmin = 0.5', ".min: expected whole characters from 0"),
        (f'{BASE}kind = "text"\nmin = 1\nstate = "t"', ".min: expected none beside state"),
        (f'{BASE}kind = "select"', ": expected what can be selected, such as options = ["),
        (f'{BASE}kind = "select"\noptions = []', ".options: expected at least one"),
        (f'{BASE}kind = "select"\noptions = ["a", "a"]', ".options: expected each of them once"),
        (f'{BASE}kind = "select"\noptions = ["None"]', ".options: expected none that is called"),
        (f'{BASE}kind = "switch"\npayload_off = "on"', ".payload_off: expected two that differ"),
        (f'{BASE}kind = "light"\npayload_on = "off"', ".payload_on: expected two that differ"),
    ],
)
def test_what_home_assistant_would_refuse_is_a_problem(text: str, problem: str) -> None:
    (found,) = checked(text)
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ('kind = "switch"\nunit = "s"', "0.unit: has no effect: it is for number"),
        ('kind = "button"\nstate = "s"', "0.state: has no effect: it is for number, switch, light"),
        ('kind = "light"\ndevice_class = "outlet"', "0.device_class: has no effect: it is for nu"),
    ],
)
def test_what_another_kind_has_is_a_warning(text: str, warning: str) -> None:
    (found,) = warned(BASE + text)
    assert found.startswith(warning)


def test_an_entry_behind_one_of_its_name_is_a_warning() -> None:
    one = f'{BASE}kind = "button"\n'
    (found,) = warned(f"{one}[[home_assistant_command]]\n{one}")
    assert "1.name: never decides, because home_assistant_command.0 has that name" in found
    assert warned(f'{one}[[home_assistant_command]]\nclient = "b"\n{one}') == []


def test_a_name_and_a_class_are_what_they_can_be() -> None:
    assert CommandName(1, 64).read("listen_every-2") == "listen_every-2"
    assert CommandClass(1, 64).read("restart") == "restart"
    for kind, wrong in (
        (CommandName(1, 64), "ä"),
        (CommandClass(1, 64), "door"),
        (CommandName(1, 64), 5),
    ):
        with pytest.raises(MismatchError):
            kind.read(wrong)
