"""Real MicroPython with 32 KiB of heap, the real gateway and mosquitto, over UDP."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiomqtt

from hil.boards.wasi.board import Life, WasiBoard
from tests.firmware.conftest import BoardMaker
from tests.firmware.program import program
from tests.support.application import application, heard
from tests.support.gateway import GatewayProcess
from tests.support.lossy_proxy import Weather, lossy_proxy
from tests.support.mosquitto import Mosquitto
from tests.support.ports import free_udp_port

Result = TypeVar("Result")


def run(board: WasiBoard, text: str, timeout_s: float = 60.0) -> list[str]:
    """What the program printed, if it came to its end."""
    outcome = board.run(text, timeout_s=timeout_s)
    assert (outcome.how, outcome.code) == ("exit", 0), board.output
    return board.output.splitlines()


async def shows(life: Life, pattern: str) -> re.Match[str]:
    return await asyncio.to_thread(life.wait_for, pattern, 20.0)


def with_application(
    broker: Mosquitto, inner: Callable[[aiomqtt.Client], Awaitable[Result]]
) -> Result:
    async def outer() -> Result:
        async with application(broker, "#") as app:
            return await inner(app)

    return asyncio.run(outer())


async def next_heard(app: aiomqtt.Client, count: int) -> list[tuple[str, bytes, int]]:
    """What nodes published."""
    found: list[tuple[str, bytes, int]] = []
    while len(found) < count:
        message = await heard(app)
        payload = message.payload
        assert isinstance(payload, bytes)
        if not str(message.topic).startswith("tidegate/"):
            found.append((str(message.topic), payload, message.qos))
    return found


# Up


def test_readings_of_every_qos_and_kind_of_topic_arrive(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    text = program(
        gateway.port,
        """
for topic in b"a/name", 1, b"ab":
    for qos in 0, 1, 2:
        client.publish(topic, b"%d" % qos, qos, retain=qos == 1)
client.publish(2, b"-1", -1)
client.publish(b"xy", b"-1", -1)
client.sleep(0)
""",
    )

    async def inner(app: aiomqtt.Client) -> list[tuple[str, bytes, int]]:
        await asyncio.to_thread(run, new_board(), text)
        return await next_heard(app, 11)

    arrived = with_application(broker, inner)
    wanted = [
        (topic, b"%d" % qos, qos) for topic in ("a/name", "fixed/one", "ab") for qos in (0, 1, 2)
    ]
    assert sorted(arrived) == sorted([*wanted, ("fixed/two", b"-1", 0), ("xy", b"-1", 0)])


def test_a_frame_of_more_than_255_octets_arrives(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    text = program(
        gateway.port,
        """
client = Client(client.transport, b"node-1", 400)
client.publish(b"long", b"x" * 300, 1)
""",
    )

    async def inner(app: aiomqtt.Client) -> list[tuple[str, bytes, int]]:
        await asyncio.to_thread(run, new_board(), text)
        return await next_heard(app, 1)

    assert with_application(broker, inner) == [("long", b"x" * 300, 1)]


def test_what_is_too_long_for_the_buffer_is_refused_before_it_is_sent(
    new_board: BoardMaker, gateway: GatewayProcess
) -> None:
    text = program(
        gateway.port,
        """
try:
    client.publish(b"ab", b"x" * 260, 1)
except ValueError as error:
    print("refused", error)
client.publish(b"ab", b"x", 1)
print("and goes on")
""",
    )
    assert run(new_board(), text) == ["refused 269", "and goes on"]


# Down


def test_messages_of_every_qos_come_to_a_wildcard_a_name_a_short_and_a_predefined_topic(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    text = program(
        gateway.port,
        """
client.subscribe(b"cmd/+", 2)
client.subscribe(b"name", 2)
client.subscribe(b"ab", 2)
client.subscribe(1, 2)
print("ready")
client.wait(20_000)
""",
    )
    topics = {"cmd/x": "b'cmd/x'", "name": "b'name'", "ab": "b'ab'", "fixed/one": "1"}

    async def inner(app: aiomqtt.Client) -> str:
        with new_board().start(text) as life:
            await shows(life, "ready")
            for topic in topics:
                for qos in (0, 1, 2):
                    await app.publish(topic, f"q{qos}", qos=qos)
            await app.publish("name", "last", qos=2)
            await shows(life, "last")
            return life.output

    output = with_application(broker, inner)
    for shown in topics.values():
        came = re.findall(rf"heard {re.escape(shown)} b'(q.)' False", output)
        assert came == ["q0", "q1", "q2"]


def test_a_retained_setting_comes_with_its_flag_when_it_is_subscribed(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    text = program(gateway.port, 'client.subscribe(b"settings/#", 1)\nclient.wait(500)\n')

    async def inner(app: aiomqtt.Client) -> list[str]:
        await app.publish("settings/interval", "60", qos=1, retain=True)
        return await asyncio.to_thread(run, new_board(), text)

    assert with_application(broker, inner) == ["heard b'settings/interval' b'60' True"]


def test_what_was_given_up_does_not_come_any_more(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    text = program(
        gateway.port,
        """
client.subscribe(b"one", 1)
client.subscribe(b"two", 1)
client.subscribe(b"one", -1)
client.publish(b"one", b"1", 1)
client.publish(b"two", b"2", 1)
client.wait(400)
""",
    )
    assert run(new_board(), text) == ["heard b'two' b'2' False"]


def test_a_callback_that_raises_has_its_message_acknowledged(
    new_board: BoardMaker, gateway: GatewayProcess
) -> None:
    text = program(
        gateway.port,
        """
def poisoned(topic, payload, is_retained):
    print("heard")
    raise KeyError("command")
client.on_message = poisoned
client.subscribe(b"cmd", 1)
client.publish(b"cmd", b"x", 0)
for _ in range(3):
    try:
        client.wait(300)
        print("quiet")
    except KeyError:
        print("raised")
""",
    )
    lines = run(new_board(), text)
    assert lines.count("heard") == 1
    assert "quiet" in lines


def test_a_callback_that_calls_the_client_is_told_so(
    new_board: BoardMaker, gateway: GatewayProcess
) -> None:
    text = program(
        gateway.port,
        """
def busy(topic, payload, is_retained):
    try:
        client.publish(b"ab", b"answer", 1)
    except RuntimeError as error:
        print(error)
client.on_message = busy
client.subscribe(b"cmd", 1)
for qos in 0, 1:
    client.publish(b"cmd", b"x", qos)
    client.wait(300)
""",
    )
    assert run(new_board(), text) == ["callback", "callback"]


# Sleep


def test_what_came_for_a_sleeper_comes_when_it_wakes(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    text = program(
        gateway.port,
        """
client.subscribe(b"cmd/#", 1)
client.sleep(60)
print("asleep", client.engine.state)
time.sleep_ms(600)
client.wake()
print("again", client.engine.state)
client.publish(b"ab", b"awake", 1)
client.wake()
print("end", client.engine.state)
""",
    )

    async def inner(app: aiomqtt.Client) -> list[str]:
        with new_board().start(text) as life:
            await shows(life, "asleep")
            for number in range(5):
                await app.publish(f"cmd/{number}", f"c{number}", qos=1)
            await shows(life, "end")
            return life.output.splitlines()

    assert with_application(broker, inner) == [
        "asleep 2",
        *(f"heard b'cmd/{number}' b'c{number}' False" for number in range(5)),
        "again 2",
        "end 2",
    ]


SLEEPER = """
import machine
from mqttsn.snapshot import put_back, take

class Counted(Udp):
    sent = octets = 0
    def send(self, frame, size):
        self.sent += 1
        self.octets += size
        super().send(frame, size)

client.transport = Counted(("127.0.0.1", {port}))
client.transport.local_port = {local_port}
memory = machine.RTC()
print("knew", put_back(client, memory.memory()), machine.reset_cause())
client.publish(b"greenhouse/3/temperature", b"21.5" * 5, 1)
print("datagrams", client.transport.sent, client.transport.octets)
client.sleep(60)
memory.memory(take(client))
machine.deepsleep(1000)
"""


def test_after_a_deep_sleep_one_datagram_brings_the_reading(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    board = new_board()
    text = program(gateway.port, SLEEPER.format(port=gateway.port, local_port=free_udp_port()))

    async def inner(app: aiomqtt.Client) -> list[str]:
        lines = []
        for _ in range(3):
            outcome = await asyncio.to_thread(board.run, text)
            assert (outcome.how, outcome.sleep_ms) == ("deepsleep", 1000), board.output
            lines += board.output.splitlines()
        assert len(await next_heard(app, 3)) == 3
        return lines

    lines = with_application(broker, inner)
    assert lines[::2] == ["knew False 1", "knew True 4", "knew True 4"]
    assert lines[1].startswith("datagrams 3 ")
    assert lines[3] == lines[5] == "datagrams 1 27"


def test_a_sleeper_that_was_forgotten_connects_and_subscribes_and_sleeps_on(
    new_board: BoardMaker, gateway: GatewayProcess, broker: Mosquitto
) -> None:
    text = program(
        gateway.port,
        """
client.subscribe(b"cmd", 1)
client.sleep(60)
print("asleep")
while not woken():
    time.sleep_ms(20)
client.wake()
print("state", client.engine.state)
client.publish(b"cmd", b"x", 1)
client.wake()
""",
    ).replace("while", 'import os\ndef woken(): return "wake" in os.listdir("/")\nwhile')

    async def inner(_: aiomqtt.Client) -> list[str]:
        board = new_board()
        with board.start(text) as life:
            await shows(life, "asleep")
            forget(gateway)
            board.put("wake", "")
            await shows(life, "heard")
            return life.output.splitlines()

    lines = with_application(broker, inner)
    assert lines == ["asleep", "state 2", "heard b'cmd' b'x' False"]


def forget(gateway: GatewayProcess) -> None:
    """As a new gateway with a new card would."""
    gateway.kill()
    shutil.rmtree(gateway.folder / "state")
    gateway.start()
    gateway.wait_until_connected()


# Trouble

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

    assert with_application(broker, inner) == [
        ("some/name", b"1", 1),
        ("some/name", b"with 1", 1),
        ("some/name", b"with 2", 2),
        ("some/name", b"with 0", 0),
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
        weather = Weather(loss=0.2, copies=0.1, delayed=0.2, delay_s_max=0.05)
        async with lossy_proxy(gateway.port, 11, weather) as proxy:
            text = program(proxy.port, LOSSY, retry_ms=60)
            await asyncio.to_thread(run, new_board(), text)
            assert min(proxy.fates[fate] for fate in ("lost", "copied", "delayed")) > 0
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
        with new_board().start(program(gateway.port, WILL + "client.wait(60_000)")) as life:
            await shows(life, "ready")
            await asyncio.to_thread(gateway.wait_for_log, "active client=node-1")
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
        with new_board().start(program(gateway.port, WILL + delete)) as life:
            await shows(life, "deleted")
        await next_heard(app, 1)
        await asyncio.to_thread(gateway.wait_for_log, "lost client=node-1")
        await app.publish("after", "x", qos=1)
        assert await next_heard(app, 1) == [("after", b"x", 1)]

    with_application(broker, inner)


# Finding it


def test_a_gateway_that_is_asked_is_found(new_board: BoardMaker, gateway: GatewayProcess) -> None:
    text = """
from mqttsn import Client, Udp
from mqttsn.search import find
found = find(("127.0.0.1", %d), 20_000)
print(found)
Client(Udp(*found), b"node-1").publish(b"ab", b"x", 1)
"""
    assert run(new_board(), text % gateway.port) == [f"[('127.0.0.1', {gateway.port})]"]
