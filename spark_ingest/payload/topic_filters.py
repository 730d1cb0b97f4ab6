"""Topic filters as MQTT has them (MQTT 5, 4.7): which text is one, and which topics it matches."""

from __future__ import annotations

FILTER_BYTES_MAX = 1024
LEVELS_MAX = 128  # brokers give up at 200, and `$share/<group>/` takes two


def is_filter(text: str) -> bool:
    """Without `$share/`, which the collector puts before it."""
    levels = text.split("/")
    if not text or len(text.encode()) > FILTER_BYTES_MAX or len(levels) > LEVELS_MAX:
        return False
    if levels[0] == "$share" or any(not letter.isprintable() for letter in text):
        return False
    for number, level in enumerate(levels, 1):
        if "#" in level and (level != "#" or number != len(levels)):
            return False
        if "+" in level and level != "+":
            return False
    return True


def matches(topic_filter: str, topic: str) -> bool:
    wanted, levels = topic_filter.split("/"), topic.split("/")
    if levels[0].startswith("$") and wanted[0] in ("+", "#"):
        return False
    for depth, level in enumerate(wanted):
        if level == "#":
            return True
        if depth == len(levels) or level not in ("+", levels[depth]):
            return False
    return len(wanted) == len(levels)
