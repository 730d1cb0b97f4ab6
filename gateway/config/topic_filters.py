"""Topic filters as MQTT has them: which text is one, and what two have in common. Pure.

The same rules as for what a sensor may subscribe to. `$share/...` is refused: it is a wish of
subscribers, and matches no topic.
"""

from collections.abc import Sequence

LEVELS_MAX = 128  # brokers give up at 200, and a prefix needs room


def is_filter(text: str) -> bool:
    """Whether it may stand in the configuration."""
    levels = text.split("/")
    if len(levels) > LEVELS_MAX or levels[0] == "$share":
        return False
    for number, level in enumerate(levels, 1):
        if "#" in level and (level != "#" or number != len(levels)):
            return False
        if "+" in level and level != "+":
            return False
    return True


def covers(wide: str, narrow: str) -> bool:
    """Whether every topic that `narrow` matches is one that `wide` matches as well."""
    wide_levels, narrow_levels = wide.split("/"), narrow.split("/")
    if narrow_levels[0].startswith("$") and wide_levels[0] in ("+", "#"):
        return False  # MQTT 5, 4.7.2
    return covers_levels(wide_levels, narrow_levels)


def covers_levels(wide: Sequence[str], narrow: Sequence[str]) -> bool:
    """The same of filters' levels, which need not be the first ones: `$` is a letter there."""
    for depth, level in enumerate(wide):
        if level == "#":
            return True
        if depth == len(narrow) or narrow[depth] == "#":
            return False
        if level not in ("+", narrow[depth]):
            return False
    return len(wide) == len(narrow)


def overlaps(one: str, other: str) -> bool:
    """Whether there is a topic that both match (MQTT 5, 4.7)."""
    first, second = one.split("/"), other.split("/")
    for names, wild in ((first, second), (second, first)):
        if names[0].startswith("$") and wild[0] in ("+", "#"):
            return False  # 4.7.2
    for depth in range(max(len(first), len(second))):
        left = first[depth] if depth < len(first) else None
        right = second[depth] if depth < len(second) else None
        if left == "#" or right == "#":
            return True  # "a/#" matches "a" as well
        if left is None or right is None:
            return False
        if left != right and "+" not in (left, right):
            return False
    return True
