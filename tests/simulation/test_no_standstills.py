"""What waits as it should is no standstill: outages, slow disks and brokers, sleepers, and all that
happens in the simulated worlds.
"""

from __future__ import annotations

import pytest

from gateway.admin.part_numbers import Cause, Standstill
from gateway.core.topic_options import Acknowledge
from gateway.frames import (
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
)
from tests.simulation.hard_plans import KINDS
from tests.simulation.model_broker import Publication
from tests.simulation.standstills import watch_world
from tests.simulation.world import World
from tests.support.engine_bench import short
from tests.support.samples import sample
from tests.support.watched_gateway import TP, WatchedGateway, queued, subscribe


@pytest.mark.guarantee("9")
@pytest.mark.parametrize("acknowledge", list(Acknowledge))
def test_an_outage_of_minutes_is_no_standstill(acknowledge: Acknowledge) -> None:
    gateway = WatchedGateway(acknowledge)
    gateway.join(b"s1", b"s2", b"s3")
    gateway.say(b"s3", subscribe(1, qos=2))
    converse(gateway, 30)
    gateway.lose_broker()
    converse(gateway, 150)
    gateway.say(b"s2", subscribe(9, b"ab"))
    gateway.bring_broker_back()
    converse(gateway, 60)
    assert gateway.history == {}


def converse(gateway: WatchedGateway, seconds: int) -> None:
    """What a normal day has, each second."""
    for second in range(seconds):
        message_id = 1 + second % 60_000
        gateway.say(b"s1", short(b"%d" % second, 1, message_id))
        gateway.say(b"s2", short(b"%d" % second, 2, message_id))
        gateway.say(b"s2", Pubrel(message_id), Pingreq())
        gateway.say(b"s1", Register(0, message_id, b"a/%d" % (second % 100)))
        if gateway.broker.up:
            gateway.broker.route(Publication("tp", b"on", second % 3))
        _answer(gateway, b"s3")
        gateway.run(1.0)


def _answer(gateway: WatchedGateway, address: bytes) -> None:
    """What the sensor received, as a sensor does."""
    heard, gateway.heard = gateway.heard, []
    for to, frame in heard:
        if to != address:
            continue
        match frame:
            case Publish(qos=1):
                gateway.say(address, Puback(frame.topic_id, frame.message_id, 0))
            case Publish(qos=2):
                gateway.say(address, Pubrec(frame.message_id))
            case Pubrel():
                gateway.say(address, Pubcomp(frame.message_id))
            case Register():
                gateway.say(address, Regack(frame.topic_id, frame.message_id, 0))


@pytest.mark.guarantee("9")
@pytest.mark.parametrize("acknowledge", list(Acknowledge))
def test_a_slow_disk_is_no_standstill(acknowledge: Acknowledge) -> None:
    gateway = WatchedGateway(acknowledge)
    gateway.join(b"s1", b"s2", b"s3")
    gateway.say(b"s3", subscribe(1, qos=2))
    gateway.disk.job_takes_s = 5.0
    converse(gateway, 120)
    assert gateway.history == {}


def test_a_broker_that_is_slow_is_no_standstill() -> None:
    """One acknowledgement every five seconds, and a window of four."""
    gateway = WatchedGateway(Acknowledge.UPSTREAM)
    gateway.join(b"s1", b"s2")
    waiting: list[bytes] = []
    connection = gateway.host.connection
    assert connection is not None
    deliver = connection.to_gateway.deliver
    connection.to_gateway.deliver = waiting.append
    for second in range(300):
        if second < 60:
            gateway.say(b"s1", short(b"%d" % second, 1, 1 + second))
        if second % 5 == 0 and waiting:
            deliver(waiting.pop(0))
        gateway.run(1.0)
    assert gateway.history == {}


def test_a_drain_that_is_paused_is_no_standstill() -> None:
    gateway = queued()
    gateway.host.pause_drain(is_paused=True)
    gateway.bring_broker_back()
    converse(gateway, 100)
    assert gateway.history == {}
    assert len(gateway.engine.upstream.publisher.in_flight.backlog) > 0
    gateway.host.pause_drain(is_paused=False)
    gateway.run(5.0)
    assert len(gateway.engine.upstream.publisher.in_flight.backlog) == 0


def test_sleepers_with_messages_are_no_standstill() -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1", b"s2")
    gateway.say(b"s1", subscribe(1))
    gateway.say(b"s1", Disconnect(7200))
    for _ in range(5):
        gateway.broker.route(Publication("tp", b"on", 1))
    gateway.run(2 * 3600.0)
    assert gateway.history == {}
    received: list[Frame] = gateway.say(b"s1", Pingreq(b"s1"))
    for _ in range(5):
        assert isinstance(received[-1], Publish)
        received = gateway.say(b"s1", Puback(TP, received[-1].message_id, 0))
    assert received == [Pingresp()]


def test_a_sensor_that_answers_nothing_is_no_standstill_of_ours() -> None:
    """It is sent the message again, then lost."""
    gateway = WatchedGateway()
    gateway.join(b"s1")
    gateway.say(b"s1", subscribe(1))
    gateway.broker.route(Publication("tp", b"on", 1))
    gateway.run(300.0)
    assert gateway.history == {}


@pytest.mark.guarantee("9")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "seeds", sample([range(500, 503), range(503, 600)], 1), ids=["few", "many"]
)
@pytest.mark.no_cover
def test_no_world_has_a_standstill_of_ours(seeds: range, kind: str) -> None:
    found: list[tuple[float, Standstill]] = []

    def note(at: float, one: Standstill) -> None:
        if one.cause is Cause.INSIDE:
            found.append((at, one))

    for seed in seeds:
        world = World(seed, kind=kind)
        watch_world(world, note)
        world.run()
        assert found == [], f"python -m tests.simulation {seed} --kind {kind} --trace"
