"""Commands as entities: what is announced of them, and which values they take the place of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.core.state_records import ClientId
from gateway.presence.catalogue import Kind, KnownValue
from gateway.presence.documents import LedgerEntry
from gateway.presence.homeassistant.announcements import Announcements
from gateway.presence.homeassistant.commands import CommandOptions, template_of
from gateway.presence.homeassistant.declared_commands import (
    KNOWN,
    NAMES_MAX,
    TOPICS_MAX,
    commands_of,
    declared_in,
    has_version,
    is_declaration,
    versions_in,
)
from gateway.presence.homeassistant.discovery_documents import DiscoveryDocuments
from gateway.presence.last_values import Declarations, LastValues, Received
from gateway.presence.retained_ledger import RetainedLedgerFile
from gateway.presence.topics import Topics
from gateway.presence.values import Value
from tests.support.home_assistant import objections

TANK = ClientId("tank")
STATE = "tank/state"
INTERVAL = KnownValue(STATE, "interval_s", Kind.NUMBER)
VALVE = KnownValue(STATE, "open", Kind.BOOLEAN)


def number(**more: Any) -> CommandOptions:
    base: dict[str, Any] = {"name": "interval", "kind": "number", "topic": "{client}/set"}
    return CommandOptions(**(base | {"state": "interval_s"} | more))


def documents(*options: CommandOptions, topic_prefix: str = "") -> DiscoveryDocuments:
    return DiscoveryDocuments(
        Topics(topic_prefix, "greenhouse"),
        "homeassistant",
        "greenhouse",
        "1",
        command_options=options,
        topic_prefix=topic_prefix,
    )


def components(
    *options: CommandOptions,
    values: tuple[KnownValue, ...] = (),
    client_id: str = "tank",
    declared: dict[str, tuple[str, ...]] | None = None,
    topic_prefix: str = "",
) -> dict[str, Any]:
    made = documents(*options, topic_prefix=topic_prefix)
    device = made.entries(client_id, values, declared)
    payload = made.document(client_id, device.entries)
    assert objections("homeassistant", made.topic_of(client_id), payload) == []
    found: dict[str, Any] = json.loads(payload)["components"]
    return found


def test_the_command_goes_to_the_topic_of_the_device_behind_the_brokers_prefix() -> None:
    command = components(number(qos=2, retain=True), topic_prefix="site/")["command-interval"]
    assert command["command_topic"] == "site/tank/set"
    assert (command["qos"], command["retain"]) == (2, True)
    assert command["state_topic"] == "site/tidegate/greenhouse/values/tank"
    assert command["unique_id"] == "tidegate_greenhouse_2ftank_command-interval"


def test_a_device_without_values_has_its_commands_already() -> None:
    command = components(number())["command-interval"]
    assert command["value_template"] == "{{ '' }}", "the state is unknown"
    text = components(number(kind="text"))["command-interval"]
    assert text["value_template"].startswith("{{ (this.state if this.state not in")
    of_filter = components(number(state_topic="+/state"))["command-interval"]
    assert of_filter["value_template"] == "{{ '' }}"
    of_topic = components(number(state_topic=STATE))["command-interval"]
    assert "value_json['tank/state']" in of_topic["value_template"]


def test_without_a_state_home_assistant_takes_what_it_has_sent() -> None:
    assert "state_topic" not in components(number(state=None))["command-interval"]


def test_the_value_of_a_state_is_no_entity_of_its_own() -> None:
    other = KnownValue("tank/other", "interval_s", Kind.NUMBER)
    found = components(number(state_topic="+/state"), values=(INTERVAL, VALVE, other))
    assert found.keys() == {
        "command-interval",
        "tank_2fstate_20open",
        "tank_2fother_20interval_s",
        "standing",
        "last_seen",
        "waiting",
    }
    template = found["command-interval"]["value_template"]
    assert "value_json['tank/state']['interval_s']" in template


def test_a_state_that_comes_on_several_topics_is_named() -> None:
    other = KnownValue("tank/other", "interval_s", Kind.NUMBER)
    device = documents(number()).entries("tank", [INTERVAL, other])
    assert "tank_2fother_20interval_s" in device.entries, "it is still a value"
    assert "tank_2fstate_20interval_s" not in device.entries
    ((name, why),) = device.notes
    assert name == "interval"
    assert "'interval_s' comes on several topics, the first is its state" in why


def test_a_client_id_that_makes_no_topic_is_named() -> None:
    device = documents(number()).entries("a+b", [])
    assert device.notes == [("interval", "the client id has + or #, so it makes no topic")]
    assert device.entries.keys() == {"standing", "last_seen"}


def test_a_sensor_without_a_connection_has_no_commands() -> None:
    found = components(number(), client_id="topic:barn/door", declared={STATE: ("restart",)})
    assert found.keys() == {"standing", "last_seen"}


def test_of_one_name_the_first_that_fits_decides_and_a_pattern_may_fit_none() -> None:
    options = (
        number(client="well-*", label="Well"),
        number(client="tank", label="Tank"),
        number(label="Any"),
    )
    assert components(*options)["command-interval"]["name"] == "Tank"
    assert components(*options, client_id="x")["command-interval"]["name"] == "Any"
    assert components(options[0]).keys() == {"standing", "last_seen"}


@pytest.mark.parametrize(
    ("kind", "more", "members"),
    [
        ("number", {"min": 0.0, "max": 5.5}, {"min": 0, "max": 5.5}),
        ("switch", {"payload_on": "a"}, {"payload_on": "a", "state_on": "ON", "state_off": "OFF"}),
        ("select", {"options": ("a", "b")}, {"options": ["a", "b"]}),
        ("text", {"max": 20.0, "mode": "password"}, {"max": 20, "mode": "password"}),
        ("light", {"payload_off": "b"}, {"payload_off": "b"}),
        ("button", {"payload_press": "c"}, {"payload_press": "c"}),
    ],
)
def test_each_kind_is_announced(kind: str, more: Any, members: dict[str, object]) -> None:
    state = None if kind == "button" else "open"
    found = components(
        number(kind=kind, state=state, entity_category="config", **more), values=(VALVE,)
    )["command-interval"]
    assert members.items() <= found.items()
    assert found["entity_category"] == "config"
    key = "state_value_template" if kind == "light" else "value_template"
    assert ("['tank/state']['open']" in found.get(key, "")) is (kind != "button")


def test_a_button_takes_no_value_away() -> None:
    found = components(number(kind="button"), values=(INTERVAL,))
    assert "tank_2fstate_20interval_s" in found


@pytest.mark.parametrize(
    ("payload", "is_text", "template"),
    [
        (None, False, None),
        ("{value}", True, None),
        ('{"s": {value}}', False, "{{ '\\x7b\\x22s\\x22: ' }}{{ value }}{{ '\\x7d' }}"),
        (
            '{"s": {value}}',
            True,
            "{{ '\\x7b\\x22s\\x22: ' }}{{ value | string | to_json }}{{ '\\x7d' }}",
        ),
        ('"<{value}>"', True, "{{ '\\x22<' }}{{ (value | to_json)[1:-1] }}{{ '>\\x22' }}"),
        ("say {value}", True, "{{ 'say ' }}{{ value }}"),
        ("{{ 7 }}{value}", True, "{{ '\\x7b\\x7b 7 \\x7d\\x7d' }}{{ value }}"),
    ],
)
def test_no_text_of_the_operator_is_run_as_a_template(
    payload: str | None, is_text: bool, template: str | None
) -> None:
    assert template_of(payload, is_text=is_text) == template


# Declared by the device


def test_a_reading_declares_commands() -> None:
    payload = b'{"commands": ["interval_s", "restart", "restart", 7], "interval_s": 60}'
    assert declared_in(STATE, payload) == ("interval_s", "restart")
    assert declared_in("state", payload) is None, "it has nothing before it"
    assert declared_in("tank/other", payload) is None
    assert declared_in(STATE, b'{"commands": null}') == ()
    many = json.dumps({"commands": [f"c{n}" for n in range(NAMES_MAX + 1)]}).encode()
    assert len(declared_in(STATE, many) or ()) == NAMES_MAX
    nested = b"[" * 100_000 + b'"commands"'
    for other in (
        b'{"commands": 5}',
        b'["commands"]',
        b'{"a": "commands"}',
        b'"commands" {',
        nested,
    ):
        assert declared_in(STATE, other) is None
    assert [is_declaration(name) for name in ("commands", "commands.0", "command")] == [
        True,
        True,
        False,
    ]


def test_everything_known_is_announced_as_home_assistant_takes_it() -> None:
    declared = {STATE: (*KNOWN, "unknown")}
    values = (
        INTERVAL,
        KnownValue("tank/update", "installed_version", Kind.TEXT),
        KnownValue(STATE, "commands.0", Kind.TEXT),
        KnownValue(STATE, "uptime_s", Kind.NUMBER),
    )
    found = components(declared=declared, values=values)
    commands = {key.rpartition("_2f")[2]: each for key, each in found.items() if "command-" in key}
    assert commands.keys() == KNOWN.keys()
    assert found.keys() - {key for key in found if "command-" in key} == {
        "tank_2fstate_20uptime_s",
        "standing",
        "last_seen",
        "waiting",
    }
    assert {each["qos"] for each in commands.values()} == {1}
    assert {each["entity_category"] for each in commands.values()} == {"config"}
    interval, restart, update = (commands[name] for name in ("interval_s", "restart", "update"))
    assert interval["command_topic"] == "tank/set/interval_s"
    assert (interval["min"], interval["max"], interval["step"]) == (5, 86_400, 1)
    assert "['tank/state']['interval_s']" in interval["value_template"]
    assert (restart["command_topic"], restart["device_class"]) == ("tank/set/restart", "restart")
    assert (update["command_topic"], update["state_topic"]) == ("tank/install", "tank/update")
    assert (update["payload_install"], update["device_class"]) == ("install", "firmware")
    assert interval["retain"] is True
    assert "retain" not in restart
    assert "retain" not in update


def test_what_the_operator_has_set_on_that_topic_is_instead_of_it() -> None:
    mine = number(topic="tank/set/interval_s", label="Mine")
    found = components(mine, declared={STATE: ("interval_s", "restart")})
    assert {each["name"] for key, each in found.items() if "command-" in key} == {"Mine", "Restart"}


def test_two_nodes_behind_one_client_have_names_that_differ() -> None:
    found = components(declared={STATE: ("restart",), "a b/state": ("restart",)})
    names = {each["name"] for key, each in found.items() if "command-" in key}
    assert names == {"Restart tank", "Restart a b"}


def test_a_key_of_a_command_is_never_that_of_a_value() -> None:
    (command,) = commands_of({"x y/state": ("restart",)})
    found = components(
        declared={"x y/state": ("restart",)},
        values=(KnownValue("command-x", "y/restart", Kind.NUMBER),),
    )
    assert len(found) == 5
    assert "_20" not in command.key


def announced(announcements: Announcements) -> dict[str, Any]:
    """The next announcement of a device."""
    while (message := announcements.next_announcement()) is not None:
        if message.client_id:
            found: dict[str, Any] = json.loads(message.payload)["components"]
            return found
    return {}


def test_a_declaration_takes_values_back_and_is_kept_over_a_restart(tmp_path: Path) -> None:
    watched: list[dict[str, str]] = []
    announcements = Announcements(
        documents(), lambda _: b"{}", lambda _, topics: watched.append(dict(topics))
    )
    announcements.learn(Received(TANK, STATE, [Value("interval_s", 60.0)], []), 0.0)
    announcements.presence_published(TANK)
    assert "tank_2fstate_20interval_s" in announced(announcements)
    announcements.declare(TANK, STATE, ("interval_s", "dance"))
    first = announced(announcements)
    assert first["tank_2fstate_20interval_s"] == {"platform": "sensor"}
    key = "command-tank_2finterval_s"
    assert first[key]["name"] == "Interval"
    message = announcements.next_announcement()
    assert message is not None
    assert "tank_2fstate_20interval_s" not in json.loads(message.payload)["components"]
    assert watched[-1] == {"tank/set/interval_s": "interval_s"}
    (line,) = announcements.take_lines()
    assert "tank: 'tank/state' declares 'dance', which is no command known here" in line
    announcements.declare(TANK, STATE, ("interval_s", "dance"))
    assert announced(announcements) == {}, "nothing is other than before"

    entry = LedgerEntry(TANK, message.values, message.components, message.declared)
    RetainedLedgerFile(tmp_path).begin({message.topic: entry})
    found = RetainedLedgerFile(tmp_path).load()
    assert found == {message.topic: entry}
    again = Announcements(documents(), lambda _: b"{}")
    again.restore(message.topic, found[message.topic])
    again.presence_published(TANK)
    assert key in announced(again)
    again.forget(TANK)
    again.presence_published(TANK)
    assert announced(again).keys() == {"standing", "last_seen"}


def test_what_is_wrong_with_a_command_is_logged_once() -> None:
    announcements = Announcements(documents(number()), lambda _: b"{}")
    for _ in range(2):
        announcements.presence_published(ClientId("a#"))
        announced(announcements)
        announcements.connected()
    (line,) = announcements.take_lines()
    assert "the command 'interval': the client id has + or #" in line
    assert line.endswith("see [[home_assistant_command]]")


def test_a_device_declares_on_so_many_topics() -> None:
    announcements = Announcements(documents(), lambda _: b"{}")
    for number_ in range(TOPICS_MAX + 2):
        announcements.declare(TANK, f"t{number_}/state", ("restart",))
    announcements.presence_published(TANK)
    assert len([key for key in announced(announcements) if "command-" in key]) == TOPICS_MAX


def test_the_list_of_commands_is_no_value() -> None:
    values = LastValues(
        values_max=64,
        characters_max=255,
        declarations=Declarations(declared_in, is_declaration),
    )
    values.receive(TANK, STATE, b'{"commands": ["restart"], "uptime_s": 5}', 1.0)
    values.receive(TANK, "tank/log", b'{"commands": ["restart"]}', 1.0)
    values.decode(2)
    assert values.take_declared() == [(TANK, STATE, ("restart",))]
    assert values.take_declared() == []
    state, log = values.take_received()
    assert [each.name for each in state.values] == ["uptime_s"]
    assert [each.name for each in log.values] == ["commands.0"]
    values.receive(TANK, STATE, b'{"commands": ["restart"], "uptime_s": 5}', 1.0)
    values.decode(1)
    values.forget(TANK)
    assert values.take_declared() == []


# Versions


DECLARED = {STATE: ("restart",)}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({STATE: {"app": 7}}, {"sw_version": "7"}),
        (
            {STATE: {"app": 7, "sw_version": "1.2", "hw_version": "B"}},
            {"sw_version": "1.2", "hw_version": "B"},
        ),
        ({STATE: {"app": 7}, "tank/update": {"installed_version": "8"}}, {"sw_version": "8"}),
        ({STATE: {"app": None, "sw_version": True, "hw_version": ""}}, {}),
        ({"other/state": {"app": 7}}, {}),
    ],
)
def test_a_device_that_declares_commands_has_versions(
    values: dict[str, Any], expected: dict[str, str]
) -> None:
    document = json.dumps(values).encode()
    assert versions_in(document, DECLARED) == expected
    assert versions_in(document, {}) == versions_in(b"", DECLARED) == {}
    for topic, members in values.items():
        assert has_version(topic, members, DECLARED) == (topic != "other/state")
        assert not has_version(topic, members, {})
        assert not has_version(topic, ["interval_s"], DECLARED)


def test_another_version_is_announced() -> None:
    made = documents()
    values: dict[str, Any] = {STATE: {"app": 7}}
    announcements = Announcements(made, lambda _: json.dumps(values).encode())

    def versions() -> list[str]:
        found = []
        while message := announcements.next_announcement():
            device = json.loads(message.payload)["device"]
            if message.client_id == TANK:
                found.append(device["sw_version"])
        return found

    announcements.declare(TANK, STATE, ["restart"])
    announcements.learn(Received(TANK, STATE, [Value("app", 7)], []), 0.0)
    announcements.presence_published(TANK)
    assert versions() == ["7"]
    announcements.learn(Received(TANK, STATE, [Value("app", 7)], []), 1.0)
    assert versions() == []
    values[STATE]["app"] = 8
    announcements.learn(Received(TANK, STATE, [Value("app", 8)], []), 2.0)
    assert versions() == ["8"]
    announcements.forget(TANK)
    assert versions() == []
