"""From the broker to the clients that asked: subscriptions, deliveries and retained messages.

A subscription is asked for, and joined when the broker grants the filter that covers it; only
then does its client hear SUBACK, then what the broker retains, then live messages. While the
broker is away a subscription is accepted at once and made when the broker is back.

Retained messages: a new subscriber gets them once, with the flag. Others get them again only if
they changed while we were away, and without the flag, as an update. What was not confirmed by the
broker within `REPLAY_WINDOW_S` after a reconnect is no longer retained.

Limits: those of the sessions, of `Retained`, and of a message: one too large for a client's frame
is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from gateway.effects import (
    Arrived,
    ClientId,
    Dropped,
    Effect,
    Granted,
    Message,
    Reason,
    SubscribeTo,
    SubscriptionRefused,
    UnsubscribeFrom,
)
from gateway.frames import ReturnCode
from gateway.routing.retained import Kept, Retained
from gateway.routing.subscriptions import Change, Subscriptions
from gateway.session.rules import SessionRules
from gateway.session.session import Session
from gateway.upstream.session import Phase, UpstreamSession

REPLAY_WINDOW_S = 30.0

_Key = tuple[ClientId, int]


class Downlink:
    def __init__(
        self,
        sessions: Mapping[ClientId, Session],
        upstream: UpstreamSession,
        retained: Retained,
        rules: SessionRules,
        schedule: Callable[[Session], None],
    ) -> None:
        self.subscriptions = Subscriptions()
        self.retained = retained
        self.delivered = [0, 0, 0]  # by QoS
        self._sessions = sessions
        self._upstream = upstream
        self._rules = rules
        self._schedule = schedule
        # By the covering filter they wait for, then by client and message id.
        self._asked: dict[str, dict[_Key, SubscribeTo]] = {}
        # Until when a replay is theirs, in order; infinity for those that joined with the broker
        # away.
        self._newcomers: dict[ClientId, float] = {}
        self._confirm_until = inf

    # From the clients

    def subscribe(self, asked: SubscribeTo, now: float) -> list[Effect]:
        change = self.subscriptions.ask(asked.topic_filter, asked.qos)
        effects = self._apply(change, retained=True)
        cover = self._cover_of(asked)
        if not self._is_up() or self._upstream.subscriptions.is_granted(cover):
            return effects + self._join(asked, now)
        self._wait(asked)
        return effects

    def unsubscribe(self, wish: UnsubscribeFrom) -> list[Effect]:
        change = self.subscriptions.leave(wish.client_id, wish.topic_filter)
        return self._apply(change, retained=False)

    def forget(self, session: Session) -> list[Effect]:
        """The session is over: it waits for nothing any more."""
        self._newcomers.pop(session.client_id, None)
        effects: list[Effect] = []
        for asked in session.asking():
            del self._asked[self._cover_of(asked)][_key(asked)]
            change = self.subscriptions.withdraw(asked.topic_filter)
            effects += self._apply(change, retained=True)
        return effects

    # From the broker

    def arrived(self, arrived: Arrived, now: float) -> list[Effect]:
        message = arrived.message
        kept: Kept | None = None
        if self._is_retained(message) and self.subscriptions.cover_of(message.topic) is not None:
            kept = self.retained.keep(message)
        effects: list[Effect] = []
        if kept is Kept.FULL:
            effects.append(Dropped(Reason.RETAINED_FULL, None, message.topic))
        if arrived.is_replay:
            effects += self._replay(message, kept, now)
        else:
            effects += self._deliver(message, now)
        return effects + self._upstream.acknowledge(arrived)

    def granted(self, news: Granted, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for asked in self._asked.pop(news.topic_filter, {}).values():
            effects += self._join(asked, now)
        return effects

    def refused(self, news: SubscriptionRefused) -> list[Effect]:
        """The broker refuses a filter: its subscribers lose it, narrower ones get theirs."""
        refused = news.topic_filter
        if refused not in self.subscriptions.covering:
            return []  # given up, or a wider one took its place meanwhile
        effects: list[Effect] = []
        losers = self.subscriptions.subscribers_of(refused)
        waiting = self._asked.get(refused, {})
        own = [asked for asked in waiting.values() if asked.topic_filter == refused]
        for asked in own:
            del waiting[_key(asked)]
            session = self._sessions[asked.client_id]
            effects += session.subscribed(asked, ReturnCode.NOT_SUPPORTED)
            effects += self._apply(self.subscriptions.withdraw(refused), retained=True)
        for client_id in losers:
            self._sessions[client_id].unsubscribed(refused)
            effects += self._apply(self.subscriptions.leave(client_id, refused), retained=True)
        client_ids = tuple(dict.fromkeys([*losers, *(asked.client_id for asked in own)]))
        return [SubscriptionRefused(refused, news.reason, client_ids), *effects]

    def opened(self, now: float) -> None:
        """The broker sends again what it retains; what it does not is gone after the window."""
        self.retained.doubt()
        self._confirm_until = now + REPLAY_WINDOW_S
        self._forget_old_newcomers(now)
        self._newcomers = dict.fromkeys(self._newcomers, now + REPLAY_WINDOW_S)

    def closed(self, now: float) -> list[Effect]:
        """Nobody waits for a broker that is away: the subscriptions are made when it is back."""
        self._confirm_until = inf
        effects: list[Effect] = []
        waiting, self._asked = self._asked, {}
        for asked in (entry for entries in waiting.values() for entry in entries.values()):
            effects += self._join(asked, now)
        return effects

    # Time

    def wake_at(self) -> float:
        return self._confirm_until

    def handle_time(self, now: float) -> None:
        if now >= self._confirm_until:
            self._confirm_until = inf
            self.retained.forget_unconfirmed()

    # Subscriptions

    def _join(self, asked: SubscribeTo, now: float) -> list[Effect]:
        """The client hears from now on: SUBACK first, then what is retained."""
        session = self._sessions[asked.client_id]
        self.subscriptions.join(asked.client_id, asked.topic_filter, asked.qos)
        effects = session.subscribed(asked, ReturnCode.ACCEPTED)
        self._welcome(asked.client_id, now)
        for message in self.retained.matching(asked.topic_filter):
            effects += self._hand_over(session, message, asked.qos, now, retain=True)
        self._schedule(session)
        return effects

    def _apply(self, change: Change, *, retained: bool) -> list[Effect]:
        """Pass a change of the covering set on to the broker."""
        upstream = self._upstream.subscriptions
        for topic_filter, qos in change.wanted.items():
            upstream.want(topic_filter, qos, retained=retained)
        for topic_filter in change.unwanted:
            upstream.unwant(topic_filter)
            self._forget_unheard(topic_filter)
            # Those that waited for it wait for what covers them now, which was asked for just now.
            for asked in self._asked.pop(topic_filter, {}).values():
                self._wait(asked)
        return upstream.advance() if change.wanted or change.unwanted else []

    def _wait(self, asked: SubscribeTo) -> None:
        self._asked.setdefault(self._cover_of(asked), {})[_key(asked)] = asked

    def _cover_of(self, asked: SubscribeTo) -> str:
        cover = self.subscriptions.cover_of(asked.topic_filter)
        assert cover is not None, "what was asked for is covered"
        return cover

    def _is_up(self) -> bool:
        return self._upstream.phase is Phase.UP

    def _forget_unheard(self, topic_filter: str) -> None:
        """What nobody is subscribed to is no longer kept up to date, so it is not kept."""
        for topic in self.retained.topics_under(topic_filter):
            if self.subscriptions.cover_of(topic) is None:
                self.retained.forget(topic)

    def _welcome(self, client_id: ClientId, now: float) -> None:
        self._forget_old_newcomers(now)
        self._newcomers.pop(client_id, None)
        self._newcomers[client_id] = now + REPLAY_WINDOW_S if self._is_up() else inf

    def _forget_old_newcomers(self, now: float) -> None:
        newcomers = self._newcomers
        while newcomers:
            oldest = next(iter(newcomers))
            if newcomers[oldest] > now:
                return
            del newcomers[oldest]

    # Messages

    def _deliver(self, message: Message, now: float) -> list[Effect]:
        """A live publication, to everyone once."""
        matches = self.subscriptions.matching(message.topic)
        if not matches:
            return []
        too_large = self._too_large(message)
        if too_large is not None:
            return [too_large]
        effects: list[Effect] = []
        sessions, schedule, delivered = self._sessions, self._schedule, self.delivered
        alike = [Message(message.topic, message.payload, qos) for qos in range(message.qos + 1)]
        for client_id, qos in matches:
            session = sessions[client_id]
            same = alike[qos] if qos < message.qos else alike[message.qos]
            effects += session.deliver(same, now)
            delivered[same.qos] += 1
            schedule(session)
        return effects

    def _replay(self, message: Message, kept: Kept | None, now: float) -> list[Effect]:
        """What the broker had retained: for newcomers, for others if it changed meanwhile."""
        if kept is Kept.SAME:
            return []
        effects: list[Effect] = []
        for client_id, qos in self.subscriptions.matching(message.topic):
            is_new = self._newcomers.get(client_id, 0.0) > now
            if is_new or kept is not Kept.FULL:
                session = self._sessions[client_id]
                effects += self._hand_over(session, message, qos, now, retain=is_new)
                self._schedule(session)
        return effects

    def _is_retained(self, message: Message) -> bool:
        """Whether the broker retains it. One that cannot say is taken to do what it did before."""
        if message.retain or self._upstream.subscriptions.tells_retained:
            return message.retain
        return message.topic in self.retained

    def _hand_over(
        self, session: Session, message: Message, qos: int, now: float, *, retain: bool
    ) -> list[Effect]:
        too_large = self._too_large(message)
        if too_large is not None:
            return [too_large]
        qos = min(qos, message.qos)
        self.delivered[qos] += 1
        return session.deliver(Message(message.topic, message.payload, qos, retain), now)

    def _too_large(self, message: Message) -> Dropped | None:
        if (
            len(message.payload) <= self._rules.payload_bytes_max
            and len(message.topic.encode()) <= self._rules.topic_bytes_max
        ):
            return None
        detail = f"{message.topic[:64]!r} from the broker, {len(message.payload)} bytes"
        return Dropped(Reason.PAYLOAD_TOO_LARGE, None, detail)


def _key(asked: SubscribeTo) -> _Key:
    return asked.client_id, asked.message_id
