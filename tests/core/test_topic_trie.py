"""The tree against the specification read level by level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.topic_trie import TopicTree, _Branch
from tests.core.topics import covers, filters, matches, names


def tree_of(keys: Iterable[str]) -> TopicTree[int]:
    tree: TopicTree[int] = TopicTree()
    for number, key in enumerate(keys):
        tree.put(key, number)
    return tree


def keys_of(found: list[tuple[str, int]]) -> list[str]:
    return sorted(key for key, _ in found)


@given(st.sets(filters), names)
def test_above_a_topic_are_the_filters_that_match_it(kept: set[str], topic: str) -> None:
    expected = sorted(each for each in kept if matches(each, topic))
    assert keys_of(tree_of(kept).above(topic)) == expected


@given(st.sets(names), filters)
def test_under_a_filter_are_the_topics_that_it_matches(kept: set[str], wide: str) -> None:
    assert keys_of(tree_of(kept).under(wide)) == sorted(
        each for each in kept if matches(wide, each)
    )


@given(st.sets(filters, max_size=5), filters)
def test_above_a_filter_are_the_filters_that_cover_it(kept: set[str], narrow: str) -> None:
    assert keys_of(tree_of(kept).above(narrow)) == sorted(
        each for each in kept if covers(each, narrow)
    )


@given(st.sets(filters, max_size=5), filters)
def test_under_a_filter_are_the_filters_that_it_covers(kept: set[str], wide: str) -> None:
    assert keys_of(tree_of(kept).under(wide)) == sorted(each for each in kept if covers(wide, each))


@pytest.mark.parametrize(
    ("topic_filter", "topic", "fits"),
    [
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/#", "ab", False),
        ("+", "a", True),
        ("+", "/a", False),
        ("+/+", "/a", True),
        ("/+", "/a", True),
        ("a/+", "a", False),
        ("a/+", "a/", True),
        ("#", "$SYS/uptime", False),
        ("+/uptime", "$SYS/uptime", False),
        ("$SYS/#", "$SYS/uptime", True),
        ("$SYS/+", "$SYS/uptime", True),
        ("a/#", "a/$b", True),
    ],
)
def test_the_examples_of_the_specification_hold(topic_filter: str, topic: str, fits: bool) -> None:
    assert matches(topic_filter, topic) is fits
    assert bool(tree_of([topic_filter]).above(topic)) is fits
    assert bool(tree_of([topic]).under(topic_filter)) is fits


@given(st.lists(st.tuples(st.booleans(), filters)))
def test_a_tree_holds_what_a_dictionary_would(steps: list[tuple[bool, str]]) -> None:
    tree: TopicTree[int] = TopicTree()
    model: dict[str, int] = {}
    for number, (is_put, key) in enumerate(steps):
        if is_put:
            tree.put(key, number)
            model[key] = number
        else:
            assert tree.pop(key) == model.pop(key, None)
        assert tree.get(key) == model.get(key)
        assert (key in tree) is (key in model)
    assert len(tree) == len(model)
    assert sorted(tree) == sorted(model)


@given(st.lists(filters, unique=True), st.randoms(use_true_random=False))
def test_taking_everything_out_leaves_no_branch(keys: list[str], dice: Random) -> None:
    tree = tree_of(keys)
    shuffled = sorted(keys, key=lambda _: dice.random())
    while shuffled:
        tree.pop(shuffled.pop())
        assert branches_of(tree) == beginnings_shared_by(shuffled)


@given(st.lists(filters, unique=True))
def test_keys_have_a_branch_for_each_beginning_that_two_of_them_share(keys: list[str]) -> None:
    assert branches_of(tree_of(keys)) == beginnings_shared_by(keys)


@given(st.lists(filters, unique=True), st.lists(filters), filters)
def test_what_is_found_is_the_same_after_others_came_and_went(
    keys: list[str], others: list[str], looked_for: str
) -> None:
    tree = tree_of(keys)
    for other in others:
        if other not in keys:
            tree.put(other, -1)
    for other in others:
        if other not in keys:
            tree.pop(other)
    fresh = tree_of(keys)
    assert sorted(tree.above(looked_for)) == sorted(fresh.above(looked_for))
    assert sorted(tree.under(looked_for)) == sorted(fresh.under(looked_for))
    assert sorted(tree.all()) == sorted(fresh.all())


def test_a_key_below_another_parts_from_it_and_comes_back() -> None:
    tree = tree_of(["a/b"])
    assert branches_of(tree) == []
    tree.put("a/b/c/d", 1)
    assert branches_of(tree) == ["a", "a/b"]
    tree.pop("a/b")
    assert branches_of(tree) == []
    assert keys_of(tree.above("a/b/c/d")) == ["a/b/c/d"]


def branches_of(tree: TopicTree[int]) -> list[str]:
    """By the levels that lead to each, without the root."""
    found: list[str] = []
    waiting = [([level], place) for level, place in tree._root.children.items()]
    while waiting:
        way, place = waiting.pop()
        if isinstance(place, _Branch):
            found.append("/".join(way))
            waiting += [([*way, level], below) for level, below in place.children.items()]
    return sorted(found)


def beginnings_shared_by(keys: list[str]) -> list[str]:
    shared = Counter(
        "/".join(levels[:count])
        for levels in (key.split("/") for key in keys)
        for count in range(1, len(levels) + 1)
    )
    return sorted(beginning for beginning, count in shared.items() if count > 1)
