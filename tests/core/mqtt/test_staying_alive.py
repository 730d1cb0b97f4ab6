"""Pings, silence and answers that do not come. Times in seconds, written out."""

from __future__ import annotations

from math import inf
from typing import Any

import mqtt5
import pytest

from gateway.core.effects import DropUpstream
from gateway.core.mqtt.session import MqttSession, Phase
from tests.core.mqtt.broker_side import connected, options, packets

PINGRESP = mqtt5.PingRespPacket().write()


def session_with(keep_alive_s: int, **connack: Any) -> MqttSession:
    session = MqttSession(options(keep_alive_s=keep_alive_s))
    connected(session, now=100.0, **connack)
    return session


def test_a_ping_goes_out_at_half_the_keep_alive() -> None:
    session = session_with(30)
    assert session.wake_at() == 115.0
    assert session.handle_time(114.9) == []
    (ping,) = packets(session.handle_time(115.0))
    assert isinstance(ping, mqtt5.PingReqPacket)
    assert session.wake_at() == 130.0


def test_an_answered_ping_keeps_the_connection() -> None:
    session = session_with(30)
    session.handle_time(115.0)
    assert session.receive(PINGRESP, 115.1) == []
    assert len(packets(session.handle_time(130.0))) == 1


def test_silence_from_one_ping_to_the_next_is_a_dead_link() -> None:
    session = session_with(30)
    session.handle_time(115.0)
    (drop,) = session.handle_time(130.0)
    assert drop == DropUpstream("the broker has been silent for 30 s")


def test_a_dead_link_wakes_nobody_while_it_is_being_closed() -> None:
    session = session_with(30)
    session.handle_time(115.0)
    session.handle_time(130.0)
    assert (session.phase, session.wake_at()) == (Phase.CLOSED, inf)
    assert session.handle_time(131.0) == []


@pytest.mark.parametrize(("ours", "theirs", "ping_at"), [(30, 10, 105.0), (30, 60, 130.0)])
def test_the_brokers_keep_alive_takes_the_place_of_ours(
    ours: int, theirs: int, ping_at: float
) -> None:
    assert session_with(ours, server_keep_alive=theirs).wake_at() == ping_at


def test_our_own_keep_alive_is_back_with_the_next_broker() -> None:
    session = session_with(30, server_keep_alive=10)
    session.closed(0.0, by_broker=False)
    connected(session, now=200.0)
    assert session.wake_at() == 215.0


@pytest.mark.parametrize(("ours", "connack"), [(0, {}), (30, {"server_keep_alive": 0})])
def test_without_a_keep_alive_there_is_no_ping(ours: int, connack: dict[str, object]) -> None:
    session = session_with(ours, **connack)
    assert session.wake_at() == inf
    assert session.handle_time(1e9) == []


def test_without_connack_in_time_the_connection_is_given_up() -> None:
    session = MqttSession(options(connack_timeout_s=5.0))
    assert session.wake_at() == inf
    session.opened(100.0)
    assert session.wake_at() == 105.0
    assert session.handle_time(104.9) == []
    (drop,) = session.handle_time(105.0)
    assert drop == DropUpstream("no CONNACK within 5 s; is it an MQTT 5 broker?")
    assert session.wake_at() == inf
