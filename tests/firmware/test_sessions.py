"""Real MicroPython with 32 KiB of heap, the real gateway and mosquitto, over UDP."""

from __future__ import annotations

import asyncio
import re

import aiomqtt

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_udp_port
from tests.firmware.conftest import BoardMaker
from tests.firmware.program import program
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
            await shows(life, "end .*\n")
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
            await shows(life, "heard.*\n")
            return life.output.splitlines()

    lines = with_application(broker, inner)
    assert lines == ["asleep", "state 2", "heard b'cmd' b'x' False"]
