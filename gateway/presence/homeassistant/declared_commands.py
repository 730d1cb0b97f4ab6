"""Commands that a device declares itself, so that they need no description.

A JSON reading on `T/state` has a member `commands`, a list of names. Those of `KNOWN` become
entities: what is set is sent to `T/set/NAME`, and what is in effect is the member NAME of the same
reading. Settings are retained, for a device that subscribes again with a new session; `restart`
and `install` are not. `update` is Home Assistant's entity of that name, with the state on
`T/update` and the command on `T/install`. Our node application does so; so can any other
(docs/home_assistant.md).

Such a device has the version of its firmware, and of its hardware, on its page: `installed_version`
on `T/update` or `sw_version` on `T/state`, our own nodes' `app` there, and `hw_version` there.

Limits: `TOPICS_MAX` declarations of a device, `NAMES_MAX` names in each; what is beyond is left
out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gateway.presence.homeassistant.commands import CommandOptions

TOPICS_MAX = 8
NAMES_MAX = 32
NAME_LENGTH_MAX = 32
DECLARATION = "commands"
_STATE = "/state"
_MENTION = b'"commands"'
UPDATE_MEMBERS = ("installed_version", "latest_version", "in_progress", "update_percentage")

VERSION_CHARACTERS_MAX = 64
# Where each is, the one that counts first at the end: the last part of the topic, and the name.
_VERSIONS = (
    ("hw_version", _STATE, "hw_version"),
    ("sw_version", _STATE, "app"),
    ("sw_version", _STATE, "sw_version"),
    ("sw_version", "/update", "installed_version"),
)

Declared = Mapping[str, Sequence[str]]  # names by the topic on which they were declared


def _number(
    name: str, label: str, least: float, most: float, unit: str | None = None
) -> CommandOptions:
    return CommandOptions(
        name=name,
        kind="number",
        topic="",
        label=label,
        state=name,
        retain=True,
        min=least,
        max=most,
        step=1,
        mode="box",
        unit=unit,
        device_class=None if unit is None else "duration",
        entity_category="config",
    )


KNOWN = {
    each.name: each
    for each in (
        _number("interval_s", "Interval", 5, 86_400, "s"),
        _number("report_s", "Report interval", 0, 86_400, "s"),
        _number("listen_every", "Listens at each so many wake-ups", 1, 1000),
        _number("budget_s", "Awake at most", 5, 120, "s"),
        _number("retry_ms", "Repeats after", 50, 15_000, "ms"),
        _number("log_level", "Log level", 3, 7),
        CommandOptions(
            name="restart",
            kind="button",
            topic="",
            label="Restart",
            device_class="restart",
            entity_category="config",
        ),
        CommandOptions(
            name="update",
            kind="update",
            topic="",
            label="Firmware",
            device_class="firmware",
            entity_category="config",
            payload_press="install",
            replaces=UPDATE_MEMBERS,
        ),
    )
}


def declared_in(topic: str, payload: bytes) -> tuple[str, ...] | None:
    """The names that a reading declares; None where it says nothing of commands."""
    if not topic.endswith(_STATE) or _MENTION not in payload:
        return None
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or DECLARATION not in document:
        return None
    listed = document[DECLARATION]
    if listed is None:
        return ()
    if not isinstance(listed, list):
        return None
    names = [each[:NAME_LENGTH_MAX] for each in listed if isinstance(each, str)]
    return tuple(dict.fromkeys(names[:NAMES_MAX]))


def is_declaration(name: str) -> bool:
    """Of a value: whether it is part of the list."""
    return name == DECLARATION or name.startswith(f"{DECLARATION}.")


def unknown_of(names: Sequence[str]) -> list[str]:
    return [name for name in names if name not in KNOWN]


def versions_in(document: bytes, declared: Declared) -> dict[str, str]:
    """As the device's document of last values has them; by their names in the announcement."""
    if not declared or not document:
        return {}
    values, found = json.loads(document), {}
    for topic in declared:
        base = topic.removesuffix(_STATE)
        for name, where, member in _VERSIONS:
            value = values.get(f"{base}{where}", {}).get(member)
            if value is not None and not isinstance(value, bool) and str(value):
                found[name] = str(value)[:VERSION_CHARACTERS_MAX]
    return found


def has_version(topic: str, names: Iterable[str], declared: Declared) -> bool:
    """Whether a reading has one of what `versions_in` looks for."""
    if not declared:
        return False
    wanted = {
        member
        for _, where, member in _VERSIONS
        if topic.endswith(where) and f"{topic.removesuffix(where)}{_STATE}" in declared
    }
    return not wanted.isdisjoint(names)


def commands_of(declared: Declared) -> Iterator[CommandOptions]:
    for topic, names in declared.items():
        base = topic.removesuffix(_STATE)
        for name in names:
            if name not in KNOWN:
                continue
            is_update = name == "update"
            yield replace(
                KNOWN[name],
                declared_on=base,
                topic=f"{base}/install" if is_update else f"{base}/set/{name}",
                state_topic=f"{base}/update" if is_update else topic,
            )
