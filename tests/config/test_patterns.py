"""Patterns of names."""

from __future__ import annotations

import pytest

from gateway.config.patterns import matches


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("tank", "tank", True),
        ("tank", "tank-1", False),
        ("tank-*", "tank-1", True),
        ("*-tank", "a-tank", True),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c", False),
        ("a*a", "a", False),
        ("*", "", True),
        ("[a]*", "[a]1", True),
    ],
)
def test_a_star_stands_for_any_text(pattern: str, text: str, expected: bool) -> None:
    assert matches(pattern, text) is expected
