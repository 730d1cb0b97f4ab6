"""When a node asks for gateways, and which it knows."""

from __future__ import annotations

import errno
import socket

import pytest

from firmware.mqttsn import Client, Udp
from firmware.mqttsn.search import Search, find
from gateway.frames import Advertise, GwInfo, encode

HERE, THERE = ("10.0.0.1", 1883), ("10.0.0.2", 1883)


def test_the_first_question_comes_within_five_seconds_by_dice() -> None:
    assert Search(lambda bits: 0).due(0)
    late = Search(lambda bits: (1 << bits) - 1)
    assert not late.due(4_998)
    assert late.due(1)


def test_each_question_comes_after_twice_the_pause_up_to_a_quarter_of_an_hour() -> None:
    search = Search(lambda bits: 0)
    pauses = []
    for _ in range(10):
        assert search.due(search.wait_ms)
        pauses.append(search.wait_ms // 1000)
    assert pauses == [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]


def test_gateways_are_known_by_what_they_say_of_themselves() -> None:
    search = Search(lambda bits: 0)
    assert search.receive(encode(GwInfo(2)), THERE)
    assert search.receive(encode(Advertise(1, 900)), HERE)
    assert {number: known[0] for number, known in search.gateways.items()} == {2: THERE, 1: HERE}


def test_what_other_nodes_say_of_gateways_and_anything_else_is_passed_over() -> None:
    search = Search(lambda bits: 0)
    for octets in (
        encode(GwInfo(1, b"\x0a\x00\x00\x01")),
        b"",
        b"\x03",
        b"\x02\x17",
        b"\x05\x00\x01",
    ):
        assert not search.receive(octets, HERE)
    assert search.gateways == {}


def test_a_gateway_that_missed_three_of_its_advertises_is_forgotten() -> None:
    search = Search(lambda bits: 0)
    search.receive(encode(Advertise(1, 60)), HERE)
    search.due(179_999)
    assert 1 in search.gateways
    search.due(1)
    assert search.gateways == {}


def test_of_five_gateways_the_one_is_forgotten_that_would_be_first() -> None:
    search = Search(lambda bits: 0)
    for number, duration_s in (1, 900), (2, 60), (3, 900), (4, 900), (5, 900):
        search.receive(encode(Advertise(number, duration_s)), HERE)
    assert sorted(search.gateways) == [1, 3, 4, 5]


def test_who_found_no_gateway_is_told_that_there_is_no_answer() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        client = Client(Udp(*find(silent.getsockname(), limit_ms=30)), b"greenhouse-3")
    for call in (client.connect, lambda: client.publish(b"greenhouse/3", b"21.5", qos=1)):
        with pytest.raises(OSError, match=str(errno.ETIMEDOUT)):
            call()
