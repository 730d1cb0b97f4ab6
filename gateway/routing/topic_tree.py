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
    __slots__ = ("children", "key", "value")

    def __init__(self) -> None:
        self.children: dict[str, _Node[Value]] = {}
        self.key: str | None = None  # set where a value is
        self.value: Value | None = None


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
                below = node.children.get(level)
                if below is None:
                    below = node.children[level] = _Node()
                node = below
            node.key = key
            self._nodes[key] = node
        node.value = value

    def pop(self, key: str) -> Value | None:
        """Take a key out, with the branches that led only to it."""
        node = self._nodes.pop(key, None)
        if node is None:
            return None
        value, node.key, node.value = node.value, None, None
        levels = key.split("/")
        path = [self._root]
        for level in levels:
            path.append(path[-1].children[level])
        for parent, level, child in zip(
            reversed(path[:-1]), reversed(levels), reversed(path[1:]), strict=True
        ):
            if child.children or child.key is not None:
                break
            del parent.children[level]
        return value

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
        _take(node.children.get("#"), found)
    if depth == len(levels):
        _take(node, found)
        return
    level = levels[depth]
    if level == "#":
        return  # nothing narrower than "#" covers it, and "#" itself was taken above
    if level != "+" and level in node.children:
        _climb(node.children[level], levels, depth + 1, found)
    if not hidden and "+" in node.children:
        _climb(node.children["+"], levels, depth + 1, found)


def _descend(node: _Node[Value], levels: list[str], depth: int, found: Found[Value]) -> None:
    if depth == len(levels):
        _take(node, found)
        return
    level = levels[depth]
    if level == "#":
        _take(node, found)  # "a/#" covers "a" too
        _descend_all(node, depth, found)
    elif level == "+":
        for name, child in node.children.items():
            if name != "#" and not (depth == 0 and name.startswith("$")):
                _descend(child, levels, depth + 1, found)
    elif level in node.children:
        _descend(node.children[level], levels, depth + 1, found)


def _descend_all(node: _Node[Value], depth: int, found: Found[Value]) -> None:
    for name, child in node.children.items():
        if not (depth == 0 and name.startswith("$")):
            _take(child, found)
            _descend_all(child, depth + 1, found)


def _take(node: _Node[Value] | None, found: Found[Value]) -> None:
    if node is not None and node.key is not None:
        found.append((node.key, node.value))  # type: ignore[arg-type]
