"""Publishes what the queue has: of the gateway, of its devices, for Home Assistant.

Readings come first. Presence is QoS 0 and goes past the journal: it needs no packet id, no place in
the broker's window and no write, so no PUBACK waits for it, and it can be made again at any time,
which a reading cannot. Announcements for Home Assistant go at QoS 1 where the window has room, for
the sake of the broker's answer: a refusal is an alarm. All goes a few messages at a time
(`BEAT_S`), a tenth of that while readings wait for the broker, and nothing while the broker takes
nothing; one by one while something ends the connections (core/mqtt/caution.py). Where very much is
due and none of it is urgent, it waits until `TOGETHER` may go: to wake up costs a millisecond,
whatever is sent.

A boolean, a text or an event of a reading does not wait for the beat: it goes within `SOON_S`, at
the expense of what the beats of the last second did not use.

Limit: `presence.messages_per_s_max`, and one message a beat however low that is.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from time import monotonic
from typing import TYPE_CHECKING

from gateway.core.clients.qos_minus_one import NOBODY
from gateway.core.effects import (
    Effect,
    OwnTopicReceived,
    OwnTopicRefused,
    StateChanged,
    SubscriptionRefused,
    UpstreamUp,
)
from gateway.core.engine import Engine
from gateway.core.events import Output
from gateway.core.mqtt.session import Phase
from gateway.core.state_records import ClientId, State
from gateway.core.values import Reading
from gateway.host.slow_callbacks import Callback, SlowCallbacks
from gateway.presence.numbers import PresenceNumbers
from gateway.presence.queue import ONLINE, PresenceQueue
from gateway.presence.standing import OFFLINE, standing_in
from gateway.presence.topics import NO_CONNECTION, is_announcement
from gateway.transports.clock import now, pauses, unix_ms_at_zero

if TYPE_CHECKING:
    from gateway.presence.documents import RetainedMessage
    from gateway.presence.latest import Latest
    from gateway.presence.records_file import RecordsFile

log = logging.getLogger("tidegate.presence")

BEAT_S = 0.25
TOGETHER = 50
FLUSH_POLL_S = 0.02  # at the end
WHILE_READINGS_WAIT = 10  # the pace is divided by it
SOON_S = 0.01  # from a reading to its values: others that come meanwhile are decoded with it
DECODED_MAX = 40  # readings at once: 2 ms
PENDING_MAX = 2000  # at the end: all
# The first letter of a key of the records file, which is followed by the client id as JSON.
VALUES_KEY = "v"
VISITS_KEY = "d"
BEATS_A_SECOND = round(1 / BEAT_S)


class PresencePublisher:
    def __init__(
        self,
        *,
        engine: Engine,
        saying: PresenceQueue,
        perform: Callable[[Sequence[Output]], object],
        messages_per_s_max: float,
        clock: Callable[[], float] = now,
        birth: str | None = None,
        slow: SlowCallbacks | None = None,
        records: RecordsFile | None = None,
    ) -> None:
        """`birth`: the topic of Home Assistant's birth message, as the broker has it.
        `records`: where values are over restarts.
        """
        self._engine = engine
        self._queue = saying
        self._perform = perform
        self._now = clock
        self._per_beat = messages_per_s_max * BEAT_S
        # Of a second, or of a beat where that is more.
        self._together = max(1.0, min(messages_per_s_max, TOGETHER), self._per_beat)
        self._birth = birth
        self._slow = slow or SlowCallbacks()
        self._refusal: str | None = None
        self._announcement_refusal: str | None = None
        self._credit = 0.0
        self._spare = 0.0  # what the beats before did not use, for changes of values
        self._sent = 0  # messages
        self._timer: asyncio.TimerHandle | None = None
        self._records = records
        self._loop: asyncio.AbstractEventLoop | None = None
        self._soon: asyncio.TimerHandle | None = None
        self._beats = 0

    # From the daemon

    def listen_to(self, latest: Latest) -> None:
        """For Home Assistant: values of readings."""
        latest.on_reading = self._on_reading

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Restores what the broker may have; call it before the first datagram is received."""
        if self._queue.board is not None:
            self._queue.board.started_at = self._now()
        self._set_clock()
        self._restore_records()
        self._queue.restore(self._is_known)
        self._loop = loop
        self._timer = loop.call_later(BEAT_S, self._on_timer, loop)

    def stop(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._decode(PENDING_MAX)
            self._flush(is_end=True)

    async def flushed(self) -> None:
        """Returns when the ledger has all that was sent."""
        while True:
            if self._timer is None or not self._flush(is_end=True):
                return
            await asyncio.sleep(FLUSH_POLL_S)

    # From an operator

    def clear(self, client_id: ClientId) -> None:
        """What the broker has of a device that has no session."""
        self._queue.clear(client_id)

    # From the shell

    def record(self, effect: Effect) -> None:
        """An effect of the engine in the past tense."""
        if type(effect) is StateChanged:
            board = self._queue.board
            if board is None:
                return
            client_id, before = effect.client_id, effect.before
            if standing_in(effect.after) in OFFLINE:
                board.departed(client_id, effect.after, effect.peer, self._now(), before)
            elif effect.after is State.ACTIVE and before is State.CONNECTING:
                board.came(client_id, self._now())
        elif type(effect) is UpstreamUp:
            self._refusal = self._announcement_refusal = None
            self._queue.connected()
        elif type(effect) is SubscriptionRefused and effect.topic_filter == self._birth:
            self._refusal = effect.reason
        elif type(effect) is OwnTopicRefused:
            if self._announcement_refusal is None:
                log.warning("the broker refused an announcement: %s: %s", *astuple(effect))
            self._announcement_refusal = effect.reason
        elif type(effect) is OwnTopicReceived:
            self._own_topic_received(effect)

    def _own_topic_received(self, received: OwnTopicReceived) -> None:
        is_birth = received.topic == self._birth and received.payload == ONLINE
        if is_birth and self._queue.announcements is not None:
            log.info("Home Assistant has started: everything is announced again")
            self._queue.announcements.announce_all()

    def _on_reading(self, reading: Reading) -> None:
        values = self._queue.values
        client_id = self._device_of(reading)
        if values is None or client_id is None:
            return
        values.receive(client_id, reading.topic, reading.payload, reading.received_at)
        if self._soon is None and self._loop is not None:
            self._soon = self._loop.call_later(SOON_S, self._on_soon, self._loop)

    def _device_of(self, reading: Reading) -> ClientId | None:
        """Of a sensor without a connection (QoS -1) its topic is all that is known."""
        if reading.client_id != NOBODY:
            return reading.client_id if self._is_known(reading.client_id) else None
        client_id, board = ClientId(f"{NO_CONNECTION}{reading.topic}"), self._queue.board
        if board is None or not board.received_without_connection(client_id, self._now()):
            return None
        return client_id

    def _is_known(self, client_id: ClientId) -> bool:
        board = self._queue.board
        return client_id in self._engine.sessions or (board is not None and board.knows(client_id))

    # For status and metrics

    def numbers(self) -> PresenceNumbers:
        return replace(
            self._queue.numbers(),
            refusal=self._refusal,
            announcement_refusal=self._announcement_refusal,
        )

    # From the watch

    def mark(self) -> int | None:
        """Of what is to be sent, and may be; None without any."""
        engine = self._engine
        may_send = engine.upstream.phase is Phase.UP and not engine.is_congested
        return self._sent if may_send and self._queue.waiting else None

    # Time

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(BEAT_S, self._on_timer, loop)
        began = monotonic()
        self.beat(self._now())
        self._slow.ended(Callback.PRESENCE, began)

    def _on_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Values of readings, and those of them that do not wait for the next beat."""
        began = monotonic()
        self._soon, at = None, self._now()
        self._decode(DECODED_MAX)
        queue = self._queue
        if queue.values is not None and queue.values.has_pending:
            self._soon = loop.call_later(SOON_S, self._on_soon, loop)
        upstream = self._engine.upstream
        may_send = upstream.phase is Phase.UP and not self._engine.is_congested
        if may_send and upstream.own_messages_max is None:
            messages: list[RetainedMessage] = []
            while self._spare >= 1 and (message := queue.next_value_change(at)) is not None:
                self._spare -= 1
                messages.append(message)
            self._send(messages)
        self._slow.ended(Callback.PRESENCE, began)

    def beat(self, at: float) -> None:
        """Each BEAT_S: scan the next devices, and send what may go now."""
        self._beats += 1
        self._set_clock()
        self._decode(DECODED_MAX)
        self._take_values(at)
        if self._engine.upstream.phase is Phase.UP:
            self._queue.collect(at)
            messages: list[RetainedMessage] = []
            allowed = self._messages()
            while len(messages) < allowed and (message := self._queue.next(at)) is not None:
                messages.append(message)
            self._spare = min(self._together, self._spare + allowed - len(messages))
            self._send(messages)
        self._flush()

    def _send(self, messages: Sequence[RetainedMessage]) -> None:
        outputs: list[Output] = []
        for each in messages:
            self._sent += 1
            outputs += self._engine.upstream.say(
                each.topic,
                each.payload,
                retain=each.retain,
                wants_answer=is_announcement(each.topic),
            )
        if outputs:
            self._perform(outputs)
        announcements, board = self._queue.announcements, self._queue.board
        lines = [] if announcements is None else announcements.take_lines()
        if board is not None and board.pending is not None:
            lines += board.pending.take_lines()
        for line in lines:
            log.warning("%s", line)

    def _set_clock(self) -> None:
        unix_s_at_zero = unix_ms_at_zero() / 1000 + pauses.left_out_s
        if self._queue.board is not None:
            self._queue.board.unix_s_at_zero = unix_s_at_zero
        if self._queue.values is not None:
            self._queue.values.unix_s_at_zero = unix_s_at_zero

    # Values

    def _decode(self, readings_max: int) -> None:
        values = self._queue.values
        if values is not None:
            values.decode(readings_max)
            for note in values.take_notes():
                log.info("values for Home Assistant: %s", note)

    def _take_values(self, at: float) -> None:
        """Once a second: what changed meanwhile is published together. What is new is announced."""
        values, announcements = self._queue.values, self._queue.announcements
        if values is None or announcements is None:
            return
        if self._beats % BEATS_A_SECOND and not values.has_new:
            return
        values.expire(at)
        for declared in values.take_declared():
            announcements.declare(*declared)
        for received in values.take_received():
            announcements.learn(received, at)
        for client_id in values.take_fresh():
            announcements.publish(client_id)

    def _restore_records(self) -> None:
        values, records = self._queue.values, self._records
        if values is None or records is None:
            return
        now, board = self._now(), self._queue.board
        # In the order of the keys: a device without a session is known by its visits.
        for key, row in sorted(records.load().items()):
            try:
                kind, client_id = key[:1], ClientId(json.loads(key[1:]))
                if kind == VISITS_KEY and board is not None:
                    board.restore(client_id, json.loads(row), now)
                elif kind == VALUES_KEY and self._is_known(client_id):
                    values.restore(client_id, row, now)
                else:
                    records.put(key, "")
            except (ValueError, TypeError, AttributeError):  # no row of ours
                records.put(key, "")

    def _flush(self, *, is_end: bool = False) -> bool:
        """Write what has changed; whether something is on its way."""
        values, records = self._queue.values, self._records
        is_under_way = self._queue.flush()
        if values is None or records is None:
            return is_under_way
        if not is_end and not records.is_ready:
            return records.flush() or is_under_way
        for client_id, row in values.take_rows():
            records.put(f"{VALUES_KEY}{json.dumps(client_id)}", row)
        for client_id, visits in [] if self._queue.board is None else self._queue.board.take_rows():
            text = json.dumps(visits) if visits else ""
            records.put(f"{VISITS_KEY}{json.dumps(client_id)}", text)
        return records.flush(is_end=is_end) or is_under_way

    def _messages(self) -> int:
        """How many may go now."""
        if self._engine.is_congested:
            return 0
        allowed = self._engine.upstream.own_messages_max
        if allowed is not None:
            return allowed
        pace = self._per_beat
        if self._engine.upstream.publisher.in_flight.has_waiting:
            pace /= WHILE_READINGS_WAIT
        self._credit = min(self._credit + pace, self._together)
        whole = int(self._credit)
        queue, together = self._queue, int(self._together)
        if whole < together < queue.waiting and not queue.is_urgent:
            return 0
        self._credit -= whole
        return whole
