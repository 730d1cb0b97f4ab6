"""How keys and values are spelled in messages: printable, on one line, and not at any length."""

import json
import re
from collections.abc import Iterable, Mapping

KeyPath = tuple[str | int, ...]

SHOWN_LENGTH_MAX = 80
# Room for any key of ours, but not for a name of 8 MiB.
KEY_LENGTH_MAX = 200
# difflib takes quadratic time, and the keys of a file are not ours.
COMPARED_LENGTH_MAX = 60
# "user" is still "username" (0.67), "url" is no longer "journal" (0.6).
SIMILARITY_MIN = 0.65

_UNITS = {"s": "seconds", "ms": "milliseconds"}
# `keep_alive_s`, `reconnect_delay_s_max`; what is counted in a second has another unit.
_TIMED_KEY = re.compile(r".*(?<!_per)_(s|ms)(?:_min|_max)?")

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def printable(text: str) -> str:
    """The text with everything that could break a line or a terminal escaped."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def in_its_unit(message: str, key: str | int) -> str:
    """What is expected of a key whose name ends in a unit, with the unit in words: `"1h"` is what
    people try else.
    """
    timed = _TIMED_KEY.fullmatch(str(key))
    if timed is None:
        return message
    return re.sub(
        "^expected (a (?:whole )?number) from", rf"expected \1 of {_UNITS[timed[1]]} from", message
    )


def quoted(text: str) -> str:
    """The text as a TOML string that says the same, also for control characters."""
    body = json.dumps(text, ensure_ascii=False)[1:-1]
    return '"' + "".join(map(_as_toml, body)) + '"'


def _as_toml(letter: str) -> str:
    if letter.isprintable():
        return letter
    return f"\\u{ord(letter):04X}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08X}"


def dotted(path: KeyPath) -> str:
    """`("clients", "pump 1", "x")` as `clients."pump 1".x`, which is what `--set` takes."""
    return ".".join(_key_part(part) for part in path)


def shown_key(path: KeyPath) -> str:
    return shortened(dotted(path), KEY_LENGTH_MAX)


def _key_part(part: str | int) -> str:
    return str(part) if isinstance(part, int) or _BARE_KEY.fullmatch(part) else quoted(part)


def shown(raw: object) -> str:
    """A value of the operator's as he wrote it, cut to a length that fits a line."""
    match raw:
        case bool():
            return "true" if raw else "false"
        case str():
            return quoted(shortened(raw))
        case Mapping():
            return "a table"
        case list():
            return "an array" if raw else "an empty array"
        case int() if abs(raw) >= 10**20:
            return "a number of more than 20 digits"
    return shortened(str(raw))


def shortened(text: str, length_max: int = SHOWN_LENGTH_MAX) -> str:
    return text if len(text) <= length_max else text[:length_max] + "..."


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # only who misspells something waits for it

    start = word[:COMPARED_LENGTH_MAX].lower()
    close = get_close_matches(start, list(candidates), n=1, cutoff=SIMILARITY_MIN)
    return close[0] if close else None
