"""The process stands still for seconds while its sensors go on: nobody is lost for that.

The sensors are a thread with sockets of its own, so that they keep their keep-alive whatever the
gateway does. Both event loops: uvloop runs its timers before it reads the sockets, asyncio after.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto, free_tcp_port
from hil.rig.scripted_client import BlockingClient, framed, u16
from tests.end_to_end.on_air import (
    ACCEPTED,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBLISH,
    SHORT,
    assert_untroubled,
    connected,
    node,
)
from tests.support.application import application, heard

KEEP_ALIVE_S = 1  # supervised with half of it as tolerance
PING_EVERY_S = 0.3
STANDS_STILL_S = 4.0
WITHOUT_UVLOOP = (
    "import runpy, sys; sys.modules['uvloop'] = None; "
    "runpy.run_module('gateway', run_name='__main__', alter_sys=True)"
)
COMMANDS = {
    "uvloop": (sys.executable, "-m", "gateway"),
    "asyncio": (sys.executable, "-c", WITHOUT_UVLOOP),
}


class Sensor(BlockingClient):
    """Connects with a will, and then is used by one thread alone."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(port, name)
        will = b"will/" + name.encode(), b"lost"
        self.does(self.connecting(keep_alive_s=KEEP_ALIVE_S, will=will))
        self.ask(PINGREQ, b"", PINGRESP)  # its second frame, which makes a client of it
        self.is_dead = False
        self.received: list[bytes] = []


class Fleet:
    """Each pings until it is dead."""

    def __init__(self, sensors: list[Sensor]) -> None:
        self.sensors = sensors
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._live)

    def __enter__(self) -> Fleet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        for sensor in self.sensors:
            sensor.socket.close()

    def _live(self) -> None:
        while not self._is_over.wait(PING_EVERY_S):
            for sensor in self.sensors:
                if not sensor.is_dead:
                    sensor.say(PINGREQ)
                sensor.received += sensor.heard()


@pytest.fixture(params=COMMANDS)
def gateway(
    request: pytest.FixtureRequest, broker: Mosquitto, tmp_path: Path
) -> Iterator[GatewayProcess]:
    admin = free_tcp_port()
    config = (
        f'[admin]\nlisten = "127.0.0.1:{admin}"\n[mqtt_sn]\nretry_after_s = 1.0\n'
        "retry_count_max = 1\n"
    )
    command = COMMANDS[request.param]
    with GatewayProcess(tmp_path, broker.url, config, command=command) as running:
        running.wait_until_connected()
        yield running
        assert_untroubled(running)


def stand_still(gateway: GatewayProcess, seconds: float) -> None:
    os.kill(gateway.pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(gateway.pid, signal.SIGCONT)


def metrics(gateway: GatewayProcess) -> str:
    address = gateway.wait_for_log(r"status page on (http://\S+)").group(1)
    with urlopen(f"{address}/metrics") as answer:
        return str(answer.read().decode())


@pytest.mark.guarantee("10")
def test_nobody_is_lost_while_the_process_stands_still(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async def story() -> None:
        sensors = [Sensor(gateway.port, f"pings{number}") for number in range(3)]
        async with (
            application(broker, "will/#", "si") as app,
            connected(gateway.port, keep_alive_s=KEEP_ALIVE_S) as awake,
            node(gateway.port) as sleeper,
        ):
            await sleeper.connect(clean=False, keep_alive_s=KEEP_ALIVE_S)
            await sleeper.asks(DISCONNECT, u16(2), DISCONNECT)
            topic = await awake.subscribe(b"do", qos=1, kind=SHORT)
            with Fleet(sensors):
                await app.publish("do", b"it", qos=1)
                assert (await awake.message())[1:] == (topic or int.from_bytes(b"do"), b"it")
                await app.publish("do", b"again", qos=1)
                stopped = asyncio.create_task(
                    asyncio.to_thread(stand_still, gateway, STANDS_STILL_S)
                )
                await asyncio.sleep(1)
                # All of this waits in the gateway's socket.
                await awake.say(PUBLISH, bytes((0x20 | SHORT,)) + b"si" + u16(9) + b"21.5")
                await sleeper.say(PINGREQ, sleeper.client_id.encode())
                await stopped
                await sleeper.hears(PINGRESP)
                # What was sent before the process stopped is acknowledged now, or repeated once.
                puback = framed(PUBACK, b"si" + u16(9) + ACCEPTED)
                found = framed(*await awake.hear())
                while found != puback:
                    assert found[1] == PUBLISH, found.hex(" ")
                    await awake.say(PUBACK, found[3:7] + ACCEPTED)
                    found = framed(*await awake.hear())
                assert (await heard(app)).payload == b"21.5"
                await awake.asks(PINGREQ, b"", PINGRESP)
                await awake.asks(DISCONNECT, b"", DISCONNECT)
                await asyncio.sleep(2 * KEEP_ALIVE_S)
                await sleeper.asks(PINGREQ, sleeper.client_id.encode(), PINGRESP)
        assert " lost" not in gateway.log
        for sensor in sensors:
            kinds = {datagram[1] for datagram in sensor.received}
            assert kinds == {PINGRESP}, "the gateway sent DISCONNECT to one that pinged"
            # All that it sent meanwhile was received, and answered.
            assert len(sensor.received) > STANDS_STILL_S / PING_EVERY_S

    asyncio.run(story())
    line = gateway.wait_for_log(r"the process stood still for (\d\.\d) s \(stopped, or .*extended")
    assert STANDS_STILL_S - 1.2 < float(line.group(1)) < STANDS_STILL_S + 1
    numbers = metrics(gateway)
    assert "tidegate_process_pauses_total 1" in numbers
    found = re.search(r"^tidegate_process_pause_seconds_total (\S+)$", numbers, re.MULTILINE)
    assert found is not None
    assert STANDS_STILL_S - 1.2 < float(found.group(1)) < STANDS_STILL_S + 1


@pytest.mark.guarantee("10")
def test_who_died_meanwhile_is_lost_one_keep_alive_later(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async def story() -> None:
        dies, lives = Sensor(gateway.port, "dies"), Sensor(gateway.port, "lives")
        async with application(broker, "will/#") as app:
            with Fleet([dies, lives]):
                stopped = asyncio.create_task(
                    asyncio.to_thread(stand_still, gateway, STANDS_STILL_S)
                )
                await asyncio.sleep(0.5)
                dies.is_dead = True
                await stopped
                returned_at = time.monotonic()
                will = await heard(app)
                assert (str(will.topic), will.payload) == ("will/dies", b"lost")
                # What it sent before it died was received only now.
                assert KEEP_ALIVE_S < time.monotonic() - returned_at < 3 * KEEP_ALIVE_S
                await asyncio.sleep(KEEP_ALIVE_S)
        assert {datagram[1] for datagram in lives.received} == {PINGRESP}
        assert gateway.log.count(" lost") == 1

    asyncio.run(story())
