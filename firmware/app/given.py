"""What a node is told by who installs it: /settings.json and /secrets.json.

What is wrong in a file leaves its default in force, and is named in `problems`. A node without a
name or a gateway cannot work, which `is_usable` tells. What messages changed (/changed) is on top.

It is needed when a node starts, and not again: start.py takes it out of the heap.
"""

import json
from binascii import unhexlify

from .settings import CHANGED_PATH, RULES, Settings, is_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..loader.files import Files

PATH = "/settings.json"
SECRETS_PATH = "/secrets.json"
GATEWAYS_HELP = 'gateways: [["host", 1 to 65535]], or uart: {"number": 1}'
WATCHDOG_S = 30
KEY_OCTETS_MIN = 16
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


def load_secrets(files: "Files", settings: Settings) -> "dict[str, Any]":
    """What is right of them, the key in bytes; `settings` is told what is not, and no secret."""
    found, problem = read_json(files, SECRETS_PATH)
    if problem and not problem.endswith(_ABSENT):  # who needs no WLAN may have none
        settings.problems.append(problem)
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
