"""`python -m tests.bench.dtls_cost`: what DTLS adds to a reading, and to the memory of the gateway.

One gateway with a plain listener and one with DTLS; CLIENTS at each publish at QoS 1 in turns, and
what counts is the CPU time of the gateway's process for a message and its PUBACK: the rate that a
processor could serve is the inverse of it. Records are made before the clock runs. Then SESSIONS
more connect, and the memory that each takes is measured.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import tempfile
import time
from pathlib import Path

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_udp_port
from hil.rig.scripted_client import BlockingClient, framed
from tests.support.dtls_client import GCM, DtlsClient, DtlsSocket

CLIENTS = 100
MESSAGES = 100  # of each client, a round
ROUNDS = 4
SESSIONS = 500
KEY = bytes(range(16))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def cpu_s(pid: int) -> float:
    """Of all threads; /proc/PID/stat has hundredths of a second alone."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def connected(port: int, name: str, suite: str | None) -> BlockingClient:
    client = BlockingClient(port, name, retry_s=2.0)
    if suite is not None:
        client.socket = DtlsSocket(  # type: ignore[assignment]
            DtlsClient(name, KEY, suites=suite), client.socket
        )
    client.does(client.connecting(keep_alive_s=600))
    assert client.does(client.registering("t")) == 1
    return client


def plain_socket(client: BlockingClient) -> socket.socket:
    found: socket.socket = getattr(client.socket, "plain", client.socket)
    return found


def publish_all(clients: list[BlockingClient], pid: int) -> float:
    """CPU seconds of the gateway for a message. Each has one message under way."""
    waiting: dict[int, list[bytes]] = {}
    sockets = {}
    for client in clients:
        made = []
        for number in range(1, MESSAGES + 1):
            message = framed(0x0C, b"\x20\x00\x01" + number.to_bytes(2, "big") + b"x" * 30)
            seal = getattr(client.socket, "sealed", bytes)
            made.append(seal(message))
        plain = plain_socket(client)
        sockets[plain.fileno()] = plain
        waiting[plain.fileno()] = made[::-1]
    began = cpu_s(pid)
    for number, plain in sockets.items():
        plain.send(waiting[number].pop())
    left = len(clients) * MESSAGES
    poll = select.epoll()
    for number in sockets:
        poll.register(number, select.EPOLLIN)
    while left:
        ready = poll.poll(20)
        assert ready, f"{left} not acknowledged"
        for number, _ in ready:
            sockets[number].recv(2048)
            left -= 1
            if waiting[number]:
                sockets[number].send(waiting[number].pop())
    return (cpu_s(pid) - began) / (len(clients) * MESSAGES)


def main() -> int:
    suite = sys.argv[1] if len(sys.argv) > 1 else GCM
    plain_port, dtls_port = free_udp_port(), free_udp_port()
    with tempfile.TemporaryDirectory() as folder, Mosquitto() as broker:
        hook = Path(folder) / "hook"
        hook.write_text(f"#!/bin/sh\necho {KEY.hex()}\n")
        hook.chmod(0o755)
        config = (
            f'[[udp]]\nlisten = "127.0.0.1:{plain_port}"\n'
            f'[[udp]]\nlisten = "127.0.0.1:{dtls_port}"\nsecurity = "dtls-psk"\n'
            f'[dtls]\nkey_hook = "{hook}"\nsessions_max = 1000\n'
        )
        with GatewayProcess(Path(folder), broker.url, config) as gateway:
            gateway.wait_until_connected()
            pid = gateway.pid
            plain = [connected(plain_port, f"p{each}", None) for each in range(CLIENTS)]
            dtls = [connected(dtls_port, f"d{each}", suite) for each in range(CLIENTS)]
            costs: dict[str, list[float]] = {"plain": [], "dtls": []}
            for _ in range(ROUNDS):
                costs["plain"].append(publish_all(plain, pid))
                costs["dtls"].append(publish_all(dtls, pid))
            best = {kind: min(found) for kind, found in costs.items()}
            for kind, cost in best.items():
                say(f"{kind}: {cost * 1e6:.1f} us of CPU a message at QoS 1")
            say(f"rate beside plain: {best['plain'] / best['dtls'] * 100:.0f} %")
            before, began = resident_bytes(pid), time.monotonic()
            more = [connected(dtls_port, f"m{each}", suite) for each in range(SESSIONS)]
            each = (resident_bytes(pid) - before) / SESSIONS
            took_s = time.monotonic() - began
            kib, mib = each / 1024, each * 500 / 2**20
            say(f"{kib:.1f} KiB a session with its client, {mib:.0f} MiB for 500")
            say(f"{SESSIONS / took_s:.0f} handshakes a second, each with a question to the hook")
            for client in (*plain, *dtls, *more):
                plain_socket(client).close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
