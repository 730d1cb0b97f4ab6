"""What very many sleeping clients cost a real gateway: memory, CPU while they sleep, a restart.

    python -m tests.bench.sleepers [--clients N] [--seconds S] [--plain]

Each client has an address of its own, a session that stays, one topic registered and a filter of
its own (nothing but the session with --plain), and then sleeps for eighteen hours. Memory is what
the process grew by, as the system sees it; CPU is that of all its threads while nobody says
anything, in percent of one core.
"""

from __future__ import annotations

import argparse
import os
import selectors
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from hil.rig.mosquitto import Mosquitto
from tests.bench.gateway_process import DEFAULT_COMMAND, GatewayProcess
from tests.support.hand_written_sensor import framed, u16
from tests.support.resident import resident_bytes

CONNECT, CONNACK, REGISTER, REGACK = 0x04, 0x05, 0x0A, 0x0B
SUBSCRIBE, SUBACK, PINGREQ, PINGRESP, DISCONNECT = 0x12, 0x13, 0x16, 0x17, 0x18
CLIENTS = 100_000
TOGETHER = 500  # clients that speak at a time
SLEEP_S = 0xFFFF
REPEAT_AFTER_S = 1.0
REPEATS_MAX = 30
LIMITS = """\
connects_per_s_max = 1000000
connects_at_once_max = 1000000
unproven_clients_max = 1000000
"""
ESTABLISHED = "01"  # in /proc/net/tcp


class Sleeper:
    """One client, at an address that no other has."""

    def __init__(self, number: int, port: int) -> None:
        self.name = b"sensor-%06d" % number
        self._place = b"field/%06d/" % number
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        host = f"127.{number >> 16 & 0xFF}.{number >> 8 & 0xFF}.{number & 0xFF}"
        self.socket.bind((host, 1884))
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)

    def joins(self) -> list[tuple[bytes, int]]:
        """What it says, each with the kind of the answer that it waits for."""
        return [
            (framed(CONNECT, b"\0\1" + u16(60) + self.name), CONNACK),
            (framed(REGISTER, u16(0) + u16(1) + self._place + b"temperature"), REGACK),
            (framed(SUBSCRIBE, b"\x20" + u16(2) + self._place + b"valve"), SUBACK),
            (framed(DISCONNECT, u16(SLEEP_S)), DISCONNECT),
        ]

    def joins_plainly(self) -> list[tuple[bytes, int]]:
        """CONNECT is believed with the second frame, here DISCONNECT."""
        steps = self.joins()
        return [steps[0], steps[-1]]

    def wakes(self) -> list[tuple[bytes, int]]:
        return [(framed(PINGREQ, self.name), PINGRESP)]


Says = Callable[[Sleeper], list[tuple[bytes, int]]]


def converse(clients: list[Sleeper], says: Says) -> int:
    """All say the same thing at once, repeat it until it is answered, and say the next; returns how
    often something had to be said again.
    """
    repeats = 0
    for step in range(len(says(clients[0]))):
        waiting = {client.socket: says(client)[step] for client in clients}
        with selectors.DefaultSelector() as selector:
            for connection, (said, _) in waiting.items():
                selector.register(connection, selectors.EVENT_READ)
                connection.send(said)
            for _ in range(REPEATS_MAX):
                _hear(selector, waiting)
                if not waiting:
                    break
                repeats += len(waiting)
                for connection, (said, _) in waiting.items():
                    connection.send(said)
            assert not waiting, f"{len(waiting)} clients were never answered"
    return repeats


def _hear(
    selector: selectors.BaseSelector, waiting: dict[socket.socket, tuple[bytes, int]]
) -> None:
    while waiting:
        ready = selector.select(REPEAT_AFTER_S)
        if not ready:
            return
        for key, _ in ready:
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            answer = connection.recv(2048)
            if connection in waiting and answer[1] == waiting[connection][1]:
                del waiting[connection]


def batches(count: int, port: int) -> Iterator[list[Sleeper]]:
    for first in range(0, count, TOGETHER):
        with ExitStack() as stack:
            clients = [
                Sleeper(number + 1, port) for number in range(first, min(count, first + TOGETHER))
            ]
            for client in clients:
                stack.enter_context(client.socket)
            yield clients
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{first + len(clients)} clients")


def cpu_s(pid: int) -> float:
    """Of all threads."""
    ticks = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def broker_connections(broker_port: int) -> int:
    """Established connections to the broker on this machine."""
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    fields = [line.split() for line in lines]
    to_broker = [each for each in fields if each[2].endswith(f":{broker_port:04X}")]
    return sum(each[3] == ESTABLISHED for each in to_broker)


def idle_percent(pid: int, seconds: float) -> float:
    before, began = cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_s(pid) - before) / (time.monotonic() - began)


def say(what: str, value: str) -> None:
    sys.stdout.write(f"{what:44} {value:>14}\n")
    sys.stdout.flush()


def measure(
    gateway: GatewayProcess, broker: Mosquitto, count: int, seconds: float, joins: Says
) -> None:
    before = resident_bytes(gateway.pid)
    began = time.monotonic()
    repeats = sum(converse(clients, joins) for clients in batches(count, gateway.port))
    say("joined and asleep, clients a second", f"{count / (time.monotonic() - began):,.0f}")
    say("repeats meanwhile", f"{repeats}")
    grown = resident_bytes(gateway.pid) - before
    say("memory of the process before", f"{before / 2**20:.1f} MiB")
    say("memory for each sleeper", f"{grown / count:,.0f} octets")
    say("connections to the broker", f"{broker_connections(broker.port)}")
    say("CPU while all sleep", f"{idle_percent(gateway.pid, seconds):.2f} %")
    for wakers in batches(min(count, TOGETHER), gateway.port):
        began = time.monotonic()
        converse(wakers, Sleeper.wakes)
        say(f"{len(wakers)} wake up together, all answered in", f"{time.monotonic() - began:.3f} s")
    gateway.stop()
    began = time.monotonic()
    gateway.start()
    say("restart until somebody is answered", f"{time.monotonic() - began:.2f} s")
    say("memory after the restart", f"{resident_bytes(gateway.pid) / 2**20:.1f} MiB")
    say("CPU while all sleep", f"{idle_percent(gateway.pid, seconds):.2f} %")


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what very many sleepers cost.")
    parser.add_argument("--clients", type=int, default=CLIENTS, metavar="N")
    parser.add_argument("--seconds", type=float, default=30.0, metavar="S", help="of sleep")
    parser.add_argument("--plain", action="store_true", help="no topics, no filters")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Mosquitto() as broker:
        gateway = GatewayProcess(
            DEFAULT_COMMAND, Path(folder), broker.port, LIMITS, clients_max=given.clients + 10
        )
        gateway.start()
        try:
            joins = Sleeper.joins_plainly if given.plain else Sleeper.joins
            measure(gateway, broker, given.clients, given.seconds, joins)
        finally:
            gateway.kill()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
