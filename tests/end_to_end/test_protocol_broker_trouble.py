"""The broker restarts, stops answering, breaks off and refuses, while twenty sensors send."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hil.faults.cutting_proxy import cutting_proxy
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from tests.end_to_end.on_air import (
    NOT_SUPPORTED,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBLISH,
    SUBACK,
    SUBSCRIBE,
    assert_untroubled,
    connected,
    serving,
    story,
)
from tests.end_to_end.under_load import Count, Field
from tests.support.application import application, heard

QUICK = "reconnect_delay_s_min = 0.05\n"
# Acknowledged is then what the broker has, and nothing else.
UPSTREAM = f'{QUICK}[journal]\nacknowledge = "upstream"\n'
STOPPED_S = 3.0
HINT = "connections do not last: another client may be using our client id"
CUTS_MIN = 6


@pytest.fixture
def persistent(tmp_path: Path) -> Iterator[Mosquitto]:
    folder = tmp_path / "broker"
    folder.mkdir()
    lines = [
        "persistence true",
        "max_queued_messages 100000",
        "max_inflight_messages 0",
    ]
    with Mosquitto(lines, folder=folder) as running:
        yield running


def test_two_gateways_with_one_client_id_slow_down_and_say_why(tmp_path: Path) -> None:
    config = "reconnect_delay_s_min = 0.05\n"
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    with Mosquitto() as broker:
        first = GatewayProcess(tmp_path / "first", broker.url, config)
        second = GatewayProcess(tmp_path / "second", broker.url, config)
        with first, second:
            first.wait_for_log(HINT)
            second.wait_for_log(HINT)
            for gateway in (first, second):
                lines = gateway.log.splitlines()
                assert sum(" unreachable: " in line for line in lines) <= 4
                assert sum(" again after " in line for line in lines) <= 3
                assert sum(" = connected " in line for line in lines) <= 12


@asynccontextmanager
async def counting(broker: Mosquitto, topic_filter: str) -> AsyncIterator[Count]:
    count = Count(broker, topic_filter)
    task = asyncio.create_task(count.run())
    await count.ready.wait()
    try:
        yield count
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@story
async def test_nothing_acknowledged_is_missing_when_the_broker_restarts_and_remembers(
    persistent: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, persistent, QUICK) as gateway:
        field = Field(gateway.port, "field")
        async with counting(persistent, "field/#") as count:
            sending = asyncio.create_task(field.run())
            for share in (0.2, 0.4, 0.6):
                await field.progress(share)
                await asyncio.to_thread(persistent.restart)
            await sending
            assert field.acknowledged == field.expected
            await count.heard_all(field.expected)
            count.assert_numbered_without_holes()


def readings_in(log: str) -> set[str]:
    return set(re.findall(r"Received PUBLISH from .*'(field/\d+/\d+)'", log))


@pytest.mark.parametrize("end", [Mosquitto.stop, Mosquitto.kill])
@story
async def test_nothing_acknowledged_was_not_seen_by_a_broker_that_forgets(
    tmp_path: Path, end: Callable[[Mosquitto], None]
) -> None:
    """What it took and forgot is lost there; so its own log is the witness."""
    with (
        Mosquitto(["log_type all", "max_inflight_messages 0"]) as broker,
        serving(tmp_path, broker, UPSTREAM) as gateway,
    ):
        field = Field(gateway.port, "field")
        sending = asyncio.create_task(field.run())
        for share in (0.2, 0.4, 0.6):
            await field.progress(share)
            await asyncio.to_thread(end, broker)
            unseen = field.acknowledged - readings_in(broker.log_text())
            assert not unseen, "acknowledged, and no broker ever had it"
            await asyncio.to_thread(broker.start)
        await sending
        assert field.acknowledged == field.expected
        assert field.expected <= readings_in(broker.log_text())


@story
async def test_a_broker_that_stands_still_delays_and_loses_nothing(
    persistent: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, persistent, UPSTREAM) as gateway:
        field = Field(gateway.port, "field")
        async with (
            counting(persistent, "field/#") as count,
            connected(gateway.port) as bystander,
        ):
            sending = asyncio.create_task(field.run())
            await field.progress(0.3)
            os.kill(persistent.pid, signal.SIGSTOP)
            try:
                now = asyncio.get_running_loop().time
                deadline = now() + STOPPED_S
                # What it had said already may still be on its way.
                await bystander.asks(PINGREQ, b"", PINGRESP)
                said = set(field.acknowledged)
                while now() < deadline:
                    await bystander.asks(PINGREQ, b"", PINGRESP)
                    async with connected(gateway.port) as newcomer:
                        assert await newcomer.register("field/new") == 1
                        await newcomer.leave()
                assert len(field.acknowledged - said) <= field.sensors // 2
            finally:
                os.kill(persistent.pid, signal.SIGCONT)
            await sending
            await count.heard_all(field.expected)
            count.assert_numbered_without_holes()
        assert " unreachable: " not in gateway.log


@story
async def test_a_connection_cut_in_the_middle_of_packets_loses_nothing_either_way(
    persistent: Mosquitto, tmp_path: Path
) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    sys.stderr.write(f"seed {seed}\n")
    async with cutting_proxy(persistent.port, seed) as proxy:
        config = f'{QUICK}\n[limits]\noutbox_messages_max = 10000\noutbox_bytes_max = "4MiB"\n'
        with GatewayProcess(tmp_path, f"mqtt://127.0.0.1:{proxy.port}", config) as gateway:
            # In a thread: the proxy must run meanwhile.
            await asyncio.to_thread(gateway.wait_until_connected)
            field = Field(gateway.port, "field", readings=60)
            async with (
                counting(persistent, "field/#") as count,
                application(persistent) as app,
                connected(gateway.port, clean=False) as n,
            ):
                for qos in (1, 2):
                    await n.subscribe(f"down/{qos}".encode(), qos=qos)
                proxy.cutting = True
                sending = asyncio.create_task(field.run())
                expected: list[bytes] = []
                # The sensors have soon done, because the journal takes what they send.
                while len(expected) < 200 or not await proxy.has_cut(CUTS_MIN, within_s=0.02):
                    expected.append(b"%d" % len(expected))
                    await app.publish("down/1", expected[-1], qos=1)
                    await app.publish("down/2", expected[-1], qos=2)
                await sending
                proxy.cutting = False
                await count.heard_all(field.expected)
                count.assert_numbered_without_holes()
                found: dict[int, list[bytes]] = {1: [], 2: []}
                # At QoS 1 the last may be followed by copies of some before it.
                while len(set(found[1])) < len(expected) or len(found[2]) < len(expected):
                    flags, _, payload = await n.message()
                    found[flags >> 5 & 3].append(payload)
                assert found[2] == expected
                assert list(dict.fromkeys(found[1])) == expected
            assert_untroubled(gateway)


@pytest.mark.guarantee("4c")
@story
async def test_who_subscribes_in_a_short_break_hears_what_is_published_after_suback(
    persistent: Mosquitto, tmp_path: Path
) -> None:
    async with cutting_proxy(persistent.port, seed=1) as proxy:
        with GatewayProcess(tmp_path, f"mqtt://127.0.0.1:{proxy.port}", QUICK) as gateway:
            await asyncio.to_thread(gateway.wait_until_connected)
            async with application(persistent) as app, connected(gateway.port) as n:
                await proxy.shut()
                message_id = u16(n.next_id())
                await n.say(SUBSCRIBE, b"\x20" + message_id + b"down")
                await n.hears_nothing()
                await proxy.open()
                kind, suback = await n.hear()
                assert (kind, suback[:1], suback[3:]) == (SUBACK, b"\x20", message_id + b"\x00")
                await app.publish("down", b"at once", qos=1)
                assert await n.message() == (0x20, int.from_bytes(suback[1:3], "big"), b"at once")


# Access rules


@pytest.fixture
def choosy(tmp_path: Path) -> Iterator[Mosquitto]:
    options = tmp_path / "acl"
    options.write_text("topic readwrite ok/#\ntopic readwrite tidegate/#\n", encoding="utf-8")
    with Mosquitto([f"acl_file {options}"]) as running:
        yield running


@story
async def test_a_reading_that_the_broker_refuses_is_told_and_hurts_no_other(
    choosy: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, choosy, UPSTREAM) as gateway:
        async with application(choosy, "#") as app, connected(gateway.port) as n:
            await heard(app)
            bad, good = await n.register("secret"), await n.register("ok/a")
            for message_id in range(500, 510):
                for qos in (1, 2):
                    body = bytes((qos << 5,)) + u16(bad) + u16(message_id) + b"x"
                    answer = u16(bad) + u16(message_id) + NOT_SUPPORTED
                    await n.asks(PUBLISH, body, PUBACK, answer)
                await n.publish(bad, b"x", qos=0)
                await n.publish(good, b"%d" % message_id, qos=1)
                assert (await heard(app)).payload == b"%d" % message_id
        assert "access rules" in gateway.log
        assert " unreachable: " not in gateway.log
        assert gateway.log.count("secret") <= 12, "a rule that refuses all must not flood the log"


@pytest.fixture
def secretive(tmp_path: Path) -> Iterator[Mosquitto]:
    """Refuses subscriptions, as mosquitto's access file cannot."""
    plugin = next(Path("/usr/lib").glob("*/mosquitto_dynamic_security.so"))
    options = tmp_path / "rules.json"
    options.write_text(
        """{"defaultACLAccess": {"publishClientSend": true, "publishClientReceive": true,
            "subscribe": false, "unsubscribe": true},
            "anonymousGroup": "all", "clients": [],
            "groups": [{"groupname": "all", "roles": [{"rolename": "some"}], "clients": []}],
            "roles": [{"rolename": "some", "acls": [
            {"acltype": "subscribePattern", "topic": "ok/#", "priority": 0, "allow": true}]}]}""",
        encoding="utf-8",
    )
    lines = [f"plugin {plugin}", f"plugin_opt_config_file {options}"]
    with Mosquitto(lines) as running:
        yield running


@story
async def test_a_filter_that_the_broker_refuses_is_told_and_takes_nothing_from_others(
    secretive: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, secretive) as gateway:
        async with (
            application(secretive) as app,
            connected(gateway.port) as modest,
            connected(gateway.port) as greedy,
        ):
            narrow = await modest.subscribe(b"ok/a", qos=1)
            assert await greedy.subscribe(b"ok/b/#", qos=1) == 0
            for topic_filter in (b"#", b"secret", b"+/a", b"#"):
                message_id = u16(greedy.next_id())
                answer = b"\x20" + u16(0) + message_id + NOT_SUPPORTED
                await greedy.asks(SUBSCRIBE, b"\x20" + message_id + topic_filter, SUBACK, answer)
                await app.publish("ok/a", topic_filter, qos=1)
                assert await modest.message() == (0x20, narrow, topic_filter)
                await app.publish("ok/b/c", topic_filter, qos=1)
                assert (await greedy.message())[2] == topic_filter
            await modest.hears_nothing()
        assert " unreachable: " not in gateway.log
