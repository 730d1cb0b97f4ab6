"""What of a `[[home_assistant_command]]` Home Assistant would refuse, or no device could take.

By the schemas of Home Assistant 2026.2 (components/mqtt: number.py, switch.py, button.py,
select.py, text.py, light/schema_basic.py), which take no key that is not theirs.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from gateway.config.home_assistant_classes import (
    BUTTON_CLASSES,
    NUMBER_CLASSES,
    SWITCH_CLASSES,
)
from gateway.config.home_assistant_rules import wrong_unit
from gateway.config.settings import HomeAssistantCommandSettings

Command = HomeAssistantCommandSettings
Problem = tuple[str, str]

CLIENT = "{client}"
VALUE = "{value}"
RESERVED = "tidegate/"
TEXT_CHARACTERS_MAX = 255
MIN_OF_NUMBER, MAX_OF_NUMBER = 1.0, 100.0  # of Home Assistant
NEEDED = {
    "name": 'expected a name, such as name = "valve"',
    "kind": 'expected what it is, such as kind = "switch"',
    "topic": 'expected where it is sent, such as topic = "valves/{client}/set"',
}
_SWITCHED = ("payload_on", "payload_off", "state", "state_topic", "retain")
_ENTERED = ("payload", "state", "state_topic", "retain")
# What a kind takes beside what all do.
TAKES = {
    "number": (*_ENTERED, "min", "max", "step", "mode", "unit", "device_class"),
    "switch": (*_SWITCHED, "device_class"),
    "light": _SWITCHED,
    "button": ("payload_press", "device_class"),
    "select": (*_ENTERED, "options"),
    "text": (*_ENTERED, "min", "max", "mode"),
}
_OF_SOME = sorted({key for keys in TAKES.values() for key in keys})
_MODES = {"number": ("auto", "box", "slider"), "text": ("text", "password")}
_CLASSES = {"number": NUMBER_CLASSES, "switch": SWITCH_CLASSES, "button": BUTTON_CLASSES}


def problems_of(command: Command, given: Container[str]) -> Iterator[Problem]:
    """The key, and what is wrong with it. `given`: the keys that the entry has."""
    missing = [key for key in NEEDED if key not in given]
    if missing:
        yield from ((key, NEEDED[key]) for key in missing)
        return
    yield from _of_topic(command)
    if command.kind == "button" and command.retain:
        yield "retain", "expected false: a button would be pressed again at each subscription"
    yield from _of_class(command)
    yield from _of_range(command)
    yield from _of_payload(command)
    if command.kind == "select":
        yield from _of_options(command)


def useless_of(command: Command) -> Iterator[Problem]:
    """The key, and of which kinds it is."""
    for key in _OF_SOME:
        if key not in TAKES[command.kind] and getattr(command, key) not in (None, False):
            kinds = ", ".join(kind for kind, keys in TAKES.items() if key in keys)
            yield key, f"has no effect: it is for {kinds}"


def _of_topic(command: Command) -> Iterator[Problem]:
    topic, client = command.topic, command.client
    if topic.startswith((RESERVED, "$")):
        yield "topic", "expected a topic of the device, not one of the gateway or the broker"
    if CLIENT not in topic and (client is None or "*" in client):
        yield "topic", f"expected {CLIENT} in it: the entry fits several devices"
    if (rest := topic.replace(CLIENT, "")) and ("{" in rest or "}" in rest):
        yield "topic", f"expected no other braces than those of {CLIENT}"


def _of_class(command: Command) -> Iterator[Problem]:
    device_class, classes = command.device_class, _CLASSES.get(command.kind)
    if device_class is None or classes is None:
        return
    if device_class not in classes:
        yield "device_class", f"expected one of a {command.kind}, such as {', '.join(classes[:3])}"
    elif (
        command.kind == "number"
        and command.unit is not None
        and (why := wrong_unit(device_class, command.unit))
    ):
        yield "unit", f"expected another one: {why}"


def _of_range(command: Command) -> Iterator[Problem]:
    kind, least, most = command.kind, command.min, command.max
    if kind not in _MODES:
        return
    if command.mode is not None and command.mode not in _MODES[kind]:
        yield "mode", f"expected {' or '.join(_MODES[kind])} for a {kind}"
    if kind == "text":
        for key, length in (("min", least), ("max", most)):
            if length is not None and not (
                0 <= length <= TEXT_CHARACTERS_MAX and length.is_integer()
            ):
                yield key, f"expected whole characters from 0 to {TEXT_CHARACTERS_MAX}"
        if least and command.state is not None:
            yield "min", "expected none beside state: an unknown text is an empty one"
    usual = (0.0, float(TEXT_CHARACTERS_MAX)) if kind == "text" else (MIN_OF_NUMBER, MAX_OF_NUMBER)
    least = usual[0] if least is None else least
    most = usual[1] if most is None else most
    if least > most:
        key = "max" if command.max is not None else "min"
        yield key, f"expected another one: nothing is from {_short(least)} to {_short(most)}"


def _of_payload(command: Command) -> Iterator[Problem]:
    if "payload" in TAKES[command.kind] and VALUE not in (command.payload or VALUE):
        yield "payload", f"expected {VALUE} in it, which stands for what is entered"
    on, off = command.payload_on or "ON", command.payload_off or "OFF"
    if command.kind in ("switch", "light") and on.lower() == off.lower():
        key = "payload_off" if command.payload_off is not None else "payload_on"
        yield key, f"expected two that differ, got {on} and {off}"


def _of_options(command: Command) -> Iterator[Problem]:
    options = command.options
    if options is None:
        yield "options", 'expected what can be selected, such as options = ["auto", "off"]'
    elif not options:
        yield "options", "expected at least one"
    elif len(set(options)) < len(options):
        yield "options", "expected each of them once"
    elif any(each.lower() == "none" for each in options):
        yield "options", "expected none that is called so: for Home Assistant it is an unknown one"


def _short(number: float) -> str:
    return repr(number).removesuffix(".0")
