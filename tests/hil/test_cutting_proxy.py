"""The proxy that cuts connections hangs up on each of them."""

from __future__ import annotations

import asyncio
import socket

import pytest

from hil.faults import cutting_proxy
from hil.rig.ports import free_port


def test_one_that_is_cut_before_it_has_a_far_end_is_hung_up_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect = asyncio.open_connection
    asked = asyncio.Event()

    async def never(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    async def story() -> None:
        async with cutting_proxy.cutting_proxy(free_port(socket.SOCK_STREAM), seed=1) as proxy:
            monkeypatch.setattr(asyncio, "open_connection", never)
            reader, writer = await connect("127.0.0.1", proxy.port)
            await asked.wait()
            await proxy.cut()
            async with asyncio.timeout(5):
                with pytest.raises((ConnectionError, EOFError)):
                    await reader.readexactly(1)
            writer.close()

    asyncio.run(story())
