"""A connected TCP socket to the broker: name looked up, addresses tried, options set."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

from gateway.host.limits import start_thread
from gateway.transports.errors import LinkError
from gateway.transports.options import set_option
from gateway.transports.socket_address import address_of, socket_address

_Found: TypeAlias = list[tuple[socket.AddressFamily, tuple[object, ...]]]

# A broker that vanished without a FIN is noticed after 60 + 3 * 20 s even without pings.
_KEEP_ALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3))
_A_SILENT_BROKER = "noticing a broker that is gone"
_QUICK_ACK: int | None = getattr(socket, "TCP_QUICKACK", None)
_UNREACHABLE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL}
_under_way: set[tuple[str, int]] = set()  # names that are being looked up


async def connected_socket(
    loop: asyncio.AbstractEventLoop, host: str, port: int, timeout_s: float
) -> socket.socket:
    """The first address that answers; each has its share of the time. Raises OSError."""
    deadline = loop.time() + timeout_s
    try:
        async with asyncio.timeout(timeout_s):
            found = await _look_up(loop, host, port)
    except TimeoutError as error:  # of the name server: nothing was sent to the host yet
        raise socket.gaierror(socket.EAI_AGAIN, "no name server answers") from error
    errors: list[OSError] = []
    for index, (family, address) in enumerate(found):
        share_s = (deadline - loop.time()) / (len(found) - index)
        try:
            async with asyncio.timeout(share_s):
                return await _connected(loop, family, address)
        except OSError as error:
            errors.append(error)
    # Without IPv6 its addresses cannot be reached; that says less than what IPv4 met.
    raise next((error for error in errors if error.errno not in _UNREACHABLE), errors[0])


def acknowledge_at_once(socket_: socket.socket) -> None:
    """After each read. The kernel clears the option by itself.

    A broker that leaves Nagle's algorithm on, as mosquitto does, holds back its next small packet
    until the last is acknowledged, which else takes
    40 ms: 227 instead of 136,500 messages a second.
    """
    if _QUICK_ACK is not None:
        with suppress(OSError):
            socket_.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)


async def _connected(
    loop: asyncio.AbstractEventLoop, family: socket.AddressFamily, address: tuple[object, ...]
) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        set_option(opened, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1, "small packets at once")
        set_option(opened, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1, _A_SILENT_BROKER)
        for name, value in _KEEP_ALIVE:
            if hasattr(socket, name):
                option = getattr(socket, name)
                set_option(opened, socket.IPPROTO_TCP, option, value, _A_SILENT_BROKER)
        await _established(loop, opened, address)
    except BaseException:
        opened.close()
        raise
    return opened


async def _established(
    loop: asyncio.AbstractEventLoop, opened: socket.socket, address: tuple[object, ...]
) -> None:
    """Not by `loop.sock_connect`: uvloop looks up even a numeric address in a pool of threads, and
    the process is aborted where the system gives it no thread.
    """
    try:
        opened.connect(address)
    except (BlockingIOError, InterruptedError):
        pass
    else:
        return
    decided: asyncio.Future[None] = loop.create_future()
    loop.add_writer(opened.fileno(), _decide, decided)
    try:
        await decided
    finally:
        loop.remove_writer(opened.fileno())
    number = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if number:
        raise OSError(number, os.strerror(number))


def _decide(decided: asyncio.Future[None]) -> None:
    if not decided.done():
        decided.set_result(None)


def _numeric(host: str, port: int) -> _Found | None:
    """An address in numbers needs no look-up, and no thread for one. None for a name."""
    try:
        address = socket_address(address_of(host, port))
    except LinkError:
        return None
    return [(socket.AF_INET6 if len(address) == 4 else socket.AF_INET, address)]


async def _look_up(loop: asyncio.AbstractEventLoop, host: str, port: int) -> _Found:
    """In a daemon thread of its own and not in the loop's executor. Raises OSError.

    A dead name server holds a look-up for half a minute, and the loop would wait for its executor
    before the gateway could stop. There is one such thread for each name: while the last look-up
    has not ended, which may be never, there is no other.
    """
    if (found := _numeric(host, port)) is not None:
        return found
    if (host, port) in _under_way:
        raise socket.gaierror(socket.EAI_AGAIN, "the last look-up has not ended")
    answer: asyncio.Future[_Found] = loop.create_future()

    def decide(do: Callable[..., None], outcome: object) -> None:
        if not answer.done():
            do(outcome)

    def resolved() -> list[tuple[Any, ...]]:
        _under_way.add((host, port))
        try:
            return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        finally:
            _under_way.discard((host, port))

    def look_up() -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            try:
                entries = resolved()
            except (OSError, UnicodeError) as error:
                loop.call_soon_threadsafe(decide, answer.set_exception, error)
            else:
                found = [(entry[0], entry[4]) for entry in entries]
                loop.call_soon_threadsafe(decide, answer.set_result, found)

    start_thread(look_up, "broker name look-up")
    return await answer
