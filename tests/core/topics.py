"""What MQTT says of topics and filters, by brute force, and names and filters to try it on.

`matches` follows MQTT 5, 4.7 level by level, without a tree. Filters and names are drawn from an
alphabet so small that they meet: two words, the empty level, one that begins with `$`.
"""

from __future__ import annotations

from functools import cache
from itertools import product

from hypothesis import strategies as st

LEVELS_MAX = 4
WORDS = ("a", "b", "", "$s")

names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=LEVELS_MAX).map("/".join)
_levels = st.lists(st.sampled_from((*WORDS, "+")), max_size=LEVELS_MAX - 1)
filters = st.builds(
    lambda levels, last: "/".join([*levels, last]), _levels, st.sampled_from((*WORDS, "+", "#"))
)

EVERY_NAME = [
    "/".join(levels) for count in range(1, 5) for levels in product((*WORDS, "c"), repeat=count)
]


def matches(topic_filter: str, topic: str) -> bool:
    """MQTT 5, 4.7.1 and 4.7.2."""
    if topic.startswith("$") and topic_filter[:1] in ("+", "#"):
        return False
    wanted, given = topic_filter.split("/"), topic.split("/")
    for number, level in enumerate(wanted):
        if level == "#":
            return len(given) >= number
        if number >= len(given) or level not in ("+", given[number]):
            return False
    return len(wanted) == len(given)


@cache
def covers(wide: str, narrow: str) -> bool:
    """Whether `wide` matches all that `narrow` matches, tried with every name there is here.

    A name with a word that no filter spells ("c") stands for all other words, and one level more
    than filters have for all deeper ones. `#` and `+/#` match the same; of the two the shorter
    one is taken to cover the other.
    """
    if (wide, narrow) == ("+/#", "#"):
        return False
    return all(matches(wide, topic) for topic in EVERY_NAME_DEEP if matches(narrow, topic))


EVERY_NAME_DEEP = [*EVERY_NAME, *(f"{name}/c" for name in EVERY_NAME if name.count("/") == 3)]
