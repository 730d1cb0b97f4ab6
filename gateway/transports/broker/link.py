"""The TCP or TLS connection to the broker: made, kept and made again.

It carries bytes and knows nothing of MQTT. The session above calls `acknowledged` when the broker
has accepted it and `drop` to end it; the link does the rest for ever and never raises into the
loop.

- `on_open` is called once for each connection, `on_closed` once for each `on_open`, `on_bytes`
  between them, never after `drop`. Tries that never open show in `reason`, in the counters and
  in the log.
- `on_room`: the connection takes bytes again, having taken none for a while; `unsent_bytes` tells
  how many are left.
- Log: one line when the broker goes, one when it is back (accepted), and until then each
  reason again at growing intervals.
- Success is what lasts. A broker may accept the session and end the connection at once, again and
  again: because of what is sent, or because another client has the same client id. So CONNACK
  alone makes no wait short again. That takes a connection that has lasted `lasts_s`, or one on
  which the broker acknowledged something, unless SHORT_MAX connections in a row did not last:
  then the waits grow to the maximum, the log has a line in ten minutes, and `unstable` says why.
  An end of which the session above knows the cause (`explained`) counts as none of these, up to
  EXPLAINED_MAX in a row.
- What the broker does not take is held up to `unsent_bytes_max`; beyond that the connection is
  dropped. The session above is expected to stop writing long before, by `unsent_bytes`.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import random
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from gateway.transports.broker.failures import (
    BrokerFailure,
    diagnose,
    diagnose_end,
    explain,
    tls_expected,
    unpinned,
)
from gateway.transports.broker.socket import acknowledge_at_once, connected_socket
from gateway.transports.clock import now
from gateway.transports.outflow import Outflow
from gateway.transports.reconnect import Backoff, Reasons
from gateway.transports.tls import is_pinned

__all__ = ["BrokerCounters", "BrokerFailure", "BrokerLink", "LinkState", "explain"]

log = logging.getLogger("tidegate.broker")

UNSENT_BYTES_MAX = 16 << 20
DROP_S_MAX = 1.0  # how long a dropped connection may take to send what was written
STOP_S_MAX = 1.5  # the same when the gateway stops
LASTS_S = 30.0
EXPLAINED_MAX = 30
SHORT_MAX = 3  # connections in a row that did not last, before acknowledgements no longer count
SHORT_HINT = (
    "; connections do not last: another client may be using our client id, or the broker does not "
    "take something that is sent to it"
)

_TLS_ALERT = b"\x15\x03"


class LinkState(enum.Enum):
    STOPPED = "stopped"
    CONNECTING = "connecting"
    OPEN = "open"  # bytes flow; the session above is not up yet
    ACCEPTED = "settled"  # by the broker
    CLOSING = "closing"  # by us, while what was written is still being sent, or by the broker
    WAITING = "waiting"  # until next_try_at


@dataclass(slots=True)
class BrokerCounters:
    connects: int = 0
    failures: dict[BrokerFailure, int] = field(
        default_factory=lambda: dict.fromkeys(BrokerFailure, 0)
    )
    bytes_in: int = 0
    bytes_out: int = 0
    writes_ignored: int = 0


class BrokerLink:
    """One connection at a time."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None,
        on_open: Callable[[], None],
        on_bytes: Callable[[bytes], None],
        on_closed: Callable[[str, bool], None],
        on_room: Callable[[], None],
        connect_timeout_s: float,
        reconnect_delay_s_min: float,
        reconnect_delay_s_max: float,
        dice: random.Random | None = None,
        unsent_bytes_max: int = UNSENT_BYTES_MAX,
        lasts_s: float = LASTS_S,
        server_name: str | None = None,
        fingerprints: Sequence[str] = (),
    ) -> None:
        """`on_closed`: why, and whether the broker ended it. `lasts_s`: after so long an accepted
        connection counts as one that lasts. `server_name`: where it is another than the host.
        `fingerprints`: SHA-256 of the certificates that the broker may have; none: any.
        """
        self.state = LinkState.STOPPED
        self.reason: str | None = None  # why there is no session; None while it is accepted
        self.next_try_at: float | None = None  # monotonic seconds, while WAITING
        self.counters = BrokerCounters()
        self._host, self._port, self._tls = host, port, tls
        self._server_name, self._fingerprints = server_name, fingerprints
        self._where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._on_open, self._on_bytes, self._on_closed = on_open, on_bytes, on_closed
        self._on_room = on_room
        self._connect_timeout_s = connect_timeout_s
        self._unsent_bytes_max = unsent_bytes_max
        self._backoff = Backoff(
            reconnect_delay_s_min, reconnect_delay_s_max, dice or random.Random()
        )
        self._reasons = Reasons()
        self._lasts_s = lasts_s
        self._short = 0  # accepted connections in a row that did not last
        self._lasting: asyncio.TimerHandle | None = None  # while one may still turn out short
        self._short_reason = ""
        self._is_explained = False
        self._explained = 0  # ends in a row, since a connection lasted
        self.awaits_progress = False  # accepted, and nothing was acknowledged since
        self._was_connected = False
        self._down_since: float | None = None
        self.accepted_at: float | None = None  # the session of now, or the last one
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[None] | None = None
        self._outflow: Outflow | None = None  # while OPEN or ACCEPTED
        self._drop_reason: str | None = None
        self._stopping = False
        self._hurry = asyncio.Event()

    # From the owner

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._task is None
        self._loop = loop
        self._task = loop.create_task(self._run(), name="broker link")

    async def stop(self) -> None:
        """Sends what was written, for at most STOP_S_MAX, closes, and stays closed."""
        if self._task is None:
            return
        self._stopping = True
        self._close("the gateway stops", STOP_S_MAX)
        if self.state is not LinkState.CLOSING:
            self._task.cancel()
        await asyncio.wait({self._task})
        self._task = None
        self.state, self.next_try_at = LinkState.STOPPED, None

    def use(
        self,
        tls: ssl.SSLContext | None,
        why: str,
        *,
        server_name: str | None = None,
        fingerprints: Sequence[str] = (),
    ) -> None:
        """Connect again, with these certificates, and without waiting for the next try."""
        self._tls, self._server_name, self._fingerprints = tls, server_name, fingerprints
        self.drop(why)
        self._hurry.set()

    def mark(self) -> str | None:
        """For the watchdog: nothing, as long as the task that keeps the connection runs."""
        is_running = self._task is None or self._stopping or not self._task.done()
        return None if is_running else "ended"

    # From the session above

    def write(self, chunks: list[bytes]) -> None:
        """All packets of one pass in one write."""
        outflow = self._outflow
        if outflow is None:
            self.counters.writes_ignored += 1
            return
        joined = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self.counters.bytes_out += len(joined)
        outflow.write(joined)
        if outflow.unsent_bytes > self._unsent_bytes_max:
            self.drop(f"{self._where} takes nothing: more than {self._unsent_bytes_max} bytes wait")

    @property
    def unsent_bytes(self) -> int:
        """Written but not yet taken by the kernel."""
        return 0 if self._outflow is None else self._outflow.unsent_bytes

    def drop(self, reason: str) -> None:
        """Ends this connection, sending what was written; another follows after a wait."""
        self._close(reason, DROP_S_MAX)

    @property
    def unstable(self) -> str | None:
        """Why the broker's connections do not last, if that is so."""
        if self._short < SHORT_MAX:
            return None
        return (
            f"the broker ended {self._short} connections soon after it had accepted them "
            f"({self._short_reason}){SHORT_HINT}; its log says which"
        )

    def accepted(self) -> None:
        """The broker has accepted the session; whether that lasts is not known yet."""
        if self.state is not LinkState.OPEN:
            return
        self.state, self.reason = LinkState.ACCEPTED, None
        self.accepted_at = now()
        self.awaits_progress = True
        self._lasting = self._loop.call_later(self._lasts_s, self._lasted)
        if self._short < SHORT_MAX:
            self._log_connected()

    def progressed(self) -> None:
        """The broker has acknowledged something on this connection."""
        if not self.awaits_progress:
            return
        self.awaits_progress = False
        if self._short < SHORT_MAX:
            self._succeeded()

    def explained(self) -> None:
        """What this connection ends for, or has just ended for, is known and is not sent again at
        once.
        """
        self._is_explained = True

    def _lasted(self) -> None:
        self._lasting = None
        self._short = self._explained = 0
        self._succeeded()

    def _succeeded(self) -> None:
        self._backoff.reset()
        self._reasons.forget()
        self._log_connected()

    def _log_connected(self) -> None:
        """Once after each outage."""
        if self._down_since is not None:
            log.info(
                "connected to broker %s again after %.1f s", self._where, now() - self._down_since
            )
        elif not self._was_connected:
            log.info("connected to broker %s", self._where)
        self._was_connected, self._down_since = True, None

    # From the connection

    def _opened(self, outflow: Outflow) -> None:
        self.state, self._outflow = LinkState.OPEN, outflow
        self.counters.connects += 1
        self._on_open()

    def _unpinned(self, connection: ssl.SSLObject | None) -> str | None:
        """Why this is not the broker that is meant, or None."""
        if connection is None or not self._fingerprints:
            return None
        certificate = connection.getpeercert(binary_form=True)
        if is_pinned(certificate, self._fingerprints):
            return None
        return unpinned(self._host, self._port, certificate)

    def _received(self, data: bytes, *, first: bool) -> None:
        if self._outflow is None:
            return
        self.counters.bytes_in += len(data)
        if first and self._tls is None and data.startswith(_TLS_ALERT):
            self.drop(tls_expected(self._host, self._port))
        else:
            self._on_bytes(data)

    def _drained(self) -> None:
        if self._outflow is not None:
            self._on_room()

    def _closed(self, error: Exception | None, *, answered: bool) -> tuple[BrokerFailure, str]:
        self.state, self._outflow = LinkState.CLOSING, None
        if self._drop_reason is not None:
            failure, reason = BrokerFailure.DROPPED, self._drop_reason
            self._drop_reason = None
        else:
            failure, reason = diagnose_end(
                error, self._host, self._port, tls=self._tls is not None, answered=answered
            )
        self._on_closed(reason, failure is BrokerFailure.CLOSED)
        return failure, reason

    # Helpers

    async def _run(self) -> None:
        while not self._stopping:
            self.state, self.next_try_at = LinkState.CONNECTING, None
            failure, reason = await self._one_connection()
            if self._stopping:
                return
            self.awaits_progress = False
            if self._lasting is not None:
                self._lasting.cancel()
                self._lasting = None
                self._ended_short(reason)
            self._is_explained = False
            delay_s = self._backoff.next_delay_s()
            self._record_failure(failure, reason, delay_s)
            self.state, self.next_try_at = LinkState.WAITING, now() + delay_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._hurry.wait()
            self._hurry.clear()

    def _ended_short(self, reason: str) -> None:
        if self._is_explained and self._explained < EXPLAINED_MAX:
            self._explained += 1
            self._backoff.reset()
            return
        self._short, self._short_reason = self._short + 1, reason

    async def _one_connection(self) -> tuple[BrokerFailure, str]:
        """From the look-up of the name to the end of the connection, and why it ended."""
        loop, tls = self._loop, self._tls
        deadline = loop.time() + self._connect_timeout_s
        try:
            connected = await connected_socket(
                loop, self._host, self._port, self._connect_timeout_s
            )
            connection = _Connection(self, connected, loop.create_future())
            await loop.create_connection(
                lambda: connection,
                sock=connected,
                ssl=tls,
                # A zone means something on this machine alone; no certificate has it.
                server_hostname=(self._server_name or self._host.partition("%")[0])
                if tls
                else None,
                ssl_handshake_timeout=max(0.1, deadline - loop.time()) if tls else None,
            )
        except Exception as error:
            # Whatever it was: this task is the only one that will ever try again.
            name = self._server_name or self._host
            return diagnose(error, self._host, self._port, tls is not None, name)
        return await connection.ended

    def _close(self, reason: str, within_s: float) -> None:
        outflow = self._outflow
        if outflow is None:
            return
        self.state, self._outflow, self._drop_reason = LinkState.CLOSING, None, reason
        outflow.close()
        # To close waits for a peer that may be gone; to abort an ended connection does nothing.
        self._loop.call_later(within_s, outflow.abort)

    def _record_failure(self, failure: BrokerFailure, reason: str, delay_s: float) -> None:
        self.counters.failures[failure] += 1
        self.reason = reason
        if self._down_since is None:
            self._down_since = now()
        if self._short >= SHORT_MAX:
            reason += SHORT_HINT
        if self._reasons.worth_a_line(reason, now()):
            log.warning("broker %s unreachable: %s (retry in %.1f s)", self._where, reason, delay_s)


class _Connection(asyncio.Protocol):
    """What the loop sees of the link."""

    def __init__(
        self,
        link: BrokerLink,
        socket_: socket.socket,
        ended: asyncio.Future[tuple[BrokerFailure, str]],
    ) -> None:
        self.ended = ended
        self._link = link
        self._socket = socket_
        self._answered = False
        self._outflow: Outflow

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods but not the base class.
        self._outflow = Outflow(cast("asyncio.Transport", transport))
        wrong = self._link._unpinned(transport.get_extra_info("ssl_object"))
        if wrong is not None:  # before anything is sent
            self.ended.set_result((BrokerFailure.TLS, wrong))
            self._outflow.abort()
            return
        self._link._opened(self._outflow)

    def data_received(self, data: bytes) -> None:
        link = self._link
        written = link.counters.bytes_out
        first, self._answered = not self._answered, True
        link._received(data, first=first)
        if link.counters.bytes_out == written or link.unsent_bytes:
            acknowledge_at_once(self._socket)  # else what was written takes it along

    def pause_writing(self) -> None:
        self._outflow.pause()

    def resume_writing(self) -> None:
        self._outflow.resume()
        self._link._drained()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.ended.done():  # it was never opened
            return
        outcome = self._link._closed(exc, answered=self._answered)
        if not self.ended.done():
            self.ended.set_result(outcome)
