"""Values by topic name or topic filter, found by what matches them or what they match.

One tree serves both directions, because "filter F matches topic T" is the case of "filter F
covers filter G" in which G has no wildcard: `above(T)` are the filters that match a topic,
`under(F)` the topics, or narrower filters, that a filter covers. A wildcard at the first level
covers nothing that begins with `$` (MQTT 5, 4.7.2).

Rule: a key is a leaf behind the first level that it shares with no other key, and the levels that
      are left are only in its name. So there is a branch for each beginning that two keys or more
      have in common, and `field/7/valve` costs a leaf, if nobody else has a place in `field/7`. The
      design that lost had a node for each level, and also a dictionary of all keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class _Leaf:
    """A key, and what is kept under it: a value of the tree's, which alone is generic, as a leaf
    would be 16 bytes larger for it, compiled.
    """

    __slots__ = ("key", "value")

    def __init__(self, key: str, value: Any) -> None:
        self.key = key
        self.value = value


class _Branch:
    """Where keys part after what they have in common; one of them may end there."""

    __slots__ = ("children", "ending")

    def __init__(self) -> None:
        self.ending: _Leaf | None = None
        self.children: dict[str, _Leaf | _Branch] = {}

    def only_leaf(self) -> _Leaf | None:
        """The one that is left of the branch, if there is no more."""
        if not self.children:
            return self.ending
        if self.ending is not None or len(self.children) > 1:
            return None
        (child,) = self.children.values()
        return child if isinstance(child, _Leaf) else None


_Place = _Leaf | _Branch
Found = list[tuple[str, Value]]


class TopicTree(Generic[Value]):
    def __init__(self) -> None:
        self._root = _Branch()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: str) -> bool:
        return self._find(key) is not None

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self.all())

    def all(self) -> Iterator[tuple[str, Value]]:
        """All, neighbours together. Nothing may be put in or taken out meanwhile."""
        waiting: list[_Place] = [self._root]
        while waiting:
            place = waiting.pop()
            if isinstance(place, _Leaf):
                yield place.key, place.value
                continue
            waiting += reversed(place.children.values())
            if place.ending is not None:
                waiting.append(place.ending)

    def get(self, key: str) -> Value | None:
        leaf = self._find(key)
        return None if leaf is None else leaf.value

    def put(self, key: str, value: Value) -> None:
        branch = self._root
        for depth, level in enumerate(key.split("/"), 1):
            below = branch.children.get(level)
            if below is None:
                branch.children[level] = _Leaf(key, value)
                self._count += 1
                return
            if isinstance(below, _Leaf):
                if below.key == key:
                    below.value = value
                    return
                below = branch.children[level] = _branch_with(below, depth)
            branch = below
        if branch.ending is None:
            self._count += 1
        branch.ending = _Leaf(key, value)

    def pop(self, key: str) -> Value | None:
        """Take a key out; a branch with one leaf left gives it its place."""
        leaf = self._find(key)
        if leaf is None:
            return None
        self._count -= 1
        levels = key.split("/")
        way = [self._root]
        for level in levels:
            below = way[-1].children[level]
            if isinstance(below, _Leaf):
                del way[-1].children[level]
                break
            way.append(below)
        else:
            way[-1].ending = None
        for depth in range(len(way) - 1, 0, -1):
            only = way[depth].only_leaf()
            if only is None:
                break
            way[depth - 1].children[levels[depth - 1]] = only
        value: Value | None = leaf.value
        return value

    def _find(self, key: str) -> _Leaf | None:
        branch = self._root
        for level in key.split("/"):
            below = branch.children.get(level)
            if isinstance(below, _Leaf):
                return below if below.key == key else None
            if below is None:
                return None
            branch = below
        return branch.ending

    def above(self, key: str) -> Found[Value]:
        """What covers `key`, itself included: for a topic, the filters that match it."""
        found: Found[Value] = []
        _climb(self._root, key, key.split("/"), 0, found)
        return found

    def under(self, key: str) -> Found[Value]:
        """What `key` covers, itself included: for a filter, the topics that it matches."""
        found: Found[Value] = []
        _descend(self._root, key.split("/"), 0, found)
        return found


def _branch_with(leaf: _Leaf, depth: int) -> _Branch:
    """What takes a leaf's place, with the leaf in it, where another key goes on as well."""
    branch = _Branch()
    levels = leaf.key.split("/")
    if depth == len(levels):
        branch.ending = leaf
    else:
        branch.children[levels[depth]] = leaf
    return branch


def _climb(place: _Place, key: str, levels: list[str], depth: int, found: Found[Any]) -> None:
    """What covers `key`, of which these are the levels, those before `depth` looked at."""
    if isinstance(place, _Leaf):
        if place.key == key or _covers(place.key.split("/"), levels, depth):
            _take(place, found)
        return
    children = place.children
    hidden = depth == 0 and key.startswith("$")
    if not hidden and (below := children.get("#")) is not None:
        _climb(below, key, levels, depth, found)
    if depth == len(levels):
        _take(place.ending, found)
        return
    level = levels[depth]
    if level == "#":
        return  # nothing narrower than "#" covers it, and "#" itself was taken above
    if level != "+" and (below := children.get(level)) is not None:
        _climb(below, key, levels, depth + 1, found)
    if not hidden and (below := children.get("+")) is not None:
        _climb(below, key, levels, depth + 1, found)


def _descend(place: _Place, levels: list[str], depth: int, found: Found[Any]) -> None:
    if isinstance(place, _Leaf):
        if _covers(levels, place.key.split("/"), depth):
            _take(place, found)
        return
    if depth == len(levels):
        _take(place.ending, found)
        return
    level = levels[depth]
    if level == "#":
        _take(place.ending, found)  # "a/#" covers "a" too
        _descend_all(place, depth, found)
    elif level == "+":
        for name, child in place.children.items():
            if name != "#" and not (depth == 0 and name.startswith("$")):
                _descend(child, levels, depth + 1, found)
    elif (below := place.children.get(level)) is not None:
        _descend(below, levels, depth + 1, found)


def _descend_all(branch: _Branch, depth: int, found: Found[Any]) -> None:
    for name, child in branch.children.items():
        if depth == 0 and name.startswith("$"):
            continue
        if isinstance(child, _Leaf):
            _take(child, found)
        else:
            _take(child.ending, found)
            _descend_all(child, depth + 1, found)


def _covers(wide: list[str], narrow: list[str], depth: int) -> bool:
    """Whether `wide` covers `narrow`, where it is known of the levels before `depth`."""
    for place in range(depth, len(wide)):
        level = wide[place]
        if level == "#":
            return True  # "a/#" covers "a" too
        if place == len(narrow):
            return False
        if level != narrow[place] and (level != "+" or narrow[place] == "#"):
            return False
    return len(wide) == len(narrow)


def _take(leaf: _Leaf | None, found: Found[Any]) -> None:
    if leaf is not None:
        found.append((leaf.key, leaf.value))
