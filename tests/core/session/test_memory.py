"""What a session costs: there may be 100,000 sleepers on a board with 1 GB."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

from gateway.core.effects import ConnectSaved
from gateway.core.session.options import PredefinedTopics, SessionOptions
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, State
from gateway.core.values import Message, Peer, Reading
from gateway.frames import Connect, Disconnect, Pingreq, Puback, Publish, Register

SESSIONS = 1000
SESSIONS_WITH_HISTORY = 20
RULES, PREDEFINED = SessionOptions(), PredefinedTopics()


def with_one_topic(number: int) -> Session:
    """Nothing is shared between sessions but what the gateway's configuration is."""
    client_id = f"sensor-{number:05d}"
    address = number.to_bytes(16, "big")
    session = Session(
        client_id=ClientId(client_id), peer=Peer(0, address), options=RULES, predefined=PREDEFINED
    )
    session.connect(Connect(client_id.encode(), 60), session.peer, 0.0)
    session.admitted(ConnectSaved(session.client_id, session.peer), 0.0)
    session.receive(Register(0, 1, b"greenhouse/%05d/temperature" % number), 0.0)
    return session


def after_a_day_of_readings(number: int) -> Session:
    session = with_one_topic(number)
    for minute in range(24 * 60):
        message_id = 1000 + minute
        publish = Publish(1, message_id, b"%d" % message_id, qos=1)
        (reading,) = session.receive(publish, minute * 60.0)
        assert isinstance(reading, Reading)
        session.acknowledged(reading)
    return session


def asleep_after_a_day_of_readings(number: int) -> Session:
    session = after_a_day_of_readings(number)
    session.receive(Disconnect(600), 24 * 3600.0)
    return session


def asleep_after_fetching_a_message(number: int) -> Session:
    session = with_one_topic(number)
    session.receive(Disconnect(600), 0.0)
    session.deliver(Message(f"greenhouse/{number:05d}/temperature", b"on", qos=1), 60.0)
    session.receive(Pingreq(session.client_id.encode()), 120.0)
    session.receive(Puback(1, 1, 0), 120.1)
    assert session.state is State.ASLEEP
    return session


def bytes_of(make: Callable[[int], Session], sessions: int) -> float:
    make(0)
    gc.collect()
    tracemalloc.start()
    made = [make(number) for number in range(sessions)]
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / len(made)


def test_a_session_with_one_topic_costs_less_than_1_5_kib() -> None:
    assert bytes_of(with_one_topic, SESSIONS) < 1536


def test_a_sleeper_costs_less_than_1_5_kib_whatever_it_did_before() -> None:
    fetched = bytes_of(asleep_after_fetching_a_message, SESSIONS_WITH_HISTORY)
    assert fetched < 1536
    asleep = bytes_of(asleep_after_a_day_of_readings, SESSIONS_WITH_HISTORY)
    assert asleep < 1536
    awake = bytes_of(after_a_day_of_readings, SESSIONS_WITH_HISTORY)
    assert awake < 1536, "recent readings are no dictionary, which is larger"
    assert asleep < awake - 32, "those that are outdated are given back"
