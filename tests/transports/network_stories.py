"""Stories for a network of their own; see tests/support/own_network.py."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from operator import eq
from pathlib import Path

import uvloop

from gateway.app.listeners import SensorLinks
from gateway.config.addresses import BrokerUrl
from gateway.transports.broker.socket import connected_socket
from gateway.transports.udp.link import UdpLink
from gateway.transports.udp.multicast import GroupCallbacks, GroupLink
from gateway.transports.udp.socket import open_udp_socket
from spark_ingest.collect.reconnecting import BrokerConnection, ConnectionCallbacks
from spark_ingest.config.kinds import broker_url
from tests.support.multicast import Seeker, group_on_loopback
from tests.support.own_network import give, give_address, send_frame, switch
from tests.transports.eventually import eventually

ALL = b"\xff" * 6
US = bytes(6)
SEARCHGW, PINGREQ = b"\x03\x01\x00", b"\x02\x16"


def an_address_goes_and_comes_back() -> None:
    asyncio.run(asyncio.wait_for(_an_address_goes_and_comes_back(), 200))


async def _an_address_goes_and_comes_back() -> None:
    switch("lo", on=True)
    give_address("lo", "10.9.8.7")
    links = SensorLinks()
    for host in ("10.9.8.7", "0.0.0.0"):
        links.udp.append(UdpLink((host, 0), lambda _: None))
        links.udp[-1].open(asyncio.get_running_loop())
    doubt = links.doubts()["udp0_address"]
    for _ in range(2):
        links.look()
        assert doubt() is None
        give_address("lo", "172.20.0.1")  # of another network: all of one is ours on lo
        links.look()
        said = doubt()
        assert said is not None
        assert "does not have the address 10.9.8.7 any more" in said
        assert links.udp[0].check() is None, "a restart would not bring it back"
        assert links.doubts()["udp1_address"]() is None
        give_address("lo", "10.9.8.7")
    links.look()
    links.close()


def the_network_comes_and_goes() -> None:
    asyncio.run(asyncio.wait_for(_the_network_comes_and_goes(), 200))


async def _the_network_comes_and_goes() -> None:
    happened: list[str] = []
    callbacks = GroupCallbacks(
        joined=lambda: happened.append("joined"),
        datagrams=lambda batch: happened.append(batch[0][1].hex()),
        left=lambda: happened.append("left"),
    )
    loop, group = asyncio.get_running_loop(), group_on_loopback()
    switch("lo", on=True)  # its address comes with the first time
    switch("lo", on=False)
    listener = UdpLink(("127.0.0.1", 0), lambda _: None, shares_port=True)
    listener.open(loop)
    link = GroupLink(listener, (group.host, group.port), callbacks, interface="lo", check_s=0.05)
    link.open(loop)
    said = link.check()
    assert said is not None
    assert "no interface on lo leads to the group now; `ip link` shows whether it is up" in said
    for times in (1, 2):
        switch("lo", on=True)
        await eventually(lambda: happened[-1:] == ["joined"], "it joins")
        assert link.check() is None
        with Seeker(group) as seeker:
            await asyncio.to_thread(seeker.say, SEARCHGW)
            await eventually(lambda: happened[-1] == SEARCHGW.hex(), "it hears")
            link.send(b"\2\0", 0)
            said_by = await asyncio.to_thread(seeker.overhear)
            assert said_by == (b"\2\0", ("127.0.0.1", listener.listening_on[1])), said_by
        switch("lo", on=False)
        await eventually(lambda: happened[-1] == "left", "it notices")
        assert happened.count("left") == times
        link.send(b"\2\0", 0)  # nobody hears it, and nothing breaks
    link.close()
    listener.close()


def an_interface_gets_another_address() -> None:
    asyncio.run(asyncio.wait_for(_an_interface_gets_another_address(), 200))


async def _an_interface_gets_another_address() -> None:
    happened: list[str] = []
    callbacks = GroupCallbacks(
        joined=lambda: happened.append("joined"),
        datagrams=lambda batch: happened.append(batch[0][1].hex()),
        left=lambda: happened.append("left"),
    )
    switch("lo", on=True)
    loop, group = asyncio.get_running_loop(), group_on_loopback()
    give_address("lo", "10.9.9.1")
    listener = UdpLink(("0.0.0.0", 0), lambda _: None, shares_port=True)
    listener.open(loop)
    port = listener.listening_on[1]
    link = GroupLink(listener, (group.host, group.port), callbacks, interface="lo", check_s=0.05)
    link.open(loop)
    with Seeker(group, speaks_from="0.0.0.0") as seeker:
        for host, expected in (("10.9.9.1", ["joined"]), ("10.9.9.2", ["left", "joined"])):
            give_address("lo", host)
            await eventually(partial(eq, happened, expected), "it is there")
            happened.clear()
            link.send(b"\2\0", 0)
            assert seeker.overhear() == (b"\2\0", (host, port))
            seeker.say(SEARCHGW)
            await eventually(lambda: happened, "it hears the search, and not itself")
            assert happened == [SEARCHGW.hex()]
            happened.clear()
    link.close()
    listener.close()


def of_broadcasts_a_listener_hears_searches_only() -> None:
    switch("lo", on=True)
    for permission in ("route_localnet", "accept_local"):
        Path(f"/proc/sys/net/ipv4/conf/lo/{permission}").write_text("1")
    with open_udp_socket(("0.0.0.0", 0), 65_536) as listener:
        port = listener.getsockname()[1]
        for to, datagram in ((ALL, PINGREQ), (ALL, SEARCHGW), (ALL, b""), (US, PINGREQ), (US, b"")):
            send_frame(to, port, datagram)
        heard: list[bytes] = []
        listener.settimeout(10.0)
        while not heard or heard[-1] != b"":
            heard.append(listener.recv(64))
    assert heard == [SEARCHGW, PINGREQ, b""]


def a_machine_without_routes_is_told_to_name_an_interface() -> None:
    switch("lo", on=True)
    assert problem(interface=None).endswith(
        "no interface leads to the group now; name one with multicast_interface, or see `ip route`"
    )


def an_interface_that_has_no_address_yet_is_waited_for() -> None:
    switch("lo", on=True)  # its only address is for this machine
    assert problem(interface="lo").endswith(
        "no interface on lo has an address for it now; `ip address` shows all"
    )


def problem(interface: str | None) -> str:
    """What health says of a group on this interface, for a listener on all addresses."""
    loop = asyncio.new_event_loop()
    listener = UdpLink(("0.0.0.0", 0), lambda _: None, shares_port=True)
    listener.open(loop)
    nothing = GroupCallbacks(lambda: None, lambda _: None, lambda: None)
    link = GroupLink(listener, ("225.1.1.1", 1883), nothing, interface=interface)
    link.open(loop)
    said = link.check()
    link.close()
    listener.close()
    loop.close()
    assert said is not None
    return said


def a_broker_has_a_link_local_address() -> None:
    """`mqtt://[fe80::1%25lo]`, as the gateway, `doctor` and the collector connect to it."""
    switch("lo", on=True)
    give("lo", "fe80::1/64")
    for loop_factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(asyncio.wait_for(_a_broker_has_a_link_local_address(), 200))


async def _a_broker_has_a_link_local_address() -> None:
    loop = asyncio.get_running_loop()
    scope = socket.if_nametoindex("lo")
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as server:
        server.bind(("fe80::1", 0, 0, scope))
        server.listen()
        port = server.getsockname()[1]
        url = f"mqtt://[fe80::1%25lo]:{port}"
        host = "fe80::1%lo"
        assert BrokerUrl().read(url) == broker_url().read(url) == (host, port, False)
        connected = await connected_socket(loop, host, port, 5)
        assert connected.getpeername()[3] == scope
        connected.close()
        socket.create_connection((host, port), 5).close()
        opened = asyncio.Event()
        callbacks = ConnectionCallbacks(opened.set, lambda _chunk: None, lambda: None)
        collector = BrokerConnection(
            host, port, None, connect_timeout_s=5, delay_s_max=5, callbacks=callbacks
        )
        keeping = asyncio.create_task(collector.run())
        await opened.wait()
        keeping.cancel()
        await asyncio.wait({keeping})
