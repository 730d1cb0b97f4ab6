"""Our subscriptions at the broker: brought from what there is to what is wanted, losing nothing.

Rule 1: what is no longer wanted is given up only when everything wanted was granted. So when the
        covering set grows (`a/#` in place of `a/b`) or shrinks, there is no moment without a
        subscription.
Rule 2: live messages and retained ones can be told apart. With retained messages wanted, a filter
        is subscribed twice in a row: first with an odd subscription identifier and Retain Handling
        0 (whatever comes with that id and the retain flag was retained before), then with an even
        one and Retain Handling 2 (with the flag: a live publication that the broker retains). The
        second replaces the first, so a message is never sent for both. Retain As Published is on
        in both, because mosquitto 2.0 keeps that option as it was when a subscription was new. A
        broker without subscription identifiers gets the first form only, without an identifier
        and with Retain As Published off.
Rule 3: filters with wildcards may overlap though none covers the other (`a/+` and `+/b`), and
        brokers send a message once for each. So each has an identifier of its own, by which the
        copies are told (overlap_dedup.py), and is subscribed at the highest QoS, so that the copies
        are alike; what a client gets is limited when it is delivered. Filters without wildcards
        never overlap; they share packets and one identifier. One that gives way to a filter with
        wildcards is raised to the highest QoS before that is subscribed: else the copy that it
        brings at a lower QoS until it is given up would be the one that is passed on.
Rule 4: an identifier follows from its filter, so it is the same in every connection and every life
        of the gateway: a message that the broker kept for us comes with the one that its filter
        had then. Two filters with the same identifier (one pair in 134 million) cost a copy, not
        a message.
Rule 5: a filter is saved as it is subscribed to for the first time, until it has been given up.
        What the broker sends for the subscriptions of a previous run is as good as any; those that
        nobody wants any more are given up. One that a crash kept from being saved may be among
        them, so in a session of a previous run copies are looked for whatever is wanted now.
Rule 6: no packet is larger than the broker takes, and none has more filters than `filters_max`:
        what the configuration says, and half of what the largest had that the broker ended a
        connection on. What is suspected of that goes alone, and is refused in the broker's place
        once it is found guilty (caution.py).

Limits: FILTERS_PER_PACKET_MAX filters in a packet; packet ids for control are 519, and what
finds none waits for an answer. The number of filters is bounded by the sessions' limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from math import inf
from zlib import crc32

import mqtt5

from gateway.core.effects import Save, Transmit
from gateway.core.events import FilterRefused, Output, SubscriptionGranted
from gateway.core.mqtt.caution import EVERYTHING, Alone, Caution, Key, filter_key, own_filter_key
from gateway.core.mqtt.options import CONTROL_ID_FIRST, CONTROL_ID_LAST, PACKET_BYTES_MAX
from gateway.core.mqtt.own_filters import OWN_IDENTIFIER, Concern, OwnFilter, OwnFilters
from gateway.core.mqtt.reason_codes import spoken
from gateway.core.state_records import FilterDeleted, FilterRecord
from gateway.packets.codec import BadPacketError

FILTERS_PER_PACKET_MAX = 64
REPLAY_S = 30.0  # after SUBSCRIBE retained messages may come
# Of SUBSCRIBE without its filters: fixed header, packet id and properties; and of each filter.
HEAD_BYTES_MAX = 5 + 2 + 1 + 5
FILTER_HEAD_BYTES = 2 + 1
REFUSED = 0x80
PLAIN = 2  # the identifier of all filters without wildcards
IDENTIFIERS = (1 << 27) - 2  # even ones above that, within the 28 bits there are
# SUBSCRIBE packets that wait for an answer: two for each filter, and one id left to give up with.
ASKED_MAX = CONTROL_ID_LAST - CONTROL_ID_FIRST - 1
WILDCARD_QOS = 2
ENDS = "the broker ended the connection each time when this filter was subscribed to"
BLOCKED = "the broker has ended the connection for this filter; it is tried again after a while"
TOO_LONG = "the filter does not fit into the {limit} bytes that the broker takes in a packet"
UNSAID = -1  # in place of a packet id
UNASKED = -1  # in place of a QoS: of a former connection or life, and not asked for in this one


class Subscriber:
    def __init__(
        self,
        topic_prefix: str,
        caution: Caution | None = None,
        filters_max: int = FILTERS_PER_PACKET_MAX,
        own: Sequence[OwnFilter] = (),
    ) -> None:
        self.filters_max = filters_max
        self._caution = caution or Caution(0.0)
        self._replayed_until = -inf
        self._packet_bytes_max = PACKET_BYTES_MAX  # of the broker
        self._prefix = topic_prefix
        self._wanted: dict[str, int] = {}
        # What the broker may have from us, and is saved: at which QoS, when it has answered.
        self._saved: dict[str, int] = {}
        # Of these, asked for and not granted yet: by which packet the broker will say it, the last
        # of those in which it was asked for. Of what gives way none does.
        self._unanswered: dict[str, int] = {}
        # Of these, without wildcards and granted before: at which QoS. What comes live may still
        # come at that.
        self._before: dict[str, int] = {}
        self._wildcards: set[str] = set()  # of the wanted ones
        self._always: dict[str, int] = {}  # our own, whatever clients want
        self.own = OwnFilters(own, topic_prefix)
        self._own_asked: dict[int, str] = {}  # by packet id
        self._own_leaving: dict[int, str] = {}  # those of them that are being given up
        # To be subscribed: filter -> with its retained messages.
        self._missing: dict[str, bool] = {}
        # SUBSCRIBE under way, by packet id; of a pair (rule 2) the first brings no filter.
        self._asked: dict[int, list[str]] = {}
        self._giving_up: dict[int, list[str]] = {}  # UNSUBSCRIBE under way
        self._stale: dict[str, None] = {}  # no longer wanted, in the order given
        # Refused by the broker, and the engine has not said yet what it wants in their place.
        self._refused: set[str] = set()
        self._last_packet_id = CONTROL_ID_LAST
        self.tells_retained = True  # subscription identifiers are available, so rule 2 works
        self.is_open = False
        self._is_heir = False  # the broker's session may be that of a previous run

    @property
    def acknowledged(self) -> bool:
        """Whether the broker has granted all that is wanted, and nothing more will be soon."""
        return not self._asked and not self._missing and not self._refused

    @property
    def has_missing(self) -> bool:
        """Whether some that are wanted have not been asked for in this connection."""
        return self.is_open and bool(self._missing)

    @property
    def may_replay(self) -> bool:
        """Whether the broker may be sending what it has retained."""
        return self._caution.heard_at < self._replayed_until

    @property
    def overlapping(self) -> bool:
        """Whether the broker may have two subscriptions of ours that match the same message."""
        return bool(self._is_heir or self._stale or self._giving_up or len(self._wildcards) > 1)

    def is_granted(self, topic_filter: str) -> bool:
        """At the QoS at which it is wanted."""
        is_due = topic_filter in self._unanswered or topic_filter in self._missing
        return self.is_open and self._is_asked(topic_filter) and not is_due

    def asked_qos(self, topic_filter: str) -> int:
        """At which it was asked for in this connection last; UNASKED if it was not."""
        return self._saved.get(topic_filter, UNASKED)

    def live_qos(self, topic: str, cover: str) -> int:
        """The highest QoS at which the broker sends what is published to a topic. Until it grants
        the filter that covers it, that is up to the filter before (rule 3), of which in a new life
        nothing else is known than what is wanted.
        """
        if self.is_granted(cover):
            return self._saved[cover]
        if topic not in self._saved:
            return WILDCARD_QOS
        if self._has_granted(topic):
            return self._saved[topic]
        return self._before.get(topic, self._wanted.get(topic, UNASKED))

    @property
    def unanswered(self) -> int | None:
        """The packet id of the oldest SUBSCRIBE or UNSUBSCRIBE that the broker has not answered."""
        return next(chain(self._asked, self._giving_up), None)

    @property
    def is_idle(self) -> bool:
        """Whether something is to be asked for, and nothing that is under way will bring it on."""
        is_due = self._missing or self._refused or (self._stale and self.acknowledged)
        is_due = is_due or self.own.missing
        return self.is_open and bool(is_due) and not self._waits()

    # From the engine

    def restore(self, filters: list[str]) -> None:
        """What the broker may have from a previous run; what is wanted again is known by now."""
        self._is_heir = True
        self._saved = dict.fromkeys(filters, UNASKED)
        self._stale = {each: None for each in filters if each not in self._wanted}

    def want_always(self, topic_filter: str) -> None:
        """For ourselves; where the broker refuses it, it is asked again in the next connection."""
        self._always[topic_filter] = WILDCARD_QOS
        self.want(topic_filter, WILDCARD_QOS, retained=True)

    def want(self, topic_filter: str, qos: int, *, retained: bool) -> None:
        """Subscribe to a filter, or raise its QoS; `advance` does it."""
        if _has_wildcard(topic_filter):
            qos = WILDCARD_QOS
            self._wildcards.add(topic_filter)
        self._wanted[topic_filter] = qos
        self.own.wanted(topic_filter)
        if topic_filter in self._stale or not self._is_asked(topic_filter):
            self._stale.pop(topic_filter, None)
            self._missing[topic_filter] = retained
        elif qos > self._saved[topic_filter]:
            # What is retained is known at the lower QoS only, so it is asked for again.
            self._missing[topic_filter] = retained or self._missing.get(topic_filter, False)

    def unwant(self, topic_filter: str) -> None:
        if topic_filter in self._always:
            return
        self._wanted.pop(topic_filter, None)
        self._wildcards.discard(topic_filter)
        self._refused.discard(topic_filter)
        self._missing.pop(topic_filter, None)
        if topic_filter not in self._saved or self._is_being_given_up(topic_filter):
            return
        self._stale[topic_filter] = None
        if not self._is_asked(topic_filter):  # the broker may have it from a former connection
            self._saved[topic_filter] = _qos_at_least(topic_filter)
            self._unanswered[topic_filter] = UNSAID

    def _is_being_given_up(self, topic_filter: str) -> bool:
        """And was not asked for again since."""
        if self._is_asked(topic_filter):
            return False
        return any(topic_filter in filters for filters in self._giving_up.values())

    def advance(self) -> list[Output]:
        """Send what may be sent now."""
        if not self.is_open:
            return []
        if self._caution.is_on:
            return self._advance_carefully()
        return self._advance()

    def _advance(self) -> list[Output]:
        effects = [*self._refuse_blocked(), *self._subscribe_missing()]
        for own in self._own_missing():
            effects += self._subscribe_own(own)
        return effects + self._give_up()

    def _own_missing(self) -> list[str]:
        """Those of the gateway's own filters that are to be subscribed and may be."""
        return list(islice(self.own.missing, max(0, ASKED_MAX - len(self._asked))))

    def _give_up(self) -> list[Output]:
        effects: list[Output] = []
        while self.acknowledged and self._stale and not self._giving_up:
            effects += self._unsubscribe()
        if self.own.leaving and self.acknowledged and not self._giving_up:
            effects.append(self._leave_own(next(iter(self.own.leaving))))
        self._caution.asked(self._unanswered_packets())
        return effects

    def _subscribe_missing(self) -> list[Output]:
        effects: list[Output] = []
        low = self._too_low()
        while low and len(self._asked) < ASKED_MAX:
            filters = self._fitting(low)
            effects.append(self._raise(filters))
            del low[: len(filters)]
        while self._missing and not low and len(self._asked) < ASKED_MAX:
            effects += self._subscribe_next()
        return effects

    def _advance_carefully(self) -> list[Output]:
        """As `advance`, but for what is blocked and suspected; one filter at a time if everything
        goes alone. `try_suspect` and `ask_alone` send those.
        """
        caution = self._caution
        effects = self._refuse_blocked()
        if caution.degree == EVERYTHING or caution.alone is not None:
            self._ask_for_turn()
            return effects
        suspects = [each for each in self._missing if self._is_suspect(each)]
        held = {each: self._missing.pop(each) for each in suspects}
        effects += self._subscribe_missing()
        self._missing |= held
        for own in self._own_missing():
            if not caution.is_suspect(own_filter_key(own), caution.heard_at):
                effects += self._subscribe_own(own)
        effects += self._give_up()
        self._ask_for_turn()
        return effects

    def _ask_for_turn(self) -> None:
        is_due = self._missing or self._stale or self.own.missing
        if is_due and not self._waits():
            self._caution.ask_for_turn()

    def ask_alone(self, *, may_be_suspect: bool) -> list[Output]:
        """The next one, if nothing else is unanswered: for the caller to see, but for our own."""
        caution = self._caution
        if not self.is_open or caution.alone is not None or self._waits():
            return []
        effects: list[Output] = []
        for topic_filter in [*self._missing]:
            if self._may_go_alone(filter_key(topic_filter), may_be_suspect=may_be_suspect):
                if caution.has_unread:
                    return caution.ask_whether_read()
                effects += self._ask_one(topic_filter)
                if self._waits():  # else it is too long for the broker
                    return effects
        effects += self._ask_own_alone(may_be_suspect=may_be_suspect)
        if self._waits():
            return effects
        if caution.degree == EVERYTHING and self._stale:
            if caution.has_unread:
                return [*effects, *caution.ask_whether_read()]
            first = next(iter(self._stale))
            effects += self._sent_alone(filter_key(first), self._give_up())
        return effects

    def _ask_own_alone(self, *, may_be_suspect: bool) -> list[Output]:
        caution = self._caution
        effects: list[Output] = []
        for own in self._own_missing():
            if self._may_go_alone(own_filter_key(own), may_be_suspect=may_be_suspect):
                if caution.has_unread:
                    return [*effects, *caution.ask_whether_read()]
                effects += self._sent_alone(own_filter_key(own), self._subscribe_own(own))
                if self._waits():
                    break
        return effects

    def _waits(self) -> bool:
        """For an answer. A method: compiled, a property is taken to be what it was found to be."""
        return self._unanswered_packets() > 0

    def _unanswered_packets(self) -> int:
        return len(self._asked) + len(self._giving_up)

    def _may_go_alone(self, key: Key, *, may_be_suspect: bool) -> bool:
        caution = self._caution
        if caution.is_suspect(key, caution.heard_at):
            return may_be_suspect
        return caution.degree == EVERYTHING and not may_be_suspect

    def _ask_one(self, topic_filter: str) -> list[Output]:
        low = self._too_low() if topic_filter in self._wildcards else []
        if low:  # rule 3
            return self._sent_alone(filter_key(low[0]), [self._raise(low[:1])])
        retained = self._missing.pop(topic_filter)
        others, self._missing = self._missing, {topic_filter: retained}
        effects = self._sent_alone(filter_key(topic_filter), self._subscribe_next())
        self._missing = others | self._missing
        return effects

    def _sent_alone(self, key: Key, effects: list[Output]) -> list[Output]:
        """What was asked for it; nothing if it is too long for the broker."""
        self._caution.asked(self._unanswered_packets())
        if self._caution.asks and self._caution.alone is None:
            self._caution.sent_alone(Alone(key))
        return effects

    @property
    def has_suspect(self) -> bool:
        """Whether one is missing that goes alone."""
        return any(map(self._is_suspect, self._missing))

    def _is_suspect(self, topic_filter: str) -> bool:
        return self._caution.is_suspect(filter_key(topic_filter), self._caution.heard_at)

    def _refuse_blocked(self) -> list[Output]:
        caution = self._caution
        if not caution.has_blocked:
            return []
        blocked = [
            each
            for each in self._missing
            if caution.is_blocked(filter_key(each), 0, caution.heard_at)
        ]
        return [effect for each in blocked for effect in self._refuse(each, BLOCKED)]

    def _refuse(self, topic_filter: str, reason: str) -> list[Output]:
        """In the broker's place."""
        self._missing.pop(topic_filter, None)
        effects: list[Output] = []
        if topic_filter in self._saved:
            self._stale.pop(topic_filter, None)
            self._unanswered.pop(topic_filter, None)
            effects += self._forget(topic_filter)
        self._lose(topic_filter)
        return [*effects, FilterRefused(topic_filter, reason)]

    def _lose(self, topic_filter: str) -> None:
        """The broker does not let us have it."""
        if topic_filter in self._always:
            self._wanted.pop(topic_filter, None)
            self._wildcards.discard(topic_filter)
        elif topic_filter in self._wanted:
            self._refused.add(topic_filter)

    def found_guilty(self, topic_filter: str) -> list[Output]:
        """The broker ended the connection for it."""
        if topic_filter in self._wanted:
            return self._refuse(topic_filter, ENDS)
        self._stale.pop(topic_filter, None)  # to give it up was the cause
        return self._forget(topic_filter) if topic_filter in self._saved else []

    def concern_of(self, topic: str, identifiers: Sequence[int]) -> Concern:
        """Whom a publication concerns: clients, the gateway itself, or both."""
        return self.own.concern_of(topic, identifiers, self._wanted)

    def listen(self, topic_filter: str, qos: int) -> list[Output]:
        """Subscribe for the gateway itself, as the broker has it, until `leave`."""
        self.own.listen(topic_filter, qos, self._wanted)
        return [*self._refuse_own_blocked(), *self.advance()] if self.is_open else []

    def leave(self, topic_filter: str) -> list[Output]:
        self.own.leave(topic_filter, self._wanted)
        return self.advance()

    def _refuse_own_blocked(self) -> list[Output]:
        caution = self._caution
        effects: list[Output] = []
        for own in list(self.own.missing):
            if caution.is_blocked(own_filter_key(own), 0, caution.heard_at):
                del self.own.missing[own]
                effects.append(FilterRefused(own, BLOCKED))
        return effects

    def _leave_own(self, own: str) -> Transmit:
        self.own.asked_to_leave(own)
        packet_id = self._new_packet_id()
        self._giving_up[packet_id] = []
        self._own_leaving[packet_id] = own
        return Transmit(mqtt5.UnsubscribePacket(packet_id, [own]).write())

    def _subscribe_own(self, own: str) -> list[Output]:
        del self.own.missing[own]
        packet_id = self._new_packet_id()
        packet = mqtt5.SubscribePacket(
            packet_id,
            [mqtt5.TopicFilter(own, max_qos=mqtt5.QoS(self.own.qos_of(own)))],
            subscription_id=OWN_IDENTIFIER if self.tells_retained else None,
        ).write()
        if len(packet) > self._packet_bytes_max:
            return [FilterRefused(own, TOO_LONG.format(limit=self._packet_bytes_max))]
        self._replayed_until = self._caution.heard_at + REPLAY_S
        self._asked[packet_id] = []
        self._own_asked[packet_id] = own
        return [Transmit(packet)]

    # From the connection

    def open(
        self,
        *,
        identifiers_available: bool,
        is_resumed: bool = True,
        packet_bytes_max: int | None = None,
    ) -> list[Output]:
        """A new connection: subscribe to everything again, for what changed while we were away.
        `is_resumed`: the broker knows our session; `packet_bytes_max`: so much it takes.
        """
        self.is_open = True
        self._packet_bytes_max = packet_bytes_max or PACKET_BYTES_MAX
        self._is_heir = self._is_heir and is_resumed
        self.tells_retained = identifiers_available
        self._asked.clear()
        self._own_asked.clear()
        for topic_filter in [key for filters in self._giving_up.values() for key in filters]:
            # Who knows whether the broker heard it; unless it refused to have it again since.
            if topic_filter not in self._wanted and topic_filter in self._saved:
                self._stale[topic_filter] = None
        self._giving_up.clear()
        self._own_leaving.clear()
        self._refused.clear()
        forgotten: list[Output] = []
        if not is_resumed:  # there is nothing to be given up
            forgotten = [each for one in self._stale for each in self._forget(one)]
            self._stale.clear()
        if is_resumed:
            for topic_filter in self._saved:
                self._remember(topic_filter)
        else:
            self._before.clear()
        self._saved = dict.fromkeys(self._saved, UNASKED)
        self._saved |= {each: _qos_at_least(each) for each in self._stale}
        self._unanswered = dict.fromkeys(self._stale, UNSAID)
        self._wanted |= self._always
        self._wildcards |= self._always.keys()
        self._missing = dict.fromkeys(self._wanted, True)
        self.own.opened(self._wanted, is_resumed=is_resumed)
        return [*forgotten, *self._refuse_own_blocked(), *self.advance()]

    def close(self) -> None:
        self.is_open = False

    def ended_by_broker(self) -> None:
        """Perhaps because a packet had too many filters, if it has not answered it."""
        largest = max(map(len, self._asked.values()), default=0)
        largest = max(largest, *map(len, self._giving_up.values()), 0, 0)
        if largest > 1:
            self.filters_max = max(1, min(self.filters_max, largest) // 2)

    def receive_suback(self, packet_id: int, codes: list[int]) -> list[Output]:
        filters = self._asked.pop(packet_id, [])
        self._answered()
        if filters and len(codes) != len(filters):
            raise BadPacketError(f"SUBACK with {len(codes)} codes for {len(filters)} filters")
        effects: list[Output] = []
        topic = self._own_asked.pop(packet_id, None)
        if topic is not None and max(codes, default=0) >= REFUSED:
            effects.append(FilterRefused(topic, spoken("SUBACK", max(codes), None)))
        elif topic is not None:
            self.own.granted(topic)
        for topic_filter, code in zip(filters, codes, strict=False):
            is_latest = self._unanswered.get(topic_filter) == packet_id
            if not is_latest or topic_filter in self._missing:
                continue  # it is wanted at another QoS since: the answer to that counts
            del self._unanswered[topic_filter]
            if code < REFUSED:
                self._before.pop(topic_filter, None)
                effects.append(SubscriptionGranted(topic_filter))
            else:
                self._stale.pop(topic_filter, None)
                effects += self._forget(topic_filter)
                self._lose(topic_filter)
                effects.append(FilterRefused(topic_filter, spoken("SUBACK", code, None)))
        return effects + self.advance()

    def _answered(self) -> None:
        caution = self._caution
        caution.asked(self._unanswered_packets())
        alone = caution.alone
        if alone is not None and alone.reading is None and not (caution.asks or alone.needs_ping):
            caution.answered()

    def receive_unsuback(self, packet_id: int) -> list[Output]:
        effects: list[Output] = []
        given_up = self._giving_up.pop(packet_id, [])
        if packet_id in self._own_leaving:
            self.own.given_up_for_good(self._own_leaving.pop(packet_id))
        self._answered()
        for topic_filter in given_up:
            if not self._is_asked(topic_filter):  # or it was asked for again meanwhile
                effects += self._forget(topic_filter)
        return effects + self.advance()

    # What the broker has

    def _is_asked(self, topic_filter: str) -> bool:
        """Whether it has the filter, or will when it answers, as far as this connection knows."""
        return self.asked_qos(topic_filter) != UNASKED

    def _has_granted(self, topic_filter: str) -> bool:
        """At the QoS at which it was asked for last."""
        return self._is_asked(topic_filter) and topic_filter not in self._unanswered

    def _ask(self, topic_filter: str, qos: int) -> None:
        self._remember(topic_filter)
        self._saved[topic_filter] = qos
        self._unanswered[topic_filter] = UNSAID

    def _remember(self, topic_filter: str) -> None:
        """At which QoS the broker has it, before it is asked for once more."""
        if self._has_granted(topic_filter) and not _has_wildcard(topic_filter):
            self._before[topic_filter] = self._saved[topic_filter]

    def _forget(self, topic_filter: str) -> list[Output]:
        """The broker does not have it any more."""
        self._before.pop(topic_filter, None)
        self._saved.pop(topic_filter, None)
        return [Save(FilterDeleted(topic_filter))]

    # Packets

    def _subscribe_next(self) -> list[Output]:
        """A filter with wildcards, or those without that want their retained messages alike."""
        first, retained = next(iter(self._missing.items()))
        if self._is_too_long(first):
            return self._refuse(first, TOO_LONG.format(limit=self._packet_bytes_max))
        filters = [first]
        if first not in self._wildcards:
            filters = self._fitting(self._alike(retained))
        effects: list[Output] = []
        for topic_filter in filters:
            del self._missing[topic_filter]
            if topic_filter not in self._saved:
                effects.append(Save(FilterRecord(topic_filter)))
            self._ask(topic_filter, self._wanted[topic_filter])
        if not self.tells_retained:
            return [*effects, self._subscribe(filters, live=False, answers=filters)]
        if retained:
            effects.append(self._subscribe(filters, live=False, answers=[]))
        effects.append(self._subscribe(filters, live=True, answers=filters))
        return effects

    def _too_low(self) -> list[str]:
        """The filters without wildcards that are to give way to one that is missing."""
        if not self.tells_retained or self._wildcards.isdisjoint(self._missing):
            return []
        return [
            each
            for each in self._stale
            if self._saved[each] < WILDCARD_QOS and not self._is_too_long(each)
        ]

    def _is_too_long(self, topic_filter: str) -> bool:
        """For the broker, alone in a packet."""
        return self._size(topic_filter) > self._packet_bytes_max - HEAD_BYTES_MAX

    def _raise(self, filters: list[str]) -> Transmit:
        for topic_filter in filters:
            self._ask(topic_filter, WILDCARD_QOS)  # a broker may refuse it now
        return self._subscribe(filters, live=True, answers=[])

    def _alike(self, retained: bool) -> list[str]:
        wildcards = self._wildcards
        alike = (
            key
            for key, value in self._missing.items()
            if value is retained and key not in wildcards
        )
        return list(islice(alike, self.filters_max))

    def _size(self, topic_filter: str) -> int:
        return FILTER_HEAD_BYTES + len((self._prefix + topic_filter).encode())

    def _fitting(self, filters: Iterable[str]) -> list[str]:
        """The first ones, as many as may go in a packet; one at least."""
        fitting: list[str] = []
        left = self._packet_bytes_max - HEAD_BYTES_MAX
        for topic_filter in islice(filters, self.filters_max):
            left -= self._size(topic_filter)
            if left < 0 and fitting:
                break
            fitting.append(topic_filter)
        return fitting

    def _subscribe(self, filters: list[str], *, live: bool, answers: list[str]) -> Transmit:
        """`answers`: the filters of which SUBACK will decide."""
        handling = mqtt5.RetainHandling.SEND_NEVER if live else mqtt5.RetainHandling.SEND_ALWAYS
        topic_filters = [
            mqtt5.TopicFilter(
                self._prefix + topic_filter,
                max_qos=mqtt5.QoS(self._saved[topic_filter]),
                retain_as_published=self.tells_retained,
                retain_handling=handling,
            )
            for topic_filter in filters
        ]
        identifier = PLAIN if filters[0] not in self._wildcards else identifier_of(filters[0])
        if not live:
            self._replayed_until = self._caution.heard_at + REPLAY_S
        packet_id = self._new_packet_id()
        self._asked[packet_id] = answers
        for topic_filter in answers:
            self._unanswered[topic_filter] = packet_id
        packet = mqtt5.SubscribePacket(
            packet_id,
            topic_filters,
            subscription_id=identifier | (not live) if self.tells_retained else None,
        )
        return Transmit(packet.write())

    def _unsubscribe(self) -> list[Output]:
        is_one = self._caution.degree == EVERYTHING
        filters = self._fitting(islice(self._stale, 1 if is_one else None))
        if self._is_too_long(filters[0]):
            del self._stale[filters[0]]
            return self._forget(filters[0])  # the broker took it when it took longer ones
        for topic_filter in filters:
            del self._stale[topic_filter]
            self._saved[topic_filter] = UNASKED
            self._unanswered.pop(topic_filter, None)
            self.own.given_up(topic_filter)
        packet_id = self._new_packet_id()
        self._giving_up[packet_id] = filters
        patterns = [self._prefix + topic_filter for topic_filter in filters]
        return [Transmit(mqtt5.UnsubscribePacket(packet_id, patterns).write())]

    def _new_packet_id(self) -> int:
        """The next one that no answer is due for; ASKED_MAX leaves one always."""
        packet_id = self._last_packet_id
        while True:
            packet_id = packet_id + 1 if packet_id < CONTROL_ID_LAST else CONTROL_ID_FIRST
            if packet_id not in self._asked and packet_id not in self._giving_up:
                self._last_packet_id = packet_id
                return packet_id


def _has_wildcard(topic_filter: str) -> bool:
    return "+" in topic_filter or "#" in topic_filter


def _qos_at_least(topic_filter: str) -> int:
    """What is known of a subscription of a previous run."""
    return WILDCARD_QOS if _has_wildcard(topic_filter) else 0


def identifier_of(topic_filter: str) -> int:
    """The even identifier of a filter with wildcards; a previous run had the same (rule 4)."""
    return PLAIN + 2 + 2 * (crc32(topic_filter.encode()) % (IDENTIFIERS - 1))


def is_replay(subscriptions: Sequence[int], *, retain: bool) -> bool:
    """Whether the broker had retained the message, and it is no live publication (rule 2). Artemis
    sends a retained message with the identifiers of all our subscriptions that match; one is odd.
    """
    if not subscriptions:
        return retain
    return retain and any(identifier % 2 for identifier in subscriptions)
