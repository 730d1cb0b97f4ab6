"""Topic filters as MQTT has them: which text is one, and which filter leaves another nothing. Pure.

The same rules as for what a sensor may subscribe to. `$share/...` is refused: it is a wish of
subscribers, and matches no topic.
"""

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
    for depth, level in enumerate(wide_levels):
        if level == "#":
            return True
        if depth == len(narrow_levels) or narrow_levels[depth] == "#":
            return False
        if level not in ("+", narrow_levels[depth]):
            return False
    return len(wide_levels) == len(narrow_levels)
