"""From the broker to segments: receives, writes, and acknowledges only what is durable.

The shell around three values without I/O: the session has what goes on the wire, the batch when a
segment is due, the writer (in its thread) makes it. Here they meet: one loop, one timer.

Rule 1: PUBACK goes out when `write` has returned, never before. If it raises, the same messages are
        tried again, later; meanwhile nothing is acknowledged, the Receive Maximum fills, and the
        broker keeps the rest. A full disk costs time, not messages.
Rule 2: one segment is written at a time, while the next batch fills.
Rule 3: when a segment is durable, PUBACK goes to the broker first, then receipts to the gateways
        whose readings are in it (receipts.py).
Rule 4: with `held_bytes_max` in memory nothing is read from the broker until some are durable.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import partial
from math import inf
from typing import assert_never

from spark_ingest.collect.batch import Batch, RotationOptions
from spark_ingest.collect.counters import Counters
from spark_ingest.collect.receipts import Receipt, ReceiptOptions, Receipts
from spark_ingest.collect.reconnecting import BrokerConnection, ConnectionCallbacks
from spark_ingest.collect.session import (
    CollectorSession,
    Drop,
    Effect,
    FormerEnded,
    NotSent,
    PropertiesIgnored,
    Received,
    SessionOptions,
    Skipped,
    Subscribed,
    Transmit,
    Unreadable,
    Unsubscribed,
)
from spark_ingest.collect.subscriptions import Subscriptions
from spark_ingest.config.problems import shown
from spark_ingest.payload.own_messages import LeavingOut
from spark_ingest.payload.record import Delivery
from spark_ingest.payload.topic_filters import matches
from spark_ingest.segments.writing import Writer, Written

log = logging.getLogger("tidegate.ingest.collector")

DISK_RETRY_S_MIN, DISK_RETRY_S_MAX = 1.0, 30.0
STOP_S_MAX = 10.0  # for the last segment
PROGRESS_S = 60.0
WARN_AGAIN_S = 60.0
RETIRE_IDLE_S = 2.0
# At a segment a second, what came in twenty times the interval of receipts.
SEGMENTS_REPEATED = 100
CHECKED_TOPICS_MAX = 10_000


class RefusedError(Exception):
    """The broker refuses the session, and to try again would not change that."""


class EndWhen(Enum):
    """When to end without a signal."""

    NEVER = "never"
    IDLE = "when_idle"
    RETIRED = "for_good"  # leave the group, drain what waits for us, and end the session


class DiskState(Enum):
    IDLE = "idle"
    BUSY = "busy"  # a segment is being written
    REFUSING = "refusing"  # the last one could not be; it waits for the next try


@dataclass(frozen=True, slots=True)
class CollectorOptions:
    session: SessionOptions
    rotation: RotationOptions
    host: str
    port: int
    tls: ssl.SSLContext | None
    receipts: ReceiptOptions
    connect_timeout_s: float
    reconnect_delay_s_max: float
    left_out: Sequence[str] = ()  # topic filters
    end_when: EndWhen = EndWhen.NEVER
    idle_s: float = RETIRE_IDLE_S


class Collector:
    def __init__(
        self,
        options: CollectorOptions,
        writer: Writer,
        counters: Counters,
        subscriptions: Subscriptions | None = None,
    ) -> None:
        """`subscriptions`: what the broker may hold; without it of former runs nothing is known."""
        self._options = options
        self._writer = writer
        self._counters = counters
        self._session = CollectorSession(options.session)
        self._subscriptions = subscriptions
        self._checked: set[str] | None = None  # None: topics are not checked
        self._receipts = Receipts(options.receipts)
        self._leaving_out = LeavingOut(options.left_out)
        self._batch = Batch(options.rotation, options.session.receive_max)
        self._disk = DiskState.IDLE
        self._in_work: list[Delivery] = []
        self._in_work_bytes = 0
        self._retry_at = 0.0
        self._retry_s = DISK_RETRY_S_MIN
        self._warned_at: dict[str, float] = {}
        self._received_at = inf  # the last message, or SUBACK; never while the broker is away
        self._loop: asyncio.AbstractEventLoop
        self._thread = ThreadPoolExecutor(1, "segments")
        self._timer: asyncio.TimerHandle | None = None
        self._written = asyncio.Event()
        self._ended: asyncio.Future[None]
        self._connection = BrokerConnection(
            options.host,
            options.port,
            options.tls,
            connect_timeout_s=options.connect_timeout_s,
            delay_s_max=options.reconnect_delay_s_max,
            callbacks=ConnectionCallbacks(self._opened, self._received, self._closed),
        )

    # From the owner

    async def run(self) -> None:
        """Until `stop`, or as the options have it. Raises RefusedError."""
        self._loop = asyncio.get_running_loop()
        for ids in self._writer.newest_ids(SEGMENTS_REPEATED):
            self._receipts.add(ids, self._loop.time())
        self._ended = self._loop.create_future()
        self._loop.set_exception_handler(self._on_exception)
        connecting = asyncio.create_task(self._connection.run(), name="broker connection")
        reporting = asyncio.create_task(self._log_progress(), name="progress")
        for task in (connecting, reporting):
            task.add_done_callback(self._task_ended)
        try:
            await self._ended
            await self._finish()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for task in (reporting, connecting):
                task.cancel()
            self._thread.shutdown(wait=True)

    def stop(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    # From the connection

    def _opened(self) -> None:
        self._perform(self._session.opened(self._loop.time()))
        self._turn()

    def _received(self, chunk: bytes) -> None:
        unix_us = time.time_ns() // 1000
        self._perform(self._session.receive(chunk, self._loop.time(), unix_us))
        self._turn()

    def _closed(self) -> None:
        self._session.closed()
        self._received_at = inf
        self._counters.connected.set(0)
        self._turn()

    # One turn

    def _turn(self) -> None:
        """What is due by now, and when the next turn is."""
        if self._ended.done():
            return
        now = self._loop.time()
        if self._timer is not None:
            self._timer.cancel()
        self._perform(self._session.handle_time(now))
        if self._disk is DiskState.IDLE and self._batch.due_at() <= now:
            self._write(self._batch.bytes, self._batch.take())
        elif self._disk is DiskState.REFUSING and self._retry_at <= now:
            self._write(self._in_work_bytes, self._in_work)
        if self._session.is_up:
            self._send_receipts(self._receipts.due(now))
        self._limit_memory(now)
        if self._is_idle(now):
            self.stop()
            return
        self._timer = self._loop.call_at(max(now, self._wake_at()), self._turn)

    def _wake_at(self) -> float:
        disk_at = {
            DiskState.IDLE: self._batch.due_at(),
            DiskState.BUSY: inf,
            DiskState.REFUSING: self._retry_at,
        }
        idle_at = (
            inf
            if self._options.end_when is EndWhen.NEVER
            else self._received_at + self._options.idle_s
        )
        # Far from now, because not every loop takes infinity for a time.
        receipts_at = self._receipts.due_at() if self._session.is_up else inf
        return min(
            self._session.wake_at(),
            receipts_at,
            disk_at[self._disk],
            idle_at,
            self._loop.time() + 3600,
        )

    def _is_idle(self, now: float) -> bool:
        if self._options.end_when is EndWhen.NEVER or self._batch or self._in_work:
            return False
        return now - self._received_at >= self._options.idle_s

    def _limit_memory(self, now: float) -> None:
        """Rule 4."""
        self._counters.held.set(len(self._batch.deliveries) + len(self._in_work))
        held = self._batch.bytes + self._in_work_bytes
        if held > self._options.rotation.held_bytes_max:
            self._connection.pause_reading()
            self._session.pause()
        else:
            self._session.resume(now)
            self._connection.resume_reading()

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Received(delivery):
                    self._take(delivery)
                case Transmit(chunk):
                    self._connection.write(chunk)
                case Skipped() | Unreadable() | NotSent() | PropertiesIgnored():
                    self._report(effect)
                case Subscribed(session_present):
                    self._subscribed(session_present)
                case FormerEnded():
                    self._former_ended(effect)
                case Unsubscribed():
                    log.info("out of the group; what waits for us comes yet")
                case Drop(reason, is_final):
                    self._connection.drop(reason)
                    if is_final and not self._ended.done():
                        self._ended.set_exception(RefusedError(reason))
                case _:
                    assert_never(effect)

    def _send_receipts(self, receipts: list[Receipt]) -> None:
        self._counters.receipts.inc(len(receipts))
        for each in receipts:
            self._perform(self._session.publish(each.topic, each.payload))

    def _take(self, delivery: Delivery) -> None:
        if self._receipts.is_one(delivery.topic) or self._leaving_out.leaves_out(delivery):
            self._perform(self._session.acknowledge([delivery]))  # it is no reading
            self._counters.left_out.inc()
            return
        self._received_at = self._loop.time()
        self._counters.received.inc()
        if self._checked is not None:
            self._check_topic(delivery.topic, self._checked)
        if not self._batch.add(delivery, self._received_at):
            self._counters.dropped.inc()

    def _report(self, event: Skipped | Unreadable | NotSent | PropertiesIgnored) -> None:
        match event:
            case Skipped(topic, size):
                self._counters.too_large.inc()
                self._warn_at_times(
                    "a message of %d bytes on topic %s is skipped, more than "
                    "collector.message_bytes_max (%d); raise it to collect such messages",
                    (size, shown(topic), self._options.session.packet_bytes_max),
                )
            case Unreadable(topic):
                self._counters.unreadable.inc()
                self._warn_at_times(
                    "a message on topic %s is refused, because the topic is not UTF-8; find who "
                    "publishes it, or a broker that checks topics",
                    (shown(topic),),
                )
            case NotSent(topic, size, size_max):
                self._warn_at_times(
                    "a receipt of %d bytes on topic %s is not sent, more than the broker takes "
                    "(%d); raise its limit for packets",
                    (size, shown(topic), size_max),
                )
            case PropertiesIgnored(packet, detail):
                log.debug("ignored properties that %s may not have: %s", packet, detail)

    def _warn_at_times(self, text: str, values: tuple[object, ...]) -> None:
        """One line of each kind in WARN_AGAIN_S."""
        now = self._loop.time()
        if now >= self._warned_at.get(text, -inf) + WARN_AGAIN_S:
            self._warned_at[text] = now
            log.warning(text, *values)

    def _subscribed(self, session_present: bool) -> None:
        self._connection.accepted()
        self._received_at = self._loop.time()
        self._counters.connected.set(1)
        self._receipts.repeat(self._received_at)
        subscriptions = self._subscriptions
        if not session_present:
            log.info("the broker had no session of ours; it begins now")
            self._checked = None
            if subscriptions is not None:
                self._keep(subscriptions.session_began)
        elif subscriptions is not None and not subscriptions.is_whole and self._checked is None:
            self._checked = set()
        if self._options.end_when is EndWhen.RETIRED:
            self._perform(self._session.unsubscribe())

    def _former_ended(self, event: FormerEnded) -> None:
        if event.filters:
            if self._subscriptions is not None:
                self._keep(partial(self._subscriptions.ended, event.filters))
            log.info("unsubscribed from %s, which collector.topics names no more",
                     ", ".join(map(shown, event.filters)))  # fmt: skip
        if event.refused:
            log.warning("no end of the subscription to %s, which collector.topics names no more: "
                        "%s; it is asked for again with the next connection",
                        ", ".join(map(shown, event.refused)), event.reason)  # fmt: skip

    def _keep(self, change: Callable[[], None]) -> None:
        """Behind the segments, in their thread: a disk may hang."""
        self._loop.run_in_executor(self._thread, change)

    def _check_topic(self, topic: str, known: set[str]) -> None:
        """Of a session that began before its subscriptions were written down."""
        if topic in known or len(known) >= CHECKED_TOPICS_MAX:
            return
        known.add(topic)
        session = self._options.session
        filters = (*session.filters, *map(_topic_filter, session.former))
        if not any(matches(each, topic) for each in filters):
            log.warning(
                "messages on topic %s come, for which collector.topics has no filter: the broker "
                "holds a subscription of a former configuration. Put its filter there, start the "
                "collector, and take it out again", shown(topic),
            )  # fmt: skip
            self._checked = None

    # Writing

    def _write(self, size: int, deliveries: list[Delivery]) -> None:
        self._disk = DiskState.BUSY
        self._in_work, self._in_work_bytes = deliveries, size
        began = self._loop.time()
        writing = self._loop.run_in_executor(self._thread, self._writer.write, deliveries)
        writing.add_done_callback(lambda done: self._wrote(done, began))

    def _wrote(self, done: asyncio.Future[Written], began: float) -> None:
        self._written.set()
        error = done.exception()
        if isinstance(error, OSError):
            self._refused(error)
        elif error is not None:
            if not self._ended.done():
                self._ended.set_exception(error)
        else:
            self._accepted(done.result(), self._loop.time() - began)
        if not self._ended.done():
            self._turn()

    def _accepted(self, written: Written, seconds: float) -> None:
        self._counters.wrote(written, seconds)
        self._counters.resent.set(self._session.resent)
        self._counters.stalled.set(0)
        if self._retry_s > DISK_RETRY_S_MIN:
            log.info("%s takes messages again", self._writer.place)
        self._disk, self._retry_s = DiskState.IDLE, DISK_RETRY_S_MIN
        deliveries, self._in_work, self._in_work_bytes = self._in_work, [], 0
        self._perform(self._session.acknowledge(deliveries))
        self._receipts.add(written.footer.ids, self._loop.time())

    def _refused(self, error: OSError) -> None:
        """Rule 1."""
        if self._retry_s == DISK_RETRY_S_MIN:
            log.error(
                "no %s can be written: %s (%s); nothing is acknowledged until one can",
                self._writer.unit,
                error.strerror or error,
                error.filename or "the lake",
            )
        self._counters.disk_errors.inc()
        self._counters.stalled.set(1)
        self._disk = DiskState.REFUSING
        self._retry_at = self._loop.time() + self._retry_s
        self._retry_s = min(self._retry_s * 2, DISK_RETRY_S_MAX)

    # The end

    async def _finish(self) -> None:
        """Write what is here, acknowledge it, and disconnect."""
        self._connection.pause_reading()
        try:
            async with asyncio.timeout(STOP_S_MAX):
                await self._write_all()
        except TimeoutError:
            log.warning("%d messages stay with the broker", len(self._in_work))
        # What still waits with the broker would be gone with the session.
        is_drained = self._options.end_when is EndWhen.RETIRED and self._is_idle(self._loop.time())
        self._send_receipts(self._receipts.cleared() if is_drained else self._receipts.due(inf))
        self._perform(self._session.stop(forget=is_drained))
        await self._connection.close()

    async def _write_all(self) -> None:
        while self._in_work or self._batch:
            if self._disk is DiskState.REFUSING:
                log.warning(
                    "%s takes nothing: %d messages stay with the broker",
                    self._writer.place, self._held,
                )  # fmt: skip
                return
            if self._disk is DiskState.IDLE:
                self._write(self._batch.bytes, self._batch.take())
            self._written.clear()
            await self._written.wait()

    @property
    def _held(self) -> int:
        return len(self._batch.deliveries) + len(self._in_work)

    async def _log_progress(self) -> None:
        before = 0.0
        while True:
            await asyncio.sleep(PROGRESS_S)
            counters = self._counters.registry.get_sample_value
            durable = counters("tidegate_ingest_messages_durable_total") or 0.0
            if durable > before:
                segments = counters("tidegate_ingest_segments_total") or 0.0
                rate = (durable - before) / PROGRESS_S
                log.info("%d messages in %d segments, %.1f/s", durable, segments, rate)
            before = durable

    def _on_exception(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """An exception in a callback is a mistake of ours. To end is better than to stand still."""
        error = context.get("exception")
        log.error("%s", context.get("message"))
        if isinstance(error, Exception) and not self._ended.done():
            self._ended.set_exception(error)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._ended.done():
            self._ended.set_exception(error)


def _topic_filter(subscription: str) -> str:
    """Without `$share/<group>/`."""
    return subscription.split("/", 2)[-1]
