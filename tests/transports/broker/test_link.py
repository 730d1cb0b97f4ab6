"""The life of the connection to the broker, against a plain server on loopback."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial

import pytest

from gateway.transports.broker.link import (
    SHORT_HINT,
    SHORT_MAX,
    BrokerFailure,
    BrokerLink,
    LinkState,
)
from gateway.transports.clock import now
from tests.transports.broker.server import Upper, counts, link_to, server
from tests.transports.certificates import Certificates
from tests.transports.conftest import Run
from tests.transports.eventually import eventually


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
            link.accepted()
            assert (link.state, link.reason) == (LinkState.ACCEPTED, None)
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
                link.accepted()
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
            link.accepted()
            link.progressed()
            link.drop("later")
            await eventually(lambda: link.state is LinkState.WAITING, "the end")
            assert link.next_try_at is not None
            assert link.next_try_at - now() <= 0.02
            await link.stop()

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
            link.accepted()
            link.accepted()
            link.drop("enough")
            await eventually(lambda: link.counters.connects > 1, "the next connection")
            await link.stop()
        where = f"broker localhost:{port}"
        assert [line.partition(" (retry")[0] for line in caplog.messages] == [
            f"{where} unreachable: nothing listens on localhost:{port}: is the broker running, "
            "and is this its port?",
            caplog.messages[1],
            f"{where} unreachable: enough",
        ]
        assert caplog.messages[1].startswith(f"connected to {where} again after ")

    with caplog.at_level(logging.INFO, logger="tidegate.broker"):
        run(story())


async def short_connection(link: BrokerLink, *, progressed: bool = False) -> float:
    """Accepted and ended at once; the wait after it, in seconds."""
    await eventually(lambda: link.state is LinkState.OPEN, "a connection")
    link.accepted()
    if progressed:
        link.progressed()
    link.drop("taken over")
    await eventually(lambda: link.state is LinkState.WAITING, "the end")
    assert link.next_try_at is not None
    wait_s = link.next_try_at - now()
    link.use(None, "go on")  # without waiting for the next try
    return wait_s


@pytest.mark.parametrize("progressed", [False, True])
def test_to_be_accepted_is_no_success_until_it_lasts(
    run: Run, caplog: pytest.LogCaptureFixture, progressed: bool
) -> None:
    async def story() -> None:
        async with server() as serving:
            link = link_to(serving.port, Upper(), delays_s=(0.01, 3600.0), lasts_s=0.2)
            link.start(asyncio.get_running_loop())
            waits = [await short_connection(link, progressed=progressed) for _ in range(12)]
            assert max(waits[:SHORT_MAX]) < 0.2
            assert max(waits) > 1.0
            assert link.unstable is not None
            assert "another client may be using our client id" in link.unstable
            assert len(caplog.messages) <= 2 * SHORT_MAX + 2
            assert SHORT_HINT in caplog.messages[-1]
            await eventually(lambda: link.state is LinkState.OPEN, "a connection")
            link.accepted()
            assert not caplog.messages[-1].startswith(
                f"connected to broker localhost:{serving.port} again"
            )
            await eventually(lambda: link.unstable is None, "that it lasts")
            assert caplog.messages[-1].startswith(
                f"connected to broker localhost:{serving.port} again"
            )
            link.drop("later")
            await eventually(lambda: link.state is LinkState.WAITING, "the end")
            assert link.next_try_at is not None
            assert link.next_try_at - now() <= 0.02
            await link.stop()

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
            link.accepted()
            await link.stop()
            assert caplog.messages == [f"connected to broker localhost:{serving.port}"]

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
