"""What a node is told by who installs it: /settings.json and /secrets.json.

What is wrong in a file leaves its default in force, and is named in `problems`. A node without a
name or a gateway cannot work, which `is_usable` tells. What messages changed (/changed) is on top.

A node that has a key never talks without it. So one whose /secrets.json is damaged, or says wrong
things of the key, or is gone though counters of one are in the flash, is not usable either.

It is needed when a node starts, and not again: start.py takes it out of the heap.
"""

import json
from binascii import unhexlify

from .settings import CHANGED_PATH, RULES, Settings, is_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..loader.files import Files

PATH = "/settings.json"
SECRETS_PATH = "/secrets.json"
GATEWAYS_HELP = 'gateways: [["host", 1 to 65535]], or uart: {"number": 1}'
WATCHDOG_S = 30
KEY_OCTETS_MIN = 16
DEVICE_KEY_OCTETS_MAX = 64
SENDER_OCTETS = 8
COUNTERS_PATH = "/counters"  # only of a node with a key
SCHEMES = {"hmac-sha256": 0x00, "aes-ccm-64": 0x40, "aes-ccm-128": 0x43}
DEVICE = ["device_key", "device_key_epoch", "device_sender", "device_scheme"]
_ABSENT = " is not there"

FILE_ONLY = ["id", "topic", "gateways", "uart", "sensors", "local_port", "watchdog_s", "thresholds"]


def settings_of(given: "dict[str, Any]", changed: "dict[str, Any]") -> Settings:
    found = Settings()
    problems = found.problems
    unknown = [name for name in given if name not in RULES and name not in FILE_ONLY]
    problems += ["unknown: " + str(name) for name in unknown]
    found.id = _text(problems, given, "id", "", 23)
    found.topic = _text(problems, given, "topic", "sensors/" + found.id, 100)
    if "+" in found.topic or "#" in found.topic:
        problems.append("topic: without + and #")
        found.topic = "sensors/" + found.id
    found.gateways = _gateways(problems, given.get("gateways", []))
    found.uart = given.get("uart")
    if found.uart is not None and not (isinstance(found.uart, dict) and "number" in found.uart):
        found.uart = None
        problems.append('uart: {"number": 1, "baud": 115200}')
    found.sensors = given.get("sensors", [])
    if not isinstance(found.sensors, list):
        found.sensors = []
        problems.append("sensors: a list")
    found.local_port = _number(problems, given, "local_port", 1, 65_535, 1884)
    if given.get("watchdog_s") != 0:  # none, for who works at the console
        found.watchdog_s = _number(problems, given, "watchdog_s", 2, 3_600, WATCHDOG_S)
    if not found.gateways and found.uart is None:
        problems.append(GATEWAYS_HELP)
    for source in (given, changed):
        mine = {name: source[name] for name in source if name in RULES or name == "thresholds"}
        problems += found.refused(mine)
        found.put(mine)
        if source is given:
            found.given = found.values()
            found.given["thresholds"] = found.thresholds
        else:
            found.changed = mine
    found.seen = changed.get("seen", {})
    found.restarted = changed.get("restarted", -1)
    return found


def _text(problems: list[str], given: "dict[str, Any]", name: str, default: str, most: int) -> str:
    value = given.get(name, default)
    if isinstance(value, str) and 0 < len(value) <= most:
        return value
    problems.append(f"{name}: a text of 1 to {most} letters")
    return default


def _number(
    problems: list[str], given: "dict[str, Any]", name: str, least: int, most: int, default: int
) -> int:
    value = given.get(name, default)
    if is_whole(value, least, most):
        return int(value)
    problems.append(f"{name}: {least} to {most}")
    return default


def _gateways(problems: list[str], given: object) -> "list[tuple[str, int]]":
    found = []
    for each in given if isinstance(given, list) else ():
        if isinstance(each, list) and len(each) == 2:
            host, port = each
            if isinstance(host, str) and is_whole(port, 1, 65_535):
                found.append((host, port))
                continue
        problems.append(GATEWAYS_HELP)
    return found


def load(files: "Files") -> Settings:
    given, problem = read_json(files, PATH)
    changed: dict[str, Any] = {}
    kept = files.load(CHANGED_PATH)
    if kept:
        changed = json.loads(kept)
    settings = settings_of(given, changed)
    if problem:
        settings.problems.append(problem)
    return settings


def has_aes() -> bool:
    try:
        import cryptolib  # noqa: F401, not every board has it
    except ImportError:
        return False
    return True


def load_secrets(
    files: "Files", settings: Settings, has_aes: "Callable[[], bool]" = has_aes
) -> "dict[str, Any]":
    """What is right of them, keys in bytes; `settings` is told what is not, and no secret.

    `has_aes`: whether the board that they are for has it.
    """
    found, problem = read_json(files, SECRETS_PATH)
    if problem.endswith(_ABSENT):  # who needs no WLAN may have none
        settings.may_talk = files.load(COUNTERS_PATH) is None
    elif problem:
        settings.may_talk = False
    if problem and not (settings.may_talk and problem.endswith(_ABSENT)):
        settings.problems.append(problem)
    _take_device_key(found, settings, has_aes)
    for name in ("ssid", "password"):
        if name in found and not isinstance(found[name], str):
            settings.problems.append(f"{name}: a text")
            del found[name]
    if "update_key" in found:
        try:
            found["update_key"] = unhexlify(found["update_key"])
        except (TypeError, ValueError):
            found["update_key"] = b""
        if len(found["update_key"]) < KEY_OCTETS_MIN:
            settings.problems.append(
                f"update_key: at least {2 * KEY_OCTETS_MIN} hexadecimal digits"
            )
            del found["update_key"]
    return found


def _take_device_key(
    found: "dict[str, Any]", settings: Settings, has_aes: "Callable[[], bool]"
) -> None:
    """In bytes, all four or none: `settings` is told what is wrong."""
    given = {name: found.pop(name) for name in DEVICE if name in found}
    if not given:
        return
    key = _octets(given.get("device_key"))
    sender = _octets(given.get("device_sender"))
    epoch = given.get("device_key_epoch", 1)
    scheme = SCHEMES.get(given.get("device_scheme", "hmac-sha256"), -1)
    problem = ""
    if not KEY_OCTETS_MIN <= len(key) <= DEVICE_KEY_OCTETS_MAX:
        most = 2 * DEVICE_KEY_OCTETS_MAX
        problem = f"device_key: {2 * KEY_OCTETS_MIN} to {most} hexadecimal digits"
    elif len(sender) != SENDER_OCTETS:
        problem = f"device_sender: {2 * SENDER_OCTETS} hexadecimal digits"
    elif not is_whole(epoch, 0, 65_535):
        problem = "device_key_epoch: 0 to 65535"
    elif scheme < 0:
        problem = "device_scheme: " + ", ".join(sorted(SCHEMES))
    elif scheme and not has_aes():
        problem = "device_scheme: this board has no AES"
    if problem:
        settings.problems.append(problem)
        settings.may_talk = False
        return
    found["device_key"], found["device_sender"] = key, sender
    found["device_key_epoch"], found["device_scheme"] = epoch, scheme


def _octets(text: "Any") -> bytes:
    try:
        return unhexlify(text)
    except (TypeError, ValueError):
        return b""


def read_json(files: "Files", path: str) -> "tuple[dict[str, Any], str]":
    """What the file says, and what is wrong with it."""
    try:
        with files.open(path, "rb") as file:
            found = json.loads(file.read())
    except OSError:
        return {}, path + _ABSENT
    except ValueError:
        return {}, f"{path} is no JSON"
    return (found, "") if isinstance(found, dict) else ({}, f"{path} is no object")
