"""What very many sleeping clients cost a real gateway: memory, CPU while they sleep, a restart.

    python -m tests.bench.sleepers [--clients N] [--seconds S] [--quick] [--write-docs]

Each client has an address of its own and a session that stays, and sleeps for eighteen hours: in
one run nothing else, in another with one topic registered and a filter of its own. Memory is what
the process grew by, as the system sees it; CPU is that of all its threads while nobody says
anything, in percent of one core: while the broker is told of each for the first time, which takes
half an hour at the pace that is given out, and in a run at a quicker pace when it knows of all.
"""

from __future__ import annotations

import argparse
import os
import selectors
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import framed, u16
from tests.bench import part
from tests.bench.gateway_process import DEFAULT_COMMAND, GatewayProcess
from tests.bench.measurement import MeasurementError
from tests.bench.table import NOTHING, Table, number
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
QUICK_PACE = "[presence]\nmessages_per_s_max = 10000\n"
TOLD_S_MAX = 120.0
LOOK_S = 0.2
ESTABLISHED = "01"  # in /proc/net/tcp
SECONDS, QUICK_SECONDS, QUICK_CLIENTS = 30.0, 1.0, 1000
OCTETS_EACH_MAX, IDLE_PERCENT_MAX = 2048, 1.0


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


def wait_until_told(gateway: GatewayProcess, clients: int) -> None:
    """Until the broker knows of each of them."""
    deadline = time.monotonic() + TOLD_S_MAX
    while gateway.metric("tidegate_said_total") < clients:
        if time.monotonic() > deadline:
            raise MeasurementError(f"the broker was not told of all within {TOLD_S_MAX:.0f} s")
        time.sleep(LOOK_S)


@dataclass(frozen=True, slots=True)
class Kind:
    """What the sleepers do before, and whether the broker knows of them when they are measured."""

    joins: Says
    is_told: bool = False


@dataclass(frozen=True, slots=True)
class Night:
    """What so many sleepers cost."""

    clients: int
    joined_per_s: float
    repeats: int
    octets_each: float
    connections: int
    idle_percent: float
    woken: int
    woken_s: float
    restart_s: float
    idle_after_restart_percent: float
    mib_after_restart: float


def measure(
    gateway: GatewayProcess, broker: Mosquitto, count: int, seconds: float, kind: Kind
) -> Night:
    before = resident_bytes(gateway.pid)
    began = time.monotonic()
    repeats = sum(converse(clients, kind.joins) for clients in batches(count, gateway.port))
    joined_s = time.monotonic() - began
    grown = resident_bytes(gateway.pid) - before
    connections = broker_connections(broker.port)
    if kind.is_told:
        wait_until_told(gateway, count)
    idle = idle_percent(gateway.pid, seconds)
    woken = min(count, TOGETHER)
    for wakers in batches(woken, gateway.port):
        began = time.monotonic()
        converse(wakers, Sleeper.wakes)
        woken_s = time.monotonic() - began
    gateway.stop()
    began = time.monotonic()
    gateway.start()
    return Night(
        clients=count,
        joined_per_s=count / joined_s,
        repeats=repeats,
        octets_each=grown / count,
        connections=connections,
        idle_percent=idle,
        woken=woken,
        woken_s=woken_s,
        restart_s=time.monotonic() - began,
        idle_after_restart_percent=idle_percent(gateway.pid, seconds),
        mib_after_restart=resident_bytes(gateway.pid) / 2**20,
    )


def one_night(count: int, seconds: float, kind: Kind) -> Night:
    with tempfile.TemporaryDirectory() as folder, Mosquitto() as broker:
        gateway = GatewayProcess(
            DEFAULT_COMMAND,
            Path(folder),
            broker.port,
            LIMITS + (QUICK_PACE if kind.is_told else ""),
            has_metrics=True,
            clients_max=count + 10,
        )
        gateway.start()
        try:
            return measure(gateway, broker, count, seconds, kind)
        finally:
            gateway.kill()


KINDS = {
    "plain": Kind(Sleeper.joins_plainly),
    "plain, known to the broker": Kind(Sleeper.joins_plainly, is_told=True),
    "with a topic and a filter of its own": Kind(Sleeper.joins),
}


def table(nights: dict[str, Night]) -> Table:
    """A line for each figure, a column for each night; and what it should be."""
    all_nights = list(nights.values())
    count = all_nights[0].clients

    def line(what: str, shown: Callable[[Night], str], goal: str = NOTHING) -> tuple[str, ...]:
        return (what, *map(shown, all_nights), goal)

    return Table(
        f"{count:,} sleepers",
        ("", *nights, "goal"),
        (
            line("joined and asleep, clients a second", lambda n: number(n.joined_per_s, 0)),
            line("frames repeated meanwhile", lambda n: f"{n.repeats}"),
            line(
                "memory of the process for each, bytes",
                lambda n: _judged(n.octets_each, n.octets_each <= OCTETS_EACH_MAX, 0),
                f"at most {OCTETS_EACH_MAX:,}",
            ),
            line(
                "connections to the broker",
                lambda n: _judged(n.connections, n.connections == 1, 0),
                "1",
            ),
            line(
                "CPU while all sleep, % of a core",
                lambda n: _judged(n.idle_percent, n.idle_percent < IDLE_PERCENT_MAX, 2),
                f"below {IDLE_PERCENT_MAX:g}",
            ),
            line(
                f"{all_nights[0].woken} wake up together, until the last PINGRESP, ms",
                lambda n: number(n.woken_s * 1000, 1),
            ),
            line(
                "stopped and started: until a client is answered, s", lambda n: f"{n.restart_s:.2f}"
            ),
            line(
                "CPU while all sleep, right after the restart, % of a core",
                lambda n: number(n.idle_after_restart_percent, 2),
            ),
            line("memory of the whole process then, MiB", lambda n: number(n.mib_after_restart, 1)),
        ),
    )


def _judged(value: float, is_met: bool, decimals: int) -> str:
    return f"{number(value, decimals)} ({'pass' if is_met else 'FAIL'})"


def result(nights: dict[str, Night]) -> part.Result:
    whole = table(nights)
    judged = replace(whole, lines=tuple(line for line in whole.lines if line[-1] != NOTHING))
    figures = {kind: asdict(night) for kind, night in nights.items()}
    return part.Result((whole,), figures, summary=judged)


def _measure(asked: argparse.Namespace) -> part.Result:
    count = asked.clients or (QUICK_CLIENTS if asked.quick else CLIENTS)
    seconds = asked.seconds or (QUICK_SECONDS if asked.quick else SECONDS)
    nights = {}
    for name, kind in KINDS.items():
        part.say(f"{count:,} sleepers, {name}")
        nights[name] = one_night(count, seconds, kind)
    return result(nights)


def main(words: Sequence[str]) -> int:
    made = part.parser("tests.bench.sleepers", "Measure what very many sleepers cost.")
    made.add_argument("--clients", type=int, metavar="N", help=f"({CLIENTS:,})")
    made.add_argument("--seconds", type=float, metavar="S", help=f"of sleep ({SECONDS:g})")
    return part.run("sleepers", made, words, _measure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
