"""What an operator asks for, done by a real engine, and the words that come back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.admin.commands import Clerk
from gateway.admin.http.operating import CannotError, Publication
from gateway.app.listeners import SensorLinks
from gateway.config.settings import SerialSettings
from gateway.core.clients.admission import AdmissionRules
from gateway.core.effects import ClientId, Forward
from gateway.core.engine import EngineRules
from gateway.core.session.options import SessionRules
from gateway.frames import Connect, Disconnect
from gateway.presence.latest import Latest
from gateway.transports.serial.port import LineEars, SerialLink
from tests.support.engine_bench import UPSTREAM, Bench


def clerk_of(
    bench: Bench,
    latest: Latest | None = None,
    *,
    is_listed_only: bool = False,
    line: SerialLink | None = None,
) -> Clerk:
    async def line_named(name: str) -> SerialLink | None:
        return line if name == "serial0" else None

    return Clerk(
        engine=bench.engine,
        perform=bench.take,
        latest=Latest() if latest is None else latest,
        now=lambda: bench.at,
        is_listed_only=is_listed_only,
        waiting=lambda: 7,
        line_named=line_named,
    )


def publication(topic: str = "ab", payload: bytes = b"on", qos: int = 1) -> Publication:
    return Publication("well", topic, payload, qos)


def test_the_drain_is_paused_once_and_goes_on_once() -> None:
    clerk = clerk_of(Bench())
    with pytest.raises(CannotError, match="not paused"):
        clerk.resume_drain()
    assert clerk.pause_drain().startswith("paused: 7 readings wait on disk")
    with pytest.raises(CannotError, match="paused already"):
        clerk.pause_drain()
    assert clerk.resume_drain() == "going on"


def test_who_listens_gets_it_and_who_does_not_later() -> None:
    bench = Bench()
    clerk = clerk_of(bench)
    bench.join(b"well", clean=False)
    assert clerk.publish(publication()) == "on its way"
    assert bench.hear_all(b"well") == [(b"on", 1, False)]
    bench.say(b"well", Disconnect(duration_s=60))
    assert clerk.publish(publication()) == "waits until it wakes up"
    bench.wake(bench.at + 300)
    assert clerk.publish(publication()) == "waits until it connects again"
    with pytest.raises(CannotError, match="not connected"):
        clerk.publish(publication(qos=0))


def test_what_cannot_be_sent_is_refused_with_the_reason() -> None:
    rules = SessionRules(payload_bytes_max=5, outbox_messages_max=1)
    bench = Bench(EngineRules(UPSTREAM, session=rules))
    clerk = clerk_of(bench)
    with pytest.raises(CannotError, match="no sensor 'well' is known"):
        clerk.publish(publication())
    bench.say(b"well", Connect(b"well", 60, clean_session=False))
    with pytest.raises(CannotError, match="CONNECT and nothing else"):
        clerk.publish(publication())
    bench.join(b"well", clean=False)
    for topic in ("a/+", "#", "a\0b"):
        with pytest.raises(CannotError, match="one topic"):
            clerk.publish(publication(topic))
    with pytest.raises(CannotError, match=r"limits\.payload_bytes_max"):
        clerk.publish(publication(payload=b"123456"))
    bench.say(b"well", Disconnect(duration_s=60))
    with pytest.raises(CannotError, match="it sleeps"):
        clerk.publish(publication(qos=0))
    clerk.publish(publication())
    with pytest.raises(CannotError, match=r"limits\.outbox_messages_max"):
        clerk.publish(publication())


def test_a_forgotten_sensor_has_no_values_either() -> None:
    bench, latest = Bench(), Latest()
    clerk = clerk_of(bench, latest)
    with pytest.raises(CannotError, match="no sensor"):
        clerk.forget("well")
    bench.join(b"well")
    latest.hear(Forward(ClientId("well"), "t", b"1", 1, False, 0, 0, 0.0))
    assert clerk.forget("well").startswith("forgotten")
    assert latest.of("well") == []
    assert bench.hear(b"well") == [Disconnect()]
    bench.say(b"pump", Connect(b"pump", 60))
    assert clerk.forget("pump").startswith("forgotten"), "one that said CONNECT alone"


def test_the_door_is_opened_for_a_while_where_there_is_a_list() -> None:
    admission = AdmissionRules(is_listed_only=True)
    bench = Bench(EngineRules(UPSTREAM, admission=admission))
    clerk = clerk_of(bench, is_listed_only=True)
    assert clerk.permit(5) == "new sensors may come in for 5 min 0 s"
    assert bench.engine.desk.permitted_until == 300.0
    assert clerk.permit(0).startswith("only listed sensors")
    assert bench.engine.desk.permitted_until == 0.0
    with pytest.raises(CannotError, match='permit is "all"'):
        clerk_of(Bench()).permit(5)


# Serial ports


def line_on(port: str, name: str = "serial0") -> SerialLink:
    return SerialLink(
        SerialSettings(port=port), name, LineEars(lambda _: None), message_bytes_max=2048
    )


def test_a_port_is_released_and_taken_back_in_words() -> None:
    async def story() -> None:
        line = line_on("/nowhere/ttyUSB0")
        clerk = clerk_of(Bench(), line=line)
        line.open(asyncio.get_running_loop())
        for name, minutes, words in (
            ("serial1", 5, "no serial line 'serial1'"),
            ("serial0", 0, "/nowhere/ttyUSB0 is not released"),
        ):
            with pytest.raises(CannotError, match=words):
                await clerk.release(name, minutes)
        said = await clerk.release("serial0", 5)
        assert said == "/nowhere/ttyUSB0 is free for 5 min 0 s, then it is opened again"
        assert await clerk.release("serial0", 0) == "/nowhere/ttyUSB0 is opened again"
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
        *("serial0", "serial0", "serial0", "serial1", "serial1", "serial1", None)
    ]
