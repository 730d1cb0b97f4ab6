"""Topic names and their numbers, as one client knows them.

Normal ids are per client, rise from `first_id` and stay with their name as long as the session
lives, so that a client in the field may keep using them. A session that takes the place of another
begins behind its ids: a client that does not know (its CONNECT was copied on the way) would
otherwise publish under an id that is another topic's by now.

Whether the client has been told (by REGISTER, REGACK or SUBACK) is known per connection: after a
reconnect every name is registered again before its first use. Predefined ids and short names are
spaces of their own and are never registered.

Full: `topics_max` names; a further one is refused (REGACK and SUBACK say congestion, a message
from the broker on it is dropped and counted).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gateway.frames import TopicIdType
from gateway.session.rules import PredefinedTopics
from gateway.session.topic_rules import topic_name

Reference = tuple[TopicIdType, int]

SHORT_NAME_OCTETS = 2
TOPIC_ID_MIN = 1
TOPIC_ID_MAX = 0xFFFE  # 0x0000 and 0xFFFF are reserved (1.2, 5.3.11)


class Told(Enum):
    """What a client knows of a number in this connection."""

    NOTHING = "nothing"
    NUMBER = "the number"
    UNWANTED = "the number, and it refused it"


@dataclass(slots=True)
class Topic:
    name: str
    reference: Reference
    told: Told = Told.NOTHING


class TopicRegistry:
    __slots__ = ("_by_name", "_first_id", "_predefined", "_spelled", "_topics", "_topics_max")

    def __init__(
        self, predefined: PredefinedTopics, topics_max: int, first_id: int = TOPIC_ID_MIN
    ) -> None:
        self._predefined = predefined
        self._topics_max = topics_max
        # Where the ids would run out, they begin again.
        self._first_id = first_id if first_id + topics_max <= TOPIC_ID_MAX else TOPIC_ID_MIN
        self._topics: list[Topic] = []  # in the order of their ids
        self._by_name: dict[str, Topic] = {}
        # How the client itself spells a name: with a predefined id or as a short name. Most
        # clients never do, and an empty dictionary would cost each of them 64 bytes.
        self._spelled: dict[str, Reference] | None = None

    @property
    def next_id(self) -> int:
        """The id that no name has had yet."""
        return self._first_id + len(self._topics)

    # From the client

    def topic_of(self, topic_id: int, topic_id_type: TopicIdType) -> str | None:
        """The name behind what a PUBLISH carries, or None where there is none."""
        if topic_id_type is TopicIdType.NORMAL:
            if self._first_id <= topic_id < self.next_id:
                return self._topics[topic_id - self._first_id].name
            return None
        if topic_id_type is TopicIdType.PREDEFINED:
            return self._predefined.names.get(topic_id)
        if topic_id_type is TopicIdType.SHORT:
            return short_topic(topic_id)
        return None

    def register(self, name: str) -> int | None:
        """The client's number for a name it now knows; None when the table is full."""
        topic_id = self.number(name)
        if topic_id is not None:
            self._topics[topic_id - self._first_id].told = Told.NUMBER
        return topic_id

    def spell(self, name: str, reference: Reference) -> None:
        """From now on this client hears of `name` as it named it: predefined or short."""
        if self._spelled is None:
            self._spelled = {}
        self._spelled[name] = reference

    def unspell(self, name: str) -> None:
        if self._spelled is not None:
            self._spelled.pop(name, None)

    # Towards the client

    def reference(self, name: str) -> Reference | None:
        """How a PUBLISH to this client names the topic; None while it must be told by REGISTER."""
        if self._spelled is not None and name in self._spelled:
            return self._spelled[name]
        topic = self._by_name.get(name)
        return topic.reference if topic is not None and topic.told is Told.NUMBER else None

    def number(self, name: str) -> int | None:
        """The number of a name, given now if it has none; None when the table is full."""
        topic = self._by_name.get(name)
        if topic is None:
            if len(self._topics) >= self._topics_max:
                return None
            topic = Topic(name, (TopicIdType.NORMAL, self.next_id))
            self._topics.append(topic)
            self._by_name[name] = topic
        return topic.reference[1]

    def refuse(self, name: str) -> None:
        """The client wants nothing on this name (REGACK with a rejection), until it asks again."""
        self._by_name[name].told = Told.UNWANTED

    def is_refused(self, name: str) -> bool:
        topic = self._by_name.get(name)
        return topic is not None and topic.told is Told.UNWANTED

    def forget(self, topic_id: int) -> None:
        """The client says it does not know this number; tell it again before the next use."""
        if self.topic_of(topic_id, TopicIdType.NORMAL) is not None:
            self._topics[topic_id - self._first_id].told = Told.NOTHING

    def start_connection(self) -> None:
        """A new connection: the client may have forgotten everything (1.2 is silent; A5)."""
        for topic in self._topics:
            topic.told = Told.NOTHING


def short_topic(topic_id: int) -> str | None:
    """The two-octet name that a PUBLISH carries in its topic id field, or None if it is no name."""
    return topic_name(topic_id.to_bytes(SHORT_NAME_OCTETS, "big"), SHORT_NAME_OCTETS)
