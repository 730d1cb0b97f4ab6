"""Gateways at one broker, each with its presence and announcements, and sensors that move."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, State
from gateway.core.topic_trie import TopicTree
from gateway.core.values import Peer
from gateway.frames import Connect, Disconnect, Pingreq
from gateway.presence.availability import Availability
from gateway.presence.documents import LedgerEntry, RetainedMessage
from gateway.presence.homeassistant.announcements import Announcements
from gateway.presence.homeassistant.discovery_documents import DiscoveryDocuments
from gateway.presence.homeassistant.identities import Identities
from gateway.presence.last_values import LastValues
from gateway.presence.queue import PresenceQueue
from gateway.presence.retained_search import RetainedSearch
from gateway.presence.topics import Topics
from tests.presence.devices import NONE, RULES

STEP_S = 0.5
MESSAGES_A_STEP = 20


class Broker:
    """Retained messages come in any order, twice after a reconnect, and what one publishes comes
    back to it.
    """

    def __init__(self, seed: int = 0) -> None:
        self.dice = Random(seed)
        self.retained: dict[str, bytes] = {}
        self.history: list[tuple[str, str, bytes]] = []  # by whom, topic, payload
        self.gateways: list[Gateway] = []

    def publish(self, by: str, message: RetainedMessage) -> None:
        self.history.append((by, message.topic, message.payload))
        if message.retain:
            self.retained.pop(message.topic, None)
            if message.payload:
                self.retained[message.topic] = message.payload
        for each in self.gateways:
            if each.is_connected and each.matches(message.topic):
                each.inbox.append((message.topic, message.payload, False))

    def subscribe(self, gateway: Gateway, topic_filter: str) -> None:
        tree: TopicTree[int] = TopicTree()
        tree.put(topic_filter, 1)
        found = [each for each in self.retained.items() if tree.above(each[0])]
        self.dice.shuffle(found)
        gateway.inbox += [(topic, payload, True) for topic, payload in found]

    def published(self, topic: str) -> list[bytes]:
        return [payload for _, each, payload in self.history if each == topic]


@dataclass
class Ledger:
    """The file, without a disk."""

    entries: dict[str, LedgerEntry] = field(default_factory=dict)
    error: str | None = None

    def load(self) -> dict[str, LedgerEntry]:
        return dict(self.entries)

    def begin(self, entries: dict[str, LedgerEntry]) -> None:
        self.entries = dict(entries)

    def published(self, topic: str, entry: LedgerEntry) -> None:
        self.entries[topic] = entry

    def cleared(self, topic: str) -> None:
        self.entries.pop(topic, None)

    def flush(self) -> bool:
        return False


class Gateway:
    def __init__(
        self,
        broker: Broker,
        name: str,
        *,
        now: float = 0.0,
        ledger: Ledger | None = None,
        sessions: Iterable[str] = (),
        home_assistant: bool = True,
        has_board: bool = True,
    ) -> None:
        """`sessions`: of devices that the state folder has, and that were lost before."""
        self.broker, self.name = broker, name
        self.ledger = Ledger() if ledger is None else ledger
        self.sessions: dict[ClientId, Session] = {}
        self.topics = topics = Topics("", name)
        self.board = board = Availability(self.sessions, topics, lambda _peer: "udp0")
        board.started_at, board.unix_s_at_zero = now, 1.8e9
        self.refuses = False
        self.values = LastValues(values_max=64, characters_max=255)
        self.identities = Identities(topics=topics, prefix="homeassistant", heard_at=board.heard_at)
        documents = DiscoveryDocuments(topics, "homeassistant", name, "1")
        self.announcements = Announcements(
            documents, self.values.document, identities=self.identities
        )
        identities = self.identities if home_assistant else None
        self.queue = PresenceQueue(
            topics,
            self.ledger,
            board=board if has_board else None,
            announcements=self.announcements if home_assistant else None,
            values=self.values if home_assistant else None,
            stats=dict,
            stats_s=0,
            will_delay_s=1,
            search=lambda: RetainedSearch(topics, identities),
        )
        self.filters: set[str] = set()
        self.inbox: list[tuple[str, bytes, bool]] = []
        self.is_connected = False
        self.lines: list[str] = []
        for each in sessions:
            self._connect(each, now - 1000, 60)
            self.sessions[ClientId(each)].state = State.LOST
        self.queue.restore(lambda client_id: client_id in self.sessions or board.knows(client_id))
        if self.queue.search is not None:
            self.queue.search.is_granted = self.is_granted
        self.identities.is_granted = self.is_granted
        broker.gateways.append(self)
        self.connect()

    # The connection

    def is_granted(self, topic_filter: str) -> bool:
        return self.is_connected and topic_filter in self.filters

    def matches(self, topic: str) -> bool:
        tree: TopicTree[int] = TopicTree()
        for each in self.filters:
            tree.put(each, 1)
        return bool(tree.above(topic))

    def connect(self) -> None:
        self.is_connected = True
        self.filters.clear()
        self.broker.publish(self.name, RetainedMessage(self.topics.state, b"online"))
        self.queue.connected()

    def disconnect(self) -> None:
        """The broker publishes the will."""
        self.is_connected = False
        self.inbox.clear()
        self.broker.publish(self.name, RetainedMessage(self.topics.state, b"offline"))

    def stop(self) -> None:
        self.disconnect()
        self.broker.gateways.remove(self)

    # Devices

    def _connect(self, name: str, now: float, keep_alive_s: int) -> Session:
        client_id = ClientId(name)
        session = self.sessions.get(client_id)
        if session is None:
            peer = Peer(0, name.encode())
            session = Session(client_id=client_id, peer=peer, options=RULES, predefined=NONE)
            self.sessions[client_id] = session
        session.connect(Connect(name.encode(), keep_alive_s, clean_session=True), session.peer, now)
        return session

    def hears(self, name: str, now: float, value: float = 1.5, sleep_s: int | None = None) -> None:
        """It connects, publishes, and sleeps if it does."""
        session = self._connect(name, now, 60)
        self.board.came(ClientId(name), now)
        payload = json.dumps([{"n": "level", "u": "m", "v": value}]).encode()
        self.values.receive(ClientId(name), "tank/level", payload, now)
        if sleep_s is not None:
            session.receive(Disconnect(sleep_s), now)

    def pings(self, name: str, now: float) -> None:
        self.sessions[ClientId(name)].receive(Pingreq(name.encode()), now)

    def loses(self, name: str, state: State = State.LOST) -> None:
        self.sessions[ClientId(name)].state = state

    # Time

    def step(self, now: float) -> None:
        if not self.is_connected:
            return
        search = self.queue.search
        wanted = set() if search is None else set(search.filters)
        for each in sorted(wanted - self.filters):
            if self.refuses and search is not None:
                search.refused(each)
                continue
            self.filters.add(each)
            self.broker.subscribe(self, each)
        self.filters &= wanted
        inbox, self.inbox = self.inbox, []
        for topic, payload, is_retained in inbox:
            if search is not None:
                search.receive(topic, payload, now, is_retained=is_retained)
        self.values.decode(1000)
        for received in self.values.take_received():
            self.announcements.learn(received, now)
        for client_id in self.values.take_fresh():
            self.announcements.publish(client_id)
        self.queue.collect(now)
        for _ in range(MESSAGES_A_STEP):
            message = self.queue.next(now)
            if message is None:
                break
            self.broker.publish(self.name, message)
        self.lines += self.announcements.take_notes()


class Site:
    """A broker, gateways, and the time."""

    def __init__(self, seed: int = 0) -> None:
        self.broker = Broker(seed)
        self.now = 0.0

    def gateway(self, name: str, **given: Any) -> Gateway:
        return Gateway(self.broker, name, now=self.now, **given)

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += STEP_S
            gateways = list(self.broker.gateways)
            self.broker.dice.shuffle(gateways)
            for each in gateways:
                each.step(self.now)

    # What Home Assistant has

    def announced(self) -> dict[str, str]:
        """By topic of the announcement of a device: at which gateway its values are."""
        found: dict[str, str] = {}
        for topic, payload in self.broker.retained.items():
            if topic.startswith("homeassistant/") and "_2f" in topic:
                document = json.loads(payload)
                found[topic] = document["availability"][0]["topic"].split("/")[1]
        return found
