"""The TCP or TLS connection to the broker: made, kept and made again. Bytes only, no MQTT.

Tries are delayed with jitter, up to a ceiling that doubles until a connection lasts: a broker that
comes back must not be met by all its collectors at once, and two clients of one name, which a
broker plays off against each other, must not do so at full speed. The log has a line when it goes,
one for each new reason, and one when it is back. A connection that ends within STABLE_S is no
success: then the line is written again only after LOG_AGAIN_S.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

log = logging.getLogger("tidegate.ingest.broker")

DELAY_S_MIN = 0.2
STABLE_S = 10.0  # a connection that lasted so long has nothing to do with the one before
LOG_AGAIN_S = 600.0  # the same reason, while connections do not last
CLOSE_S_MAX = 1.0  # how long a connection that we end may take to send what was written
_QUICK_ACK: int | None = getattr(socket, "TCP_QUICKACK", None)


@dataclass(frozen=True, slots=True)
class ConnectionCallbacks:
    on_open: Callable[[], None]
    on_bytes: Callable[[bytes], None]
    on_closed: Callable[[], None]


class BrokerConnection:
    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        *,
        connect_timeout_s: float,
        delay_s_max: float,
        callbacks: ConnectionCallbacks,
    ) -> None:
        self._host, self._port, self._tls = host, port, tls
        self._where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._connect_timeout_s = connect_timeout_s
        self._delay_s_max = delay_s_max
        self._ceiling_s = DELAY_S_MIN
        self._callbacks = callbacks
        self._transport: asyncio.Transport | None = None
        self._reason = ""  # that was logged last
        self._logged_at = 0.0
        self._lasting: asyncio.TimerHandle | None = None
        self._is_short = False  # the last connection that was accepted did not last
        self._drop_reason: str | None = None
        self._is_closing = False
        self._accepted_at: float | None = None  # while the broker has accepted us
        self._latest: asyncio.Transport | None = None  # also while it closes
        self._protocol: _Protocol | None = None

    async def run(self) -> None:
        """Until `close`, or until it is cancelled, which aborts what there is."""
        try:
            while not self._is_closing:
                await self._one_round()
        finally:
            if self._latest is not None:
                self._latest.abort()

    async def close(self) -> None:
        """Sends what was written, and makes no more connections.

        After our DISCONNECT the broker ends the connection, when it has read all before it. If we
        did, a client of our name that comes at once could take its place sooner than that, and
        acknowledgements would be lost: their messages would be collected twice.
        """
        self._is_closing = True
        transport, self._transport = self._transport, None
        if transport is None or self._protocol is None:
            return
        if self._accepted_at is not None:
            transport.resume_reading()
            await asyncio.wait({self._protocol.ended}, timeout=CLOSE_S_MAX)
        self._end(transport, "the collector stops")
        await asyncio.wait({self._protocol.ended}, timeout=CLOSE_S_MAX)

    async def _one_round(self) -> None:
        reason = await self._one_connection()
        if self._is_closing:
            return
        self._ceiling_s = min(self._delay_s_max, self._ceiling_s * 2)
        delay_s = random.uniform(min(DELAY_S_MIN, self._ceiling_s), self._ceiling_s)
        now = asyncio.get_running_loop().time()
        if reason != self._reason or now >= self._logged_at + LOG_AGAIN_S:
            log.warning("broker %s unreachable: %s (retry in %.1f s)", self._where, reason, delay_s)
            self._reason, self._logged_at = reason, now
        await asyncio.sleep(delay_s)

    def accepted(self) -> None:
        """The broker has accepted us."""
        self._accepted_at = asyncio.get_running_loop().time()
        if self._is_short:
            self._lasting = asyncio.get_running_loop().call_later(STABLE_S, self._log_connected)
        else:
            self._log_connected()

    def _log_connected(self) -> None:
        log.info("connected to broker %s%s", self._where, " again" if self._reason else "")
        self._reason = ""

    def write(self, chunk: bytes) -> None:
        if self._transport is not None:
            self._transport.write(chunk)

    def drop(self, reason: str) -> None:
        """Ends this connection, sending what was written; another follows."""
        transport, self._transport = self._transport, None
        if transport is not None:
            self._end(transport, reason)

    def _end(self, transport: asyncio.Transport, reason: str) -> None:
        self._drop_reason = reason
        transport.close()
        asyncio.get_running_loop().call_later(CLOSE_S_MAX, transport.abort)

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    async def _one_connection(self) -> str:
        """Until it ends; why it did."""
        loop = asyncio.get_running_loop()
        protocol = _Protocol(self, loop.create_future())
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await loop.create_connection(
                    lambda: protocol,
                    self._host,
                    self._port,
                    ssl=self._tls,
                    # A zone means something on this machine alone; no certificate has it.
                    server_hostname=self._host.partition("%")[0] if self._tls else None,
                )
        except TimeoutError:
            return f"no answer within {self._connect_timeout_s:g} s"
        except ssl.SSLCertVerificationError as error:
            return f"its certificate is not trusted: {error.verify_message}; see broker.ca_file"
        except ssl.SSLError as error:
            return f"no TLS: {error.reason or error}; should broker.url begin with mqtt://?"
        except OSError as error:
            return error.strerror or str(error)
        self._protocol = protocol
        return await protocol.ended

    def _opened(self, transport: asyncio.Transport) -> None:
        self._transport = self._latest = transport
        self._callbacks.on_open()

    def _received(self, chunk: bytes) -> None:
        if self._transport is not None:
            self._callbacks.on_bytes(chunk)

    def _closed(self, error: Exception | None) -> str:
        self._transport = None
        reason, self._drop_reason = self._drop_reason, None
        accepted_at, self._accepted_at = self._accepted_at, None
        if self._lasting is not None:
            self._lasting.cancel()
        self._callbacks.on_closed()
        if reason is None:
            reason = str(error) if error else "it closed the connection"
        if accepted_at is None:
            return reason
        if asyncio.get_running_loop().time() - accepted_at > STABLE_S:
            self._ceiling_s = DELAY_S_MIN
            self._is_short, self._reason = False, ""
            return reason
        self._is_short = True
        return f"{reason}, soon after it had accepted us; is there another client of our name?"


class _Protocol(asyncio.Protocol):
    def __init__(self, connection: BrokerConnection, ended: asyncio.Future[str]) -> None:
        self.ended = ended
        self._connection = connection
        self._socket: socket.socket | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport.get_extra_info("socket")
        if self._socket is not None:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # uvloop's transports have the methods but not the base class.
        self._connection._opened(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        # A stock mosquitto leaves Nagle's algorithm on, and waits for this between small packets.
        if _QUICK_ACK is not None and self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)
        self._connection._received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        reason = self._connection._closed(exc)
        if not self.ended.done():
            self.ended.set_result(reason)
