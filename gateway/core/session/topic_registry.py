"""Topic names and their numbers, as one client knows them.

Normal ids are per client, rise from `first_id` and stay with their name as long as the session
lives, so that a client in the field may keep using them. A later session of the same client numbers
behind the ids of those before it, and a name that one of them had gets the id that it had there: a
client that does not know (its CONNECT was copied on the way, or a PUBLISH comes late) would
otherwise publish under an id that is another topic's by now. For the same reason a new run of the
gateway numbers elsewhere than the last ones before it. So ids have gaps, and where they would run
out they begin again with what is free.

Whether the client has been told (by REGISTER, REGACK or SUBACK) is known per connection: after a
reconnect every name is registered again before its first use. Predefined ids and short names are
spaces of their own and are never registered.

Full: `topics_max` names, or as many of the client's host as that may have (`HostNames`); a further
one is refused (REGACK and SUBACK say congestion, a message from the broker on it is dropped and
counted).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Save
from gateway.core.events import NamesNumbered, Output
from gateway.core.session.options import PredefinedTopics
from gateway.core.session.topic_names import topic_name
from gateway.core.state_records import ClientId, TopicRecord
from gateway.frames import TopicIdType

Reference = tuple[TopicIdType, int]

FEW_TOPICS = 8
SHARED_IDS_MAX = 4096
FORMER_IDS_MAX = 256
NAMES_UNCOUNTED = 8  # of each client: what most sensors have
TOPIC_ID_OCTETS = 2  # and of a short name
TOPIC_ID_MIN = 1
UNSAVED_IDS = 16  # of one client in one run, in all likelihood
TOPIC_ID_MAX = 0xFFFE  # 0x0000 and 0xFFFF are reserved (1.2, 5.3.11)


class Announced(Enum):
    """What a client knows of a number in this connection."""

    NOTHING = "nothing"
    NUMBER = "the number"
    UNWANTED = "the number, and it refused it"


@dataclass(slots=True)
class Topic:
    name: str
    topic_id: int
    reported: Announced = Announced.NOTHING


class HostNames:
    """How many names the clients of one host have beyond `NAMES_UNCOUNTED` each. One object for the
    registries of all of them that have more.
    """

    __slots__ = ("host", "names", "names_max", "registries")

    def __init__(self, host: bytes, names_max: int) -> None:
        self.host = host
        self.names_max = names_max
        self.names = 0
        self.registries = 0

    def add(self, registries: int, names: int) -> None:
        self.registries += registries
        self.names += names

    @property
    def is_full(self) -> bool:
        return self.names >= self.names_max


@dataclass(frozen=True, slots=True)
class FormerIds:
    """Of the sessions that a client had: their names with their ids, and the id behind them all."""

    ids: dict[str, int]
    next_id: int


@lru_cache(SHARED_IDS_MAX)
def _shared(topic_id: int) -> int:
    """One object for all clients: they number alike, and there are very many of them."""
    return topic_id


def _id_of(topic: Topic) -> int:
    return topic.topic_id


class TopicRegistry:
    __slots__ = (
        "_by_name", "_former", "_fresh", "_host_names", "_next_id", "_predefined", "_spelled",
        "_topics", "_topics_max", "first_id",
    )  # fmt: skip

    def __init__(
        self,
        predefined: PredefinedTopics,
        topics_max: int,
        first_id: int = TOPIC_ID_MIN,
        former: FormerIds | None = None,
    ) -> None:
        self._predefined = predefined
        self._topics_max = topics_max
        self._former: dict[str, int] | None = None
        if former is not None:
            self._former = former.ids
            first_id = max(first_id, former.next_id)
        # Where the ids would run out, they begin again.
        self._next_id = first_id if first_id + topics_max <= TOPIC_ID_MAX else TOPIC_ID_MIN
        self.first_id = self._next_id  # of this life
        # In the order of their ids. Few are a tuple, which takes no room for more, and are found by
        # looking at each as fast as in a dictionary of 184 bytes; many are a list.
        self._topics: tuple[Topic, ...] | list[Topic] = ()
        self._by_name: dict[str, Topic] | None = None  # of many
        self._host_names: HostNames | None = None  # of many
        self._fresh: list[Topic] | None = None  # numbered, and not said to be saved yet
        # How the client itself spells a name: with a predefined id or as a short name. Most
        # clients never do, and an empty dictionary would cost each of them 64 bytes.
        self._spelled: dict[str, Reference] | None = None

    @property
    def next_id(self) -> int:
        """The id that no name has had yet."""
        return self._next_id

    def former_ids(self) -> FormerIds | None:
        """For the next session of the client; of more than `FORMER_IDS_MAX` the latest ones."""
        ids = dict(self._former or ())
        for topic in self._topics:
            ids.pop(topic.name, None)  # to be the latest
            ids[topic.name] = topic.topic_id
        for name in list(ids)[:-FORMER_IDS_MAX]:
            del ids[name]
        return FormerIds(ids, self._next_id) if ids else None

    def skip_to(self, next_id: int) -> None:
        """Ids below this one were given in the client's name meanwhile, to other topics."""
        next_id = max(self._next_id, next_id)
        self._next_id = next_id if next_id + self._topics_max <= TOPIC_ID_MAX else TOPIC_ID_MIN

    def __len__(self) -> int:
        """How many names have a number of this client's own."""
        return len(self._topics)

    def numbered(self) -> list[tuple[int, str]]:
        """Each number of this client's own with its name, in the order of the numbers."""
        return [(topic.topic_id, topic.name) for topic in self._topics]

    # What its host may have

    @property
    def is_counted(self) -> bool:
        """Whether it has so many names that its host has to answer for the further ones."""
        return len(self._topics) >= NAMES_UNCOUNTED

    def count_with(self, host_names: HostNames | None) -> HostNames | None:
        """Count its names with those of this host from now on, or with none; where they were."""
        names = max(0, len(self._topics) - NAMES_UNCOUNTED)
        before, self._host_names = self._host_names, host_names
        if before is not None:
            before.add(-1, -names)
        if host_names is not None:
            host_names.add(1, names)
        return before

    def full_because(self) -> Reason:
        """Why a name got no number."""
        is_own = len(self._topics) >= self._topics_max
        return Reason.TOPICS_FULL if is_own else Reason.HOST_TOPICS_FULL

    # What is saved

    def take_fresh(self, client_id: ClientId) -> list[Output]:
        """What was numbered since this was asked last, to be saved."""
        if self._fresh is None:
            return []
        fresh, self._fresh = self._fresh, None
        outputs: list[Output] = [
            Save(TopicRecord(client_id, topic.topic_id, topic.name)) for topic in fresh
        ]
        if self.is_counted:
            outputs.append(NamesNumbered(client_id))
        return outputs

    def rows(self, client_id: ClientId) -> list[Output]:
        """All of them, to be saved."""
        self._fresh = None
        return [Save(TopicRecord(client_id, *each)) for each in self.numbered()]

    def restore(self, saved: list[TopicRecord], next_id: int, reported: Announced) -> None:
        """Topics of a former run. New ones begin behind them, and behind what it may have told
        while the disk refused.
        """
        topics = [Topic(row.name, _shared(row.topic_id), reported) for row in saved]
        self._keep(sorted(topics, key=_id_of))
        last = self._topics[-1].topic_id if self._topics else 0
        next_id = max(next_id, last + 1)
        if next_id > self._next_id:  # of this run
            next_id += UNSAVED_IDS
        next_id = max(next_id, self._next_id)
        self.first_id = next_id
        self._next_id = next_id if next_id + self._topics_max <= TOPIC_ID_MAX else TOPIC_ID_MIN

    # From the client

    def topic_of(self, topic_id: int, topic_id_type: TopicIdType) -> str | None:
        """The name behind what a PUBLISH carries, or None where there is none."""
        if topic_id_type is TopicIdType.NORMAL:
            topic = self._at(topic_id)
            return None if topic is None else topic.name
        if topic_id_type is TopicIdType.PREDEFINED:
            name = self._predefined.names.get(topic_id)
        elif topic_id_type is TopicIdType.SHORT:
            name = short_topic(topic_id)
        else:
            return None
        if name is not None:
            return name
        topic = self._at(topic_id)  # clients exist that call all their numbers so
        return None if topic is None else topic.name

    def register(self, name: str) -> int | None:
        """The client's number for a name it now knows; None when the table is full."""
        topic_id = self.number(name)
        if topic_id is not None:
            self._named(name).reported = Announced.NUMBER
        return topic_id

    def spell(self, name: str, reference: Reference) -> None:
        """From now on this client hears of `name` as it named it: predefined or short."""
        if self._spelled is None:
            self._spelled = {}
        self._spelled[name] = reference

    def spelled(self, name: str) -> Reference | None:
        """How the client itself names it, if it is by no number of its own."""
        return None if self._spelled is None else self._spelled.get(name)

    def unspell(self, name: str) -> None:
        if self._spelled is not None:
            self._spelled.pop(name, None)

    # Towards the client

    def reference(self, name: str) -> Reference | None:
        """How a PUBLISH to this client names the topic; None while it must be told by REGISTER."""
        if self._spelled is not None and name in self._spelled:
            return self._spelled[name]
        topic = self._find(name)
        if topic is None or topic.reported is not Announced.NUMBER:
            return None
        return TopicIdType.NORMAL, topic.topic_id

    def number(self, name: str) -> int | None:
        """The number of a name, given now if it has none; None when the table is full."""
        topic = self._find(name)
        if topic is not None:
            return topic.topic_id
        if len(self._topics) >= self._topics_max or self._is_host_full():
            return None
        return self._number(name).topic_id

    def knows(self, name: str) -> bool:
        """Whether a PUBLISH on this name may have gone out already."""
        return self._find(name) is not None or (self._spelled is not None and name in self._spelled)

    def has(self, name: str) -> bool:
        """Whether the name has a number of this client's own, told or not."""
        return self._find(name) is not None

    def refuse(self, name: str) -> None:
        """The client wants nothing on this name (REGACK with a rejection), until it asks again."""
        self._named(name).reported = Announced.UNWANTED

    def is_refused(self, name: str) -> bool:
        topic = self._find(name)
        return topic is not None and topic.reported is Announced.UNWANTED

    def forget(self, topic_id: int) -> None:
        """The client says it does not know this number; tell it again before the next use."""
        topic = self._at(topic_id)
        if topic is not None:
            topic.reported = Announced.NOTHING

    def start_connection(self) -> None:
        """A new connection: the client may have forgotten everything (1.2 is silent; A5)."""
        for topic in self._topics:
            topic.reported = Announced.NOTHING

    # The table

    def _find(self, name: str) -> Topic | None:
        if self._by_name is not None:
            return self._by_name.get(name)
        for topic in self._topics:
            if topic.name == name:
                return topic
        return None

    def _named(self, name: str) -> Topic:
        topic = self._find(name)
        assert topic is not None, f"{name!r} has no number"
        return topic

    def _keep(self, topics: list[Topic]) -> None:
        """These are all, in the order of their ids."""
        if len(topics) > FEW_TOPICS:
            self._topics, self._by_name = topics, {topic.name: topic for topic in topics}
        else:
            self._topics, self._by_name = tuple(topics), None

    def _is_host_full(self) -> bool:
        return self._host_names is not None and self._host_names.is_full

    def _free_id(self, name: str) -> int:
        former = self._former or {}
        topic_id = former.get(name)
        if topic_id is not None and self._at(topic_id) is None:
            return topic_id
        # The first one is free, unless the ids began again.
        for topic_id in range(self._next_id, TOPIC_ID_MAX + 1):
            if self._at(topic_id) is None and topic_id not in former.values():
                return topic_id
        again = range(TOPIC_ID_MIN, TOPIC_ID_MAX + 1)
        return next(each for each in again if self._at(each) is None)

    def _number(self, name: str) -> Topic:
        topic_id = self._free_id(name)
        topic = Topic(name, _shared(topic_id))
        if isinstance(self._topics, list):
            assert self._by_name is not None, "they are many"
            insort(self._topics, topic, key=_id_of)
            self._by_name[name] = topic
        else:
            self._keep(sorted((*self._topics, topic), key=_id_of))
        self._next_id = max(self._next_id, topic_id + 1)
        if self._fresh is None:
            self._fresh = []
        self._fresh.append(topic)
        if self._host_names is not None:
            self._host_names.add(0, 1)
        return topic

    def _at(self, topic_id: int) -> Topic | None:
        topics = self._topics
        if not topics:
            return None
        first = topics[0].topic_id
        if first <= topic_id < first + len(topics):  # where it is if there are no gaps
            topic = topics[topic_id - first]
            if topic.topic_id == topic_id:
                return topic
        place = bisect_left(topics, topic_id, key=_id_of)
        if place == len(topics) or topics[place].topic_id != topic_id:
            return None
        return topics[place]


def short_topic(topic_id: int) -> str | None:
    """The two-byte name that a PUBLISH carries in its topic id field, or None if it is no name."""
    return topic_name(topic_id.to_bytes(TOPIC_ID_OCTETS, "big"), TOPIC_ID_OCTETS)
