"""What an operator asks for, done by a real engine, and the words that come back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import mqtt5
import pytest

from gateway.admin.commands import Commands
from gateway.admin.http.operating import CannotError, Publication
from gateway.app.listeners import SensorLinks
from gateway.config.settings import SerialSettings
from gateway.core.clients.admission import AdmissionOptions
from gateway.core.engine import EngineOptions
from gateway.core.session.options import SessionOptions
from gateway.core.state_records import ClientId
from gateway.core.topic_options import Acknowledge, ReadingOptions
from gateway.core.values import Reading
from gateway.frames import Connect, Disconnect
from gateway.presence.latest import Latest
from gateway.transports.serial.port import SerialCallbacks, SerialLink
from tests.support.engine_bench import UPSTREAM, Bench, short
from tests.support.uplink_stories import bench_of


def clerk_of(
    bench: Bench,
    latest: Latest | None = None,
    *,
    is_listed_only: bool = False,
    line: SerialLink | None = None,
    cleared: list[ClientId] | None = None,
) -> Commands:
    async def line_named(name: str) -> SerialLink | None:
        return line if name == "serial0" else None

    return Commands(
        engine=bench.engine,
        perform=bench.ask,
        latest=Latest() if latest is None else latest,
        now=lambda: bench.at,
        is_listed_only=is_listed_only,
        waiting=lambda: 7,
        line_named=line_named,
        clear_retained=(cleared if cleared is not None else []).append,
    )


def publication(topic: str = "ab", payload: bytes = b"on", qos: int = 1) -> Publication:
    return Publication("well", topic, payload, qos)


def test_the_drain_is_paused_once_and_goes_on_once() -> None:
    commands = clerk_of(Bench())
    with pytest.raises(CannotError, match="not paused"):
        commands.resume_drain()
    assert commands.pause_drain().startswith("paused: 7 readings wait on disk")
    with pytest.raises(CannotError, match="paused already"):
        commands.pause_drain()
    assert commands.resume_drain() == "going on"


def test_of_one_that_is_not_known_only_what_the_broker_has_is_cleared() -> None:
    cleared: list[ClientId] = []
    commands = clerk_of(Bench(), cleared=cleared)
    with pytest.raises(CannotError, match="no sensor 'well' is known"):
        commands.forget("well")
    assert cleared == []
    assert commands.forget("well", retained=True).startswith("no such sensor is known; what")
    assert cleared == ["well"]


def test_who_listens_gets_it_and_who_does_not_later() -> None:
    bench = Bench()
    commands = clerk_of(bench)
    bench.join(b"well", clean=False)
    assert commands.publish(publication()) == "on its way"
    assert bench.hear_all(b"well") == [(b"on", 1, False)]
    bench.say(b"well", Disconnect(duration_s=60))
    assert commands.publish(publication()) == "waits until it wakes up"
    bench.wake(bench.at + 300)
    assert commands.publish(publication()) == "waits until it connects again"
    with pytest.raises(CannotError, match="not connected"):
        commands.publish(publication(qos=0))


def test_what_cannot_be_sent_is_refused_with_the_reason() -> None:
    options = SessionOptions(payload_bytes_max=5, outbox_messages_max=1)
    bench = Bench(EngineOptions(UPSTREAM, session=options))
    commands = clerk_of(bench)
    with pytest.raises(CannotError, match="no sensor 'well' is known"):
        commands.publish(publication())
    bench.say(b"well", Connect(b"well", 60, clean_session=False))
    with pytest.raises(CannotError, match="CONNECT and nothing else"):
        commands.publish(publication())
    bench.join(b"well", clean=False)
    for topic in ("a/+", "#", "a\0b"):
        with pytest.raises(CannotError, match="one topic"):
            commands.publish(publication(topic))
    with pytest.raises(CannotError, match=r"limits\.payload_bytes_max"):
        commands.publish(publication(payload=b"123456"))
    bench.say(b"well", Disconnect(duration_s=60))
    with pytest.raises(CannotError, match="it sleeps"):
        commands.publish(publication(qos=0))
    commands.publish(publication())
    with pytest.raises(CannotError, match=r"limits\.outbox_messages_max"):
        commands.publish(publication())


def test_a_forgotten_sensor_has_no_values_either() -> None:
    bench, latest = Bench(), Latest()
    commands = clerk_of(bench, latest)
    with pytest.raises(CannotError, match="no sensor"):
        commands.forget("well")
    bench.join(b"well")
    latest.receive(Reading(ClientId("well"), "t", b"1", 1, False, 0, 0, 0.0))
    assert commands.forget("well").startswith("forgotten")
    assert latest.of("well") == []
    assert bench.hear(b"well") == [Disconnect()]
    bench.say(b"pump", Connect(b"pump", 60))
    assert commands.forget("pump").startswith("forgotten"), "one that said CONNECT alone"


def test_the_door_is_opened_for_a_while_where_there_is_a_list() -> None:
    admission = AdmissionOptions(is_listed_only=True)
    bench = Bench(EngineOptions(UPSTREAM, admission=admission))
    commands = clerk_of(bench, is_listed_only=True)
    assert commands.permit(5) == "new sensors may come in for 5 min 0 s"
    assert bench.engine.operator.permitted_until == 300.0
    assert commands.permit(0).startswith("only listed sensors")
    assert bench.engine.operator.permitted_until == 0.0
    with pytest.raises(CannotError, match='permit is "all"'):
        clerk_of(Bench()).permit(5)


def test_new_ones_join_and_wait_for_an_answer_in_words() -> None:
    admission = AdmissionOptions(is_listed_only=True)
    bench = Bench(EngineOptions(UPSTREAM, admission=admission))
    commands = clerk_of(bench, is_listed_only=True)
    assert commands.join(120).startswith("new sensors may join for 2 min 0 s")
    assert bench.engine.operator.joining_until == 120.0
    bench.join(b"well")
    bench.join(b"door")
    assert commands.approve("well").startswith("approved")
    assert commands.reject("door").startswith("rejected")
    assert list(bench.engine.sessions) == ["well"]
    for answer in (commands.approve, commands.reject):
        with pytest.raises(CannotError, match="'well' waits for approval"):
            answer("well")
    assert commands.join(0).startswith("no new sensor may join")
    with pytest.raises(CannotError, match='permit is "all"'):
        clerk_of(Bench()).join(5)


# Serial ports


def line_on(port: str, name: str = "serial0") -> SerialLink:
    return SerialLink(
        SerialSettings(port=port), name, SerialCallbacks(lambda _: None), message_bytes_max=2048
    )


def test_a_port_is_released_and_taken_back_in_words() -> None:
    async def story() -> None:
        line = line_on("/nowhere/ttyUSB0")
        commands = clerk_of(Bench(), line=line)
        line.open(asyncio.get_running_loop())
        for name, minutes, words in (
            ("serial1", 5, "no serial line 'serial1'"),
            ("serial0", 0, "/nowhere/ttyUSB0 is not released"),
        ):
            with pytest.raises(CannotError, match=words):
                await commands.release(name, minutes)
        said = await commands.release("serial0", 5)
        assert said == "/nowhere/ttyUSB0 is free for 5 min 0 s, then it is opened again"
        assert await commands.release("serial0", 0) == "/nowhere/ttyUSB0 is opened again"
        line.close()

    asyncio.run(story())


def test_a_port_that_hangs_is_not_called_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.transports.udp.loan.GIVEN_WITHIN_S", 0.01)
    line = line_on("/nowhere/ttyUSB0")  # that nobody keeps
    with pytest.raises(CannotError, match="still being closed"):
        asyncio.run(clerk_of(Bench(), line=line).release("serial0", 5))


def test_a_line_is_found_by_any_of_its_names(tmp_path: Path) -> None:
    links = SensorLinks()
    links.serial = [line_on("/dev/null"), line_on(str(tmp_path / "by-id"), "serial1")]
    (tmp_path / "by-id").symlink_to("/dev/zero")
    names = (
        "serial0",
        "/dev/null",
        "null",
        "serial1",
        f"{tmp_path}/by-id",
        "/dev/zero",
        "/dev/tty",
    )
    found = [asyncio.run(links.line_named(name)) for name in names]
    assert [None if one is None else one.name for one in found] == [
        "serial0",
        "serial0",
        "serial0",
        "serial1",
        "serial1",
        "serial1",
        None,
    ]


def test_what_is_set_aside_is_sent_again_or_deleted() -> None:
    bench = bench_of(ReadingOptions(Acknowledge.JOURNAL))
    commands = clerk_of(bench)
    with pytest.raises(CannotError, match="nothing is set aside"):
        commands.send_aside(None)
    with pytest.raises(CannotError, match="nothing is set aside"):
        commands.delete_aside(None)
    bench.holds = True
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.flush()
    (packet,) = [each for each in bench.seen_of(mqtt5.PublishPacket) if each.topic == "tp"]
    code = mqtt5.PubAckReasonCode.NOT_AUTHORIZED
    bench.from_broker(mqtt5.PubAckPacket(packet.packet_id or 0, reason_code=code).write())
    with pytest.raises(CannotError, match="none of these is set aside"):
        commands.send_aside([2])
    assert commands.send_aside([1]).startswith("1 reading is on the way to the broker once more")
    with pytest.raises(CannotError, match="none of these"):
        commands.send_aside([1])
    bench.flush()
    assert bench.engine.uplink.aside.records == {}
    with pytest.raises(CannotError, match="none of these is set aside"):
        commands.delete_aside([1])
