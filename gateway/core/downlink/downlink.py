"""From the broker to the clients that asked: subscriptions, deliveries and retained messages.

A subscription is asked for, saved when the broker grants the filter that covers it, and joined
when it is durable; only then does its client receive SUBACK, then what the broker retains, then
live messages. Where the broker is away for longer than a moment (pending_subscriptions.py) a
subscription is saved at once and made when it is back.

The broker hears that a QoS 1 message is durably accepted when each client it is for has
acknowledged its copy or has it durably in its outbox, whichever is first. Where all of them listen
they have `SOON_S` to make the second needless (write_behind.py). A QoS 2 message is durable with
its packet id first.

Retained messages: a new subscriber gets them once, with the flag; while the broker is away those
that are known at the QoS for which it asks, the others when the broker is back. Others get them
again only if they changed while we were away, and without the flag, as an update. What was not
confirmed by the broker within `REPLAY_WINDOW_S` after a reconnect is no longer retained.

A message may have a time (message_expiry.py): its publisher's, or else the operator's for its
topic.

Limits: those of the sessions, of `Retained`, and of a message: one too large for a client's frame
is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from gateway.core.access.rules import RECEIVE, SUBSCRIBE
from gateway.core.clients.client_table import ClientTable
from gateway.core.clients.contests import client_of, former_name
from gateway.core.downlink.pending_subscriptions import PendingSubscriptions
from gateway.core.downlink.retained import KeepResult, Retained
from gateway.core.downlink.subscriptions import Matches, SubscriptionChange, Subscriptions
from gateway.core.downlink.write_behind import WriteBehind
from gateway.core.drop_reasons import Reason
from gateway.core.effects import (
    DeliveryComplete,
    DeliverySaved,
    Dropped,
    Save,
    Send,
    SubscriptionRefused,
    SubscriptionSaved,
    WhenSaved,
)
from gateway.core.events import (
    FilterRefused,
    FormerOutput,
    Output,
    SessionOutput,
    SubscriptionGranted,
    UnsubscribeFrom,
)
from gateway.core.message_expiry import Expiry, ExpiryClock
from gateway.core.mqtt.session import MqttSession, Phase
from gateway.core.session.options import SessionOptions
from gateway.core.session.session import ABSENT, LISTENING, Session
from gateway.core.state_records import (
    ClientId,
    RetainedRecord,
    SubscriptionDeleted,
    SubscriptionRecord,
)
from gateway.core.topic_options import OptionsByTopic
from gateway.core.values import Message, Publication, SubscribeTo
from gateway.frames import ReturnCode

REPLAY_WINDOW_S = 30.0
LIVE_TOPICS_MAX = 1000  # of which the last message is known that came live
ONLY_NEWCOMERS = KeepResult(-1)


class Downlink:
    def __init__(
        self,
        *,
        client_table: ClientTable,
        upstream: MqttSession,
        retained: Retained,
        options: SessionOptions,
        saves: bool,
        topic_options: OptionsByTopic,
        expiry_clock: ExpiryClock,
    ) -> None:
        """`saves`: there is a disk."""
        self.expiry_clock = expiry_clock
        self._topic_options = topic_options
        self._limits_delivery = topic_options.limits_delivery
        self.subscriptions = Subscriptions()
        self.pending = PendingSubscriptions()
        self.retained = retained
        self.delivered = [0, 0, 0]  # by QoS
        self._clients = client_table
        self._sessions = client_table.sessions
        self._upstream = upstream
        self._options = options
        # When they joined by which filter, in order: a replay is theirs for a while; infinity if
        # the broker was away. Not until when: many join at once, and share the number.
        # Of retained topics: what came live since, and when.
        self._last_live: dict[str, tuple[bytes, float]] = {}
        self._newcomers: dict[tuple[ClientId, str], float] = {}
        self._confirm_until = inf
        self._saves = saves
        self._not_saved = WriteBehind()

    def restore(
        self,
        subscriptions: Iterable[SubscriptionRecord],
        retained: list[RetainedRecord],
        now: float,
    ) -> None:
        """What a previous run left. Who heard then is no newcomer."""
        self.subscriptions.restore(subscriptions)
        for topic_filter, qos in self.subscriptions.covering.items():
            self._upstream.subscriptions.want(topic_filter, qos, retained=True)
        self.retained.restore(retained, self.expiry_clock, now)

    # From the clients

    def subscribe(self, asked: SubscribeTo, now: float) -> list[Output]:
        change = self.subscriptions.ask(asked.topic_filter, asked.qos)
        effects = self._apply(change, retained=True)
        cover = self._cover_of(asked)
        if self.pending.is_there:
            if not self._upstream.subscriptions.is_granted(cover):
                self.pending.wait(asked, cover)
                return effects
        elif self.pending.is_patient(now):
            self.pending.wait_for_return(asked, cover, now)
            return effects
        return effects + self._save(asked, now)

    def unsubscribe(self, wish: UnsubscribeFrom) -> list[Output]:
        return self._apply(self._leave(wish.client_id, wish.topic_filter), retained=False)

    def forget(self, session: Session) -> list[Output]:
        """The session is over: it waits for nothing any more."""
        for topic_filter in session.filters:
            self._newcomers.pop((session.client_id, topic_filter), None)
        return self._drop_wishes(session)

    def hold(self, session: Session) -> list[Output]:
        """The session is a former one from now on: what its subscriptions bring is for it alone.

        What it has not been told is granted is dropped: it asks again when it is back.
        """
        effects = self._drop_wishes(session)
        saved = [*self.save_late(), *session.withdraw_wishes()]
        effects.append(FormerOutput(session.client_id, saved))
        self._rename(session, session.client_id, former_name(session.client_id))
        return effects

    def continue_from(self, former: Session, session: Session) -> None:
        """A session beside a former one hears what that hears (`hold`)."""
        client_id = session.client_id
        name = former_name(client_id)
        for topic_filter, qos in session.filters.items():
            self.subscriptions.ask(topic_filter, qos)  # it is covered already
            self.subscriptions.join(client_id, topic_filter, qos)
            since = self._newcomers.get((name, topic_filter))
            if since is not None:
                self._newcomers[client_id, topic_filter] = since

    def reinstate(self, session: Session) -> None:
        """The session is its client's again."""
        self._rename(session, former_name(session.client_id), session.client_id)

    def end_former(self, session: Session) -> list[Output]:
        """A former session is over."""
        former = former_name(session.client_id)
        return [UnsubscribeFrom(former, topic_filter) for topic_filter in session.filters]

    def _rename(self, session: Session, before: ClientId, after: ClientId) -> None:
        filters = session.filters
        self.subscriptions.rename(before, after, filters)
        for topic_filter in filters:
            since = self._newcomers.pop((before, topic_filter), None)
            if since is not None:
                self._newcomers[after, topic_filter] = since

    def _drop_wishes(self, session: Session) -> list[Output]:
        effects: list[Output] = []
        for asked in session.asking():
            self.pending.drop(asked, self._cover_of(asked))
            change = self.subscriptions.withdraw(asked.topic_filter)
            effects += self._apply(change, retained=True)
        return effects

    def subscription_saved(self, asked: SubscribeTo, now: float) -> list[Output]:
        """The subscription is durable: its client hears from now on, SUBACK first, then what is
        retained. Both wait until that is durable too: who has received SUBACK is no newcomer after
        a restart.
        """
        if not self.pending.saved(asked):
            return []  # its session is over, or the broker refused the filter meanwhile
        session = self._sessions[asked.client_id]
        self.subscriptions.join(asked.client_id, asked.topic_filter, asked.qos)
        answer = session.subscribed(asked, ReturnCode.ACCEPTED)
        answer += session.topic_told(now)
        self._welcome(asked.client_id, asked.topic_filter, now)
        retained: list[Message] = []
        denied: list[Output] = []
        for message in self.retained.matching(asked.topic_filter, asked.qos, now):
            if self._is_forbidden(asked.client_id, message.topic):
                denied += self._denied([asked.client_id], message.topic)
            else:
                retained.append(message)
        answer += self._join_former(session, asked, retained, now)
        is_held = any(min(asked.qos, message.qos) for message in retained)
        effects: list[Output] = []
        for message in retained:
            effects += self._hand_over(session, message, asked.qos, now, is_held=is_held)
        if is_held:
            last = session.outbound.next_position - 1
            kept = WhenSaved([DeliverySaved(asked.client_id, last, is_released=False)])
            return [
                *self.save_late(),
                SessionOutput(session.client_id, [*effects, *answer]),
                kept,
                *denied,
            ]
        return [SessionOutput(session.client_id, [*answer, *effects]), *denied]

    # From the broker

    def arrived(self, publication: Publication, now: float) -> list[Output]:
        message = publication.message
        if publication.expiry_s is not None or self._limits_delivery:
            message.expiry = self._expiry_of(message.topic, publication.expiry_s, now)
        found: KeepResult | None = None
        effects: list[Output] = []
        if self._is_retained(message):
            cover = self.subscriptions.cover_of(message.topic)
            if cover is not None:
                is_exact = self._is_exact(publication, cover)
                found, effects = self.retained.keep(message, is_exact=is_exact)
                if found.is_full:
                    effects.append(Dropped(Reason.RETAINED_FULL, None, message.topic))
        elif not publication.is_replay and message.topic in self.retained:
            self._note_live(message, now)
        if message.qos == 0:
            if publication.is_replay:
                return effects + self._replay(publication, found, now)
            return effects + self._deliver(message, now)
        publication.copies = 1  # ours, until all have been told
        if publication.is_replay:
            effects += self._replay(publication, found, now)
        else:
            effects += self._deliver_surely(publication, now)
        publication.copies -= 1
        return effects + self._hand_back(publication, now)

    def granted(self, news: SubscriptionGranted, now: float) -> list[Output]:
        return self._save_all(self.pending.take(news.topic_filter), now)

    def refused(self, news: FilterRefused) -> list[Output]:
        """The broker refuses a filter: its subscribers lose it, narrower ones get theirs."""
        refused = news.topic_filter
        if self.subscriptions.cover_qos(refused) is None:
            return []  # given up, or a wider one took its place meanwhile
        effects: list[Output] = []
        losers = self.subscriptions.subscribers_of(refused)
        waiting = self.pending.waiting_for(refused) + self.pending.saving()
        own = [asked for asked in waiting if asked.topic_filter == refused]
        for asked in own:
            self.pending.drop(asked, refused)
            session = self._sessions[asked.client_id]
            effects += session.subscribed(asked, ReturnCode.NOT_SUPPORTED)
            effects += self._apply(self.subscriptions.withdraw(refused), retained=True)
        for client_id in losers:
            session = self._session(client_id)
            session.unsubscribed(refused)
            effects += self._apply(self._leave(client_id, refused), retained=True)
            if session.client_id != client_id:
                gone = Save(SubscriptionDeleted(session.client_id, refused))
                effects.append(FormerOutput(session.client_id, [gone]))
        lost = [client_of(name) for name in losers]
        client_ids = tuple(dict.fromkeys([*lost, *(asked.client_id for asked in own)]))
        effects += [Save(SubscriptionDeleted(client_id, refused)) for client_id in client_ids]
        return [SubscriptionRefused(refused, news.reason, client_ids), *effects]

    def opened(self, now: float) -> None:
        """The broker sends again what it retains; what it does not is gone after the window."""
        self.pending.opened()
        self.retained.require_validation()
        self._confirm_until = now + REPLAY_WINDOW_S
        self._newcomers = dict.fromkeys(self._newcomers, now)

    def closed(self, now: float) -> list[Output]:
        """The broker is away, or was sought without success."""
        self._confirm_until = inf
        # What the others have not been sent, if the connection did not last, they get in the next.
        self._forget_old_newcomers(now)
        self._newcomers = dict.fromkeys(self._newcomers, inf)
        return self._save_all(self.pending.closed(now), now)

    # Time

    def wake_at(self) -> float:
        wake_at = min(min(self._not_saved.wake_at(), self._confirm_until), self.pending.due_at)
        wake_at = min(wake_at, self.pending.refused_at)
        if not self.expiry_clock.is_used:  # asked for each message
            return wake_at
        return min(wake_at, min(self.retained.due_at, self.expiry_clock.due_at))

    def handle_time(self, now: float) -> list[Output]:
        effects = self._not_saved.save(now) + self._save_all(self.pending.due(now), now)
        effects += self._refuse_unsaved(now)
        effects += self.retained.sweep(now)
        run_time = self.expiry_clock.handle_time(now)
        if run_time is not None:
            effects.append(Save(run_time))
        if now < self._confirm_until:
            return effects
        self._confirm_until = inf
        return effects + self.retained.forget_unconfirmed()

    def set_wall_clock(self, unix_ms_at_zero: float) -> None:
        if self.expiry_clock.set_wall_clock(unix_ms_at_zero):
            self.retained.look_again()

    def paused(self) -> None:
        """The time in which this process stood still counts for messages."""
        self.expiry_clock.paused()
        self.retained.look_again()

    def save_late(self) -> list[Output]:
        """All that is not saved, now."""
        return self._not_saved.save(inf)

    # Subscriptions

    def _save(self, asked: SubscribeTo, now: float) -> list[Output]:
        """The last step before its client may join."""
        self.pending.save(asked, now)
        row = self._sessions[asked.client_id].subscription_row(asked)
        return [Save(row), WhenSaved([SubscriptionSaved(asked)])]

    def _save_all(self, waited: list[SubscribeTo], now: float) -> list[Output]:
        return [effect for asked in waited for effect in self._save(asked, now)]

    def _refuse_unsaved(self, now: float) -> list[Output]:
        """The disk has not taken these: their clients have what they had before."""
        effects: list[Output] = []
        for asked in self.pending.not_saved(now):
            self.pending.drop(asked, asked.topic_filter)
            session = self._sessions[asked.client_id]
            detail = f"SUBSCRIBE to {asked.topic_filter!r}"
            effects.append(Dropped(Reason.STATE_NOT_SAVED, asked.client_id, detail))
            effects += session.subscribed(asked, ReturnCode.CONGESTION)
            effects.append(session.former_subscription(asked.topic_filter))
            change = self.subscriptions.withdraw(asked.topic_filter)
            effects += self._apply(change, retained=True)
        return effects

    def _apply(self, change: SubscriptionChange, *, retained: bool) -> list[Output]:
        """Pass a change of the covering set on to the broker."""
        upstream = self._upstream.subscriptions
        effects: list[Output] = []
        for topic_filter, qos in change.wanted.items():
            upstream.want(topic_filter, qos, retained=retained)
        for topic_filter in change.unwanted:
            upstream.unwant(topic_filter)
            effects += self._forget_unheard(topic_filter)
            # Those that waited for it wait for what covers them now, which was asked for just now.
            for asked in self.pending.take(topic_filter):
                self.pending.add(asked, self._cover_of(asked))
        return effects + upstream.advance() if change.wanted or change.unwanted else []

    def _cover_of(self, asked: SubscribeTo) -> str:
        cover = self.subscriptions.cover_of(asked.topic_filter)
        assert cover is not None, "what was asked for is covered"
        return cover

    def _is_up(self) -> bool:
        return self._upstream.phase is Phase.UP

    def _forget_unheard(self, topic_filter: str) -> list[Output]:
        """What nobody is subscribed to is no longer kept up to date, so it is not kept."""
        effects: list[Output] = []
        for topic in self.retained.topics_under(topic_filter):
            if self.subscriptions.cover_of(topic) is None:
                effects += self.retained.forget(topic)
        return effects

    def _leave(self, client_id: ClientId, topic_filter: str) -> SubscriptionChange:
        self._newcomers.pop((client_id, topic_filter), None)
        return self.subscriptions.leave(client_id, topic_filter)

    def _join_former(
        self, session: Session, asked: SubscribeTo, retained: list[Message], now: float
    ) -> list[Output]:
        """What a client subscribes to where it is said to be, it hears where it was as well."""
        former = self._clients.formers.get(asked.client_id)
        if former is None or not session.is_continued or asked.topic_filter in former.filters:
            return []
        name = former_name(asked.client_id)
        self.subscriptions.ask(asked.topic_filter, asked.qos)  # it is covered already
        self.subscriptions.join(name, asked.topic_filter, asked.qos)
        former.subscribed_elsewhere(asked.topic_filter, asked.qos)
        self._welcome(name, asked.topic_filter, now)
        given: list[Output] = []
        for message in retained:
            if not self._is_forbidden(name, message.topic):
                given += self._hand_over(former, message, asked.qos, now, is_held=False)
        return [FormerOutput(asked.client_id, given)] if given else []

    def _welcome(self, client_id: ClientId, topic_filter: str, now: float) -> None:
        self._forget_old_newcomers(now)
        key = client_id, topic_filter
        self._newcomers.pop(key, None)
        self._newcomers[key] = now if self._is_up() else inf

    def _forget_old_newcomers(self, now: float) -> None:
        newcomers = self._newcomers
        while newcomers:
            oldest = next(iter(newcomers))
            if newcomers[oldest] + REPLAY_WINDOW_S > now:
                return
            del newcomers[oldest]

    # Messages

    def _judged(self, topic: str, matches: Matches) -> tuple[Matches, Matches]:
        """Those who may hear it, and those who may not."""
        if self._options.access.rules is None:
            return matches, []
        allowed: Matches = []
        refused: Matches = []
        for each in matches:
            (refused if self._is_forbidden(each[0], topic) else allowed).append(each)
        return allowed, refused

    def _is_forbidden(self, client_id: ClientId, topic: str) -> bool:
        peer = self._session(client_id).peer
        return self._options.access.keeps_back(client_of(client_id), peer, topic)

    def _denied(self, names: Iterable[ClientId], topic: str) -> list[Output]:
        """The news of a message that these may not receive, once for each client. A topic to which
        a client may not subscribe is no part of what a narrowed subscription grants.
        """
        access = self._options.access
        told: dict[ClientId, Output] = {}
        for name in names:
            client_id, peer = client_of(name), self._session(name).peer
            if not access.refuses(client_id, peer, SUBSCRIBE, topic):
                told[client_id] = access.denied(client_id, peer, RECEIVE, topic)
        return list(told.values())

    def _deliver(self, message: Message, now: float) -> list[Output]:
        """A live publication at QoS 0, to everyone once."""
        matches, refused = self._judged(message.topic, self.subscriptions.matching(message.topic))
        effects = self._denied([name for name, _ in refused], message.topic) if refused else []
        if not matches:
            return effects
        too_large = self._too_large(message)
        if too_large is not None:
            return [*effects, too_large]
        sessions, schedule = self._sessions, self._clients.schedule
        message = Message(message.topic, message.payload, expiry=message.expiry)
        for client_id, _ in matches:
            session = sessions.get(client_id)
            if session is None:
                session = self._session(client_id)
                effects += self._deliver_former(session, message, now)
                schedule(session)
                continue
            sent = session.deliver(message, now)
            if len(sent) > 1:
                effects.append(SessionOutput(client_id, sent))
            else:
                effects += sent
            schedule(session)
        self.delivered[0] += len(matches)
        return effects

    def _deliver_former(self, former: Session, message: Message, now: float) -> list[Output]:
        """At QoS 0. It is for the client once, here or where the client is said to be."""
        if former.state in ABSENT:
            return []
        sent = former.deliver(message, now)
        former.outbound.offer_last(message)
        return [FormerOutput(former.client_id, sent)]

    def _deliver_surely(self, publication: Publication, now: float) -> list[Output]:
        """A live publication at QoS 1 or 2, to everyone once, at the QoS that it asked for."""
        message = publication.message
        matches, refused = self._judged(message.topic, self.subscriptions.matching(message.topic))
        effects = self._denied([name for name, _ in refused], message.topic) if refused else []
        if not matches:
            return effects
        too_large = self._too_large(message)
        if too_large is not None:
            return [*effects, too_large]
        if self._saves and message.qos == 1 and self._all_listen(matches):
            publication.unsaved = {}
        else:
            effects += self.save_late()
        alike: dict[int, Message] = {} if message.retain else {message.qos: message}
        for client_id, qos in matches:
            qos = min(qos, message.qos)
            same = alike.get(qos)
            if same is None:
                same = alike[qos] = Message(
                    message.topic, message.payload, qos, expiry=message.expiry
                )
            effects += self._give(client_id, same, publication, now)
        return effects

    def send_to(self, session: Session, message: Message, now: float) -> list[Output]:
        """A message for one client, whatever it is subscribed to, if it may receive it; the
        operator's.
        """
        access = self._options.access
        if access.refuses_delivery(session.client_id, session.peer, message.topic):
            return [access.denied(session.client_id, session.peer, RECEIVE, message.topic)]
        too_large = self._too_large(message)
        if too_large is not None:
            return [too_large]
        self.delivered[message.qos] += 1
        if self._limits_delivery:
            message.expiry = self._expiry_of(message.topic, None, now)
        outputs = session.deliver(message, now)
        return [*self.save_late(), SessionOutput(session.client_id, outputs)]

    def _session(self, name: ClientId) -> Session:
        """Who goes by this name, which may be a former session's."""
        session = self._sessions.get(name)
        return self._clients.formers[client_of(name)] if session is None else session

    def _give(
        self, client_id: ClientId, message: Message, publication: Publication, now: float
    ) -> list[Output]:
        """A client's copy of what the broker sent at QoS 1 or 2."""
        session = self._session(client_id)
        self.delivered[message.qos] += 1
        if message.qos == 0 and session.client_id != client_id:
            sent = self._deliver_former(session, message, now)
            self._clients.schedule(session)
            return sent
        if message.qos == 0:
            sent = session.deliver(message, now)
        else:
            publication.copies += 1
            # One of QoS 2 waits for its packet id to be durable, whatever the clients say.
            sent = session.deliver(
                message, now, publication if publication.message.qos == 1 else None
            )
        self._clients.schedule(session)
        if session.client_id != client_id:
            return [FormerOutput(session.client_id, sent)]
        if not sent or type(sent[0]) is Send:  # what follows it promises nothing
            return sent
        return [SessionOutput(session.client_id, sent)]

    def _all_listen(self, matches: Sequence[tuple[ClientId, int]]) -> bool:
        for client_id, _ in matches:  # `all` and a generator take three times as long
            session = self._sessions.get(client_id)
            if session is None or session.state not in LISTENING:
                return False
        return True

    def _hand_back(self, publication: Publication, now: float) -> list[Output]:
        """Tell the broker that its message is durably accepted, now or when it is."""
        if publication.message.qos == 2 or not publication.copies:
            return self._upstream.keep(publication)
        if publication.unsaved is not None:
            self._not_saved.add(publication, now)
            return []
        return [WhenSaved([DeliveryComplete(publication)])]

    def _note_live(self, message: Message, now: float) -> None:
        """A broker that ignores Retain As Published (Artemis, rumqttd) does not tell whether it has
        retained this in place of what it had.
        """
        live = self._last_live
        live.pop(message.topic, None)
        if len(live) >= LIVE_TOPICS_MAX:
            del live[next(iter(live))]
        live[message.topic] = message.payload, now

    def _replay(
        self, publication: Publication, found: KeepResult | None, now: float
    ) -> list[Output]:
        """What the broker had retained: for newcomers, for others if it changed meanwhile, and for
        those that asked for a higher QoS than that at which it was known.
        """
        had_at = -1 if found is None else found.had_at
        if had_at == 2:
            return []
        message = publication.message
        wanted = [each for each in self.subscriptions.matching(message.topic) if each[1] > had_at]
        matches, refused = self._judged(message.topic, wanted)
        too_large = self._too_large(message)
        if matches and too_large is not None:
            return [too_large]
        effects = self.save_late()
        filters = self.subscriptions.filters_over(message.topic) if self._newcomers else []
        since, newest = self._newcomers.get, now - REPLAY_WINDOW_S
        live = self._last_live.get(message.topic)
        live_at = -inf
        if live is not None and live[0] == message.payload:
            live_at, found = live[1], ONLY_NEWCOMERS  # those that were there have got it live
        denied: list[ClientId] = []
        for match in [*matches, *refused] if refused else matches:
            client_id, qos = match
            came_at = max((since((client_id, each), -inf) for each in filters), default=-inf)
            is_new = came_at > newest and came_at >= live_at
            if is_new or found is None or not (found.is_full or found is ONLY_NEWCOMERS):
                if match in refused:
                    denied.append(client_id)
                    continue
                qos = min(qos, message.qos)
                copy = Message(message.topic, message.payload, qos, is_new, message.expiry)
                effects += self._give(client_id, copy, publication, now)
        return [*effects, *self._denied(denied, message.topic)] if denied else effects

    def _is_retained(self, message: Message) -> bool:
        """Whether the broker retains it. One that cannot say is taken to do what it did before."""
        if message.retain or self._upstream.subscriptions.tells_retained:
            return message.retain
        return message.topic in self.retained

    def _is_exact(self, publication: Publication, cover: str) -> bool:
        """Whether this is the QoS of the publication, which our subscription may have lowered."""
        upstream, message = self._upstream.subscriptions, publication.message
        if message.qos == 2:
            return True
        if publication.is_replay:
            return upstream.asked_qos(cover) > message.qos
        return upstream.live_qos(message.topic, cover) > message.qos

    def _hand_over(
        self, session: Session, message: Message, qos: int, now: float, *, is_held: bool
    ) -> list[Output]:
        """What is retained, to a newcomer."""
        too_large = self._too_large(message)
        if too_large is not None:
            return [too_large]
        qos = min(qos, message.qos)
        self.delivered[qos] += 1
        copy = Message(message.topic, message.payload, qos, retain=True, expiry=message.expiry)
        return session.deliver(copy, now, is_held=is_held)

    def _expiry_of(self, topic: str, expiry_s: int | None, now: float) -> Expiry | None:
        """What its publisher gave it, or else the operator gives what is on this topic."""
        if expiry_s is not None:
            return self.expiry_clock.begin(expiry_s, now)
        within_s = self._topic_options.deliver_within_s(topic)
        return self.expiry_clock.begin(within_s, now) if within_s else None

    def _too_large(self, message: Message) -> Dropped | None:
        if (
            len(message.payload) <= self._options.payload_bytes_max
            and len(message.topic.encode()) <= self._options.topic_bytes_max
        ):
            return None
        detail = f"{message.topic[:64]!r} from the broker, {len(message.payload)} bytes"
        return Dropped(Reason.PAYLOAD_TOO_LARGE, None, detail)
