"""Values by topic name or topic filter, found by what matches them or what they match.

One tree serves both directions, because "filter F matches topic T" is the case of "filter F
covers filter G" in which G has no wildcard: `above(T)` are the filters that match a topic,
`under(F)` the topics, or narrower filters, that a filter covers. A wildcard at the first level
covers nothing that begins with `$` (MQTT 5, 4.7.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

Value = TypeVar("Value")


class _Node(Generic[Value]):
    """One level of a name. Most have one child or none, and a dictionary for it would be as large
    as the rest of a filter: it is made for the second one.
    """

    __slots__ = ("_child", "_level", "_others", "key", "value")

    def __init__(self) -> None:
        self._level = ""
        self._child: _Node[Value] | None = None
        self._others: dict[str, _Node[Value]] | None = None
        self.key: str | None = None  # set where a value is
        self.value: Value | None = None

    @property
    def has_children(self) -> bool:
        return self._child is not None or bool(self._others)

    def child(self, level: str) -> _Node[Value] | None:
        if self._child is not None and self._level == level:
            return self._child
        return None if self._others is None else self._others.get(level)

    def children(self) -> Iterator[tuple[str, _Node[Value]]]:
        if self._child is not None:
            yield self._level, self._child
        if self._others is not None:
            yield from self._others.items()

    def grow(self, level: str) -> _Node[Value]:
        """A new child, where there is none of this name."""
        grown: _Node[Value] = _Node()
        if self._child is None:
            self._level, self._child = level, grown
            return grown
        if self._others is None:
            self._others = {}
        self._others[level] = grown
        return grown

    def cut(self, level: str) -> None:
        """Take a child off that is there."""
        if self._child is not None and self._level == level:
            self._child = None
            return
        assert self._others is not None
        del self._others[level]
        if not self._others:
            self._others = None


Found = list[tuple[str, Value]]


class TopicTree(Generic[Value]):
    def __init__(self) -> None:
        self._root: _Node[Value] = _Node()
        self._nodes: dict[str, _Node[Value]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def get(self, key: str) -> Value | None:
        node = self._nodes.get(key)
        return None if node is None else node.value

    def put(self, key: str, value: Value) -> None:
        node = self._nodes.get(key)
        if node is None:
            node = self._root
            for level in key.split("/"):
                node = node.child(level) or node.grow(level)
            node.key = key
            self._nodes[key] = node
        node.value = value

    def pop(self, key: str) -> Value | None:
        """Take a key out, with the branches that led only to it."""
        node = self._nodes.pop(key, None)
        if node is None:
            return None
        value, node.key, node.value = node.value, None, None
        for parent, level, child in reversed(list(self._path(key))):
            if child.has_children or child.key is not None:
                break
            parent.cut(level)
        return value

    def _path(self, key: str) -> Iterator[tuple[_Node[Value], str, _Node[Value]]]:
        """Each step to a key that is there: from where, by which level, to where."""
        node = self._root
        for level in key.split("/"):
            below = node.child(level)
            assert below is not None, f"{key!r} is in the tree"
            yield node, level, below
            node = below

    def above(self, key: str) -> Found[Value]:
        """What covers `key`, itself included: for a topic, the filters that match it."""
        found: Found[Value] = []
        _climb(self._root, key.split("/"), 0, found)
        return found

    def under(self, key: str) -> Found[Value]:
        """What `key` covers, itself included: for a filter, the topics that it matches."""
        found: Found[Value] = []
        _descend(self._root, key.split("/"), 0, found)
        return found


def _climb(node: _Node[Value], levels: list[str], depth: int, found: Found[Value]) -> None:
    hidden = depth == 0 and levels[0].startswith("$")
    if not hidden:
        _take(node.child("#"), found)
    if depth == len(levels):
        _take(node, found)
        return
    level = levels[depth]
    if level == "#":
        return  # nothing narrower than "#" covers it, and "#" itself was taken above
    below = None if level == "+" else node.child(level)
    if below is not None:
        _climb(below, levels, depth + 1, found)
    below = None if hidden else node.child("+")
    if below is not None:
        _climb(below, levels, depth + 1, found)


def _descend(node: _Node[Value], levels: list[str], depth: int, found: Found[Value]) -> None:
    if depth == len(levels):
        _take(node, found)
        return
    level = levels[depth]
    if level == "#":
        _take(node, found)  # "a/#" covers "a" too
        _descend_all(node, depth, found)
    elif level == "+":
        for name, child in node.children():
            if name != "#" and not (depth == 0 and name.startswith("$")):
                _descend(child, levels, depth + 1, found)
    else:
        below = node.child(level)
        if below is not None:
            _descend(below, levels, depth + 1, found)


def _descend_all(node: _Node[Value], depth: int, found: Found[Value]) -> None:
    for name, child in node.children():
        if not (depth == 0 and name.startswith("$")):
            _take(child, found)
            _descend_all(child, depth + 1, found)


def _take(node: _Node[Value] | None, found: Found[Value]) -> None:
    if node is not None and node.key is not None:
        found.append((node.key, node.value))  # type: ignore[arg-type]
