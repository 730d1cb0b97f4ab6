"""Sensors find the gateway by real multicast: on loopback, and over IPv6 where this machine has it.

That a datagram gets no answer is seen by the next one that gets it: the answer to a search comes
first. What was said to a group has come to all who hear it before the next thing is said.
"""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_udp_port
from hil.rig.scripted_client import framed, u16
from tests.end_to_end.on_air import assert_untroubled
from tests.support.multicast import Group, Seeker, group_on_loopback, ipv6_group

ADVERTISE, SEARCHGW, GWINFO, CONNECT, CONNACK, PUBLISH, PINGREQ = 0, 1, 2, 4, 5, 0x0C, 0x16
CLEAN, QOS_MINUS_ONE, SHORT = 0x04, 0x60, 0x02


def search(radius: int = 0) -> bytes:
    return framed(SEARCHGW, bytes((radius,)))


def advertise(gateway_id: int, duration_s: int) -> bytes:
    return framed(ADVERTISE, bytes((gateway_id,)) + u16(duration_s))


def information(gateway_id: int) -> bytes:
    return framed(GWINFO, bytes((gateway_id,)))


def connect(client_id: bytes) -> bytes:
    return framed(CONNECT, bytes((CLEAN, 1)) + u16(60) + client_id)


def gateway_in(
    folder: Path, broker: Mosquitto, group: Group, more: str = "", *, listen: str = "127.0.0.1"
) -> GatewayProcess:
    """Not started; on the same port in each of its lives."""
    folder.mkdir(exist_ok=True)
    where = f"[{listen}]" if ":" in listen else listen
    config = group.config(f"{where}:{free_udp_port()}")
    return GatewayProcess(folder, broker.url, f"{config}{more}")


def test_a_sensor_hears_a_gateway_and_connects_to_where_it_heard_it(
    broker: Mosquitto, tmp_path: Path
) -> None:
    group = group_on_loopback()
    running = gateway_in(tmp_path, broker, group, "[discovery]\nadvertise_s = 1\n")
    with Seeker(group) as seeker, running:
        for _ in range(2):
            datagram, (host, port) = seeker.overhear()
            assert datagram == advertise(1, 1)
        assert port == running.port
        seeker.say_to(host, port, connect(b"s1"))
        assert seeker.answer() == (framed(CONNACK, b"\0"), port)
        assert_untroubled(running)


@pytest.mark.parametrize("radius", [0, 1, 255])
def test_a_search_by_multicast_is_answered_from_the_address_to_connect_to(
    broker: Mosquitto, tmp_path: Path, radius: int
) -> None:
    group = group_on_loopback()
    with Seeker(group) as seeker, gateway_in(tmp_path, broker, group) as running:
        running.wait_for_log("in the group")
        seeker.say(search(radius))
        assert seeker.answer() == (information(1), running.port)


def test_or_to_the_group_where_that_is_wanted(broker: Mosquitto, tmp_path: Path) -> None:
    group = group_on_loopback()
    wanted = '[discovery]\nanswer = "multicast"\n'
    with Seeker(group) as seeker, gateway_in(tmp_path, broker, group, wanted) as running:
        seeker.overhear()  # ADVERTISE
        seeker.say(search(2))
        assert seeker.overhear() == (information(1), ("127.0.0.1", running.port))
        assert seeker.has_no_answer()


def test_a_search_that_comes_to_the_port_is_answered_there_with_no_group_at_all(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with Seeker(group_on_loopback()) as seeker, GatewayProcess(tmp_path, broker.url) as running:
        seeker.say_to("127.0.0.1", running.port, search())
        assert seeker.answer() == (information(1), running.port)


def test_nothing_but_a_search_is_answered_that_comes_by_the_group(
    broker: Mosquitto, tmp_path: Path
) -> None:
    group = group_on_loopback()
    others = [
        connect(b"by-group"),
        framed(PUBLISH, bytes((QOS_MINUS_ONE | SHORT,)) + b"tp" + u16(0) + b"1"),
        framed(PUBLISH, bytes((0x20,)) + u16(1) + u16(1) + b"1"),
        framed(PINGREQ, b""),
        framed(PINGREQ, b"by-group"),
        framed(0x18, b""),
        framed(0xFE, b"\0node") + framed(SEARCHGW, b"\0"),
        bytes(64),
        b"\x01",
        b"\xff" * 600,
        advertise(9, 60),
        framed(GWINFO, b"\x09"),
    ]
    allowed = "[qos_minus_one]\nallow = true\n[log]\nlevel = 'debug'\n"
    with Seeker(group) as seeker, gateway_in(tmp_path, broker, group, allowed) as running:
        running.wait_until_connected()
        for datagram in others:
            seeker.say(datagram)
        seeker.say(search())
        assert seeker.answer() == (information(1), running.port)
        running.wait_for_log(r"dropped group_traffic .*detail=CONNECT")
        assert "tidegate.client = " not in running.log
        assert_untroubled(running)


def test_who_can_take_no_reading_is_not_found_until_it_can(tmp_path: Path) -> None:
    group = group_on_loopback()
    more = '[discovery]\nadvertise_s = 1\n[journal]\nacknowledge = "upstream"\n'
    with (
        Mosquitto() as broker,
        Seeker(group) as seeker,
        gateway_in(tmp_path, broker, group, more) as running,
    ):
        seeker.overhear()
        broker.stop()
        running.wait_for_log(r"= unable before=advertising detail='the broker is away")
        seeker.forget()
        for answered in (False, True):
            seeker.say(search())
            seeker.say_to("127.0.0.1", running.port, search())
            seeker.say_to("127.0.0.1", running.port, framed(PINGREQ, b""))
            if answered:
                assert seeker.answer()[0] == information(1)
                assert seeker.answer()[0] == information(1)
            assert seeker.answer()[0] == framed(0x18, b"")
            if not answered:
                broker.start()
                running.wait_for_log(r"= unable [\s\S]*= advertising before=unable")
                assert seeker.overhear()[0] == advertise(1, 1)
        assert running.log.count("= unable ") == 1


def test_a_standby_stands_in_for_a_gateway_that_died_and_gives_way_when_it_is_back(
    broker: Mosquitto, tmp_path: Path
) -> None:
    group = group_on_loopback()
    short = "[discovery]\nadvertise_s = 1\n"
    active = gateway_in(tmp_path / "active", broker, group, short)
    standby = gateway_in(tmp_path / "standby", broker, group, f"{short}standby = true\n")
    with Seeker(group) as seeker:
        active.start()
        standby.start(environment={"TIDEGATE_GATEWAY__ID": "2", "TIDEGATE_GATEWAY__NAME": "two"})
        try:
            standby.wait_for_log("in the group")
            heard = [seeker.overhear()[0] for _ in range(5)]
            assert heard == [advertise(1, 1)] * 5
            seeker.say(search())
            assert seeker.answer() == (information(1), active.port)
            assert seeker.has_no_answer()
            active.kill()
            standby.wait_for_log("= advertising before=standby detail='gateway 1 is silent'")
            seeker.forget()
            assert seeker.overhear() == (advertise(2, 1), ("127.0.0.1", standby.port))
            seeker.say(search())
            assert seeker.answer() == (information(2), standby.port)
            active.start()
            standby.wait_for_log("= standby before=advertising detail='gateway 1 is heard'")
            seeker.forget()
            assert [seeker.overhear()[0] for _ in range(3)] == [advertise(1, 1)] * 3
            assert_untroubled(active)
            assert_untroubled(standby)
        finally:
            active.kill()
            standby.kill()


def test_two_gateways_with_one_id_are_told_once(broker: Mosquitto, tmp_path: Path) -> None:
    group = group_on_loopback()
    short = "[discovery]\nadvertise_s = 1\n"
    one = gateway_in(tmp_path / "one", broker, group, short)
    two = gateway_in(tmp_path / "two", broker, group, short + "[log]\nformat = 'json'\n")
    with one, Seeker(group) as seeker:
        two.start(environment={"TIDEGATE_GATEWAY__NAME": "two"})
        try:
            one.wait_for_log(r"another gateway says it is 1 too.*\n")
            assert f"gateway_id_taken peer=127.0.0.1:{two.port} " in one.log
            two.wait_for_log("another gateway says it is 1 too")
            seeker.forget()
            for _ in range(6):
                seeker.overhear()
            assert one.log.count("says it is 1 too") == two.log.count("says it is 1 too") == 1
        finally:
            two.kill()


def test_an_interface_that_is_not_there_stops_nobody_and_health_says_it(
    broker: Mosquitto, tmp_path: Path
) -> None:
    group = Group("225.1.1.1", 1883, "wlan77")
    listen = f"127.0.0.1:{free_udp_port()}"
    admin = free_udp_port()
    config = f'{group.config(listen)}[admin]\nlisten = "127.0.0.1:{admin}"\n'
    with GatewayProcess(tmp_path, broker.url, config) as running:
        running.wait_until_connected()
        with urllib.request.urlopen(f"http://127.0.0.1:{admin}/healthz") as answer:
            health = json.load(answer)
        said = "the group 225.1.1.1:1883 is not heard: this machine has no interface wlan77 now; "
        assert health["status"] == "degraded"
        assert health["checks"]["udp0_group"]["reason"].startswith(said)
        assert running.log.count(said) == 1
        with Seeker(group_on_loopback()) as seeker:
            seeker.say_to("127.0.0.1", running.port, search())
            assert seeker.answer() == (information(1), running.port)
        assert_untroubled(running)


def test_over_ipv6_where_this_machine_has_it(broker: Mosquitto, tmp_path: Path) -> None:
    group = ipv6_group()
    if group is None:  # then the gateway says so, and that is all it can do
        nowhere = Group("ff05::4d51", 1883)
        with gateway_in(tmp_path, broker, nowhere, listen="::1") as running:
            running.wait_for_log("is not heard: no interface on lo|cannot listen on .*::1")
        return
    more = "[discovery]\nadvertise_s = 1\n"
    with Seeker(group) as seeker, gateway_in(tmp_path, broker, group, more, listen="::") as running:
        datagram, (host, port) = seeker.overhear()
        assert (datagram, port) == (advertise(1, 1), running.port)
        seeker.say(search())
        assert seeker.answer() == (information(1), port)
        seeker.say_to(host, port, connect(b"s1"))
        assert seeker.answer() == (framed(CONNACK, b"\0"), port)
        assert_untroubled(running)
