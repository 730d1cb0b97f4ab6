"""Two gateways that take each other for unknown peers, and a client that repeats its goodbye."""

from __future__ import annotations

from itertools import cycle

from gateway.core.clients.disconnect_echo import ECHO_S, REMEMBERED_MAX, DisconnectEchoes
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.values import Peer
from gateway.frames import Disconnect, Frame, Pingreq
from tests.support.engine_bench import Bench

T_RETRY_S = 10.0
TURNS_MAX = 100


def talk(first: Bench, second: Bench, said: Frame) -> int:
    """How often two gateways answer each other."""
    for turn, listener in zip(range(TURNS_MAX), cycle((first, second)), strict=False):
        answers = listener.say(b"other", said)
        if not answers:
            return turn
        (said,) = answers
        first.at = second.at = listener.at + 0.1
    return TURNS_MAX


def test_two_gateways_that_are_set_off_by_a_third_come_to_rest() -> None:
    first, second = Bench(), Bench()
    assert talk(first, second, Pingreq()) == 2
    assert [drop.reason for drop in first.told(Dropped)] == [Reason.STRANGER] * 2


def test_a_stranger_that_repeats_its_goodbye_is_answered_again() -> None:
    bench = Bench()
    for _ in range(3):
        assert bench.say(b"x", Disconnect()) == [Disconnect()]
        bench.at += T_RETRY_S


def test_what_is_no_goodbye_is_answered_each_time() -> None:
    bench = Bench()
    for _ in range(3):
        assert bench.say(b"x", Pingreq()) == [Disconnect()]


def test_an_echo_comes_soon_and_from_where_we_spoke_to() -> None:
    farewells = DisconnectEchoes()
    farewells.sent(Peer(0, b"x"), 1.0)
    assert farewells.is_echo(Peer(0, b"x"), 1.0 + ECHO_S - 0.1)
    assert not farewells.is_echo(Peer(0, b"x"), 1.0 + ECHO_S)
    assert not farewells.is_echo(Peer(1, b"x"), 1.0)


def test_no_more_than_so_many_are_remembered_and_the_latest_are() -> None:
    farewells = DisconnectEchoes()
    peers = [Peer(0, b"%d" % number) for number in range(REMEMBERED_MAX + 1)]
    for peer in peers:
        farewells.sent(peer, 0.0)
        farewells.sent(peers[0], 0.0)
    assert [peer for peer in peers if not farewells.is_echo(peer, 0.0)] == [peers[1]]
