"""The end of a collector's connection: the broker hears all that was said before."""

from __future__ import annotations

import asyncio
import socket

from spark_ingest.collect.reconnecting import CLOSE_S_MAX, BrokerConnection, ConnectionCallbacks

SAID = b"acknowledgements" * 1000
UNREAD = b"more messages"


async def is_over_before_the_broker_ends_it(*, settled: bool) -> bool:
    """With a broker that reads only after the collector has begun to close."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        host, port = server.getsockname()
        opened = asyncio.Event()
        connection = BrokerConnection(
            host, port, None, connect_timeout_s=5.0, delay_s_max=5.0,
            callbacks=ConnectionCallbacks(opened.set, lambda _octets: None, lambda: None),
        )  # fmt: skip
        keeping = asyncio.create_task(connection.run())
        broker, _ = await loop.sock_accept(server)
        with broker:
            broker.setblocking(False)
            await opened.wait()
            if settled:
                connection.accepted()
            connection.pause_reading()
            await loop.sock_sendall(broker, UNREAD)
            connection.write(SAID)
            closing = asyncio.create_task(connection.close())
            done, _ = await asyncio.wait({closing}, timeout=CLOSE_S_MAX / 4)
            heard = b""
            while len(heard) < len(SAID):
                heard += await loop.sock_recv(broker, 65_536)
            assert heard == SAID
        await asyncio.gather(closing, keeping)
        return bool(done)


def test_the_broker_ends_it_having_read_all() -> None:
    assert not asyncio.run(is_over_before_the_broker_ends_it(settled=True))


def test_one_that_has_not_accepted_us_is_not_waited_for() -> None:
    assert asyncio.run(is_over_before_the_broker_ends_it(settled=False))
