"""What a node is told: by /settings.json from who installs it, and by a retained message later.

A remote message may change what `RULES` lists, and `thresholds`; it is taken whole or not at all.
What is wrong in the file leaves its default in force, and is named in `problems`. A node without a
name or a gateway cannot work, which `is_usable` tells.
"""

import json
from binascii import unhexlify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..loader.files import Files

PATH = "/settings.json"
CHANGED_PATH = "/changed"
SECRETS_PATH = "/secrets.json"
THRESHOLDS_MAX = 16
GATEWAYS_HELP = 'gateways: [["host", 1 to 65535]], or uart: {"number": 1}'
WATCHDOG_S = 30
KEY_OCTETS_MIN = 16
SILENCE_S_MAX = 65_535  # 16 bits
_ABSENT = " is not there"

FILE_ONLY = ["id", "topic", "gateways", "uart", "sensors", "local_port", "watchdog_s", "thresholds"]
RULES = {  # least, most, default
    "interval_s": (5, 86_400, 900),  # between two wakes
    "report_s": (0, 86_400, 3_600),  # a reading at least so often, though nothing has changed
    "listen_every": (1, 1_000, 4),  # wakes; in the others commands wait at the gateway
    "budget_s": (5, 120, 20),  # the longest wake
    "retry_ms": (50, 15_000, 800),  # until a frame without an answer is repeated
    "log_level": (3, 7, 6),
}


class Settings:
    def __init__(self, given: "dict[str, Any]", changed: "dict[str, Any]") -> None:
        self.problems: list[str] = []
        self.interval_s = self.report_s = self.listen_every = self.budget_s = 0
        self.retry_ms = self.log_level = 0
        for name, (_, _, default) in RULES.items():
            setattr(self, name, default)
        self.thresholds: dict[str, float] = {}
        unknown = [name for name in given if name not in RULES and name not in FILE_ONLY]
        self.problems += ["unknown: " + str(name) for name in unknown]
        self.id: str = self._text(given, "id", "", 23)
        self.topic: str = self._text(given, "topic", "sensors/" + self.id, 100)
        if "+" in self.topic or "#" in self.topic:
            self.problems.append("topic: without + and #")
            self.topic = "sensors/" + self.id
        self.gateways = self._gateways(given.get("gateways", []))
        self.uart: dict[str, Any] | None = given.get("uart")
        if self.uart is not None and not (isinstance(self.uart, dict) and "number" in self.uart):
            self.uart = None
            self.problems.append('uart: {"number": 1, "baud": 115200}')
        self.sensors: list[Any] = given.get("sensors", [])
        if not isinstance(self.sensors, list):
            self.sensors = []
            self.problems.append("sensors: a list")
        self.local_port = self._number(given, "local_port", 1, 65_535, 1884)
        self.watchdog_s = 0
        if given.get("watchdog_s") != 0:  # none, for who works at the console
            self.watchdog_s = self._number(given, "watchdog_s", 2, 3_600, WATCHDOG_S)
        if not self.gateways and self.uart is None:
            self.problems.append(GATEWAYS_HELP)
        for source in (given, changed):
            mine = {name: source[name] for name in source if name in RULES or name == "thresholds"}
            self.problems += self._refused(mine)
            self._take(mine)

    def _text(self, given: "dict[str, Any]", name: str, default: str, most: int) -> str:
        value = given.get(name, default)
        if isinstance(value, str) and 0 < len(value) <= most:
            return value
        self.problems.append(f"{name}: a text of 1 to {most} letters")
        return default

    def _number(
        self, given: "dict[str, Any]", name: str, least: int, most: int, default: int
    ) -> int:
        value = given.get(name, default)
        if _is_whole(value, least, most):
            return int(value)
        self.problems.append(f"{name}: {least} to {most}")
        return default

    def _gateways(self, given: object) -> "list[tuple[str, int]]":
        found = []
        for each in given if isinstance(given, list) else ():
            if isinstance(each, list) and len(each) == 2:
                host, port = each
                if isinstance(host, str) and _is_whole(port, 1, 65_535):
                    found.append((host, port))
                    continue
            self.problems.append(GATEWAYS_HELP)
        return found

    @property
    def is_usable(self) -> bool:
        return bool(self.id and (self.gateways or self.uart is not None))

    @property
    def silence_s(self) -> int:
        """So long the gateway is not to take our silence for loss."""
        interval_s = self.interval_s
        if self.thresholds:
            interval_s = max(interval_s, self.report_s)
        return min(2 * interval_s + 60, SILENCE_S_MAX)

    def change(self, changes: "dict[str, Any]") -> str:
        """What is wrong with them, or "" when they are in force."""
        unknown = [name for name in changes if name not in RULES and name != "thresholds"]
        problems = ["unknown: " + str(name) for name in unknown] + self._refused(changes)
        if not problems:
            self._take(changes)
        return ", ".join(problems)

    def _refused(self, changes: "dict[str, Any]") -> list[str]:
        problems = []
        for name, (least, most, _) in RULES.items():
            if name in changes and not _is_whole(changes[name], least, most):
                problems.append(f"{name}: {least} to {most}")
        thresholds = changes.get("thresholds", {})
        if not _is_thresholds(thresholds):
            problems.append("thresholds: a number for each name")
        return problems

    def _take(self, changes: "dict[str, Any]") -> None:
        """What is right of them."""
        for name, (least, most, _) in RULES.items():
            if name in changes and _is_whole(changes[name], least, most):
                setattr(self, name, changes[name])
        if _is_thresholds(changes.get("thresholds")):
            self.thresholds = changes["thresholds"]


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_thresholds(value: object) -> bool:
    if not isinstance(value, dict) or len(value) > THRESHOLDS_MAX:
        return False
    return all(isinstance(each, (int, float)) and each >= 0 for each in value.values())


def load(files: "Files") -> Settings:
    given, problem = read_json(files, PATH)
    changed: dict[str, Any] = {}
    kept = files.load(CHANGED_PATH)
    if kept:
        changed = json.loads(kept)
    settings = Settings(given, changed)
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


def change(files: "Files", settings: Settings, message: bytes) -> str:
    """Take a remote message, and keep it; what is wrong with it, or ""."""
    try:
        changes = json.loads(message)
    except ValueError:
        return "no JSON"
    if not isinstance(changes, dict):
        return "no object"
    problem = settings.change(changes)
    if not problem:
        files.save(CHANGED_PATH, json.dumps(changes).encode())
    return problem


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
