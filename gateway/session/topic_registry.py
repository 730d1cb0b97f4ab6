"""Topic names and their numbers, as one client knows them.

Normal ids are per client, begin at 1 and stay with their name as long as the session lives, so
that a client in the field may keep using them. Whether the client has been told (by REGISTER,
REGACK or SUBACK) is known per connection: after a reconnect every name is registered again before
its first use. Predefined ids and short names are spaces of their own and are never registered.

Full: `topics_max` names; a further one is refused (REGACK and SUBACK say congestion, a message
from the broker on it is dropped and counted).
"""

from __future__ import annotations

from gateway.frames import TopicIdType
from gateway.session.rules import PredefinedTopics
from gateway.session.topic_rules import topic_name

Reference = tuple[TopicIdType, int]

SHORT_NAME_OCTETS = 2


class TopicRegistry:
    __slots__ = ("_ids", "_known", "_names", "_predefined", "_refused", "_spelled", "_topics_max")

    def __init__(self, predefined: PredefinedTopics, topics_max: int) -> None:
        self._predefined = predefined
        self._topics_max = topics_max
        self._names: dict[int, str] = {}
        self._ids: dict[str, int] = {}
        self._known: set[int] = set()
        self._refused: set[str] = set()
        # How the client itself spells a name: with a predefined id or as a short name.
        self._spelled: dict[str, Reference] = {}

    def __len__(self) -> int:
        return len(self._names)

    # From the client

    def topic_of(self, topic_id: int, topic_id_type: TopicIdType) -> str | None:
        """The name behind what a PUBLISH carries, or None where there is none."""
        if topic_id_type is TopicIdType.NORMAL:
            return self._names.get(topic_id)
        if topic_id_type is TopicIdType.PREDEFINED:
            return self._predefined.names.get(topic_id)
        if topic_id_type is TopicIdType.SHORT:
            return short_topic(topic_id)
        return None

    def register(self, name: str) -> int | None:
        """The client's number for a name it now knows; None when the table is full."""
        topic_id = self.number(name)
        if topic_id is not None:
            self._known.add(topic_id)
            self._refused.discard(name)
        return topic_id

    def spell(self, name: str, reference: Reference) -> None:
        """From now on this client hears of `name` as it named it: predefined or short."""
        self._spelled[name] = reference

    def unspell(self, name: str) -> None:
        self._spelled.pop(name, None)

    # Towards the client

    def reference(self, name: str) -> Reference | None:
        """How a PUBLISH to this client names the topic; None while it must be told by REGISTER."""
        spelled = self._spelled.get(name)
        if spelled is not None:
            return spelled
        topic_id = self._ids.get(name)
        return (TopicIdType.NORMAL, topic_id) if topic_id in self._known and topic_id else None

    def number(self, name: str) -> int | None:
        """The number of a name, given now if it has none; None when the table is full."""
        topic_id = self._ids.get(name)
        if topic_id is None:
            if len(self._names) >= self._topics_max:
                return None
            topic_id = self._ids[name] = len(self._names) + 1
            self._names[topic_id] = name
        return topic_id

    def acknowledge(self, topic_id: int) -> None:
        """REGACK came: the client knows this number."""
        self._known.add(topic_id)

    def refuse(self, name: str) -> None:
        """The client wants nothing on this name (REGACK with a rejection), until it asks again."""
        self._refused.add(name)

    def is_refused(self, name: str) -> bool:
        return name in self._refused

    def forget(self, topic_id: int) -> None:
        """The client says it does not know this number; tell it again before the next use."""
        self._known.discard(topic_id)

    def start_connection(self) -> None:
        """A new connection: the client may have forgotten everything (1.2 is silent; A5)."""
        self._known.clear()
        self._refused.clear()


def short_topic(topic_id: int) -> str | None:
    """The two-octet name that a PUBLISH carries in its topic id field, or None if it is no name."""
    return topic_name(topic_id.to_bytes(SHORT_NAME_OCTETS, "big"), SHORT_NAME_OCTETS)
