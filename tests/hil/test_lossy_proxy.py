"""The bad network is as bad as asked, and keeps each sensor's address."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aioudp
import pytest

from hil.faults.lossy_proxy import CALM, Impairment, LossyProxy, lossy_proxy

DATAGRAMS = 2_000


class Echo(asyncio.DatagramProtocol):
    """Stands where a gateway would."""

    def __init__(self) -> None:
        self.senders: Counter[tuple[str, int]] = Counter()
        self.heard: list[bytes] = []
        self.transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.senders[addr] += 1
        self.heard.append(data)
        self.transport.sendto(data, addr)


@asynccontextmanager
async def echoing(impairment: Impairment) -> AsyncIterator[tuple[Echo, LossyProxy]]:
    transport, echo = await asyncio.get_running_loop().create_datagram_endpoint(
        Echo, local_addr=("127.0.0.1", 0)
    )
    try:
        async with lossy_proxy(transport.get_extra_info("sockname")[1], 1, impairment) as proxy:
            yield echo, proxy
    finally:
        transport.close()


@asynccontextmanager
async def two_sensors() -> AsyncIterator[
    tuple[Echo, LossyProxy, aioudp.Connection, aioudp.Connection]
]:
    async with (
        echoing(CALM) as (echo, proxy),
        aioudp.connect("127.0.0.1", proxy.port) as one,
        aioudp.connect("127.0.0.1", proxy.port) as other,
    ):
        yield echo, proxy, one, other


async def sent_and_heard(proxy: LossyProxy, count: int) -> list[int]:
    """The numbers of the datagrams that came back, in the order in which they did."""
    heard: list[int] = []
    async with aioudp.connect("127.0.0.1", proxy.port) as sensor:

        async def hear(timeout_s: float) -> None:
            while True:
                octets = await asyncio.wait_for(sensor.recv(), timeout_s)
                heard.append(int.from_bytes(octets, "big"))

        for number in range(count):
            await sensor.send(number.to_bytes(4, "big"))
            if number % 20 == 0:
                with pytest.raises(TimeoutError):
                    await hear(0.002)
        with pytest.raises(TimeoutError):
            await hear(0.3)
    return heard


def test_a_calm_network_carries_everything_once_and_in_order() -> None:
    async def story() -> None:
        async with echoing(CALM) as (_, proxy):
            assert await sent_and_heard(proxy, 200) == list(range(200))

    asyncio.run(story())


def test_losses_copies_and_overtaking_come_in_the_shares_asked_for() -> None:
    async def story() -> None:
        async with echoing(Impairment()) as (echo, proxy):
            heard = await sent_and_heard(proxy, DATAGRAMS)
        # Both ways: 0.9 squared arrive; of those, 1.1 squared times on average.
        assert 0.75 < len(set(heard)) / DATAGRAMS < 0.92
        assert 1.15 < len(heard) / len(set(heard)) < 1.28
        first = list(dict.fromkeys(heard))
        overtaken = sum(later < number for number, later in itertools.pairwise(first))
        assert overtaken > DATAGRAMS / 100
        assert len(echo.senders) == 1
        assert 0.07 < len(proxy.copied_up) / DATAGRAMS < 0.12

    asyncio.run(story())


def test_it_knows_what_came_behind_what() -> None:
    async def story() -> None:
        async with echoing(Impairment()) as (echo, proxy):
            await sent_and_heard(proxy, DATAGRAMS)
        last = {datagram: place for place, datagram in enumerate(echo.heard)}
        behind = 0
        for datagram, other in itertools.pairwise(n.to_bytes(4, "big") for n in range(DATAGRAMS)):
            came_both = datagram in last and other in last
            is_behind = came_both and last[datagram] > echo.heard.index(other)
            assert proxy.arrived_after(datagram, other) == is_behind
            behind += is_behind
        assert DATAGRAMS / 100 < behind < DATAGRAMS / 4

    asyncio.run(story())


def test_each_sensor_keeps_its_address_until_it_is_moved() -> None:
    async def story() -> None:
        async with two_sensors() as (echo, proxy, one, other):
            for sensor in (one, other, one, other):
                await sensor.send(b"x")
                assert await sensor.recv() == b"x"
            assert sorted(echo.senders.values()) == [2, 2]
            before = proxy.port_of(one.local_address)
            await proxy.move(one.local_address)
            await one.send(b"y")
            assert await one.recv() == b"y"
            assert proxy.port_of(one.local_address) != before
            assert len(echo.senders) == 3

    asyncio.run(story())


def test_no_sensor_is_given_an_address_that_another_had() -> None:
    async def story() -> None:
        async with two_sensors() as (_, proxy, one, other):
            given = []
            for sensor in (one, other) * 1_000:
                await sensor.send(b"x")
                assert await sensor.recv() == b"x"
                given.append(proxy.port_of(sensor.local_address))
                await proxy.move(sensor.local_address)
            assert len(set(given)) == len(given)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("impairment", "fault"),
    [(Impairment(0.0, 0.0, 0.0, mtu=3), "too long"), (Impairment(1.0, 0.0, 0.0), "lost")],
)
def test_what_is_too_long_for_the_network_is_lost(impairment: Impairment, fault: str) -> None:
    async def inner() -> None:
        async with echoing(impairment) as (echo, proxy):
            assert await sent_and_heard(proxy, 20) == []
            assert proxy.fault_counts[fault] == 20
            assert not echo.senders

    asyncio.run(inner())


def test_a_damaged_datagram_differs_by_one_bit() -> None:
    async def inner() -> None:
        async with echoing(Impairment(0.0, 0.0, 0.0, damaged=1.0)) as (_, proxy):
            heard = await sent_and_heard(proxy, 50)
        # Damaged on both ways: two bits, or the same one twice.
        assert len(heard) == 50
        assert all((number ^ sent).bit_count() in (0, 2) for sent, number in enumerate(heard))
        assert proxy.fault_counts["damaged"] == 100

    asyncio.run(inner())


def test_a_network_that_is_down_loses_all_until_it_is_up() -> None:
    async def inner() -> None:
        async with echoing(CALM) as (_, proxy):
            proxy.is_down = True
            assert await sent_and_heard(proxy, 5) == []
            proxy.is_down = False
            assert await sent_and_heard(proxy, 5) == list(range(5))

    asyncio.run(inner())
