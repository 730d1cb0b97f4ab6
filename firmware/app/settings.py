"""What a node is told: by /settings.json from who installs it, and by a retained message later.

A remote message may change what `RULES` lists, and `thresholds`; it is taken whole or not at all.
What is wrong in the file leaves its default in force, and is named in `problems`. A node without a
name or a gateway cannot work, which `is_usable` tells.
"""

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..loader.files import Files

PATH = "/settings.json"
CHANGED_PATH = "/changed"
SECRETS_PATH = "/secrets.json"
THRESHOLDS_MAX = 16
SILENCE_S_MAX = 65_535  # 16 bits

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
        self.id = given.get("id", "")
        if not isinstance(self.id, str) or not 0 < len(self.id) <= 23:
            self.problems.append("id: a text of 1 to 23 letters")
            self.id = ""
        self.topic = given.get("topic", "sensors/" + self.id)
        self.gateways = [tuple(each) for each in given.get("gateways", ())]
        self.uart = given.get("uart")
        self.local_port = given.get("local_port", 1884)
        self.sensors = given.get("sensors", [])
        self.watchdog_s = given.get("watchdog_s", 0)
        if not self.gateways and self.uart is None:
            self.problems.append('gateways: [["host", 1883]], or uart: {"number": 1}')
        for source in (given, changed):
            mine = {name: source[name] for name in source if name in RULES or name == "thresholds"}
            self.problems += self._refused(mine)
            self._take(mine)

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
            value = changes.get(name, least)
            if not isinstance(value, int) or not least <= value <= most:
                problems.append(f"{name}: {least} to {most}")
        thresholds = changes.get("thresholds", {})
        if not _is_thresholds(thresholds):
            problems.append("thresholds: a number for each name")
        return problems

    def _take(self, changes: "dict[str, Any]") -> None:
        """What is right of them."""
        for name, (least, most, _) in RULES.items():
            value = changes.get(name)
            if isinstance(value, int) and least <= value <= most:
                setattr(self, name, value)
        if _is_thresholds(changes.get("thresholds")):
            self.thresholds = changes["thresholds"]


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
        return {}, f"{path} is not there"
    except ValueError:
        return {}, f"{path} is no JSON"
    return (found, "") if isinstance(found, dict) else ({}, f"{path} is no object")
