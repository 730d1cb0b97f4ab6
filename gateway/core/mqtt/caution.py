"""Finds what the broker ends the connection for, and keeps it from doing so again.

A broker may end the connection where it could refuse a packet: for a topic that it denies, a filter
too many, a size that it does not take. Sent again first thing in the next connection, that ends it
as well, for ever, and nothing of any client gets through. So what may be the cause goes *alone*:
nothing else is unanswered when it is sent, and nothing follows until it is answered. QoS 0 has no
answer: where some of it has gone before, a ping asks whether that has been read. If the
connection ends then, it is suspected; and with nothing behind it that the broker has not read, what
the broker answered before is not lost with a reset.

Rule 1: how much goes alone is the degree. OFF: nothing. UNPROVEN: readings on topics of which the
        broker has acknowledged nothing yet; so for `probe_s` after an outage, and as long as
        something is suspected. EVERYTHING, one filter a SUBSCRIBE: after SHORT_MAX connections in a
        row that did not last, with the cause not known, until one lasts and all filters had their
        turn, or a cause is found.
Rule 2: a suspect is tried again when the others have gone, or after `TRIAL_AFTER_S`. The third time
        it is found guilty: *blocked*. What is like it (the client and topic of a reading, if it is
        no smaller; the filter; a topic of our own) is not sent for `BLOCK_S`, then once on trial,
        and each time for twice as long. One of our own topics is blocked the first time.
Rule 3: where the broker refused a reading and then ended the connection, the cause is known at
        once. After one that went alone and was refused nothing follows until a ping is answered.
Rule 4: a client of which CLIENT_KEYS_MAX topics are blocked is blocked on all that are not proven,
        so that it cannot go on with ever new ones.
Rule 5: a broker that does not answer what all waits for in PATIENCE_S, and does not end the
        connection either, is not waited for any longer: on that connection nothing goes alone.

A word of the broker that has nothing to do with what was sent (it shuts down, another client took
over) makes nothing suspect.

Limits: `KEYS_MAX` suspects and blocked ones, the oldest give way; `TOPICS_MAX` proven topics, then
all are unproven again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from gateway.core.effects import Transmit
from gateway.core.events import Output
from gateway.core.values import Reading

PINGREQ = b"\xc0\x00"

OFF, UNPROVEN, EVERYTHING = 0, 1, 2

LASTS_S = 30.0
LOOK_AGAIN_S = 1.0
PATIENCE_S = 10.0
SHORT_MAX = 2
TRIAL_AFTER_S = 2.0
AT_ONCE_S = 1.0  # a broker that refuses and then ends the connection does so at once
STRIKES_MAX = 3
FORGET_S = 600.0  # a suspect that is not sent again
BLOCK_S = 600.0
BLOCK_S_MAX = 21_600.0
CLIENT_KEYS_MAX = 32
KEYS_MAX = 1000
TOPICS_MAX = 10_000

# What the broker says of itself in DISCONNECT, not of what was sent (MQTT 5, 3.14.2.1).
_UNRELATED = frozenset(
    {0x00, 0x04, 0x88, 0x89, 0x8B, 0x8D, 0x8E, 0x93, 0x96, 0x97, 0x98, 0x9C, 0x9D, 0x9F, 0xA0}
)

# What a key names: a reading by client and topic, a filter, or a topic of the gateway's own.
READING, FILTER, OWN = "reading", "filter", "own"
ANY_TOPIC = ""

Key = tuple[str, str, str]


def reading_key(reading: Reading) -> Key:
    return READING, reading.client_id, reading.topic


def filter_key(topic_filter: str) -> Key:
    return FILTER, "", topic_filter


def own_filter_key(topic: str) -> Key:
    """The subscription of the gateway's own to what no client's filter matches."""
    return FILTER, OWN, topic


def own_key(topic: str) -> Key:
    return OWN, "", topic


def is_about_content(code: int) -> bool:
    """Whether a DISCONNECT with this code may be for something that was sent."""
    return code not in _UNRELATED


@dataclass(slots=True)
class Alone:
    """What was sent alone; `needs_ping`: only PINGRESP tells that the broker has read it;
    `is_refused`: the answer to it was no, and the broker may end the connection as well.
    """

    key: Key
    reading: Reading | None = None
    needs_ping: bool = False
    is_refused: bool = False


@dataclass(slots=True)
class Suspicion:
    strikes: int
    at: float


@dataclass(slots=True)
class Block:
    """`bytes_min`: what is smaller may pass."""

    until: float
    seconds: float
    bytes_min: int = 0


@dataclass(slots=True)
class Verdict:
    """Of a connection's end. `guilty`: what is blocked from now on; `is_known`: the cause is."""

    is_known: bool = False
    guilty: Alone | None = None


class Caution:
    def __init__(self, probe_s: float) -> None:
        """`probe_s`: how long after an outage topics are unproven."""
        self._probe_s = probe_s
        self.degree = OFF
        self.is_on = False  # whether anything is not simply sent
        self.has_blocked = False
        self.alone: Alone | None = None  # sent and not answered
        self.proven: set[str] = set()  # topics on which the broker has acknowledged a reading
        self.suspects: dict[Key, Suspicion] = {}
        self.blocked: dict[Key, Block] = {}
        self.pings = 0  # PINGREQ that the broker has not answered
        self.asks = 0  # SUBSCRIBE and UNSUBSCRIBE likewise
        # Whether something at QoS 0 was sent that it may not have read, and a ping after that.
        self.has_unread = self._is_unread_asked = False
        self.heard_at = 0.0  # the broker, last
        self.is_trial_due = False  # suspects are tried though others wait
        self.trial_at = inf
        self.relax_at = inf
        self.turn_at = inf  # something may go though nothing is received
        self.patience_at = inf  # until then what all waits for must be answered
        self.is_waiting_over = False  # it was not, and on this connection nothing waits any more
        self._is_open = False
        self._opened_at = 0.0
        self._was_open = False
        self._short = 0
        self._ends_instead = False  # the broker has ended a connection for a reading
        self._refused: Alone | None = None  # the last answer of the broker was no to this
        self._refused_at = 0.0

    # Questions

    def is_blocked(self, key: Key, size: int, now: float) -> bool:
        """Not to be sent at present. `size`: payload bytes of a reading."""
        block = self.blocked.get(key)
        if block is not None and now < block.until and size >= block.bytes_min:
            return True
        if key[0] != READING or key[2] in self.proven:
            return False
        block = self.blocked.get((READING, key[1], ANY_TOPIC))
        return block is not None and now < block.until

    def is_suspect(self, key: Key, now: float) -> bool:
        """To be tried only when the others have gone."""
        if key in self.suspects:
            return True
        block = self.blocked.get(key)
        return block is not None and now >= block.until

    def goes_alone(self, topic: str, qos: int) -> bool:
        """Of a reading that is no suspect."""
        if self.degree == EVERYTHING:
            return True
        if self.degree == OFF and not self._ends_instead:
            return False
        # That one at QoS 0 was taken only a ping tells, so it waits for a reason.
        return topic not in self.proven and (qos > 0 or self._ends_instead)

    # From the connection

    def opened(self, now: float, *, lasts_s: float, has_backlog: bool) -> None:
        """`lasts_s`: after so long this connection counts as one that lasts."""
        self._is_open = True
        self._opened_at = now
        self.pings = self.asks = 0
        self.is_waiting_over = False
        self.has_unread = self._is_unread_asked = False
        self.is_trial_due = False
        self.trial_at = now + TRIAL_AFTER_S
        for key in [key for key, one in self.suspects.items() if now - one.at > FORGET_S]:
            del self.suspects[key]
        self.relax_at = now + lasts_s
        if self._short >= SHORT_MAX:
            self.degree = EVERYTHING
        elif self.suspects or self._short:
            self.degree = UNPROVEN
        elif (self._was_open or has_backlog) and self._probe_s:
            self.degree = UNPROVEN
            self.relax_at = now + min(self._probe_s, lasts_s)
        else:
            self.relax_at = inf
        self._was_open = True
        self._update()

    def closed(
        self, now: float, *, by_broker: bool, only: Reading | None, is_unanswered: bool
    ) -> Verdict:
        """The connection has ended. `by_broker`: it ended it, perhaps for something that was sent;
        `only`: the one reading in flight, if nothing else waited for an answer; `is_unanswered`:
        whether anything did.
        """
        alone, refused = self.alone, self._refused
        self.alone = self._refused = None
        is_first = self._is_open
        self._is_open = False
        self.trial_at = self.relax_at = self.turn_at = self.patience_at = inf
        if not is_first or not by_broker:
            return Verdict()
        verdict = Verdict()
        is_only_alone = alone is not None or not is_unanswered
        if refused is not None and is_only_alone and now - self._refused_at <= AT_ONCE_S:
            self._ends_instead = True
            self._block(refused, now)
            verdict = Verdict(is_known=True)
        elif alone is not None and not alone.is_refused:
            verdict = Verdict(is_known=True, guilty=self._strike(alone, now))
        elif only is not None:  # it may have been a reading at QoS 0 as well
            verdict = Verdict(guilty=self._strike(Alone(reading_key(only), only), now))
        if verdict.is_known:
            # It need not be what ended those before: while it is only suspected they still count,
            # and once it is found the next one of an unknown cause is enough.
            if refused is not None or verdict.guilty is not None:
                self._short = min(self._short, SHORT_MAX - 1)
        elif now - self._opened_at < LASTS_S:
            self._short += 1
        self._update()
        return verdict

    def sent_alone(self, alone: Alone) -> None:
        self.alone = alone
        self.patience_at = self.heard_at + PATIENCE_S

    def asked(self, count: int) -> None:
        """So many SUBSCRIBE and UNSUBSCRIBE are not answered."""
        if self.is_waiting_over:
            return
        if count > self.asks:
            self.patience_at = self.heard_at + PATIENCE_S
        self.asks = count
        if not count and self.alone is None:
            self.patience_at = inf

    def answered(self) -> None:
        """What was sent alone, with yes: it is no cause of anything. Of what was refused: the
        connection has not ended for it.
        """
        alone = self.alone
        if alone is None:
            return
        self.alone = self._refused = None
        if not self.asks:
            self.patience_at = inf
        if alone.is_refused:
            self._update()
            return
        self.suspects.pop(alone.key, None)
        self.blocked.pop(alone.key, None)
        if alone.reading is not None:
            self.prove(alone.reading.topic)
        self._update()

    def refused(self, reading: Reading) -> None:
        """The broker said no to a reading. If that went alone nothing follows until a ping is
        answered, or what follows would be suspected when the broker ends the connection for it.
        """
        self._refused, self._refused_at = Alone(reading_key(reading), reading), self.heard_at
        if self.alone is not None and self.alone.reading is reading:
            self.suspects.pop(self.alone.key, None)
            self.alone.needs_ping = self.alone.is_refused = True
            self._update()

    def ended_otherwise(self, reading: Reading) -> None:
        """The broker has answered for a reading, and it will be sent once more."""
        if self.alone is not None and self.alone.reading is reading:
            self.alone = None
            self._update()

    def accepted(self) -> None:
        """The broker has said yes to something since it last said no."""
        self._refused = None

    def sent_unread(self) -> None:
        """Something that has no answer."""
        self.has_unread, self._is_unread_asked = True, False

    def ping(self) -> Transmit:
        """PINGREQ, by whose answer the broker has read what went before."""
        self.pings += 1
        self._is_unread_asked = True
        return Transmit(PINGREQ)

    def ask_whether_read(self) -> list[Output]:
        """A ping, if only that will tell and none has been sent for it."""
        return [self.ping()] if self.has_unread and not self._is_unread_asked else []

    def ping_answered(self) -> None:
        self.pings = max(0, self.pings - 1)
        if self._is_unread_asked and not self.pings:
            self.has_unread = False
        if self.alone is not None and self.alone.needs_ping and not self.pings:
            self.answered()

    def prove(self, topic: str) -> None:
        if len(self.proven) >= TOPICS_MAX:
            self.proven.clear()
        self.proven.add(topic)

    def forgive(self, key: Key) -> None:
        """An operator wants it sent once more."""
        self.blocked.pop(key, None)
        self.blocked.pop((key[0], key[1], ANY_TOPIC), None)
        self.suspects.pop(key, None)
        self._update()

    # Time

    def put_off_relaxing(self, now: float) -> None:
        """Not all that is to go alone has had its turn."""
        if now >= self.relax_at:
            self.relax_at = now + LOOK_AGAIN_S

    def ask_for_turn(self) -> None:
        """Something is wanted that is not to go beside others, if there are any."""
        self.turn_at = self.heard_at

    def wake_at(self) -> float:
        if not self.is_on:
            return inf
        return min(min(self.trial_at, self.relax_at), min(self.turn_at, self.patience_at))

    def handle_time(self, now: float) -> bool:
        """Whether something may go now that had to wait."""
        if now < self.wake_at():
            return False
        self.turn_at = inf
        if now >= self.patience_at:
            self._stop_waiting()
        if now >= self.relax_at:
            self.relax_at = inf
            self._short = 0
        if now >= self.trial_at:
            self.trial_at, self.is_trial_due = inf, True
        self._update()
        return True

    # Helpers

    def _stop_waiting(self) -> None:
        """The broker does not answer what all waits for, and does not end the connection for it."""
        self.patience_at = self.relax_at = inf
        self.is_waiting_over, self.has_unread = True, False
        self.alone, self.asks = None, 0

    def _strike(self, alone: Alone, now: float) -> Alone | None:
        """Once more the connection ended with it; returned if it is guilty now."""
        suspicion = self.suspects.get(alone.key)
        if suspicion is None:
            if len(self.suspects) >= KEYS_MAX:
                del self.suspects[next(iter(self.suspects))]
            suspicion = self.suspects[alone.key] = Suspicion(0, now)
        suspicion.strikes += 1
        suspicion.at = now
        is_again = alone.key in self.blocked  # it was on trial
        if suspicion.strikes < STRIKES_MAX and alone.key[0] != OWN and not is_again:
            return None
        del self.suspects[alone.key]
        self._block(alone, now)
        if alone.key[0] == READING:
            self._ends_instead = True
        return alone

    def _block(self, alone: Alone, now: float) -> None:
        key = alone.key
        size = 0 if alone.reading is None else len(alone.reading.payload)
        before = self.blocked.pop(key, None)
        if before is not None:
            size = min(size, before.bytes_min)
        elif len(self.blocked) >= KEYS_MAX:
            del self.blocked[next(iter(self.blocked))]
        seconds = BLOCK_S if before is None else min(2 * before.seconds, BLOCK_S_MAX)
        self.blocked[key] = Block(now + seconds, seconds, size)
        if key[0] == READING and key[2] != ANY_TOPIC:
            of_client = [one for one in self.blocked if one[:2] == key[:2] and one[2] != ANY_TOPIC]
            if len(of_client) >= CLIENT_KEYS_MAX:
                self.blocked[READING, key[1], ANY_TOPIC] = Block(now + BLOCK_S, BLOCK_S)
        self._update()

    def _update(self) -> None:
        if self._is_open and self.relax_at == inf:
            self.degree = UNPROVEN if self.suspects else OFF
        self.has_blocked = bool(self.blocked)
        self.is_on = not self.is_waiting_over and bool(
            self.degree != OFF
            or self.suspects
            or self.blocked
            or self.alone is not None
            or self._ends_instead
        )
