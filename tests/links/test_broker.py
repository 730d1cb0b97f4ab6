"""The life of the connection to the broker, against a plain server on loopback."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import AsyncIterator, Callable, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import pytest

from gateway.links import broker
from gateway.links.broker import BrokerFailure, BrokerLink, LinkState
from gateway.links.clock import now
from gateway.links.tls import client_context
from tests.links.certificates import Certificates
from tests.links.conftest import Run
from tests.links.eventually import eventually


@dataclass
class Upper:
    """The session above the link: what it was told, in order."""

    told: list[str] = field(default_factory=list)
    opens: list[str] = field(default_factory=list)
    received: bytearray = field(default_factory=bytearray)
    on_bytes: Callable[[], None] = lambda: None

    def opened(self) -> None:
        self.told.append("open")
        self.opens.append("open")

    def bytes(self, data: bytes) -> None:
        self.received += data
        self.on_bytes()

    def closed(self, reason: str) -> None:
        self.told.append(reason)


class Peer(asyncio.Protocol):
    """The broker's side of one connection."""

    def __init__(self, serving: Server) -> None:
        self._serving = serving
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._serving.connections.append(self.transport)

    def data_received(self, data: bytes) -> None:
        self._serving.received += data


@dataclass
class Server:
    """One port, and all who came."""

    port: int = 0
    received: bytearray = field(default_factory=bytearray)
    connections: list[asyncio.Transport] = field(default_factory=list)


@asynccontextmanager
async def server(certificates: Certificates | None = None) -> AsyncIterator[Server]:
    serving = Server()
    context = certificates.server_context(certificates.server) if certificates else None
    listener = await asyncio.get_running_loop().create_server(
        lambda: Peer(serving), "127.0.0.1", 0, ssl=context
    )
    serving.port = listener.sockets[0].getsockname()[1]
    try:
        yield serving
    finally:
        listener.close()
        for connection in serving.connections:
            connection.abort()


def counts(things: Sized, number: int) -> bool:
    return len(things) == number


def link_to(
    port: int,
    upper: Upper,
    *,
    certificates: Certificates | None = None,
    delays_s: tuple[float, float] = (0.01, 0.02),
    unsent_bytes_max: int = broker.UNSENT_BYTES_MAX,
) -> BrokerLink:
    return BrokerLink(
        "localhost",
        port,
        tls=client_context(certificates.authority, None, None) if certificates else None,
        on_open=upper.opened,
        on_bytes=upper.bytes,
        on_closed=upper.closed,
        connect_timeout_s=20,
        reconnect_delay_s_min=delays_s[0],
        reconnect_delay_s_max=delays_s[1],
        dice=random.Random(1),
        unsent_bytes_max=unsent_bytes_max,
    )


@pytest.fixture(params=[False, True], ids=["tcp", "tls"])
def secured(request: pytest.FixtureRequest, certificates: Certificates) -> Certificates | None:
    return certificates if request.param else None


def test_bytes_flow_both_ways(run: Run, secured: Certificates | None) -> None:
    async def story() -> None:
        async with server(secured) as serving:
            upper = Upper()
            link = link_to(serving.port, upper, certificates=secured)
            link.start(asyncio.get_running_loop())
            await eventually(lambda: link.state is LinkState.OPEN, "the opening")
            assert upper.told == ["open"]
            link.write([b"one ", b"two"])
            link.write([b" three"])
            await eventually(lambda: serving.received == b"one two three", "what was written")
            serving.connections[0].write(b"four")
            await eventually(lambda: upper.received == b"four", "the answer")
            link.settled()
            assert (link.state, link.reason) == (LinkState.SETTLED, None)
            counters = link.counters
            assert (counters.bytes_in, counters.bytes_out, counters.connects) == (4, 13, 1)
            await link.stop()
            assert upper.told == ["open", "the gateway stops"]
            assert link.state is LinkState.STOPPED

    run(story())


def test_a_lost_connection_is_made_again(run: Run, secured: Certificates | None) -> None:
    async def story() -> None:
        async with server(secured) as serving:
            upper = Upper()
            link = link_to(serving.port, upper, certificates=secured)
            link.start(asyncio.get_running_loop())
            for number in range(1, 4):
                await eventually(partial(counts, serving.connections, number), "a connection")
                await eventually(partial(counts, upper.opens, number), "the opening")
                link.settled()
                serving.connections[-1].close()
            await eventually(lambda: len(upper.told) >= 6, "three ends")
            assert upper.told[0:6:2] == ["open"] * 3
            said = f"localhost:{serving.port} closed the connection without a word"
            assert all(reason.startswith(said) for reason in upper.told[1:6:2])
            closed = link.counters.failures
            await eventually(lambda: closed[BrokerFailure.CLOSED] >= 3, "three counted")
            await link.stop()

    run(story())


def test_a_broker_that_comes_late_is_found(run: Run) -> None:
    async def story() -> None:
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
            upper = Upper()
            link = link_to(port, upper)
            link.start(asyncio.get_running_loop())
            await eventually(lambda: link.counters.failures[BrokerFailure.REFUSED] >= 2, "tries")
            assert upper.told == []
            link.write([b"nobody hears this"])
            assert (link.counters.writes_ignored, link.counters.bytes_out) == (1, 0)
            reserved.listen()
            await eventually(lambda: upper.told == ["open"], "the opening")
            await link.stop()

    run(story())


def test_waits_grow_until_the_session_settles(run: Run) -> None:
    async def story() -> None:
        async with server() as serving:
            upper = Upper()
            link = link_to(serving.port, upper, delays_s=(0.01, 3600.0))
            link.start(asyncio.get_running_loop())
            waits = []
            for _ in range(4):
                await eventually(lambda: link.state is LinkState.OPEN, "a connection")
                link.drop("the broker refused us")
                await eventually(lambda: link.state is LinkState.WAITING, "the end")
                assert link.next_try_at is not None
                waits.append(link.next_try_at - now())
            # The dice of seed 1: what matters is that it grew beyond the first ceiling of 20 ms.
            assert waits[0] <= 0.02 < max(waits)
            await eventually(lambda: link.state is LinkState.OPEN, "a connection")
            link.settled()
            link.drop("later")
            await eventually(lambda: link.state is LinkState.WAITING, "the end")
            assert link.next_try_at is not None
            assert link.next_try_at - now() <= 0.02
            await link.stop()

    run(story())


def test_a_dropped_connection_sends_what_was_written_and_hears_no_more(
    run: Run, secured: Certificates | None
) -> None:
    async def story() -> None:
        async with server(secured) as serving:
            upper = Upper()
            link = link_to(serving.port, upper, certificates=secured)
            upper.on_bytes = lambda: link.drop("protocol error")
            link.start(asyncio.get_running_loop())
            await eventually(lambda: serving.connections, "a connection")
            await eventually(lambda: link.state is LinkState.OPEN, "the opening")
            link.write([b"goodbye"])
            serving.connections[0].write(b"nonsense")
            await eventually(lambda: len(upper.told) >= 2, "the end")
            link.drop("twice")
            assert upper.told[:2] == ["open", "protocol error"]
            await eventually(lambda: serving.received == b"goodbye", "the last words")
            assert link.counters.failures[BrokerFailure.DROPPED] == 1
            assert upper.received == b"nonsense"
            await link.stop()

    run(story())


def test_a_broker_that_reads_nothing_is_dropped_before_memory_runs_out(
    run: Run, secured: Certificates | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "DROP_S_MAX", 0.01)

    async def story() -> None:
        async with server(secured) as serving:
            upper = Upper()
            link = link_to(serving.port, upper, certificates=secured, unsent_bytes_max=1 << 20)
            link.start(asyncio.get_running_loop())
            await eventually(lambda: link.state is LinkState.OPEN, "the opening")
            await eventually(lambda: serving.connections, "the other side of it")
            serving.connections[0].pause_reading()
            highest = 0

            def written_too_much() -> bool:
                nonlocal highest
                link.write([bytes(1 << 16)])
                highest = max(highest, link.unsent_bytes)
                return len(upper.told) > 1

            await eventually(written_too_much, "the end")
            assert 0 < highest <= 1 << 20
            where = f"localhost:{serving.port}"
            assert upper.told[1] == f"{where} takes nothing: more than 1048576 bytes wait"
            await link.stop()

    run(story())


def test_stopping_sends_what_was_written(run: Run, secured: Certificates | None) -> None:
    async def story() -> None:
        async with server(secured) as serving:
            upper = Upper()
            link = link_to(serving.port, upper, certificates=secured)
            link.start(asyncio.get_running_loop())
            await eventually(lambda: link.state is LinkState.OPEN, "the opening")
            await eventually(lambda: serving.connections, "the other side of it")
            serving.connections[0].pause_reading()
            link.write([bytes(8_000_000)])
            assert link.unsent_bytes > 0
            stopping = asyncio.create_task(link.stop())
            await asyncio.sleep(0)
            serving.connections[0].resume_reading()
            await stopping
            await eventually(lambda: len(serving.received) == 8_000_000, "all of it")

    run(story())


def test_stopping_does_not_wait_for_a_broker_that_reads_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "STOP_S_MAX", 0.01)

    async def story() -> None:
        async with server() as serving:
            upper = Upper()
            link = link_to(serving.port, upper)
            link.start(asyncio.get_running_loop())
            await eventually(lambda: link.state is LinkState.OPEN, "the opening")
            await eventually(lambda: serving.connections, "the other side of it")
            serving.connections[0].pause_reading()
            link.write([bytes(8_000_000)])
            async with asyncio.timeout(20):
                await link.stop()
            assert upper.told == ["open", "the gateway stops"]

    run(story())


@pytest.mark.parametrize("state", [LinkState.STOPPED, LinkState.CONNECTING, LinkState.WAITING])
def test_stopping_is_possible_in_every_state(run: Run, state: LinkState) -> None:
    async def story() -> None:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            address = silent.getsockname()
            if state is LinkState.CONNECTING:
                silent.listen(0)
            # One connection fills the queue; the kernel lets the next ones wait.
            fillers = [socket.socket() for _ in range(2)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(address)
            link = link_to(address[1], upper := Upper(), delays_s=(3600, 3600))
            if state is not LinkState.STOPPED:
                link.start(asyncio.get_running_loop())
                await eventually(lambda: link.state is state, str(state))
            await link.stop()
            await link.stop()
            for filler in fillers:
                filler.close()
            assert link.next_try_at is None
            assert upper.told == []

    run(story())


def test_the_log_has_one_line_when_the_broker_goes_and_one_when_it_is_back(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
            link = link_to(port, Upper())
            link.start(asyncio.get_running_loop())
            await eventually(lambda: link.counters.failures[BrokerFailure.REFUSED] > 5, "tries")
            reserved.listen()
            await eventually(lambda: link.state is LinkState.OPEN, "the opening")
            link.settled()
            link.settled()
            link.drop("enough")
            await eventually(lambda: link.counters.connects > 1, "the next connection")
            await link.stop()
        where = f"broker localhost:{port} is"
        assert [line.partition(" (next")[0] for line in caplog.messages] == [
            f"{where} away: nothing listens on localhost:{port}: is the broker running, "
            "and is this its port?",
            caplog.messages[1],
            f"{where} away: enough",
        ]
        assert caplog.messages[1].startswith(f"{where} back after ")

    with caplog.at_level(logging.INFO, logger="tidegate.broker"):
        run(story())


def test_a_broker_that_is_there_at_once_is_one_line(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with server() as serving:
            link = link_to(serving.port, Upper())
            link.start(asyncio.get_running_loop())
            await eventually(lambda: link.state is LinkState.OPEN, "the opening")
            link.settled()
            await link.stop()
            assert caplog.messages == [f"broker localhost:{serving.port} is there"]

    with caplog.at_level(logging.INFO, logger="tidegate.broker"):
        run(story())


def test_the_socket_has_the_options_that_keep_it_fast_and_alive(run: Run) -> None:
    async def story() -> None:
        async with server() as serving:
            upper = Upper()
            link = link_to(serving.port, upper)
            link.start(asyncio.get_running_loop())
            await eventually(lambda: link.state is LinkState.OPEN, "the opening")
            assert link._outflow is not None
            found = link._outflow._transport.get_extra_info("socket")
            assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
            await link.stop()

    run(story())


def test_a_broker_with_nagles_algorithm_is_not_kept_waiting(run: Run) -> None:
    """Its second small packet waits for the acknowledgement of the first: 40 ms, if delayed."""

    async def story() -> None:
        async with server() as serving:
            upper = Upper()
            link = link_to(serving.port, upper)
            link.start(asyncio.get_running_loop())
            await eventually(lambda: link.state is LinkState.OPEN, "the opening")
            await eventually(lambda: serving.connections, "the other side of it")
            connection = serving.connections[0]
            own: socket.socket = connection.get_extra_info("socket")
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
            started = now()
            for number in range(1, 51):
                link.write([b"publish"])
                await eventually(partial(counts, serving.received, 7 * number), "it")
                for answer in (b"a", b"b"):
                    connection.write(answer)
                    await asyncio.sleep(0)
                await eventually(partial(counts, upper.received, 2 * number), "both")
            assert now() - started < 1.0
            await link.stop()

    run(story())


def test_a_broker_that_pauses_gets_the_rest_when_it_reads_again(
    run: Run, secured: Certificates | None
) -> None:
    async def story() -> None:
        async with server(secured) as serving:
            upper = Upper()
            link = link_to(serving.port, upper, certificates=secured)
            link.start(asyncio.get_running_loop())
            await eventually(lambda: link.state is LinkState.OPEN, "the opening")
            await eventually(lambda: serving.connections, "the other side of it")
            serving.connections[0].pause_reading()
            rows = [bytes([number]) * 50_000 for number in range(160)]
            for row in rows:
                link.write([row])
            await eventually(lambda: link.unsent_bytes > 2_000_000, "a backlog")
            serving.connections[0].resume_reading()
            await eventually(lambda: len(serving.received) == 8_000_000, "all of it")
            assert serving.received == b"".join(rows)
            assert link.unsent_bytes == 0
            await link.stop()

    run(story())


def test_what_comes_after_a_drop_is_not_heard(run: Run, secured: Certificates | None) -> None:
    async def story() -> None:
        async with server(secured) as serving:
            upper = Upper()
            link = link_to(serving.port, upper, certificates=secured)
            link.start(asyncio.get_running_loop())
            await eventually(lambda: link.state is LinkState.OPEN, "the opening")
            await eventually(lambda: serving.connections, "the other side of it")
            serving.connections[0].pause_reading()
            link.write([bytes(8_000_000)])  # it takes a while to leave, and bytes come meanwhile
            link.drop("enough")
            serving.connections[0].write(b"too late")
            await eventually(lambda: len(upper.told) >= 2, "the end")
            assert upper.told[:2] == ["open", "enough"]
            assert upper.received == b""
            await link.stop()

    run(story())


def test_a_defect_in_the_session_above_ends_the_connection_and_not_the_link(
    secured: Certificates | None, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def story() -> None:
        raised: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: raised.append(context.get("exception")))

        def defect() -> None:
            raise RuntimeError("a defect of ours")

        async with server(secured) as serving:
            upper = Upper(on_bytes=defect)
            link = link_to(serving.port, upper, certificates=secured)
            link.start(loop)
            await eventually(lambda: serving.connections, "a connection")
            serving.connections[0].write(b"x")
            await eventually(lambda: upper.told.count("open") == 2, "the next connection")
            said = f"localhost:{serving.port} failed: RuntimeError: a defect of ours"
            assert upper.told[:3] == ["open", said, "open"]
            assert [type(error) for error in raised] == [RuntimeError]
            await link.stop()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(story())
