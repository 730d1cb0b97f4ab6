"""Patterns of names, such as `greenhouse-*`."""

from __future__ import annotations

ANY = "*"  # any text, also none


def matches(pattern: str, text: str) -> bool:
    """Whether the text is as the pattern, in which `*` stands for any text, also for none."""
    first, *others = pattern.split(ANY)
    if not others:
        return text == pattern
    last = others.pop()
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in others:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
