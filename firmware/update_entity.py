"""How far each node's update is, as Home Assistant's MQTT `update` entity reads it. No I/O.

    <node>/update, retained:
    {"installed_version": "1", "latest_version": "2", "in_progress": true, "update_percentage": 40}

Rules
- A node is one whose state has been heard, and says that it takes updates (or is older than that
  word). What runs on it is what its state says.
- It is in progress when somebody asked for it, when the node says that it fetches it, or asks for
  its parts; and not any more when it runs, or the node refuses it. The percentage is of what the
  node has.
- Progress is published at each whole per cent, and once a second at most; all else at once.
- With `on_request` a manifest is at the broker from when it is asked for until it runs. One that
  was refused stays, because the node says why as long as it has it. Who asks again has it taken
  away, and offered again when the node's state shows that it has taken that.
- After a restart all this is known from what the broker has retained: documents and manifests have
  to be heard before states are.

Limits: NODES_MAX nodes; of further ones nothing is published.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import inf
from typing import Any

NODES_MAX = 10_000
NUMBER_MAX = 2**32 - 1
PROGRESS_S = 1.0


@dataclass(slots=True)
class Node:
    installed: int | None = None  # the number that runs; None: its state was not heard
    reported: str = ""  # what it says of its update
    is_possible: bool = True
    is_wanted: bool = False  # somebody asked for it
    has_manifest: bool = False  # the broker has retained ours for it
    percent: int | None = None
    published: bytes = b""  # what the broker has
    published_at: float = -inf


@dataclass(slots=True)
class Outcome:
    """What to publish, retained; None: nothing, b"": that there is none any more."""

    document: bytes | None = None
    manifest: bytes | None = None


NOTHING = Outcome()


@dataclass(slots=True)
class UpdateEntities:
    """Of nodes by their topic. `number`, `size`, `manifest`: of the image; 0: there is none."""

    number: int = 0
    size: int = 0
    manifest: bytes = b""
    on_request: bool = False
    _nodes: dict[str, Node] = field(default_factory=dict)

    # What the broker has retained

    def reconnected(self) -> None:
        """The broker may have lost everything; what it has comes again."""
        for node in self._nodes.values():
            node.published, node.has_manifest = b"", False

    def document_found(self, topic: str, payload: bytes) -> None:
        document = parsed(payload)
        node = self._node(topic)
        if node is None or not is_document(document):
            return
        node.published = payload
        if document["in_progress"] and document["latest_version"] == str(self.number):
            node.is_wanted = self.on_request
            percent = document.get("update_percentage")
            node.percent = percent if isinstance(percent, int) and 0 <= percent <= 100 else None

    def manifest_found(self, topic: str, payload: bytes) -> Outcome:
        """One of an image that is not offered any more is taken away."""
        node = self._node(topic)
        if node is None or not payload:
            return NOTHING
        if payload != self.manifest:
            is_older = int.from_bytes(payload[2:6], "big") <= self.number  # app/ota.py
            return Outcome(manifest=b"") if is_older else NOTHING
        node.has_manifest = node.is_wanted = True
        return NOTHING

    # What nodes and people say

    def state_heard(self, topic: str, payload: bytes, now: float) -> Outcome:
        if not payload:
            return self._gone(topic)
        state = parsed(payload)
        installed, reported = state.get("app"), state.get("update")
        if not is_number(installed) or not isinstance(reported, str):
            return NOTHING
        node = self._node(topic)
        if node is None:
            return NOTHING
        node.installed, node.reported = installed, reported
        commands = state.get("commands")
        node.is_possible = not isinstance(commands, list) or "update" in commands
        if not reported.startswith(f"fetching {self.number}"):
            node.percent = None
        if self._is_refused(node) and node.has_manifest:
            node.is_wanted = False
        return self._outcome(node, now)

    def part_asked(self, topic: str, at: int, now: float) -> Outcome:
        """For parts of the image from `at` on, so that the node has all before."""
        node = self._node(topic)
        if node is None or not self.size:
            return NOTHING
        node.percent = min(at, self.size) * 100 // self.size
        if now - node.published_at < PROGRESS_S:
            return NOTHING
        return self._outcome(node, now)

    def install_asked(self, topic: str, now: float) -> Outcome:
        node = self._node(topic)
        if node is None or not self.on_request or not self._is_newer(node):
            return NOTHING
        node.is_wanted = True
        if self._is_refused(node) and node.has_manifest:
            node.has_manifest = False
            return Outcome(self._outcome(node, now).document, b"")
        return self._outcome(node, now)

    # Parts

    def _node(self, topic: str) -> Node | None:
        node = self._nodes.get(topic)
        if node is None and len(self._nodes) < NODES_MAX:
            node = self._nodes[topic] = Node()
        return node

    def _gone(self, topic: str) -> Outcome:
        """Its state was cleared, as of a node that is forgotten."""
        node = self._nodes.pop(topic, Node())
        return Outcome(document=b"" if node.published else None)

    def _is_newer(self, node: Node) -> bool:
        return node.is_possible and self.number > (node.installed or 0)

    def _is_refused(self, node: Node) -> bool:
        return node.reported.startswith(f"refused {self.number}:")

    def _is_in_progress(self, node: Node) -> bool:
        if not self._is_newer(node):
            return False
        if self._is_refused(node):
            return node.is_wanted and not node.has_manifest
        is_fetching = node.reported.startswith(f"fetching {self.number}")
        return node.is_wanted or is_fetching or node.percent is not None

    def _outcome(self, node: Node, now: float) -> Outcome:
        return Outcome(self._new_document(node, now), self._new_manifest(node))

    def _new_manifest(self, node: Node) -> bytes | None:
        if not self.on_request:
            return None
        if node.has_manifest and not self._is_newer(node):
            node.has_manifest = node.is_wanted = False
            return b""
        is_due = node.is_wanted and self._is_newer(node) and not self._is_refused(node)
        if is_due and not node.has_manifest:
            node.has_manifest = True
            return self.manifest
        return None

    def _new_document(self, node: Node, now: float) -> bytes | None:
        if node.installed is None or not node.is_possible:
            return None
        is_in_progress = self._is_in_progress(node)
        document = json.dumps(
            {
                "installed_version": str(node.installed),
                "latest_version": str(max(node.installed, self.number)),
                "in_progress": is_in_progress,
                "update_percentage": node.percent if is_in_progress else None,
            }
        ).encode()
        if document == node.published:
            return None
        node.published, node.published_at = document, now
        return document


def parsed(payload: bytes) -> dict[str, Any]:
    """Of an object; of anything else an empty one."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_document(found: dict[str, Any]) -> bool:
    """Whether we published that, and no sensor whose topic is like it."""
    names = {"installed_version", "latest_version", "in_progress", "update_percentage"}
    return found.keys() == names and isinstance(found["in_progress"], bool)


def is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= NUMBER_MAX
