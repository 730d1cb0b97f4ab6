"""Clients and topics as the gateway knows them now, for those who look.

Going through 100,000 sessions in one piece would hold up the sensors, so it is done in slices with
a turn of the loop between two. What changes meanwhile is seen as it is when its slice comes.

Limits: a list has at most `LIMIT_MAX` entries (queries.py), and is found without holding more
than a slice beside it; further topics are counted up to `COUNTED_MAX`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest
from itertools import islice
from math import inf

from gateway.admin.clients import ClientsFound, ClientShown, Details, WillShown
from gateway.admin.http.queries import OVERDUE, ClientsQuery, TopicsQuery
from gateway.admin.topics import (
    CLIENTS_NAMED_MAX,
    CLIENTS_NAMED_OF_ONE_MAX,
    NamedCounts,
    TopicsFound,
    TopicShown,
)
from gateway.core.clients.half_open import HalfOpenClient
from gateway.core.engine import Engine
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, State
from gateway.core.values import Peer
from gateway.presence.standing import is_overdue

SLICE = 1000  # sessions or names looked at in one go: a millisecond
COUNTED_MAX = 100_000

Predefined = Mapping[str, int]
_Key = tuple[float, str]
# In the order in which one would look after them.
_STATES = (
    State.LOST,
    State.DISCONNECTED,
    State.CONNECTING,
    State.AWAKE,
    State.ACTIVE,
    State.ASLEEP,
)


@dataclass(frozen=True, slots=True)
class ClientQueries:
    """`links` are the names of the links by number. `predefined` are ids by topic name, common to
    all clients and of single ones.
    """

    engine: Engine
    links: Sequence[str]
    peer_text: Callable[[Peer], str]
    now: Callable[[], float]
    predefined: Predefined = field(default_factory=dict)
    clients_predefined: Mapping[str, Predefined] = field(default_factory=dict)

    # Clients

    async def clients(self, query: ClientsQuery) -> ClientsFound:
        if query.client_id is not None:
            return self._one_client(query)
        wanted: list[_Key] = []
        matching, last = 0, query.offset + query.limit
        choose = nlargest if query.descends else nsmallest
        for some in _slices(
            [*self.engine.sessions, *(each.client_id for each in self.engine.half_open)]
        ):
            found = [self._key(each, query) for each in some if self._matches(each, query)]
            matching += len(found)
            wanted += found
            if len(wanted) > 2 * last + SLICE:
                wanted = choose(last, wanted)
            await asyncio.sleep(0)
        now, wanted = self.now(), choose(last, wanted)
        shown = [self._shown_if_there(ClientId(each), now) for _, each in wanted[query.offset :]]
        more = max(0, matching - len(wanted))
        return ClientsFound([each for each in shown if each], more, total=matching)

    def again(self, client_ids: Iterable[str]) -> list[ClientShown]:
        """Clients that were found before, as they are now; those that are there still."""
        now = self.now()
        shown = (self._shown_if_there(ClientId(each), now) for each in client_ids)
        return [each for each in shown if each is not None]

    def _key(self, client_id: str, query: ClientsQuery) -> _Key:
        """By what it is sorted, then by its id."""
        if query.sort == "id":
            return 0.0, client_id
        known = ClientId(client_id)
        session, caller = self.engine.sessions.get(known), self.engine.half_open.of(known)
        match query.sort:
            case "heard" if session is not None:
                return session.last_received_at, client_id
            case "due" if session is not None:
                return session.due_at or inf, client_id
            case "state" if session is not None:
                return _STATES.index(session.state), client_id
            case "queued" if session is not None:
                return -float(session.outbound.waiting), client_id
        return 0.0 if caller is None else _key_of_caller(caller, query.sort), client_id

    def _shown_if_there(self, client_id: ClientId, now: float) -> ClientShown | None:
        session = self.engine.sessions.get(client_id)
        if session is not None:
            return self.shown(session, now)
        caller = self.engine.half_open.of(client_id)
        return None if caller is None else self._shown_caller(caller, now)

    def _shown_caller(self, caller: HalfOpenClient, now: float) -> ClientShown:
        """One that has said nothing but CONNECT has nothing else to show."""
        keep_alive_s, heard_s = caller.keep_alive_s, max(0.0, now - caller.at)
        return ClientShown(
            client_id=caller.client_id,
            state=caller.state,
            link=self._link_of(caller.peer),
            address=self.peer_text(caller.peer),
            clean=caller.clean,
            keep_alive_s=keep_alive_s,
            sleep_s=0,
            heard_s=heard_s,
            due_s=keep_alive_s - heard_s if keep_alive_s else None,
            away_s=None,
            topics=0,
            subscriptions=0,
            queued=0,
            queued_bytes=0,
            will=None,
        )

    def _link_of(self, peer: Peer) -> str:
        return self.links[peer.link] if 0 <= peer.link < len(self.links) else ""

    def _one_client(self, query: ClientsQuery) -> ClientsFound:
        session = self.engine.sessions.get(ClientId(query.client_id or ""))
        if session is None:
            return self._one_caller(query)
        if not self._matches(session.client_id, query):
            return ClientsFound([])
        client_id = session.client_id
        predefined = {number: name for name, number in self.predefined.items()}
        own = self.clients_predefined.get(client_id, {})
        predefined |= {number: name for name, number in own.items()}
        details = Details(
            session.topics.numbered(),
            sorted(predefined.items()),
            sorted(session.filters.items()),
        )
        return ClientsFound([self.shown(session, self.now())], details=details)

    def _one_caller(self, query: ClientsQuery) -> ClientsFound:
        caller = self.engine.half_open.of(ClientId(query.client_id or ""))
        if caller is None or not self._matches(caller.client_id, query):
            return ClientsFound([])
        return ClientsFound([self._shown_caller(caller, self.now())], details=Details([], [], []))

    def _matches(self, client_id: str, query: ClientsQuery) -> bool:
        if client_id <= query.after or not client_id.startswith(query.prefix):
            return False
        if query.search and query.search.casefold() not in client_id.casefold():
            return False
        session = self.engine.sessions.get(ClientId(client_id))
        if session is None:
            caller = self.engine.half_open.of(ClientId(client_id))
            return caller is not None and query.state in (None, caller.state.value)
        if query.state is None:
            return True
        if query.state == OVERDUE:
            return is_overdue(session, self.now())
        return session.state.value == query.state

    def shown(self, session: Session, now: float) -> ClientShown:
        """The one place that knows how a session is read."""
        absent_since = self.engine.client_table.absent_since(session.client_id)
        due_at, will, peer = session.due_at, session.will, session.peer
        outbound = session.outbound
        given_up = outbound.given_up
        return ClientShown(
            client_id=session.client_id,
            state=session.state,
            link=self._link_of(peer),
            address=self.peer_text(peer),
            clean=session.clean,
            keep_alive_s=session.keep_alive_s,
            sleep_s=session.sleep_s,
            heard_s=max(0.0, now - session.last_received_at),
            due_s=None if due_at is None else due_at - now,
            away_s=None if absent_since is None else max(0.0, now - absent_since),
            topics=len(session.topics),
            subscriptions=len(session.filters),
            queued=outbound.waiting,
            queued_bytes=outbound.waiting_bytes,
            will=None if will is None else WillShown(will.topic, will.qos, will.retain),
            given_up=0 if given_up is None else given_up.count,
            given_up_topic="" if given_up is None else given_up.last_topic,
        )

    # Topics

    async def topics(self, query: TopicsQuery) -> TopicsFound:
        gathering = _Gathering(query)
        self._gather_configured(gathering)
        for some in _slices(list(self.engine.downlink.retained)):
            self._gather_retained(gathering, some)
            await asyncio.sleep(0)
        for some in _slices(list(self.engine.downlink.subscriptions)):
            self._gather_subscribed(gathering, some)
            await asyncio.sleep(0)
        for some in _slices(list(self.engine.sessions)):
            self._gather_registered(gathering, some)
            await asyncio.sleep(0)
        return gathering.found()

    def _gather_configured(self, gathering: _Gathering) -> None:
        for name, number in self.predefined.items():
            if topic := gathering.entry(name):
                topic.predefined_id = number
        for client_id, ids in self.clients_predefined.items():
            for name, number in ids.items():
                if topic := gathering.entry(name):
                    topic.predefined.add(client_id, number)

    def _gather_retained(self, gathering: _Gathering, names: Sequence[str]) -> None:
        retained = self.engine.downlink.retained
        for name in names:
            message = retained.get(name)
            if message is not None and (topic := gathering.entry(name)):
                topic.retained_bytes = len(message.payload)

    def _gather_subscribed(self, gathering: _Gathering, filters: Sequence[str]) -> None:
        subscriptions = self.engine.downlink.subscriptions
        for name in filters:
            heard_by = subscriptions.heard_by(name)
            if heard_by and (topic := gathering.entry(name)):
                for client_id, qos in heard_by.items():
                    topic.subscribed.add(client_id, qos)
                topic.cover = subscriptions.cover_of(name)
                topic.cover_qos = subscriptions.cover_qos(topic.cover or "")

    def _gather_registered(self, gathering: _Gathering, clients: Sequence[str]) -> None:
        for client_id in clients:
            session = self.engine.sessions.get(ClientId(client_id))
            for number, name in session.topics.numbered() if session is not None else ():
                if topic := gathering.entry(name):
                    topic.registered.add(client_id, number)


class _Gathering:
    """The first `limit` names that match, out of any number that come in any order.

    When twice as many are held, the larger half is given up: names that are smaller than those
    can only become more, so what was given up once is never wanted again.
    """

    def __init__(self, query: TopicsQuery) -> None:
        self._query = query
        self._named_max = CLIENTS_NAMED_MAX if query.name is None else CLIENTS_NAMED_OF_ONE_MAX
        self._topics: dict[str, TopicShown] = {}
        self._last: str | None = None  # what is larger was given up
        self._names: set[str] = set()

    def entry(self, name: str) -> TopicShown | None:
        """Where to add what is known of a name; None if it is not wanted."""
        topic = self._topics.get(name)
        if topic is not None:
            return topic
        if not self._is_asked_for(name):
            return None
        if len(self._names) < COUNTED_MAX:
            self._names.add(name)
        if self._last is not None and name > self._last:
            return None
        topic = TopicShown(
            name=name,
            registered=self._nobody(),
            subscribed=self._nobody(),
            predefined=self._nobody(),
        )
        self._topics[name] = topic
        if len(self._topics) > 2 * self._query.limit:
            self._give_up()
            return self._topics.get(name)
        return topic

    def found(self) -> TopicsFound:
        self._give_up()
        more = len(self._names) - len(self._topics)
        return TopicsFound(list(self._topics.values()), more, len(self._names) < COUNTED_MAX)

    def _nobody(self) -> NamedCounts:
        return NamedCounts(self._named_max)

    def _is_asked_for(self, name: str) -> bool:
        query = self._query
        if query.name is not None:
            return name == query.name
        return name > query.after and name.startswith(query.prefix)

    def _give_up(self) -> None:
        kept = nsmallest(self._query.limit, self._topics)
        if len(kept) < len(self._topics):
            self._last = kept[-1]
        self._topics = {name: self._topics[name] for name in kept}


def _key_of_caller(caller: HalfOpenClient, sort: str) -> float:
    """Of one that has sent CONNECT and nothing else."""
    match sort:
        case "heard":
            return caller.at
        case "due":
            return caller.at + caller.keep_alive_s if caller.keep_alive_s else inf
        case "state":
            return _STATES.index(caller.state)
    return 0.0


def _slices(names: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(names)
    while some := list(islice(rest, SLICE)):
        yield some
