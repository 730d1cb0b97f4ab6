"""Stories of a simulated sensor that sleeps: time is written as numbers, nothing waits."""

from __future__ import annotations

from random import Random

import pytest

from gateway.cli.sensors.client import SensorClient
from gateway.cli.sensors.client_effects import (
    Acknowledged,
    ConversationEnded,
    Effect,
    EndReason,
    FellAsleep,
    Finished,
    Received,
    Send,
)
from gateway.cli.sensors.client_states import State
from gateway.cli.sensors.pace import Pace
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Regack,
    Register,
    Suback,
)

PACE = Pace(
    retry_after_s=2.0,
    retries_max=1,
    sleep_s=10,
    linger_s=0.5,
    wake_after=0.9,
    reconnect_pause_s=(0.5, 0.5),
)


def a_ready_client() -> SensorClient:
    """Topic id 5 for readings, 6 for commands; message ids 1 and 2 are used."""
    client = SensorClient(b"s1", b"demo/s1", b"demo/s1/set", 1, Random(7), PACE)
    client.connect(now=0.0)
    for answer in (Connack(0), Regack(5, 1, 0), Suback(6, 2, 0, qos=1)):
        client.receive(answer, now=0.0)
    return client


def a_sleeper() -> SensorClient:
    """Asleep since 1.0."""
    client = a_ready_client()
    client.handle_time(now=0.5)
    client.receive(Disconnect(), now=1.0)
    assert client.state is State.ASLEEP
    return client


def sent(effects: list[Effect]) -> list[Frame]:
    return [effect.frame for effect in effects if isinstance(effect, Send)]


def test_it_lingers_then_says_how_long_it_will_sleep() -> None:
    client = a_ready_client()
    assert client.wake_at() == 0.5
    assert client.handle_time(now=0.5) == [Send(Disconnect(10))]
    assert client.receive(Disconnect(), now=0.6) == [FellAsleep(10)]
    assert client.wake_at() == pytest.approx(9.6), "a bit before the time it said"


def test_it_stays_while_it_has_something_to_say() -> None:
    client = a_ready_client()
    client.publish(b"21.5", now=0.4)
    assert client.handle_time(now=0.5) == []
    assert client.receive(Puback(5, 3, 0), now=0.6) == [Acknowledged(b"21.5")]
    assert client.handle_time(now=1.1) == [Send(Disconnect(10))]


def test_asleep_it_hears_nothing() -> None:
    client = a_sleeper()
    for frame in (Disconnect(), Publish(6, 9, b"3", qos=1), Pingresp()):
        assert client.receive(frame, now=2.0) == []
    assert client.state is State.ASLEEP


def test_it_fetches_what_waits_and_sleeps_on() -> None:
    client = a_sleeper()
    assert client.handle_time(now=10.0) == [Send(Pingreq(b"s1"))]
    news = client.receive(Publish(6, 9, b"3", qos=1), now=10.1)
    assert news == [Received(b"demo/s1/set", b"3", 1), Send(Puback(6, 9, 0))]
    assert client.receive(Pingresp(), now=10.2) == [FellAsleep(10)]
    assert client.wake_at() == pytest.approx(19.2)


def test_a_reading_wakes_it_without_registering_again() -> None:
    client = a_sleeper()
    assert client.publish(b"21.5", now=3.0) == [Send(Connect(b"s1", 60))]
    assert sent(client.receive(Connack(0), now=3.1)) == [Publish(5, 3, b"21.5", qos=1)]
    client.receive(Puback(5, 3, 0), now=3.2)
    assert client.handle_time(now=3.7) == [Send(Disconnect(10))]


def test_a_reading_taken_while_it_fetches_goes_out_after_pingresp() -> None:
    client = a_sleeper()
    client.handle_time(now=10.0)
    assert client.publish(b"21.5", now=10.1) == []
    assert sent(client.receive(Pingresp(), now=10.2)) == [Connect(b"s1", 60)]


def test_a_gateway_that_forgot_its_topic_is_told_again() -> None:
    client = a_sleeper()
    client.publish(b"21.5", now=3.0)
    client.receive(Connack(0), now=3.1)
    assert sent(client.receive(Puback(5, 3, 2), now=3.2)) == [Register(0, 4, b"demo/s1")]
    client.receive(Regack(8, 4, 0), now=3.3)
    assert sent(client.receive(Suback(6, 5, 0, qos=1), now=3.4)) == [Publish(8, 3, b"21.5", qos=1)]


def test_a_lost_pingresp_is_asked_for_again_and_silence_leads_to_connect() -> None:
    client = a_sleeper()
    client.handle_time(now=10.0)
    assert sent(client.handle_time(now=12.0)) == [Pingreq(b"s1")]
    assert client.handle_time(now=14.0) == [ConversationEnded(EndReason.SILENCE)]
    assert client.handle_time(now=14.5) == [Send(Connect(b"s1", 60))]


def test_one_that_fetches_from_a_gateway_that_forgot_it_connects_again() -> None:
    client = a_sleeper()
    client.handle_time(now=10.0)
    assert client.receive(Disconnect(), now=10.1) == [ConversationEnded(EndReason.BY_GATEWAY)]


def test_it_says_goodbye_from_its_sleep() -> None:
    client = a_sleeper()
    assert client.leave(now=2.0) == [Send(Disconnect())]
    assert client.receive(Disconnect(), now=2.1) == [Finished()]
    assert client.wake_at() is None


def test_a_late_sleeper_wakes_after_the_time_it_said() -> None:
    late = Pace(sleep_s=10, wake_after=1.25, linger_s=0.5)
    client = SensorClient(b"s1", b"demo/s1", b"demo/s1/set", 1, Random(7), late)
    client.connect(now=0.0)
    for answer in (Connack(0), Regack(5, 1, 0), Suback(6, 2, 0, qos=1)):
        client.receive(answer, now=0.0)
    client.handle_time(now=0.5)
    client.receive(Disconnect(), now=0.5)
    assert client.wake_at() == 13.0


def test_the_time_to_an_acknowledgement_counts_from_the_first_publish() -> None:
    client = a_ready_client()
    client.publish(b"21.5", now=0.1)
    client.handle_time(now=2.1)
    (acknowledged,) = client.receive(Puback(5, 3, 0), now=2.6)
    assert isinstance(acknowledged, Acknowledged)
    assert acknowledged.after_s == pytest.approx(2.5)
