"""A multicast group on loopback, and what becomes of it while the network is not there."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.transports.errors import LinkError
from gateway.transports.port_owner import only_groups_have
from gateway.transports.udp.link import UdpLink, address_text
from gateway.transports.udp.multicast import GroupCallbacks, GroupLink
from gateway.transports.udp.multicast_socket import find_place, open_group_socket
from gateway.transports.udp.socket import open_udp_socket
from tests.support.multicast import Group, Seeker, group_on_loopback, ipv6_group
from tests.support.own_network import run_in_own_network
from tests.transports.conftest import Run
from tests.transports.eventually import eventually

SEARCHGW, ADVERTISE = b"\x03\x01\x00", b"\x05\x00\x01\x03\x84"


@dataclass
class Heard:
    """By the group, and by the listener to which it belongs."""

    link: GroupLink
    listener: UdpLink
    happened: list[str] = field(default_factory=list)
    by_group: list[tuple[bytes, bytes]] = field(default_factory=list)
    by_listener: list[tuple[bytes, bytes]] = field(default_factory=list)


@asynccontextmanager
async def joined(
    group: Group, host: str = "127.0.0.1", port: int = 0, hops: int = 0
) -> AsyncIterator[Heard]:
    listener = UdpLink(
        (host, port), lambda batch: heard.by_listener.extend(batch), shares_port=True
    )
    callbacks = GroupCallbacks(
        joined=lambda: heard.happened.append("joined"),
        datagrams=lambda batch: heard.by_group.extend(batch),
        left=lambda: heard.happened.append("left"),
    )
    where = (group.host, group.port)
    link = GroupLink(listener, where, callbacks, interface=group.interface, hops=hops)
    heard = Heard(link, listener)
    loop = asyncio.get_running_loop()
    listener.open(loop)
    link.open(loop)
    try:
        yield heard
    finally:
        link.close()
        listener.close()


def test_a_group_is_heard_and_spoken_to_from_the_address_that_listens(run: Run) -> None:
    async def story() -> None:
        group = group_on_loopback()
        with Seeker(group) as seeker:
            async with joined(group) as heard:
                assert heard.happened == ["joined"]
                assert heard.link.check() is None
                seeker.say(SEARCHGW)
                await eventually(lambda: heard.by_group, "the search arrives")
                ((address, datagram),) = heard.by_group
                assert datagram == SEARCHGW
                heard.link.send(ADVERTISE, 0)
                assert seeker.overhear() == (ADVERTISE, heard.listener.listening_on)
                heard.listener.send(address, b"\x03\x02\x01")
                heard.listener.flush()
                port = heard.listener.listening_on[1]
                assert seeker.answer() == (b"\x03\x02\x01", port)
                assert heard.listener.counters.sent == 2
            assert heard.happened == ["joined", "left"]
            assert heard.by_listener == []

    run(story())


def test_what_we_say_to_the_group_does_not_come_back_to_us(run: Run) -> None:
    async def story() -> None:
        group = group_on_loopback()
        async with joined(group) as one, joined(group) as other:
            with Seeker(group) as seeker:
                one.link.send(ADVERTISE, 0)
                seeker.overhear()
                seeker.say(SEARCHGW)
            await eventually(lambda: len(other.by_group) == 2, "the other one hears both")
            await eventually(lambda: one.by_group, "we hear the search")
            assert [datagram for _, datagram in one.by_group] == [SEARCHGW]
            address, datagram = other.by_group[0]
            host, port = one.listener.listening_on
            assert (address_text(address), datagram) == (f"{host}:{port}", ADVERTISE)

    run(story())


def test_a_listener_on_the_port_of_the_group_hears_none_of_it(run: Run) -> None:
    async def story() -> None:
        group, other = group_on_loopback(), group_on_loopback()
        other = Group(other.host, group.port)
        async with joined(group, host="127.0.0.1", port=group.port) as heard:
            with Seeker(group) as seeker, Seeker(other) as beside:
                beside.say(b"\x02\x16")
                seeker.say(SEARCHGW)
                await eventually(lambda: heard.by_group, "the search arrives")
                seeker.say_to("127.0.0.1", group.port, b"\x02\x18")
                await eventually(lambda: heard.by_listener, "what is for it arrives")
        assert [datagram for _, datagram in heard.by_group] == [SEARCHGW]
        assert [datagram for _, datagram in heard.by_listener] == [b"\x02\x18"]

    run(story())


def test_a_listener_to_all_addresses_hears_no_group_that_others_have_joined() -> None:
    group = group_on_loopback()
    with open_udp_socket(("0.0.0.0", group.port), 65_536, shares_port=True) as listener:
        with Seeker(group) as seeker:
            seeker.say(SEARCHGW)
            seeker.say_to("127.0.0.1", group.port, b"\x02\x16")
        listener.settimeout(20.0)
        assert listener.recv(64) == b"\x02\x16"


def test_what_others_join_on_other_interfaces_is_not_heard() -> None:
    group = group_on_loopback()
    place = find_place((group.host, group.port), ("127.0.0.1", 1883), "lo")
    ip_multicast_all = 49  # Linux; to be seen by its effect it takes two interfaces
    with open_group_socket(place, "lo") as opened:
        assert opened.getsockopt(socket.IPPROTO_IP, ip_multicast_all) == 0


def test_a_group_is_spoken_to_as_far_as_is_configured_or_as_was_asked(run: Run) -> None:
    async def story() -> None:
        group = group_on_loopback()
        with Seeker(group) as seeker:
            async with joined(group, hops=3) as heard:
                for radius, hops in ((0, 3), (1, 1), (2, 2), (255, 3)):
                    heard.link.send(ADVERTISE, radius)
                    assert seeker.overhear_hops() == hops

    run(story())


def test_ipv6_groups_work_where_this_machine_has_ipv6_multicast(run: Run) -> None:
    group = ipv6_group()

    async def story(group: Group) -> None:
        with Seeker(group) as seeker:
            async with joined(group, host="::") as heard:
                seeker.say(SEARCHGW)
                await eventually(lambda: heard.by_group, "the search arrives")
                heard.link.send(ADVERTISE, 0)
                datagram, (_, port) = seeker.overhear()
                assert (datagram, port) == (ADVERTISE, heard.listener.listening_on[1])
                seeker.say(SEARCHGW)
                await eventually(lambda: len(heard.by_group) == 2, "another one arrives")
                assert [datagram for _, datagram in heard.by_group] == [SEARCHGW] * 2
                heard.listener.send(heard.by_group[0][0], b"\x03\x02\x01")
                heard.listener.flush()
                assert seeker.answer() == (b"\x03\x02\x01", port)

    if group is not None:
        run(story(group))
    else:  # then none of its interfaces leads to an IPv6 group, and it says so
        for _, interface in socket.if_nameindex():
            with pytest.raises(LinkError, match=r"to the group now|has an address for it now"):
                find_place(("ff05::4d51", 1883), ("::", 1883), interface)


# While it cannot be had


def test_an_interface_that_is_not_there_is_waited_for_and_told_once(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with joined(Group("225.1.1.1", 1883, "wlan77")) as heard:
            said = heard.link.check()
            heard.link.send(ADVERTISE, 0)
            assert heard.listener.counters.sent == 0
        assert heard.happened == []
        assert said == (
            "the group 225.1.1.1:1883 is not heard: this machine has no interface wlan77 now; "
            "`ip link` shows those it has"
        )
        assert [record.getMessage() for record in caplog.records] == [f"{said}; it is tried again"]

    caplog.set_level(logging.WARNING)
    run(story())


def test_a_port_that_another_program_has_for_itself_is_tried_again(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        group = group_on_loopback()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as greedy:
            greedy.bind(("0.0.0.0", group.port))
            async with joined(group) as heard:
                said = heard.link.check()
                assert said is not None
                assert "another program has this port for itself; give the group another" in said
                greedy.close()
                await eventually(lambda: heard.happened == ["joined"], "it is tried again")
                assert heard.link.check() is None
        lines = [record.getMessage() for record in caplog.records]
        assert lines == [f"{said}; it is tried again", f"in the group {group.text}, as 127.0.0.1"]

    caplog.set_level(logging.INFO, "tidegate.udp")
    run(story())


@pytest.mark.parametrize(
    ("group", "listen", "interface", "said"),
    [
        ("225.1.1.1", "127.0.0.1", "192.0.2.77", "no interface on 192.0.2.77 has an address"),
        ("ff05::1", "::", "2001:db8::77", "no interface has the address 2001:db8::77 now"),
        ("ff05::1", "2001:db8::77", None, "no interface has the address 2001:db8::77 now"),
        ("ff05::1", "::", "wlan77", "this machine has no interface wlan77 now"),
    ],
)
def test_an_address_that_is_not_there_is_named(
    group: str, listen: str, interface: str | None, said: str
) -> None:
    with pytest.raises(LinkError, match=said):
        find_place((group, 1883), (listen, 1883), interface)


def test_an_interface_can_be_given_by_its_address_or_be_that_of_the_listener() -> None:
    by_name = find_place(("225.1.1.1", 1883), ("127.0.0.1", 1883), "lo")
    by_address = find_place(("225.1.1.1", 1883), ("127.0.0.1", 1883), "127.0.0.1")
    by_listener = find_place(("225.1.1.1", 1883), ("127.0.0.1", 1883), None)
    assert by_name.source == by_address.source == by_listener.source == ("127.0.0.1", 1883)
    assert by_address == by_listener


# Beside others


def test_two_gateways_of_one_machine_share_a_group_and_never_a_listening_port() -> None:
    group = group_on_loopback()
    everywhere = ("0.0.0.0", group.port)
    with (
        Seeker(group),
        open_udp_socket(everywhere, 4096, shares_port=True),
        Seeker(group),
        pytest.raises(LinkError, match="has this port; stop it or choose another"),
    ):
        open_udp_socket(everywhere, 4096, shares_port=True)


def test_a_port_of_which_only_groups_are_heard_is_free_to_listen_on(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    local = {
        "udp": ("0101A8EF", "0100007F", "00000000"),  # as a little-endian machine has them
        "udp6": ("000005FF000000000000000001000000", "00000000000000000000000000000000"),
    }
    for table, (group, *others) in local.items():
        path = tmp_path / "net" / table
        path.write_text(f"head\n 1: {group}:075B 00000000:0000 07\n")
        assert only_groups_have(1883, tmp_path)
        assert not only_groups_have(1884, tmp_path)
        for other in others:
            path.write_text(path.read_text() + f" 2: {other}:075B 00000000:0000 07\n")
            assert not only_groups_have(1883, tmp_path)
        path.unlink()


def test_a_second_listener_on_one_address_is_still_refused() -> None:
    with open_udp_socket(("127.0.0.1", 0), 4096, shares_port=True) as first:
        taken = first.getsockname()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as second:
            with pytest.raises(OSError, match="in use") as refused:
                second.bind(taken)
            assert refused.value.errno == errno.EADDRINUSE


@pytest.mark.parametrize(
    "story",
    [
        "the_network_comes_and_goes",
        "an_interface_gets_another_address",
        "a_machine_without_routes_is_told_to_name_an_interface",
        "an_interface_that_has_no_address_yet_is_waited_for",
        "of_broadcasts_a_listener_hears_searches_only",
    ],
)
def test_in_a_network_of_its_own(story: str) -> None:
    run_in_own_network("tests.transports.network_stories", story)
