"""Readings from the broker to the output, until there are enough, the time is over, or Ctrl-C.

The connection is kept as the gateway keeps its own (transports/broker/link.py), which says on
stderr when the broker goes and comes back.
"""

from __future__ import annotations

import asyncio
import logging
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from gateway.app.credentials import Credentials
from gateway.app.exit_codes import ExitCode
from gateway.cli.output import print_error
from gateway.cli.watch.choice import Choice
from gateway.cli.watch.reading import Arrived, Reading, reading_of
from gateway.cli.watch.subscription import (
    Ended,
    Granted,
    News,
    Refused,
    Subscribing,
    Subscription,
)
from gateway.cli.watch.writing import Writer
from gateway.config.settings import UpstreamSettings
from gateway.transports.broker.link import BrokerLink
from gateway.transports.clock import now

BEAT_S = 0.5
SILENCE_S = 15.0  # until it is said that nothing has come
CLOSE_S_MAX = 2.0  # after Ctrl-C, for what waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """`text` makes a line of a reading. `count` None: without end, `seconds` None: for ever."""

    upstream: UpstreamSettings
    credentials: Credentials
    client_id: str
    choice: Choice
    text: Callable[[Reading], str]
    encoding: str
    count: int | None
    seconds: float | None


class Watching:
    def __init__(self, wanted: Wanted) -> None:
        upstream = wanted.upstream
        self._wanted = wanted
        self._written = 0
        self._arrived = 0
        self._subscription = Subscription(
            Subscribing(
                client_id=wanted.client_id,
                topic_filter=wanted.choice.topic_filter,
                username=upstream.username,
                password=wanted.credentials.password,
                keep_alive_s=upstream.keep_alive_s,
            )
        )
        self._link = BrokerLink(
            upstream.host,
            upstream.port,
            tls=wanted.credentials.tls,
            on_open=self._opened,
            on_bytes=self._received,
            on_closed=self._closed,
            on_room=lambda: None,
            connect_timeout_s=upstream.connect_timeout_s,
            reconnect_delay_s_min=upstream.reconnect_delay_s_min,
            reconnect_delay_s_max=upstream.reconnect_delay_s_max,
            server_name=upstream.server_name,
            fingerprints=upstream.fingerprints,
        )
        self._granted_at: float | None = None
        self._was_granted = False
        self._opened_at = self._sent_at = self._heard_at = 0.0
        self._is_told_of_silence = False
        self._ended: asyncio.Future[ExitCode] | None = None
        self._writer = Writer(1, self._output_ended)
        self._loop: asyncio.AbstractEventLoop
        self._output_error: OSError | None = None

    async def run(self) -> ExitCode:
        """How it ended; what was written may wait still (`finish`)."""
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._writer.start()
        self._link.start(self._loop)
        deadline = None if self._wanted.seconds is None else now() + self._wanted.seconds
        try:
            while not self._ended.done():
                left_s = BEAT_S if deadline is None else min(BEAT_S, max(0.0, deadline - now()))
                await asyncio.wait({self._ended}, timeout=left_s)
                if not self._ended.done():
                    self._beat(is_over=deadline is not None and now() >= deadline)
        finally:
            self._link.write([_disconnect()])
            await self._link.stop()
        return self._ended.result()

    def finish(self, within_s: float | None) -> None:
        """Write what waits; not in the loop, where Ctrl-C would wait too. Raises OSError."""
        self._writer.close(within_s)
        self._tell_skipped(self._writer.skipped)
        if self._output_error is not None:
            raise self._output_error

    # From the connection

    def _opened(self) -> None:
        self._opened_at = self._heard_at = now()
        self._send([self._subscription.opened()])

    def _closed(self, _reason: str, _by_broker: bool) -> None:
        self._granted_at = None

    def _received(self, data: bytes) -> None:
        self._heard_at = now()
        answers, news = self._subscription.receive(data, time.time())
        if answers:
            self._send(answers)
        for each in news:
            self._take(each)

    def _take(self, news: News) -> None:
        match news:
            case Arrived():
                self._show(news)
            case Granted():
                self._grant()
            case Refused():
                self._refuse(news)
            case Ended():
                self._link.drop(news.reason)
            case _:
                assert_never(news)

    def _grant(self) -> None:
        self._link.accepted()
        self._link.progressed()
        self._granted_at = now()
        if not self._was_granted:
            self._was_granted = True
            print_error(f"watching {self._wanted.choice.described}; Ctrl-C ends it")

    def _refuse(self, refused: Refused) -> None:
        if self._was_granted or not refused.is_lasting:
            self._link.drop(refused.reason)
            return
        print_error(f"tidegate watch: {refused.reason}")
        self._end(ExitCode.PERMISSION if refused.is_denied else ExitCode.UNAVAILABLE)

    # Readings

    def _show(self, arrived: Arrived) -> None:
        choice = self._wanted.choice
        if choice.hides(arrived.topic) or self._has_enough:
            return
        reading = reading_of(arrived, choice.prefix)
        if not choice.wants(reading):
            return
        self._arrived += 1
        line = self._wanted.text(reading).encode(self._wanted.encoding, "backslashreplace")
        self._written += self._writer.put(line)
        if self._has_enough:
            self._end(ExitCode.OK)

    @property
    def _has_enough(self) -> bool:
        return self._wanted.count is not None and self._written >= self._wanted.count

    # Time

    def _beat(self, *, is_over: bool) -> None:
        self._tell_skipped(self._writer.take_skipped())
        if is_over:
            is_short = self._wanted.count is not None
            self._end(ExitCode.FAILURE if is_short else ExitCode.OK)
        elif _is_broken(1):
            self._output_ended(BrokenPipeError())
        self._keep_alive()
        if not self._is_told_of_silence and not self._arrived and self._granted_at is not None:
            self._tell_of_silence(self._granted_at)

    def _keep_alive(self) -> None:
        keep_alive_s = self._wanted.upstream.keep_alive_s
        since_s = now() - self._heard_at
        if (
            self._granted_at is None
            and self._opened_at
            and since_s > self._wanted.upstream.connect_timeout_s
        ):
            self._heard_at = now()
            self._link.drop(
                "the broker accepts the connection and says nothing; is it an MQTT 5 broker?"
            )
        elif self._granted_at is not None and since_s > keep_alive_s * 1.5 + BEAT_S:
            self._link.drop("the broker answers no ping")
        elif self._granted_at is not None and now() - self._sent_at > keep_alive_s / 2:
            self._send([self._subscription.ping()])

    def _tell_of_silence(self, granted_at: float) -> None:
        if now() - granted_at < SILENCE_S:
            return
        self._is_told_of_silence = True
        username = self._wanted.upstream.username
        user = f"the user {username!r}" if username else "a client without a user name"
        print_error(
            f"nothing has come for {SILENCE_S:.0f} s: no sensor has sent anything there, or the "
            f"broker's access rules let {user} read nothing (mosquitto does not say so); "
            "tidegate clients lists who was heard"
        )

    # Ends

    def _output_ended(self, error: OSError) -> None:
        """Also from the thread that writes."""
        self._output_error = error
        self._loop.call_soon_threadsafe(self._end, ExitCode.FAILURE)

    def _end(self, code: ExitCode) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(code)

    def _send(self, packets: list[bytes]) -> None:
        self._sent_at = now()
        self._link.write(packets)

    def _tell_skipped(self, count: int) -> None:
        if count:
            noun = "reading" if count == 1 else "readings"
            print_error(f"{count} {noun} skipped, because the output takes them too slowly")


class LinkLines(logging.Handler):
    """What the link says of the broker, on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING or " again after " in record.getMessage():
            print_error(f"tidegate watch: {record.getMessage()}")


def _disconnect() -> bytes:
    import mqtt5

    return mqtt5.DisconnectPacket().write()


def _is_broken(descriptor: int) -> bool:
    """Whether what is written there can never be read: a pipe whose other end is closed."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
