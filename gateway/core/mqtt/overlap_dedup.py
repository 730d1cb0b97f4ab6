"""Tells copies of one message, sent for several of our subscriptions, from a message sent again.

`a/+` and `+/b` both match `a/b`, and neither covers the other, so both are subscribed; a broker may
send a message for each (MQTT 5, 3.3.4; mosquitto does). Each copy carries the identifier of its
subscription, and no other filter that may overlap has the same one (subscriber.py). So equal
contents with other identifiers are a copy; with the same identifier again they are a new message.

Between two equal messages the subscriptions may change, and then the second could look like a copy
of the first: `forget` at each word of the broker on subscriptions, and when a connection ends; over
that end only what the broker says it sent before can be a copy (receiver.py). Without identifiers
copies cannot be told, and none is dropped.

Limit: the last `contents_max` contents are remembered, for copies that do not come in a row.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

CONTENTS_MAX = 16


class OverlapDedup:
    def __init__(self, contents_max: int = CONTENTS_MAX) -> None:
        self._contents_max = contents_max
        self._brought_by: dict[Hashable, set[int]] = {}

    def is_one(self, contents: Hashable, identifiers: Sequence[int]) -> bool:
        """Whether this is a copy of a message that has come already. `contents`: its topic and
        payload, or a checksum of them.
        """
        if not identifiers:
            return False
        brought_by = self._brought_by.get(contents)
        by = {identifier | 1 for identifier in identifiers}  # one pair is one filter
        if brought_by is not None and brought_by.isdisjoint(by):
            brought_by |= by
            return True
        self._brought_by.pop(contents, None)
        if len(self._brought_by) >= self._contents_max:
            del self._brought_by[next(iter(self._brought_by))]
        self._brought_by[contents] = by
        return False

    def forget(self) -> None:
        self._brought_by.clear()
