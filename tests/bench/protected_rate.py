"""`python -m tests.bench.protected_rate`: the rate of protected packets beside that of plain ones.

One gateway, CLIENTS of each kind, which publish at QoS 1 in turns. What counts is the CPU time of
the gateway's process for a message and its PUBACK: the rate that a processor could serve is the
inverse of it. Envelopes are made before the clock runs. Said is the best of the rounds, and the
median of their ratios: of a kind to the plain one of the same round.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from gateway.core.access.device_keys import sender_id_of
from gateway.core.protection.channel import Channel
from gateway.core.protection.envelope import AES_CCM_64, HMAC_SHA256, parse
from gateway.storage.keys.file import change_keys
from gateway.storage.keys.records import NewKey
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import BlockingClient
from tests.bench.dtls_cost import CLIENTS, publish_all, say

ROUNDS = 20
SCHEMES = {"plain": None, "hmac-sha256, 64 bits": HMAC_SHA256, "aes-ccm-64": AES_CCM_64}


class ProtectedSocket:
    """A connected UDP socket whose packets are in envelopes."""

    def __init__(self, name: str, secret: bytes, scheme: int, plain: socket.socket) -> None:
        self.plain = plain
        self._channel = Channel(
            sender_id=sender_id_of(name),
            secret=secret,
            epoch=1,
            random=Random(name).randbytes,
            is_device=True,
            scheme=scheme,
            tag_bytes=8,
        )

    def sealed(self, message: bytes) -> bytes:
        return self._channel.seal(message)

    def send(self, message: bytes) -> None:
        self.plain.send(self.sealed(message))

    def recv(self, size: int) -> bytes:
        while True:
            opened = self._channel.open(parse(self.plain.recv(size)), time.monotonic())
            if opened.reply:
                self.plain.send(opened.reply)
            if opened.packet:
                return opened.packet

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)


def connected(port: int, name: str, secret: bytes, scheme: int | None) -> BlockingClient:
    client = BlockingClient(port, name, retry_s=2.0)
    if scheme is not None:
        client.socket = ProtectedSocket(name, secret, scheme, client.socket)  # type: ignore[assignment]
    client.does(client.connecting(keep_alive_s=600))
    assert client.does(client.registering("t")) == 1
    return client


def main() -> int:
    dice = Random(1)
    names = [[f"k{kind}-{each}" for each in range(CLIENTS)] for kind in range(len(SCHEMES))]
    secrets = {name: dice.randbytes(16) for kind in names for name in kind}
    with tempfile.TemporaryDirectory() as folder, Mosquitto() as broker:
        keys = Path(folder) / "device.keys"
        new = [NewKey(name=name, secret=secret) for name, secret in secrets.items()]
        change_keys(keys, lambda before: before.added(new, time.time()))
        config = f'[security]\nkeys_file = "{keys}"\n'
        with GatewayProcess(Path(folder), broker.url, config) as gateway:
            gateway.wait_until_connected()
            clients = {}
            for found, (kind, scheme) in zip(names, SCHEMES.items(), strict=True):
                one = partial(connected, gateway.port, scheme=scheme)
                clients[kind] = [one(name=name, secret=secrets[name]) for name in found]
            costs: dict[str, list[float]] = {kind: [] for kind in SCHEMES}
            for _ in range(ROUNDS):
                for kind, each in clients.items():
                    costs[kind].append(publish_all(each, gateway.pid))
            for kind, cost in costs.items():
                shares = [plain / one for plain, one in zip(costs["plain"], cost, strict=True)]
                rate = f"{median(shares) * 100:.0f} % of the plain rate"
                say(f"{kind}: {min(cost) * 1e6:.1f} us of CPU a message at QoS 1, {rate}")
            for every in clients.values():
                for client in every:
                    client.socket.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
