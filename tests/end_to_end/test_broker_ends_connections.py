"""A broker that ends the connection for what one sensor sends: the others notice little of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import mqtt5
import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto, free_tcp_port
from hil.rig.scripted_client import PUBLISH, framed, u16
from hil.rig.witness import Witness, witnessing
from tests.brokers.tap import Connection, Tap, Verdict
from tests.cli.tidegate import tidegate
from tests.end_to_end.on_air import assert_untroubled, node
from tests.support.patient_sensor import PatientSensor, SensorError, patient_sensor

# The waits of the configuration's defaults, which those of tests are not.
WAITS = "reconnect_delay_s_min = 0.5\n"
OTHERS_WAIT_S_MAX = 10.0
SHORT_MAX = 6
CULPRIT = "culprit"
PASSWORD = "tide and time"


class Ending:
    """A broker that ends the connection for some packets, without a word."""

    def __init__(self, ends: Callable[[Any, bytes], bool]) -> None:
        self._ends = ends
        self.ended = 0

    def up(self, packet: Any, data: bytes, _connection: Connection) -> Verdict:
        if self._ends(packet, data):
            self.ended += 1
            return Verdict(closes=True)
        return Verdict(data)

    def down(self, _packet: Any, data: bytes) -> bytes:
        return data


def is_published(packet: Any, _data: bytes) -> bool:
    return isinstance(packet, mqtt5.PublishPacket) and packet.topic == CULPRIT


def is_subscribed(packet: Any, _data: bytes) -> bool:
    filters = packet.topic_filters if isinstance(packet, mqtt5.SubscribePacket) else []
    return any(each.pattern == CULPRIT for each in filters)


class Site:
    def __init__(
        self, gateway: GatewayProcess, broker: Mosquitto, model: Ending, witness: Witness
    ) -> None:
        self.gateway = gateway
        self.broker = broker
        self.model = model
        self.witness = witness
        self.admin = ""

    def kill_both(self) -> None:
        self.gateway.kill()
        self.broker.kill()

    def start(self) -> None:
        """What does not run."""
        if not self.broker.running:
            self.broker.start()
        if self.gateway.returncode is not None:
            self.gateway.start()
            self.gateway.wait_until_connected()

    async def goes_on(self, count: int = 10) -> None:
        """Until so many more readings of `well/0` have arrived: all share one connection."""
        wanted = self._arrived() + count
        assert await self.witness.until(lambda: self._arrived() >= wanted, 30.0)

    def _arrived(self) -> int:
        return sum(each.topic == "well/0" for each in self.witness.seen)

    def tags(self, topic: str) -> set[tuple[int, int]]:
        seen = [each.tag for each in self.witness.seen if each.topic == topic]
        return {(tag.epoch, tag.sequence) for tag in seen}

    def status(self) -> dict[str, Any]:
        with urlopen(f"{self.admin}/api/status", timeout=5) as answer:
            return json.load(answer)  # type: ignore[no-any-return]

    def aside(self) -> list[dict[str, Any]]:
        return aside_at(self.admin)


def aside_at(admin: str) -> list[dict[str, Any]]:
    with urlopen(f"{admin}/api/buffer/aside", timeout=5) as answer:
        return json.load(answer)["readings"]  # type: ignore[no-any-return]


@asynccontextmanager
async def site(
    folder: Path, ends: Callable[[Any, bytes], bool], config: str = "", admin: str = ""
) -> AsyncIterator[Site]:
    port = free_tcp_port()
    model = Ending(ends)
    with Mosquitto(folder=folder) as broker, Tap(broker.port, model) as tap:
        async with witnessing(broker.port, "#") as witness:
            config = f'{WAITS}{config}[admin]\nlisten = "127.0.0.1:{port}"\n{admin}'
            with GatewayProcess(folder, tap.url, config) as gateway:
                await asyncio.to_thread(gateway.wait_until_connected)
                made = Site(gateway, broker, model, witness)
                made.admin = f"http://127.0.0.1:{port}"
                yield made


async def publish_steadily(sensor: PatientSensor, number: int, over: asyncio.Event) -> None:
    count = 0
    while not over.is_set():
        await sensor.publish(f"well/{number}", b"%d/%d" % (number, count), qos=1)
        count += 1
        await asyncio.sleep(0.1)


async def say(sensor: PatientSensor, payload: bytes, qos: int) -> None:
    """The reading that the broker does not take; it may be refused."""
    if not qos:
        body = b"\0" + u16(sensor.topic_ids[CULPRIT]) + b"\0\0" + payload
        sensor._transport.sendto(framed(PUBLISH, body))
        return
    with contextlib.suppress(SensorError):
        await sensor.publish(CULPRIT, payload, qos=qos)


def longest_gap_s(witness: Witness, topic: str) -> float:
    times = [each.at for each in witness.seen if each.topic == topic]
    return max((after - before for before, after in pairwise(times)), default=1e9)


async def until(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < deadline, "it did not come about"
        await asyncio.sleep(0.2)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_reading_that_ends_the_connection_is_set_aside(tmp_path: Path, qos: int) -> None:
    async def told() -> None:
        over = asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            made = await stack.enter_async_context(site(tmp_path, is_published))
            port = made.gateway.port
            others = [
                await stack.enter_async_context(patient_sensor(port, f"well-{number}"))
                for number in range(3)
            ]
            bad = await stack.enter_async_context(patient_sensor(port, "bad"))
            for number, sensor in enumerate(others):
                await sensor.connect()
                await sensor.register(f"well/{number}")
            await bad.connect()
            await bad.register(CULPRIT)
            async with asyncio.TaskGroup() as group:
                for number, sensor in enumerate(others):
                    group.create_task(publish_steadily(sensor, number, over))
                await made.goes_on(2)
                for count in range(1 if qos else 8):
                    await say(bad, b"bad %d" % count, qos)
                    await made.goes_on(5)  # over the connection that follows, where it ended one
                    if await asyncio.to_thread(made.aside):
                        break
                await until(lambda: bool(made.aside()))
                ended = made.model.ended
                # What the sensor sends now ends nothing more.
                for count in range(3):
                    await say(bad, b"bad again %d" % count, qos)
                await made.goes_on()
                over.set()
            assert ended <= SHORT_MAX
            assert made.model.ended == ended
            (reading, *_) = made.aside()
            assert (reading["client"], reading["topic"]) == ("bad", CULPRIT)
            assert reading["text"].startswith("bad ")
            assert any("bad on 'culprit'" in each for each in made.status()["alarms"])
            for number in range(3):
                topic = f"well/{number}"
                assert longest_gap_s(made.witness, topic) < OTHERS_WAIT_S_MAX
            acknowledged = {each.payload for one in others for each in one.acknowledged}
            await made.witness.until(lambda: acknowledged <= made.witness.payloads, 20.0)
            made.gateway.wait_for_log(r"set aside.*client=bad")
            assert_untroubled(made.gateway)

    asyncio.run(told())


def test_a_filter_that_ends_the_connection_is_refused(tmp_path: Path) -> None:
    async def told() -> None:
        over = asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            made = await stack.enter_async_context(site(tmp_path, is_subscribed))
            port = made.gateway.port
            well = await stack.enter_async_context(patient_sensor(port, "well-0"))
            bad = await stack.enter_async_context(patient_sensor(port, "bad"))
            await well.connect()
            await well.register("well/0")
            await well.subscribe("command/#", 1)
            await bad.connect()
            async with asyncio.TaskGroup() as group:
                group.create_task(publish_steadily(well, 0, over))
                await made.goes_on(2)
                with contextlib.suppress(SensorError, AssertionError):
                    await bad.subscribe(CULPRIT, 1)
                await until(lambda: "the filter 'culprit'" in str(made.status()["alarms"]))
                await made.goes_on()
                over.set()
            assert made.model.ended <= SHORT_MAX
            assert longest_gap_s(made.witness, "well/0") < OTHERS_WAIT_S_MAX
            made.gateway.wait_for_log(r"the broker refused a subscription.*filter=culprit")
            assert_untroubled(made.gateway)

    asyncio.run(told())


def test_a_will_that_ends_the_connection_is_set_aside(tmp_path: Path) -> None:
    async def told() -> None:
        over = asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            made = await stack.enter_async_context(site(tmp_path, is_published))
            port = made.gateway.port
            well = await stack.enter_async_context(patient_sensor(port, "well-0"))
            await well.connect()
            await well.register("well/0")
            async with asyncio.TaskGroup() as group:
                group.create_task(publish_steadily(well, 0, over))
                async with node(port, "lost") as lost:
                    await lost.connect(keep_alive_s=1)
                    await lost.bequeaths(CULPRIT, b"lost")
                await until(lambda: bool(made.aside()))
                ended = made.model.ended
                await made.goes_on()
                over.set()
            assert 1 <= ended <= SHORT_MAX
            assert made.model.ended == ended
            (will,) = made.aside()
            assert (will["client"], will["topic"], will["text"]) == ("lost", CULPRIT, "lost")
            assert any("lost on 'culprit'" in each for each in made.status()["alarms"])
            assert longest_gap_s(made.witness, "well/0") < OTHERS_WAIT_S_MAX
            acknowledged = {each.payload for each in well.acknowledged}
            await made.witness.until(lambda: acknowledged <= made.witness.payloads, 20.0)
            assert_untroubled(made.gateway)

    asyncio.run(told())


def test_a_broker_that_takes_few_filters_gets_few(tmp_path: Path) -> None:
    def too_many(packet: Any, _data: bytes) -> bool:
        return isinstance(packet, mqtt5.SubscribePacket) and len(packet.topic_filters) > 8

    async def told() -> None:
        async with contextlib.AsyncExitStack() as stack:
            made = await stack.enter_async_context(site(tmp_path, too_many))
            sensors = [
                await stack.enter_async_context(patient_sensor(made.gateway.port, f"s-{number}"))
                for number in range(12)
            ]
            for number, sensor in enumerate(sensors):
                await sensor.connect()
                await sensor.subscribe(f"command/{number}", 1)
            tap_seen = made.model.ended
            assert tap_seen == 0
            made.gateway.kill()
            made.gateway.start()  # subscribes to all of them at once
            await asyncio.to_thread(made.gateway.wait_until_connected)
            await until(lambda: made.status()["covering_subscriptions"] == 12)
            await asyncio.sleep(3.0)
            assert 1 <= made.model.ended <= 3
            assert made.status()["upstream_connected"]
            ended = made.model.ended
            await asyncio.sleep(2.0)
            assert made.model.ended == ended

    asyncio.run(told())


def test_a_message_of_our_own_that_ends_the_connection_is_left_out(tmp_path: Path) -> None:
    def too_large(packet: Any, data: bytes) -> bool:
        return isinstance(packet, mqtt5.PublishPacket) and len(data) > 300

    async def told() -> None:
        over = asyncio.Event()
        config = "[presence]\nclients = false\nstats_s = 1\n"
        async with contextlib.AsyncExitStack() as stack:
            made = await stack.enter_async_context(site(tmp_path, too_large, config))
            well = await stack.enter_async_context(patient_sensor(made.gateway.port, "well-0"))
            await well.connect()
            await well.register("well/0")
            async with asyncio.TaskGroup() as group:
                group.create_task(publish_steadily(well, 0, over))
                await until(lambda: "our own topic" in str(made.status()["alarms"]))
                await asyncio.sleep(4.0)
                over.set()
            assert made.model.ended <= SHORT_MAX
            assert longest_gap_s(made.witness, "well/0") < OTHERS_WAIT_S_MAX
            assert made.status()["upstream_connected"]
            assert_untroubled(made.gateway)

    asyncio.run(told())


def test_what_is_set_aside_outlasts_every_restart_and_can_be_sent_again(tmp_path: Path) -> None:
    takes_it = False

    def ends(packet: Any, data: bytes) -> bool:
        return not takes_it and is_published(packet, data)

    async def told() -> None:
        nonlocal takes_it
        (tmp_path / "word").write_text(PASSWORD)
        async with contextlib.AsyncExitStack() as stack:
            made = await stack.enter_async_context(
                site(tmp_path, ends, admin='password_file = "word"\n')
            )
            bad = await stack.enter_async_context(patient_sensor(made.gateway.port, "bad"))
            await bad.connect()
            await bad.register(CULPRIT)
            for qos in (1, 2):
                await say(bad, b"qos %d" % qos, qos)
            await until(lambda: len(made.aside()) == 2)
            aside, ended = made.aside(), made.model.ended
            for restart in (made.gateway.kill, made.broker.kill, made.kill_both):
                await asyncio.to_thread(restart)
                await asyncio.to_thread(made.start)
                await made.witness.ready.wait()
                await until(lambda: bool(made.status()["upstream_connected"]))
                assert made.aside() == aside
            await asyncio.sleep(1.0)
            assert made.model.ended == ended
            takes_it = True
            done = await asyncio.to_thread(
                tidegate,
                *("buffer", "aside", "send", "all", "--config", made.gateway.config_path),
                folder=tmp_path,
            )
            assert done.returncode == 0, done.stderr
            assert "2 readings are on the way" in done.stdout
            wanted = {(each["epoch"], each["seq"]) for each in aside}
            await made.witness.until(lambda: wanted == made.tags(CULPRIT), 20.0)
            await until(lambda: made.aside() == [])
            arrived = [each for each in made.witness.seen if each.topic == CULPRIT]
            assert len(arrived) == len(wanted)

    asyncio.run(told())


ALLOWED, DENIED = 300, 10


def test_denied_readings_cost_one_connection_each_after_an_outage(tmp_path: Path) -> None:
    """mosquitto ends the connection for each, and its answers before that go with the reset."""
    acl = tmp_path / "acl"
    acl.write_text("topic readwrite x/#\ntopic readwrite tidegate/#\n", encoding="ascii")
    lines = ("max_queued_messages 0", f"acl_file {acl}")

    async def told() -> None:
        with Mosquitto(lines, folder=tmp_path) as broker, Tap(broker.port) as tap:
            port = free_tcp_port()
            config = f'{WAITS}[admin]\nlisten = "127.0.0.1:{port}"\n'
            with GatewayProcess(tmp_path, tap.url, config) as gateway:
                await asyncio.to_thread(gateway.wait_until_connected)
                async with (
                    witnessing(broker.port, "#") as witness,
                    patient_sensor(gateway.port, "s") as sensor,
                    patient_sensor(gateway.port, "t") as other,
                ):
                    await sensor.connect()
                    await other.connect()
                    topics = [f"x/{number}" for number in range(5)]
                    denied = [f"y/{number}" for number in range(DENIED)]
                    for name in (*topics, *denied):
                        await sensor.register(name)
                        await other.register(name)
                    await asyncio.to_thread(broker.stop)
                    tap.shut()
                    witness.ready.clear()
                    for number in range(ALLOWED):
                        who = (sensor, other)[number % 2]
                        await who.publish(topics[number % 5], b"%d" % number, qos=1)
                        if number % 30 == 15:
                            await who.publish(denied[number // 30], b"denied", qos=1)
                    seen = len(tap.connections)
                    await asyncio.to_thread(broker.start)
                    await witness.ready.wait()
                    tap.open()
                    await witness.until(
                        lambda: {b"%d" % one for one in range(ALLOWED)} <= witness.payloads, 60.0
                    )
                    await asyncio.sleep(2.0)
                    arrivals = [
                        each.payload for each in witness.seen if each.topic.startswith("x/")
                    ]
                    assert len(arrivals) == len(set(arrivals)) == ALLOWED
                    assert len(tap.connections) - seen <= DENIED + 1
                    found = await asyncio.to_thread(aside_at, f"http://127.0.0.1:{port}")
                    assert len(found) == DENIED
                    assert all("0x87" in each["reason"] for each in found)
                assert_untroubled(gateway)

    asyncio.run(told())
