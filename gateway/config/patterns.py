"""Patterns of names, such as `greenhouse-*`."""

from __future__ import annotations

ANY = "*"  # any text, also none
CLIENT, IDENTITY = "{client}", "{identity}"  # the sensor's own, where a key takes them


def matches(pattern: str, text: str) -> bool:
    """Whether the text is as the pattern, in which `*` stands for any text, also for none."""
    return text == pattern if ANY not in pattern else fits_parts(pattern.split(ANY), text)


def fits_parts(parts: list[str], text: str) -> bool:
    """Whether these parts are in the text, one behind the other, with any text between two: what
    begins with the first one and ends with the last one.
    """
    first, *others = parts
    if not others:
        return text == first
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


def behind(pattern: str, start: str) -> set[str]:
    """Patterns of what may follow `start` in texts that fit the pattern; none if no such text
    begins so.
    """
    places = {0}
    for letter in start:
        following: set[int] = set()
        for place in places:
            at = place
            while pattern[at : at + 1] == ANY:
                following.add(at)
                at += 1
            if pattern[at : at + 1] == letter:
                following.add(at + 1)
        places = following
    return {pattern[place:] for place in places}
