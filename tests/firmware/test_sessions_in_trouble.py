"""Nodes whose gateway or network fails, and nodes that fail themselves."""

from __future__ import annotations

import asyncio
from collections import Counter

import aiomqtt

from hil.faults.lossy_proxy import Impairment, lossy_proxy
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.firmware.conftest import BoardMaker
from tests.firmware.program import name_in, program
from tests.firmware.session_bench import (
    broker,
    forget,
    gateway,
    next_heard,
    run,
    shows,
    with_application,
)

__all__ = ["broker", "gateway"]

UNKNOWN_NUMBER = """
from mqttsn.snapshot import put_back, take
from binascii import crc32
from struct import pack
client.publish(b"some/name", b"1", 1)
kept = bytearray(take(client)[:-4])
at = bytes(kept).index(b"some/name")
kept[at - 3 : at - 1] = b"\\x7f\\x01"
client = Client(client.transport, b"node-1")
client.engine.retry_ms = 300
print(put_back(client, kept + pack(">I", crc32(kept))))
for qos in 1, 2, 0:
    client.publish(b"some/name", b"with %d" % qos, qos)
client.wait(100)
"""


def test_a_number_that_the_gateway_does_not_know_is_registered_again(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    async def inner(app: aiomqtt.Client) -> list[tuple[str, bytes, int]]:
        lines = await asyncio.to_thread(run, new_board(), program(gateway.port, UNKNOWN_NUMBER))
        assert lines == ["True"]
        return await next_heard(app, 4)

    arrived = with_application(broker, inner)
    assert sorted(arrived) == [  # the broker's order is one for each QoS
        ("some/name", b"1", 1),
        ("some/name", b"with 0", 0),
        ("some/name", b"with 1", 1),
        ("some/name", b"with 2", 2),
    ]


QOS_0_FOR_EVER = """
while True:
    client.publish(b"qos/zero", b"x", 0)
    client.wait(50)
"""


def test_one_who_publishes_with_qos_0_only_comes_back_to_a_gateway_that_forgot_it(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    async def inner(app: aiomqtt.Client) -> None:
        with new_board().start(program(gateway.port, QOS_0_FOR_EVER)):
            await next_heard(app, 2)
            forget(gateway)
            await next_heard(app, 5)

    with_application(broker, inner)


THROUGH_RESTARTS = """
client.subscribe(b"cmd/#", 1)
number = 0
again = 0
print("ready")
while number < 40:
    try:
        client.publish(b"r", b"%d" % number, 1, again=again)
    except OSError as error:
        print("failed", error)
        again = 1
    else:
        number += 1
        again = 0
        client.wait(20)
print("done")
client.wait(5_000)
"""


def test_readings_and_commands_outlast_two_restarts_of_the_gateway(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    async def inner(app: aiomqtt.Client) -> set[int]:
        text = program(gateway.port, THROUGH_RESTARTS, retry_ms=200)
        arrived: set[int] = set()

        async def until(number: int) -> None:
            while number not in arrived:
                ((_, payload, _),) = await next_heard(app, 1)
                arrived.add(int(payload))

        with new_board().start(text) as life:
            await shows(life, "ready")
            await until(4)
            gateway.kill()
            gateway.start()
            await until(20)
            gateway.stop()
            await shows(life, "failed")
            gateway.start()
            await until(39)
            await shows(life, "done")
            await app.publish("cmd/x", "after all", qos=1)
            await shows(life, "after all")
        return arrived

    assert with_application(broker, inner) == set(range(40))


def test_the_next_gateway_serves_when_the_first_does_not(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    text = program(
        gateway.port,
        f"""
client.transport = Udp(("127.0.0.1", 9), ("127.0.0.1", {gateway.port}))
client.engine.retry_ms = 50
client.publish(b"ab", b"x", 1)
print("index", client.transport.index)
""",
    )
    assert run(new_board(), text) == ["index 1"]


def test_nobody_there_is_an_error_and_not_for_ever(new_board: BoardMaker) -> None:
    text = program(
        9,
        """
start = time.ticks_ms()
for _ in range(2):
    try:
        client.publish(b"ab", b"x", 1)
    except OSError as error:
        import errno
        print(error.errno == errno.ETIMEDOUT)
print(time.ticks_diff(time.ticks_ms(), start) < 4 * 2 * 150 + 500)
""",
        retry_ms=100,
    )
    assert run(new_board(), text) == ["True", "True", "True"]


LOSSY = """
client.engine.retries = 12
for number in range(60):
    client.publish(b"lossy/%d" % (number % 3), b"%d" % number, 1 + number % 2)
print("done")
"""


def test_every_reading_arrives_over_a_network_that_loses_copies_and_reorders(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    async def inner(app: aiomqtt.Client) -> Counter[int]:
        arrived: Counter[int] = Counter()
        impairment = Impairment(loss=0.2, copies=0.1, delayed=0.2, delay_s_max=0.05)
        async with lossy_proxy(gateway.port, 11, impairment) as proxy:
            text = program(proxy.port, LOSSY, retry_ms=60)
            await asyncio.to_thread(run, new_board(), text)
            assert min(proxy.fault_counts[fault] for fault in ("lost", "copied", "delayed")) > 0
        while len(arrived) < 60:
            ((_, payload, _),) = await next_heard(app, 1)
            arrived[int(payload)] += 1
        return arrived

    arrived = with_application(broker, inner)
    assert set(arrived) == set(range(60))
    # A copy of QoS 1 that the network makes may be another reading, for all that the gateway knows.
    assert all(arrived[number] == 1 for number in range(1, 60, 2))


# The will


WILL = """
from mqttsn.will import Will
client.engine.keep_alive_s = 1
will = Will(b"node/state", b"lost", qos=1, retain=1)
will.join(client)
client.connect()
print("ready")
"""


def test_the_will_of_a_node_without_power_is_published(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    async def inner(app: aiomqtt.Client) -> list[tuple[str, bytes, int]]:
        text = program(gateway.port, WILL + "client.wait(60_000)")
        with new_board().start(text) as life:
            await shows(life, "ready")
            await asyncio.to_thread(gateway.wait_for_log, f"active client={name_in(text)}")
            life.cut_power()
        return await next_heard(app, 1)

    assert with_application(broker, inner) == [("node/state", b"lost", 1)]


def test_a_will_that_was_changed_is_the_one_that_is_published(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    change = 'will.update(client, b"node/other", b"changed")\nprint("changed")\n'

    async def inner(app: aiomqtt.Client) -> list[tuple[str, bytes, int]]:
        text = program(gateway.port, WILL + change + "client.wait(60_000)")
        with new_board().start(text) as life:
            await shows(life, "changed")
            life.cut_power()
        return await next_heard(app, 1)

    assert with_application(broker, inner) == [("node/other", b"changed", 1)]


def test_a_will_that_was_deleted_is_not_published_nor_asked_for_again(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    delete = """
will.update(client, b"", b"")
client.engine.state = 0
client.connect()
client.publish(b"ab", b"still there", 1)
print("deleted")
"""

    async def inner(app: aiomqtt.Client) -> None:
        text = program(gateway.port, WILL + delete)
        with new_board().start(text) as life:
            await shows(life, "deleted")
        await next_heard(app, 1)
        await asyncio.to_thread(gateway.wait_for_log, f"lost client={name_in(text)}")
        await app.publish("after", "x", qos=1)
        assert await next_heard(app, 1) == [("after", b"x", 1)]

    with_application(broker, inner)


# Finding it


def test_a_gateway_that_is_asked_is_found(new_board: BoardMaker, gateway: GatewayProcess) -> None:
    text = """
import random
random.seed(10)  # with which it asks within 100 ms
from mqttsn import Client, Udp
from mqttsn.search import find
found = find(("127.0.0.1", %d), 20_000)
print(found)
Client(Udp(*found), b"node-1").publish(b"ab", b"x", 1)
"""
    assert run(new_board(), text % gateway.port) == [f"[('127.0.0.1', {gateway.port})]"]
