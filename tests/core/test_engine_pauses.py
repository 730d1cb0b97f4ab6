"""The process stood still: its clock leaves that out, and clients have their full time again."""

from __future__ import annotations

from math import inf

import mqtt5
import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, StateChanged
from gateway.core.engine import Engine, EngineOptions
from gateway.core.process_pauses import BEAT_S, ProcessPauses
from gateway.core.state_records import ClientId, State
from gateway.core.values import Reading
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Publish,
    WillTopicReq,
)
from tests.support.engine_bench import UPSTREAM, Bench


def returned(bench: Bench, seconds: float = 20.0) -> None:
    bench.take(bench.engine.paused(seconds, bench.at))


def lost(bench: Bench) -> list[str]:
    return [each.client_id for each in bench.told(StateChanged) if each.after is State.LOST]


def test_a_client_has_its_full_time_again_and_no_longer() -> None:
    bench = Bench()
    bench.join(b"s1", keep_alive_s=10)
    bench.wake(14.0)
    returned(bench)
    bench.wake(28.9)
    assert lost(bench) == []
    bench.wake(29.0)
    assert lost(bench) == ["s1"], "14 s, and 10 s of keep-alive and half of it on top"


def test_one_that_is_received_again_is_supervised_as_ever() -> None:
    bench = Bench()
    bench.join(b"s1", keep_alive_s=10)
    bench.wake(5.0)
    returned(bench)
    bench.wake(6.0)
    assert bench.say(b"s1", Pingreq()) == [Pingresp()]
    bench.wake(20.9)
    assert lost(bench) == []
    bench.wake(21.0)
    assert lost(bench) == ["s1"]


@pytest.mark.guarantee("10")
def test_a_process_that_stands_still_again_and_again_loses_who_is_gone() -> None:
    bench = Bench()
    bench.join(b"s1", keep_alive_s=10)
    for at in range(1, 30):
        bench.wake(float(at))
        returned(bench, 0.5)
        assert lost(bench) == []
    bench.wake(30.0)
    assert lost(bench) == ["s1"], "twice its time"


def test_a_sleeper_that_was_to_wake_meanwhile_has_its_time_again() -> None:
    bench = Bench()
    bench.join(b"s1", clean=False, keep_alive_s=10)
    assert bench.say(b"s1", Disconnect(20)) == [Disconnect()]
    bench.wake(29.0)
    returned(bench)
    bench.wake(58.9)
    assert lost(bench) == []
    assert bench.say(b"s1", Pingreq(b"s1")) == [Pingresp()]


def test_one_without_a_keep_alive_is_never_silent_for_too_long() -> None:
    bench = Bench()
    bench.join(b"s1", keep_alive_s=0)
    returned(bench)
    assert bench.engine.client_table.sessions[ClientId("s1")].wake_at(bench.at) == inf


@pytest.mark.parametrize("will", [False, True])
def test_a_new_client_that_said_only_connect_has_its_time_again(will: bool) -> None:
    bench = Bench()
    (answer,) = bench.say(b"s1", Connect(b"s1", 10, clean_session=True, will=will))
    assert answer == (WillTopicReq() if will else Connack(0))
    limit_s = 50.0 if will else 15.0
    bench.wake(limit_s - 1)
    returned(bench)
    bench.wake(limit_s + 5)
    assert len(bench.engine.half_open) == 1
    bench.wake(4 * limit_s + 60)
    assert len(bench.engine.half_open) == 0
    assert [each.reason for each in bench.told(Dropped)] == [Reason.UNHEARD]


def pings(bench: Bench) -> int:
    return len(bench.seen_of(mqtt5.PingReqPacket))


def test_the_broker_gets_the_ping_that_it_waited_for() -> None:
    bench = Bench()
    bench.wake(5.0)
    returned(bench, 9.0)
    assert pings(bench) == 0, "half of the keep-alive is not over yet"
    returned(bench, 10.0)
    assert pings(bench) == 1
    returned(bench, 1000.0)
    assert pings(bench) == 0, "the first is not answered yet"
    bench.from_broker(mqtt5.PingRespPacket().write())
    returned(bench, 1000.0)
    assert pings(bench) == 1


def test_a_connection_that_did_not_outlast_it_is_given_up_half_a_keep_alive_later() -> None:
    bench = Bench()
    bench.wake(5.0)
    returned(bench, 1000.0)
    bench.wake(19.9)
    assert bench.engine.upstream.phase.value == "up"
    bench.wake(20.0)
    assert bench.engine.upstream.phase.value == "closed"
    returned(bench, 1000.0)
    assert pings(bench) == 1


@pytest.mark.guarantee("10")
def test_a_reading_that_waited_over_it_keeps_its_time_of_receipt() -> None:
    clock = ProcessPauses()
    clock.beat(0.0)
    bench = Bench(connected=False)
    bench.engine = Engine(EngineOptions(UPSTREAM), clock)
    bench.engine.set_wall_clock(1_800_000_000_000.0)
    bench.join(b"s1")
    topic_id = bench.register(b"s1", b"t")
    bench.at = 0.5
    bench.say(b"s1", Publish(topic_id, 1, b"before", qos=1))
    bench.at = clock.now(100.0)
    assert bench.at == BEAT_S
    bench.say(b"s1", Publish(topic_id, 2, b"after", qos=1))
    bench.connect_broker()
    readings = [each for each in bench.seen_of(mqtt5.PublishPacket) if each.topic == "t"]
    stamps = [dict(each.user_properties)["ts"] for each in readings]
    assert stamps == ["1800000000500", "1800000100000"]
    assert bench.engine.upstream.publisher.stale.age_s(forward_at(0.5), bench.at) == 99.5


def forward_at(received_at: float) -> Reading:
    return Reading(ClientId("s1"), "t", b"", 1, False, 1, 1, received_at)
