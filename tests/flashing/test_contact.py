"""Who counts as heard: the right one, after its start; and what is said when nobody is."""

from __future__ import annotations

import os
import re
import threading
import tty
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gateway.flashing.console import Console
from gateway.flashing.contact import NotAskedError, at_gateway, host_of, on_line
from gateway.flashing.echo import round_trip_s
from gateway.flashing.errors import FlashError
from gateway.frames import Connack, Connect, Register, decode, encode
from gateway.transports.serial.framing_choice import framing
from tests.flashing.reports import KeptReport
from tests.support.own_network import NoNetworkError, run_in_own_network, switch

GROUPS = "/proc/sys/net/ipv4/ping_group_range"


def client(**more: object) -> dict[str, Any]:
    known = {"id": "shed-1", "last_heard_s": 0.0, "away_s": None, "link": "udp0"}
    return {**known, "address": "10.0.0.7:1884", **more}


def heard_by(*clients: Mapping[str, Any]) -> Any:
    return lambda name: {"clients": list(clients)}


def test_who_is_heard_has_joined_from_its_address() -> None:
    contact = at_gateway(
        heard_by(client()), "shed-1", 1.0, KeptReport(), round_trip=lambda host: 0.0342
    )
    assert str(contact) == "shed-1 joined over UDP (10.0.0.7:1884), round trip 34 ms"


def test_without_a_round_trip_it_is_said_how_long_it_took() -> None:
    contact = at_gateway(heard_by(client(link="serial0")), "shed-1", 1.0, KeptReport())
    assert re.fullmatch(
        r"shed-1 joined over serial \(10\.0\.0\.7:1884\), 0\.\d s after its start", str(contact)
    )


@pytest.mark.parametrize(
    "known", [client(last_heard_s=60.0), client(away_s=5.0), client(id="shed-2")]
)
def test_who_was_heard_before_or_is_away_or_is_another_has_not(known: dict[str, Any]) -> None:
    with pytest.raises(FlashError, match=r"shed-1 was not heard within 0 s \(the gateway does not"):
        at_gateway(heard_by(known), "shed-1", 0.3, KeptReport())


def test_a_gateway_that_does_not_answer_is_the_reason() -> None:
    def ask(name: str) -> Mapping[str, Any]:
        raise NotAskedError("no gateway answers at http://127.0.0.1:8080")

    with pytest.raises(FlashError, match=r"\(no gateway answers at http://127\.0\.0\.1:8080\)"):
        at_gateway(ask, "shed-1", 0.1, KeptReport())


@pytest.mark.parametrize(
    ("address", "host"),
    [("10.0.0.7:1884", "10.0.0.7"), ("[fe80::1]:1883", "fe80::1")],
)
def test_hosts_are_taken_from_addresses(address: str, host: str) -> None:
    assert host_of(address) == host


class LineEnd:
    """The board's end of a line, where the test is the board."""

    def __init__(self) -> None:
        self._port, end = os.openpty()
        tty.setraw(end)
        self.device = os.ttyname(end)
        os.close(end)
        self._framing = framing("hdlc", message_bytes_max=300)

    def say(self, *frames: Connect | Register) -> None:
        for frame in frames:
            os.write(self._port, self._framing.wrap(encode(frame)))

    def hear(self) -> object:
        while True:
            for message in self._framing.feed(os.read(self._port, 100), 0.0):
                return decode(message)

    def close(self) -> None:
        os.close(self._port)


@pytest.fixture
def line() -> Iterator[LineEnd]:
    made = LineEnd()
    yield made
    made.close()


def test_on_a_line_it_is_answered_with_connack_and_nothing_more(line: LineEnd) -> None:
    heard: list[object] = []

    def be_a_node() -> None:
        heard.append(line.hear())
        line.say(Register(0, 1, b"shed/1"))

    with Console(line.device) as console:
        line.say(Connect(b"other", 60), Connect(b"shed-1", 60))
        node = threading.Thread(target=be_a_node)
        node.start()
        contact = on_line(console, "shed-1", 5.0, KeptReport())
        node.join()
    assert heard == [Connack(0)]
    assert contact.round_trip_s is not None
    assert contact.round_trip_s < 1.0


def test_another_node_on_the_line_is_named(line: LineEnd) -> None:
    with Console(line.device) as console:
        line.say(Connect(b"other", 60))
        with pytest.raises(
            FlashError, match=r"shed-1 did not speak on .* \(only other was heard\)"
        ):
            on_line(console, "shed-1", 0.3, KeptReport())


def test_the_round_trip_is_measured_where_the_system_allows_it() -> None:
    run_in_own_network("tests.flashing.test_contact", "measured_round_trip")


def measured_round_trip() -> None:
    """In a network of its own, where who may ask is ours to say."""
    switch("lo", on=True)
    with open(GROUPS, "w") as groups:  # noqa: PTH123, a file of the kernel's
        groups.write("1 0")
    assert round_trip_s("127.0.0.1") is None
    try:
        with open(GROUPS, "w") as groups:  # noqa: PTH123
            groups.write("0 2147483647")
    except OSError as error:  # groups that a user's name space does not have
        raise NoNetworkError("root alone can say who may ping") from error
    measured = round_trip_s("127.0.0.1")
    assert measured is not None
    assert 0 < measured < 1
    switch("lo", on=False)
    assert round_trip_s("127.0.0.1") is None
