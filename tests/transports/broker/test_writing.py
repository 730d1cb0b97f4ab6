"""What leaves for the broker, what is held back, and what becomes of it at the end."""

from __future__ import annotations

import asyncio
import socket
from functools import partial

import pytest

from gateway.transports.broker import link as broker
from gateway.transports.broker.link import BrokerFailure, LinkState
from gateway.transports.clock import now
from tests.transports.broker.server import Upper, counts, link_to, server
from tests.transports.certificates import Certificates
from tests.transports.conftest import Run
from tests.transports.eventually import eventually


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
            await eventually(lambda: link.counters.failures[BrokerFailure.DROPPED], "the count")
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
            async with asyncio.timeout(200):
                await link.stop()
            assert upper.told == ["open", "the gateway stops"]

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
