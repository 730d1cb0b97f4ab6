"""The tree against the specification read level by level."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.routing.topic_tree import TopicTree
from tests.routing.topics import covers, filters, matches, names


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
        assert branches_of(tree) == branches_of(tree_of(shuffled))


def branches_of(tree: TopicTree[int]) -> int:
    count, nodes = 0, [tree._root]
    while nodes:
        children = [child for _, child in nodes.pop().children()]
        count += len(children)
        nodes += children
    return count
