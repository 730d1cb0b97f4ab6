"""Which names and filters may pass.

A name that MQTT forbids never reaches the broker: all clients share one connection, and a broker
closes it on the first malformed string. mosquitto does so for control characters, non-characters
and more than 200 levels as well, which MQTT only advises against, so those are refused here too.
"""

from __future__ import annotations

import re

LEVELS_MAX = 128  # mosquitto gives up at 200; our prefix needs room

# U+0000..001F, U+007F..009F and the Unicode non-characters (MQTT 5, 1.5.4).
_FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
    + "]"
)


def text(raw: bytes) -> str | None:
    """The UTF-8 string that these bytes are, or None where MQTT would not take it."""
    try:
        decoded = raw.decode()
    except UnicodeDecodeError:
        return None
    return None if _FORBIDDEN.search(decoded) else decoded


def topic_name(raw: bytes, bytes_max: int) -> str | None:
    """The topic name in these bytes, or None if one may not publish to it."""
    name = _bounded(raw, bytes_max)
    if name is None or "+" in name or "#" in name:
        return None
    return name


def topic_filter(raw: bytes, bytes_max: int) -> str | None:
    """The topic filter in these bytes, or None if one may not subscribe to it.

    Shared subscriptions are refused: all clients share one MQTT session, so they would not share
    anything.
    """
    given = _bounded(raw, bytes_max)
    if given is None:
        return None
    levels = given.split("/")
    if levels[0] == "$share":  # alone too: mosquitto takes it for one without a group
        return None
    for number, level in enumerate(levels, 1):
        if "#" in level and (level != "#" or number != len(levels)):
            return None
        if "+" in level and level != "+":
            return None
    return given


def has_wildcard(given: str) -> bool:
    return "+" in given or "#" in given


def _bounded(raw: bytes, bytes_max: int) -> str | None:
    if not 1 <= len(raw) <= bytes_max or raw.count(b"/") >= LEVELS_MAX:
        return None
    return text(raw)
