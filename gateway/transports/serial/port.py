"""One serial line, opened and opened again for ever; frames come and go on it.

- The line is one address, whatever is plugged in there: a sensor behind it keeps its session when
  the cable is pulled or the gateway's port has another number afterwards.
- It is opened when it is there, at the start or later, and again after it was lost, with waits that
  grow up to REOPEN_S_MAX. Log: one line when it goes, one when it is back, one for each new reason
  in between.
- What cannot be sent is counted: more than the line takes in a few seconds (framing/outflow.py), or
  no open port. MQTT-SN sends again what is not answered.
- It can be lent to another program for a while (loan.py). For sensors that is a pulled cable.
- Nothing that comes over the line, or happens to it, raises here.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gateway.config.serial_ports import port_server
from gateway.config.settings import SerialSettings
from gateway.transports.clock import now
from gateway.transports.framing.outflow import LineOutflow
from gateway.transports.reconnect import Backoff
from gateway.transports.serial.chatter_log import ChatterLog
from gateway.transports.serial.device import open_device
from gateway.transports.serial.framing_choice import Framing, FramingCounters, framing
from gateway.transports.serial.line import (
    Line,
    LineCallbacks,
    LineError,
    LineFailure,
    PortOptions,
    short_name,
)
from gateway.transports.serial.server import open_server
from gateway.transports.socket_address import LINE_ADDRESS
from gateway.transports.udp.loan import PortLoan

REOPEN_S_MIN = 0.5
REOPEN_S_MAX = 10.0
STEADY_S = 10.0  # a line that was open for so long, or brought a message, was of use

log = logging.getLogger("tidegate.serial")


class LineSendFailure(enum.Enum):
    BUSY = "busy"  # the line takes less than is sent
    ABSENT = "absent"  # the port is not open


@dataclass(slots=True)
class SerialCounters:
    received: int = 0  # messages
    sent: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    opened: int = 0
    lost: int = 0
    send_failed: dict[LineSendFailure, int] = field(
        default_factory=lambda: dict.fromkeys(LineSendFailure, 0)
    )


@dataclass(frozen=True, slots=True)
class SerialCallbacks:
    """What the owner of a line is called with."""

    datagrams: Callable[[list[tuple[bytes, bytes]]], None]
    opened: Callable[[], None] = lambda: None
    lost: Callable[[], None] = lambda: None


class SerialLink:
    """Raw addresses and datagrams in and out, as with UDP; all are LINE_ADDRESS."""

    address_bytes = len(LINE_ADDRESS)

    def __init__(
        self,
        settings: SerialSettings,
        name: str,
        callbacks: SerialCallbacks,
        *,
        message_bytes_max: int,
    ) -> None:
        """`name` as in the metrics: serial0."""
        self.name = name
        self.port = settings.port
        self.short_name = short_name(settings.port)
        self.counters = SerialCounters()
        self._settings = settings
        self._callbacks = callbacks
        self._chatter = ChatterLog(self.short_name)
        self._framing = _framing(settings, message_bytes_max, self._on_text)
        self._outflow = LineOutflow(
            settings.baud / settings.bits_per_octet,
            burst_bytes_max=settings.burst_bytes_max,
            gap_s=settings.frame_gap_ms / 1000,
        )
        self._line: Line | None = None
        self._problem: str | None = f"{self.port} is not opened yet"
        self._failure: LineFailure | None = None  # the last that was logged
        self._loan = PortLoan()
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop
        self._loss: asyncio.Future[str | None]  # why; None: for another program
        self._next_gap: asyncio.TimerHandle | None = None  # of the framing
        self._next_burst: asyncio.TimerHandle | None = None

    # From the owner

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Now or when the port is there; never raises."""
        self._loop = loop
        self._task = loop.create_task(self._keep_open(), name=f"keep {self.name} open")

    def send(self, address: bytes, datagram: bytes) -> None:
        """Queued until `flush`."""
        if self._line is None:
            self._count_failure(LineSendFailure.ABSENT)
        elif self._outflow.put(self._framing.wrap(datagram)):
            self.counters.sent += 1
        else:
            self._count_failure(LineSendFailure.BUSY)

    def send_all(self, datagrams: list[tuple[bytes, bytes]]) -> None:
        for address, datagram in datagrams:
            self.send(address, datagram)
        self.flush()

    def flush(self) -> None:
        """What may go to the line goes there; the rest follows by itself."""
        line, outflow = self._line, self._outflow
        while line is not None and (chunk := outflow.next(now())):
            taken = line.write(chunk)
            self.counters.bytes_out += taken
            outflow.taken(taken, now())
            if taken < len(chunk):
                return  # the line says when it has room
            line = self._line
        self._wait_for_next_burst()

    async def release(self, seconds: float) -> bool:
        """Let other programs have the port for so long from now on; 0 takes it back. Whether they
        can have it already.
        """
        if seconds and self._line is not None and not self._loss.done():
            self._loss.set_result(None)
        return await self._loan.begin(seconds)

    def close(self) -> None:
        """May be called twice, and before `open`."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._let_go()

    def mark(self) -> str | None:
        """For the watchdog: nothing, as long as the task that keeps the line open runs."""
        return None if self._task is None or not self._task.done() else "ended"

    def check(self) -> str | None:
        """For health: why nothing is received on it, what is odd about it, or None."""
        if self._loan.left_s:
            minutes = math.ceil(self._loan.left_s / 60)
            return f"{self.port} is released to other programs for {minutes} min more"
        if self._problem is not None:
            return self._problem
        warning = None if self._line is None else self._line.warning
        return None if warning is None else f"{self.port}: {warning}"

    @property
    def is_open(self) -> bool:
        return self._line is not None

    @property
    def released_s(self) -> float | None:
        """For how long it is lent to other programs from now on."""
        return self._loan.left_s or None

    @property
    def waiting_bytes(self) -> int:
        """On their way to the line, which has not taken them yet."""
        return self._outflow.waiting_bytes

    @property
    def framing_counters(self) -> FramingCounters:
        return self._framing.counters

    @property
    def shown(self) -> str:
        settings = self._settings
        return f"{self.port}, {settings.baud} baud, {settings.framing}"

    # Opening and losing

    async def _keep_open(self) -> None:
        backoff = Backoff(REOPEN_S_MIN, REOPEN_S_MAX, random.Random())
        while True:
            await self._loan.over()
            try:
                if await self._serve(await self._open_line()):
                    backoff.reset()
            except LineError as error:
                self._set_problem(str(error), error.failure)
            except Exception:  # ours; a line must not stay closed for ever because of it
                log.exception("%s is opened again", self.name)
            if not self._loan.left_s:
                await self._loan.pause(backoff.next_delay_s())

    def _open_line(self) -> Awaitable[Line]:
        self._loss = self._loop.create_future()
        callbacks = LineCallbacks(self._on_bytes, self.flush, self._lose)
        return open_line(port_options(self._settings), callbacks)

    async def _serve(self, line: Line) -> bool:
        """Until it is lost; whether it was of any use."""
        if self._loan.left_s:  # asked for while it was opened
            line.close()
            await line.closed()
            return False
        self._line = line
        self._framing.reset()
        self.counters.opened += 1
        self._set_problem(None)
        began, received = now(), self.counters.received
        try:
            self._callbacks.opened()
            line.begin()
            reason = await self._loss
            if reason is not None:
                self.counters.lost += 1
                self._set_problem(f"{self.port}: {reason}", LineFailure.ABSENT)
        finally:
            self._let_go()
        await line.closed()
        return self.counters.received > received or now() - began >= STEADY_S

    def _lose(self, reason: str) -> None:
        if not self._loss.done():
            self._loss.set_result(reason)

    def _let_go(self) -> None:
        line, self._line = self._line, None
        if self._problem is None:
            self._problem = f"{self.port} is closed"
        for timer in (self._next_gap, self._next_burst):
            if timer is not None:
                timer.cancel()
        self._next_gap = self._next_burst = None
        self.counters.send_failed[LineSendFailure.ABSENT] += self._outflow.clear()
        if line is not None:
            line.close()
            self._callbacks.lost()

    # From the line

    def _on_bytes(self, chunk: bytes) -> None:
        self.counters.bytes_in += len(chunk)
        self._feed(chunk)

    def _feed(self, chunk: bytes) -> None:
        at = now()
        messages = self._framing.feed(chunk, at)
        if messages:
            self.counters.received += len(messages)
            self._callbacks.datagrams([(LINE_ADDRESS, message) for message in messages])
        if self._next_gap is None and self._line is not None:
            wait_s = self._framing.wait_s(at)
            if wait_s is not None:
                self._next_gap = self._loop.call_later(wait_s, self._check_gap)

    def _check_gap(self) -> None:
        """Set once for many bytes, so it may be too early."""
        self._next_gap = None
        self._feed(b"")

    def _on_text(self, line: bytes) -> None:
        self._chatter.log_line(line, now())

    def _wait_for_next_burst(self) -> None:
        wait_s = self._outflow.wait_s(now())
        if wait_s is not None and self._next_burst is None and self._line is not None:
            self._next_burst = self._loop.call_later(wait_s, self._send_next_burst)

    def _send_next_burst(self) -> None:
        self._next_burst = None
        self.flush()

    # Log and health

    def _set_problem(self, problem: str | None, failure: LineFailure | None = None) -> None:
        before, self._failure = self._failure, failure
        self._problem = problem
        if problem is None:
            warning = None if self._line is None else self._line.warning
            log.info("listening for sensors on serial %s", self.shown)
            if warning is not None:
                log.warning("%s: %s: %s", self.name, self.port, warning)
        elif failure is not before:
            log.warning("%s: %s; it is tried again", self.name, problem)

    def _count_failure(self, failure: LineSendFailure) -> None:
        self.counters.send_failed[failure] += 1


def port_options(line: SerialSettings) -> PortOptions:
    return PortOptions(
        port=line.port,
        baud=line.baud,
        parity=line.parity,
        stop_bits=line.stop_bits,
        rtscts=line.rtscts,
    )


def open_line(options: PortOptions, callbacks: LineCallbacks) -> Awaitable[Line]:
    """Here or on the network; raises LineError when it is awaited."""
    server = port_server(options.port)
    return (
        open_device(options, callbacks)
        if server is None
        else open_server(server, options, callbacks)
    )


def _framing(
    settings: SerialSettings, message_bytes_max: int, chatter: Callable[[bytes], None]
) -> Framing:
    return framing(
        settings.framing,
        message_bytes_max=message_bytes_max,
        gap_s=settings.gap_ms / 1000,
        chatter=chatter,
    )


class LineGroup:
    """All receivers of a line: what is sent on it reaches each of them."""

    def __init__(self, link: SerialLink) -> None:
        self._link = link

    def send(self, datagram: bytes, radius: int) -> None:
        self._link.send(LINE_ADDRESS, datagram)
        self._link.flush()
