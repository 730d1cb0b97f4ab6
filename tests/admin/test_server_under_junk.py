"""Whatever a peer sends, or keeps back: nothing on stderr, nothing grows, others are served."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import socket
from dataclasses import replace

import pytest

from gateway.admin.http import connections
from gateway.admin.http.connections import CONNECTIONS_MAX, HEAD_BYTES_MAX
from tests.admin.conftest import Log, Run
from tests.admin.eventually import eventually
from tests.admin.example import NUMBERS
from tests.admin.http_client import answer_of, exchange, get, serving

MALFORMED = [
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /\r\n\r\n",
    b"GET / HTTP\r\n\r\n",
    b"GET / a b HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
    b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n",
    b"GET /?a=%zz HTTP/1.1\r\n\r\n",
    b"GET /?a=%ff%fe HTTP/1.1\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # the beginning of TLS
]


@pytest.mark.parametrize("request_", MALFORMED, ids=repr)
def test_what_is_not_http_is_answered_with_400(
    run: Run, log: Log, capfd: pytest.CaptureFixture[str], request_: bytes
) -> None:
    async def story() -> None:
        async with serving() as server:
            assert answer_of(await exchange(server, request_)).status == 400

    run(story())
    assert (log.read(), capfd.readouterr().err) == ([], "")


def test_a_head_that_is_too_long_is_answered_with_431(run: Run) -> None:
    async def story() -> None:
        async with serving() as server:
            one_line = b"GET /" + b"x" * (HEAD_BYTES_MAX + 1)
            assert answer_of(await exchange(server, one_line)).status == 431
            many_lines = b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * HEAD_BYTES_MAX
            assert answer_of(await exchange(server, many_lines)).status == 431
            fits = b"GET /healthz HTTP/1.1\r\nCookie: " + b"x" * (HEAD_BYTES_MAX - 100)
            assert answer_of(await exchange(server, fits + b"\r\n\r\n")).status == 200

    run(story())


@pytest.mark.parametrize("length", [b"-5", b"5", b"1000", b"10000000"])
def test_a_body_is_neither_waited_for_nor_read(run: Run, length: bytes) -> None:
    async def story() -> None:
        async with serving() as server:
            head = b"POST /healthz HTTP/1.1\r\nContent-Length: " + length + b"\r\n\r\n"
            assert answer_of(await exchange(server, head)).status in (405, 413)

    run(story())


def test_random_octets_leave_no_trace(
    run: Run, log: Log, capfd: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(7)

    async def story() -> None:
        async with serving() as server:
            for _ in range(300):
                junk = dice.randbytes(dice.randrange(200))
                await exchange(server, junk + dice.choice((b"", b"\r\n\r\n")), hang_up=True)
            for _ in range(300):
                request = bytearray(b"GET /metrics?a=b HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n")
                for _ in range(dice.randrange(1, 6)):
                    request[dice.randrange(len(request))] = dice.randrange(256)
                cut = dice.randrange(len(request) + 1)
                await exchange(server, bytes(request[:cut]), hang_up=True)
            assert (await get(server, "/healthz")).status == 200

    run(story())
    assert (log.read(), capfd.readouterr().err) == ([], "")


def test_who_says_nothing_or_half_is_hung_up_on(run: Run) -> None:
    async def story() -> None:
        async with serving(connection_s_max=0.05) as server:
            for half in (b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\n"):
                assert await exchange(server, half) == b""

    run(story())


def test_an_answer_that_takes_its_time_is_waited_for(run: Run) -> None:
    """A look at the journal of a busy small machine is longer than a connection may say nothing."""

    async def peek() -> bytes:
        await asyncio.sleep(0.1)
        return b'{"readings": []}'

    async def story() -> None:
        async with serving(connection_s_max=0.05, peek=peek) as server:
            assert (await get(server, "/api/buffer/peek")).status == 200

    run(story())


def test_who_does_not_take_its_answer_is_hung_up_on(run: Run) -> None:
    """Ten megabytes, which no socket buffer of the kernel holds."""
    large = replace(NUMBERS, upstream_state="x" * 10_000_000)

    async def story() -> None:
        async with serving(connection_s_max=0.2, numbers=lambda: large) as server:
            before = open_files()
            with slow_reader(server.listening_on) as peer:
                peer.send(b"GET /api/status HTTP/1.1\r\n\r\n")
                await eventually(lambda: open_files() - before == 2, "the server accepts")
                await eventually(lambda: open_files() - before == 1, "the server hangs up")

    run(story())


def test_who_does_not_take_what_follows_is_hung_up_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream may last, as long as each piece is taken in time; what is not taken is not made."""
    monkeypatch.setattr(connections, "PIECE_S_MAX", 0.2)
    made = 0

    async def pieces() -> connections.Pieces:
        nonlocal made
        while True:
            made += 1
            yield b"x" * 100_000

    async def answer(_received: connections.Received) -> connections.Reply:
        return connections.Reply(b"HTTP/1.0 200 OK\r\n\r\n", pieces())

    async def story() -> None:
        served = connections.Connections(answer=answer, connection_s_max=5.0)
        address = await served.start("127.0.0.1", 0)
        before = open_files()
        with slow_reader(address) as peer:
            peer.send(b"GET /api/events HTTP/1.1\r\n\r\n")
            await eventually(lambda: open_files() - before == 2, "the server accepts")
            await eventually(lambda: open_files() - before == 1, "the server hangs up")
        await served.stop()

    run(story())
    assert made * 100_000 < 20_000_000


def test_who_holds_all_connections_keeps_nobody_out(run: Run) -> None:
    async def story() -> None:
        async with serving(connection_s_max=60.0) as server:
            held = [
                await asyncio.open_connection(*server.listening_on) for _ in range(CONNECTIONS_MAX)
            ]
            assert (await get(server, "/healthz")).status == 200
            # The oldest had to go, and nobody else.
            assert await held[0][0].read() == b""
            held[-1][1].write(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert answer_of(await held[-1][0].read()).status == 200
            for _, writer in held:
                writer.transport.abort()

    run(story())


def test_a_thousand_connections_are_no_more_than_the_limit(
    run: Run, log: Log, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        async with serving(connection_s_max=60.0) as server:
            before = open_files()
            rest = 1000
            peers: list[socket.socket] = []
            while rest:
                peers += [connected(server.listening_on) for _ in range(20)]
                rest -= 20
                assert (await get(server, "/healthz")).status == 200
                assert open_files() - before - len(peers) <= CONNECTIONS_MAX
                while len(peers) > 200:
                    peers.pop(0).close()
            for peer in peers:
                peer.close()

    run(story())
    assert (log.read(), capfd.readouterr().err) == ([], "")


def test_memory_does_not_grow_with_requests(run: Run) -> None:
    async def story() -> None:
        async with serving() as server:

            async def some() -> int:
                for number in range(110):  # one object of each would be too many
                    await exchange(server, f"GET /{number}?{number} HTTP/1.1\r\n\r\n".encode())
                    await exchange(server, b"junk %d\r\n\r\n" % number)
                    await get(server, "/metrics")
                gc.collect()
                return len(gc.get_objects())

            await some()
            second, third = await some(), await some()
            assert third - second < 100

    run(story())


def connected(address: tuple[str, int]) -> socket.socket:
    peer = socket.create_connection(address)
    peer.send(b"GET / HTTP/1.1\r\n")  # and no more
    return peer


def slow_reader(address: tuple[str, int]) -> socket.socket:
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    peer.connect(address)
    return peer


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208
