"""One end of what a device and a gateway send to each other under one key.

An envelope has a series (2 bytes of the crypto material, beside the key epoch) and a counter. The
other end takes it if it is of the series that it knows, and its counter new there. Everything else
with a right tag may be a replay: nothing of it is done, and its sender is asked.

Rule 1: a question has a token, drawn at random. Who answers with it has the key and is there now;
        the series of the answer is the one that counts from then on, from this counter on.
Rule 2: the one who asks says in which series to answer: the one after the last that it knows. So no
        series that counts is one that was there before, also where a sender lost its memory, or got
        an old one back.
Rule 3: a sender takes another series when it is asked for what it sent last, and else for nothing:
        questions that are sent again from a recording change nothing, and wear no flash.
Rule 4: a head is never used twice with one key. The counter goes on after a restart where the last
        block ended that was saved; a new series begins anywhere below 2^30; and the four random
        bytes are drawn for each run. So even where all memory is lost, or comes back from a copy,
        two heads are the same with a chance of 2^-32 at most, for two runs whose counters meet.
Rule 5: a counter that is not above all that came, from another run than the last one, is no copy:
        its sender got an old memory back, and is asked, lest it be refused for as long as the
        window. The same of a packet that a restart of its sender has overtaken.
Rule 6: series 0 is that of a sender without memory. It is taken by no one.

Limits: QUESTIONS_PER_S_MAX questions and answers a second, so that recordings cost no more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from hmac import compare_digest

from gateway.core.addresses import PROTECTED_MARK
from gateway.core.protection import freshness
from gateway.core.protection.envelope import (
    HMAC_SHA256,
    LONG_LENGTH,
    RANDOM_BYTES,
    SHORT_HEAD_BYTES,
    Envelope,
    fields_in,
    fields_of,
    with_length,
)
from gateway.core.protection.freshness import MARK, TOKEN_BYTES, Question
from gateway.core.protection.replay_window import AHEAD_MAX, Age, ReplayWindow
from gateway.core.protection.schemes import (
    TO_DEVICE,
    TO_GATEWAY,
    AesCcm,
    HmacSha256,
    scheme_of,
)
from gateway.frames import Forwarded

NO_SERIES = 0
SERIES_MAX = 0xFFFF
COUNTER_MAX = 0xFFFF_FFFF
TAG_BYTES = 16  # as long as one need be
BLOCK = 2 * AHEAD_MAX  # counters that a gateway saves at a time
DEVICE_BLOCK = 1000  # less than AHEAD_MAX, so that a device may restart without a question
RECENT = 8  # counters of a sender that a question may be about
QUESTIONS_PER_S_MAX = 20
_FIRST_BITS = 30
_MATERIAL_BYTES = 4
_COUNTER_BYTES = 4

Random = Callable[[int], bytes]


class Verdict(Enum):
    FRESH = "fresh"
    FORGED = "forged"
    REPLAYED = "replayed"
    UNFRESH = "unfresh"  # right, and perhaps a replay: its sender is asked


@dataclass(slots=True)
class Memory:
    """What outlasts a restart: from `next_counter` on none was used in `series`, and up to `bound`
    none is taken in `received_series`. `scheme`, `tag_bytes`: in which a device was heard last, so
    that what it had encrypted is encrypted for it.
    """

    series: int = NO_SERIES
    next_counter: int = 0
    received_series: int = NO_SERIES
    bound: int = 0
    scheme: int = HMAC_SHA256
    tag_bytes: int = TAG_BYTES


@dataclass(slots=True)
class Opened:
    """`packet`: empty where there was none, or it is not to be looked at. `reply`: an envelope that
    is to go back at once, if any.
    """

    verdict: Verdict
    packet: bytes = b""
    reply: bytes = b""


class Channel:
    """`has_changed`: what is in `memory` is other than when this was set to False last."""

    def __init__(
        self,
        *,
        sender_id: bytes,
        secret: bytes,
        epoch: int,
        random: Random,
        memory: Memory | None = None,
        is_device: bool = False,
        scheme: int = HMAC_SHA256,
        tag_bytes: int = TAG_BYTES,
    ) -> None:
        """`random`: so many random bytes. `is_device`: of the two ends this is the device's, which
        sends again what was refused; a gateway leaves that to its timers. `scheme` and `tag_bytes`:
        in which to send; a gateway sends as its device did last.
        """
        self.secret = secret
        self.sender_id = sender_id
        self.peer_tail = sender_id + PROTECTED_MARK  # of the address of a protected peer
        self.epoch = epoch
        self.has_changed = False
        self.heard = b""  # fields (envelope.py) of the envelope that was fresh last
        self._random = random
        self._run = random(RANDOM_BYTES)
        self._is_device = is_device
        self._sending, self._receiving = TO_DEVICE, TO_GATEWAY
        if is_device:
            self._sending, self._receiving = TO_GATEWAY, TO_DEVICE
        if memory is not None and not is_device:
            scheme, tag_bytes = memory.scheme, memory.tag_bytes
        self._sent_by = (scheme, tag_bytes)
        self._fields = b""  # of the head, in this series and scheme; made when it is needed
        self._before_counter = b""  # the same, and the length
        self._content_bytes = 0  # for which that length is
        self._sends: HmacSha256 | AesCcm | None = None
        self._opens: HmacSha256 | AesCcm | None = None
        self._opens_by = (scheme, 0)  # none has a tag of this length
        self._opened_heard: HmacSha256 | AesCcm | None = None
        self._schemes: dict[tuple[bytes, int, int], HmacSha256 | AesCcm] = {}
        memory = memory or Memory()
        self._series = memory.series
        self._next = self._top = memory.next_counter
        self._first = memory.next_counter  # of this run, in this series
        self._last_packet = b""
        self._received_series = memory.received_series
        self._received_run = b""
        # A device saves nothing of what it has received, and takes a gateway's blocks as they come.
        self._ahead_max = COUNTER_MAX if is_device else AHEAD_MAX
        self._block, self._margin = (DEVICE_BLOCK, 1) if is_device else (BLOCK, AHEAD_MAX)
        self._window = ReplayWindow(memory.bound, self._ahead_max)
        self._bound = memory.bound
        self._asked = b""  # a token, until it is answered
        self._new_series = NO_SERIES  # in which the answer is to be
        self._takes_any = False  # series, in the answer
        self._second = -1
        self._questions = 0
        if self._series == NO_SERIES:
            self._begin_series(NO_SERIES)

    def __repr__(self) -> str:
        return f"Channel({self.sender_id.hex()}, {self.epoch})"

    # Memory

    def memory(self) -> Memory:
        """To be saved while this runs."""
        if self._is_device:  # it asks after a restart
            return self._memory(self._top, NO_SERIES, 0)
        return self._memory(self._top, self._received_series, self._bound)

    def memory_at_end(self) -> Memory:
        """To be saved when nothing is sent or received any more."""
        return self._memory(self._next, self._received_series, self._window.highest)

    def _memory(self, next_counter: int, received_series: int, bound: int) -> Memory:
        """At the end of all counters the next run begins another series."""
        series = self._series
        if next_counter > COUNTER_MAX:
            series, next_counter = NO_SERIES, 0
        bound = min(bound, COUNTER_MAX)
        return Memory(series, next_counter, received_series, bound, *self._sent_by)

    @property
    def scheme(self) -> int:
        """In which it sends."""
        return self._sent_by[0]

    def reserve(self) -> None:
        """After a restart, before anything is sent or received."""
        self._top = self._next + self._block
        if self._received_series != NO_SERIES:
            self._bound = self._window.highest + BLOCK
        self.has_changed = True

    # Sending

    def seal(self, packet: bytes) -> bytes:
        """In an envelope. Raises ValueError for one that is too long."""
        self._last_packet = packet
        if self._is_device and self._received_series == NO_SERIES:
            return self._seal(freshness.written(self._question(None), b"", packet))
        return self._seal(packet)

    def _seal(self, content: bytes) -> bytes:
        counter = self._take_counter()
        if not self._fields or len(content) != self._content_bytes:
            self._begin_head(len(content))
        head = self._before_counter + counter.to_bytes(_COUNTER_BYTES, "big")
        sends = self._sends
        assert sends is not None
        return head + sends.seal(head, content)

    def _begin_head(self, content_bytes: int) -> None:
        """What is the same for all packets of this length: most have one of a few."""
        scheme, tag_bytes = self._sent_by
        if not self._fields:
            material = self.epoch.to_bytes(2, "big") + self._series.to_bytes(2, "big")
            self._fields = fields_of(
                scheme, tag_bytes, self.sender_id, self._run, material, _COUNTER_BYTES
            )
            self._sends = self._scheme(self._sending, scheme, tag_bytes)
        behind = _COUNTER_BYTES + content_bytes + tag_bytes
        self._before_counter = with_length(self._fields, behind)
        self._content_bytes = content_bytes

    def _take_counter(self) -> int:
        if self._next > COUNTER_MAX:
            self._begin_series(NO_SERIES)  # the other end asks then, and says in which to go on
        counter = self._next
        self._next += 1
        if self._series != NO_SERIES and self._next > self._top - self._margin:
            self._top = self._next + self._block
            self.has_changed = True
        return counter

    def _begin_series(self, series: int) -> None:
        drawn = int.from_bytes(self._random(4), "big") & (1 << _FIRST_BITS) - 1
        self._series = series
        # Where two gateways choose the series of one device, one may come that was there before.
        self._run = self._random(RANDOM_BYTES)
        self._fields = b""
        self._first = self._next = drawn + 1
        self._top = self._next + self._block if series != NO_SERIES else self._next
        self.has_changed = True

    # Receiving

    def open_next(self, datagram: bytes) -> bytes | None:
        """What is in an envelope with a short length whose fields are those of `heard`. None, and
        nothing was done, where anything is not as it nearly always is: `open` says what it is then.
        """
        opens, window = self._opened_heard, self._window
        if opens is None or len(datagram) <= SHORT_HEAD_BYTES + opens.tag_bytes:
            return None
        counter = (
            datagram[SHORT_HEAD_BYTES - 4] << 24
            | datagram[SHORT_HEAD_BYTES - 3] << 16
            | datagram[SHORT_HEAD_BYTES - 2] << 8
            | datagram[SHORT_HEAD_BYTES - 1]
        )
        ahead = counter - window.highest
        if ahead <= 0 or ahead > self._ahead_max or counter > self._bound - AHEAD_MAX:
            return None
        content = opens.open(datagram[:SHORT_HEAD_BYTES], datagram[SHORT_HEAD_BYTES:])
        if content is None or len(content) < 2:
            return None
        if content[0] <= LONG_LENGTH or content[1] >= Forwarded.KIND:
            return None  # a question, an answer, a long packet, or an encapsulation
        window.commit(counter)
        return content

    def open(self, envelope: Envelope, now: float) -> Opened:
        """Of this sender and key epoch, with a material and a counter of 4 bytes each. `now` in
        seconds. Raises MalformedFrame for what has a right tag and is nothing that is known.
        """
        assert envelope.counter is not None
        assert len(envelope.material) == _MATERIAL_BYTES
        by = (envelope.scheme, envelope.tag_bytes)
        if self._opens is None or by != self._opens_by:
            self._opens_by, self._opens = by, self._scheme(self._receiving, *by)
        content = self._opens.open(envelope.head, envelope.sealed)
        if content is None:
            return Opened(Verdict.FORGED)
        series, counter = int.from_bytes(envelope.material[2:], "big"), envelope.counter
        if not content.startswith(MARK):  # as nearly all are
            talk, age = None, self._age(envelope.random, series, counter, b"")
        else:
            talk = freshness.read(content)
            content = talk.packet
            age = self._age(envelope.random, series, counter, talk.answer)
        if age is Age.SEEN:
            return Opened(Verdict.REPLAYED)
        before = self._sent_by
        if by != before and not self._is_device:
            self._sent_by, self._fields = by, b""
        if age is Age.NEW:
            self.heard, self._opened_heard = fields_in(envelope.head), self._opens
            self.has_changed |= by != before
            reply = b""
            if talk is not None:
                reply = self._reply(talk.question, None, now)
            return Opened(Verdict.FRESH, content, reply)
        asked = None if talk is None else talk.question
        reply = self._reply(asked, Question(b"", series, counter), now)
        if by != before:
            self._sent_by, self._fields = before, b""
        return Opened(Verdict.UNFRESH, b"", reply)

    def _age(self, run: bytes, series: int, counter: int, answer: bytes) -> Age:
        """Commits what is new: its tag was right."""
        if series == NO_SERIES:
            return Age.OLD
        is_answer = answer and self._asked and compare_digest(answer, self._asked)
        if is_answer and (self._takes_any or series == self._new_series):
            self._asked = b""
            self._received_series = series
            self._received_run = run
            self._window = ReplayWindow(counter, self._ahead_max, is_seen=True)
            self._extend()
            return Age.NEW
        if series != self._received_series:
            return Age.OLD
        if run != self._received_run and counter <= self._window.highest:
            return Age.OLD
        age = self._window.judge(counter)
        if age is Age.NEW:
            self._received_run = run
            self._window.commit(counter)
            if counter > self._bound - AHEAD_MAX:
                self._extend()
        return age

    def _extend(self) -> None:
        self._bound = self._window.highest + BLOCK
        self.has_changed = True

    # Questions

    def _reply(self, asked: Question | None, refused: Question | None, now: float) -> bytes:
        """What goes back at once: the answer to a question, and one of our own."""
        answer, packet = b"", b""
        if asked is not None and self._is_to_answer(asked):
            is_about_last = asked.series == self._series and asked.counter == self._next - 1
            if asked.new_series not in (NO_SERIES, self._series):
                is_unknown = self._series == NO_SERIES
                if is_unknown or (asked.series == self._series and asked.counter):
                    self._begin_series(asked.new_series)
            answer = asked.token
            packet = self._last_packet if is_about_last and self._is_device else b""
        question = self._question(refused) if refused is not None else None
        if (question is None and not answer) or not self._may_talk(now):
            return b""
        return self._seal(freshness.written(question, answer, packet))

    def _is_to_answer(self, asked: Question) -> bool:
        """Whether it is about nothing, or about what was sent just now."""
        if not asked.counter:
            return True
        first = max(self._first, self._next - RECENT)
        return asked.series == self._series and first <= asked.counter < self._next

    def _question(self, refused: Question | None) -> Question:
        """The same until it is answered, but for what it is about."""
        known = self._received_series
        if not self._asked:
            self._asked = self._random(TOKEN_BYTES)
            drawn = int.from_bytes(self._random(2), "big") % SERIES_MAX
            self._new_series = 1 + (drawn if known == NO_SERIES else known % SERIES_MAX)
            # Nothing is known of the gateway: the series that it has, if it has one, will do.
            self._takes_any = self._is_device and known == NO_SERIES
        if self._takes_any or refused is None:
            return Question(self._asked, new_series=self._new_series)
        return Question(self._asked, refused.series, refused.counter, self._new_series)

    def _may_talk(self, now: float) -> bool:
        second = int(now)
        if second != self._second:
            self._second, self._questions = second, 0
        self._questions += 1
        return self._questions <= QUESTIONS_PER_S_MAX

    def _scheme(self, direction: bytes, scheme: int, tag_bytes: int) -> HmacSha256 | AesCcm:
        """At most as many as there are schemes and tag lengths."""
        key = (direction, scheme, tag_bytes)
        found = self._schemes.get(key)
        if found is None:
            found = self._schemes[key] = scheme_of(
                scheme, tag_bytes, self.secret, direction, self.epoch, self.sender_id
            )
        return found
