"""The settings in force, and how messages change them.

Rules
- `set/settings` (JSON) may change what `RULES` lists, and `thresholds`. It is taken whole or not at
  all, and replaces whatever messages said before.
- `set/NAME` (a number as text) changes one of `RULES`, on top of that; an empty one gives back what
  the file says, or the default. So of two messages the later one wins.
- The broker sends retained messages again, in any order, to a node that subscribes again. One that
  was taken before is not a later one: `seen` has the CRC-32 of the last that was taken, by name.

/changed is JSON: what messages changed, by name; `seen`; the message id of the last `restart`.
"""

import json
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..loader.files import Files

CHANGED_PATH = "/changed"
WHOLE = "settings"  # the name of the message that has several
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
    """Defaults, until given.py has set what the files say."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.id = self.topic = ""
        self.gateways: list[tuple[str, int]] = []
        self.uart: dict[str, Any] | None = None
        self.sensors: list[Any] = []
        self.local_port = self.watchdog_s = 0
        self.interval_s = self.report_s = self.listen_every = self.budget_s = 0
        self.retry_ms = self.log_level = 0
        for name, (_, _, default) in RULES.items():
            setattr(self, name, default)
        self.thresholds: dict[str, float] = {}
        self.given: dict[str, Any] = {}  # where no message says otherwise
        self.changed: dict[str, Any] = {}  # by messages
        self.seen: dict[str, int] = {}
        self.restarted = -1
        self.may_talk = True  # its key, if it has one, is there

    @property
    def is_usable(self) -> bool:
        return bool(self.may_talk and self.id and (self.gateways or self.uart is not None))

    @property
    def silence_s(self) -> int:
        """So long the gateway is not to take our silence for loss."""
        interval_s = self.interval_s
        if self.thresholds:
            interval_s = max(interval_s, self.report_s)
        return min(2 * interval_s + 60, SILENCE_S_MAX)

    def values(self) -> "dict[str, Any]":
        """Those of `RULES` that are in force."""
        return {name: getattr(self, name) for name in RULES}

    def take(self, name: str, payload: bytes) -> str:
        """The message on `set/NAME`: what is wrong with it, or "" when it is in force."""
        if name == WHOLE:
            try:
                changes = json.loads(payload)
            except ValueError:
                return "no JSON"
            return self.change(changes) if isinstance(changes, dict) else "no object"
        changes = dict(self.changed)
        if payload:
            changes[name] = _number_in(payload)
        elif name in changes:
            del changes[name]
        return self.change(changes)

    def change(self, changes: "dict[str, Any]") -> str:
        """In the place of all that messages said before."""
        unknown = [name for name in changes if name not in RULES and name != "thresholds"]
        problems = ["unknown: " + str(name) for name in unknown] + self.refused(changes)
        if not problems:
            self.changed = changes
            self.put(self.given)
            self.put(changes)
        return ", ".join(problems)

    def refused(self, changes: "dict[str, Any]") -> list[str]:
        problems = []
        for name, (least, most, _) in RULES.items():
            if name in changes and not is_whole(changes[name], least, most):
                problems.append(f"{name}: {least} to {most}")
        if not _is_thresholds(changes.get("thresholds", {})):
            problems.append("thresholds: a number for each name")
        return problems

    def put(self, changes: "dict[str, Any]") -> None:
        """What is right of them."""
        for name, (least, most, _) in RULES.items():
            if name in changes and is_whole(changes[name], least, most):
                setattr(self, name, changes[name])
        if _is_thresholds(changes.get("thresholds")):
            self.thresholds = changes["thresholds"]


def is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_thresholds(value: object) -> bool:
    if not isinstance(value, dict) or len(value) > THRESHOLDS_MAX:
        return False
    return all(isinstance(each, (int, float)) and each >= 0 for each in value.values())


def _number_in(payload: bytes) -> int | None:
    """Of a whole number, as text; "900.0" is one too."""
    try:
        text = payload.decode()
        return int(text[:-2] if text.endswith(".0") else text)
    except ValueError:
        return None


def change(
    files: "Files", settings: Settings, messages: "list[tuple[str, bytes, bool]]"
) -> list[str] | None:
    """Take messages, each with its name and whether it comes again as a retained one, and keep
    them; what is wrong with them. None: there is none that was not taken before.

    Raises OSError when the flash does not take it: it is in force until the next start then.
    """
    problems: list[str] = []
    is_new = False
    for name, payload, is_retained in messages:
        check = crc32(payload)
        if is_retained and settings.seen.get(name) == check:
            continue
        is_new = True
        problem = settings.take(name, payload)
        if problem:
            problems.append(problem)
        settings.seen[name] = -1 if problem else check
    if is_new:
        save(files, settings)
    return problems if is_new else None


def save(files: "Files", settings: Settings) -> None:
    """Raises OSError; the flash has what it had."""
    kept = dict(settings.changed)
    kept["seen"], kept["restarted"] = settings.seen, settings.restarted
    content = json.dumps(kept).encode()
    if content != files.load(CHANGED_PATH):
        files.save(CHANGED_PATH, content)
