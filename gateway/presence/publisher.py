"""Publishes what the queue has: of the gateway, of its devices, for Home Assistant.

Readings come first. Presence is QoS 0 and goes past the journal: it needs no packet id, no place in
the broker's window and no write, so no PUBACK waits for it, and it can be made again at any time,
which a reading cannot. Announcements for Home Assistant go at QoS 1 where the window has room, for
the sake of the broker's answer: a refusal is an alarm. All goes a few messages at a time
(`BEAT_S`), a tenth of that while readings wait for the broker, and nothing while the broker takes
nothing; one by one while something ends the connections (core/mqtt/caution.py). Where very much is
due and none of it is urgent, it waits until `TOGETHER` may go: to wake up costs a millisecond,
whatever is sent.

Limit: `presence.messages_per_s_max`, and one message a beat however low that is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import astuple, replace
from time import monotonic
from typing import TYPE_CHECKING

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
from gateway.core.state_records import ClientId
from gateway.host.slow_callbacks import Callback, SlowCallbacks
from gateway.presence.numbers import PresenceNumbers
from gateway.presence.queue import ONLINE, PresenceQueue
from gateway.presence.standing import OFFLINE, standing_in
from gateway.presence.topics import is_announcement
from gateway.presence.values import Value
from gateway.transports.clock import now, pauses, unix_ms_at_zero

if TYPE_CHECKING:
    from gateway.presence.latest import Latest, Series

log = logging.getLogger("tidegate.presence")

BEAT_S = 0.25
TOGETHER = 50
FLUSH_POLL_S = 0.02  # at the end
WHILE_READINGS_WAIT = 10  # the pace is divided by it


class PresencePublisher:
    def __init__(
        self,
        *,
        engine: Engine,
        saying: PresenceQueue,
        perform: Callable[[Sequence[Output]], object],
        messages_per_s_max: float,
        clock: Callable[[], float] = now,
        birth: Container[str] = (),
        slow: SlowCallbacks | None = None,
    ) -> None:
        """`birth`: what the subscription to Home Assistant's birth message may be called."""
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
        self._sent = 0  # messages
        self._timer: asyncio.TimerHandle | None = None

    # From the daemon

    def listen_to(self, latest: Latest) -> None:
        """For Home Assistant: values of readings."""
        latest.on_decoded = self._on_values

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Restores what the broker may have; call it before the first datagram is received."""
        sessions = self._engine.sessions
        if self._queue.board is not None:
            self._queue.board.started_at = self._now()
        self._queue.restore(lambda client_id: client_id in sessions)
        self._timer = loop.call_later(BEAT_S, self._on_timer, loop)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._queue.flush()

    async def flushed(self) -> None:
        """Returns when the ledger has all that was sent."""
        while True:
            if self._timer is None or not self._queue.flush():
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
            if board is not None and standing_in(effect.after) in OFFLINE:
                board.departed(effect.client_id, effect.after, effect.peer, self._now())
        elif type(effect) is UpstreamUp:
            self._refusal = self._announcement_refusal = None
            self._queue.connected()
        elif type(effect) is SubscriptionRefused and effect.topic_filter in self._birth:
            self._refusal = effect.reason
        elif type(effect) is OwnTopicRefused:
            if self._announcement_refusal is None:
                log.warning("the broker refused an announcement: %s: %s", *astuple(effect))
            self._announcement_refusal = effect.reason
        elif type(effect) is OwnTopicReceived:
            self._own_topic_received(effect.payload)

    def _own_topic_received(self, payload: bytes) -> None:
        if payload == ONLINE and self._queue.announcements is not None:
            log.info("Home Assistant has started: everything is announced again")
            self._queue.announcements.announce_all()

    def _on_values(self, series: Series, values: Iterable[Value]) -> None:
        announcements = self._queue.announcements
        if announcements is not None and series.client_id in self._engine.sessions:
            announcements.received(series.client_id, series.topic, values, series.at)

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

    def beat(self, at: float) -> None:
        """Each BEAT_S: scan the next devices, and send what may go now."""
        upstream = self._engine.upstream
        if upstream.phase is not Phase.UP:
            return
        if self._queue.board is not None:
            self._queue.board.unix_s_at_zero = unix_ms_at_zero() / 1000 + pauses.left_out_s
        self._queue.collect(at)
        outputs: list[Output] = []
        for _ in range(self._messages()):
            message = self._queue.next(at)
            if message is None:
                break
            self._sent += 1
            asks = is_announcement(message.topic)
            outputs += upstream.say(message.topic, message.payload, wants_answer=asks)
        if outputs:
            self._perform(outputs)
        self._queue.flush()
        for line in (
            () if self._queue.announcements is None else (self._queue.announcements.take_lines())
        ):
            log.warning("%s", line)

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
