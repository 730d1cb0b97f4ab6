"""An MQTT-SN 1.2 sensor on aioudp, written by the specification alone; `python.py` of the kinds
starts it as a process. It measures, stores, publishes at QoS 1, fetches what came, and sleeps.

    python -m hil.boards.python.client FOLDER      settings in FOLDER/settings.json

A reading is on disk before it is sent and until it is acknowledged. What is not answered is sent
again under the same message id, PUBLISH with DUP; after DISCONNECT it connects again.

aioudp is GPL and therefore only in the development dependencies.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import aioudp
import cbor2
from aioudp.exceptions import ConnectionClosedError

CONNECT, CONNACK = 0x04, 0x05
REGISTER, REGACK, PUBLISH, PUBACK = 0x0A, 0x0B, 0x0C, 0x0D
SUBSCRIBE, SUBACK, PINGREQ, PINGRESP, DISCONNECT = 0x12, 0x13, 0x16, 0x17, 0x18
DUP, QOS_1 = 0x80, 0x20
ACCEPTED, INVALID_TOPIC_ID = 0, 2
KEEP_ALIVE_S, SLEEP_S = 60, 70
TRIES = 4
LEAST = {CONNACK: 1, REGISTER: 5, REGACK: 5, PUBLISH: 5, PUBACK: 5, SUBACK: 6}


class ForgottenError(Exception):
    """The gateway does not know us, or not the topic."""


class NoAnswerError(Exception):
    """No answer; try next time."""


class Store:
    """Two numbers in files: the last reading, and the last that was acknowledged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.last, self.sent = self._load("last"), self._load("sent")

    def add(self) -> None:
        self.last += 1
        self._save("last", self.last)
        sys.stdout.write(f"stored {self.last}\n")
        sys.stdout.flush()

    def acknowledge(self, number: int) -> None:
        self.sent = number
        self._save("sent", number)

    def _load(self, name: str) -> int:
        path = self._folder / name
        return int(path.read_text()) if path.exists() else 0

    def _save(self, name: str, number: int) -> None:
        beside = self._folder / f"{name}.new"
        beside.write_text(str(number))
        beside.rename(self._folder / name)


def u16(number: int) -> bytes:
    return number.to_bytes(2, "big")


def payload(device: str, number: int) -> bytes:
    """The same at each try."""
    x = random.Random(number).getrandbits(20)
    head = {-2: f"{device}/", 0: "seq", 2: number}
    return cbor2.dumps([head, {0: "x", 2: x}, {0: "check", 2: x * 7919 % 10007}])


class Sensor:
    def __init__(self, settings: dict[str, Any], store: Store) -> None:
        self._settings = settings
        self._id: str = settings["id"]
        self._store = store
        self._message_id = random.getrandbits(16)
        self._topic_id = self._commands_id = 0  # 0: not registered yet
        self._link: Any = None

    async def run(self) -> None:
        address = self._settings["host"], self._settings["port"]
        while True:
            async with aioudp.connect(*address) as self._link:
                with suppress(ConnectionClosedError, OSError):
                    while True:
                        self._store.add()
                        await self._run_wake()
                        await asyncio.sleep(self._settings["pause_s"])
            await asyncio.sleep(self._settings["pause_s"])

    async def _run_wake(self) -> None:
        with suppress(NoAnswerError):
            for _ in range(2):
                try:
                    await self._exchange()
                    return
                except ForgottenError:
                    self._topic_id = 0

    async def _exchange(self) -> None:
        if not self._topic_id:
            await self._connect()
        while self._store.sent < self._store.last:
            number = self._store.sent + 1
            body = u16(self._topic_id) + self._next_id() + payload(self._id, number)
            answer = await self._request(PUBLISH, bytes((QOS_1,)) + body, PUBACK)
            if answer[4] == INVALID_TOPIC_ID:
                raise ForgottenError
            if answer[4] != ACCEPTED:
                raise NoAnswerError  # congestion: next time
            self._store.acknowledge(number)
        await self._request(PINGREQ, self._id.encode(), PINGRESP)

    async def _connect(self) -> None:
        await self._request(CONNECT, b"\0\1" + u16(KEEP_ALIVE_S) + self._id.encode(), CONNACK)
        commands = self._settings["topic"].encode() + b"/set"
        body = bytes((QOS_1,)) + self._next_id() + commands
        self._commands_id = int.from_bytes(
            (await self._request(SUBSCRIBE, body, SUBACK))[1:3], "big"
        )
        body = u16(0) + self._next_id() + self._settings["topic"].encode()
        self._topic_id = int.from_bytes((await self._request(REGISTER, body, REGACK))[:2], "big")
        await self._request(DISCONNECT, u16(SLEEP_S), DISCONNECT)

    async def _request(self, kind: int, body: bytes, awaited: int) -> bytes:
        """The answer's body."""
        for attempt in range(TRIES):
            if attempt and kind == PUBLISH:
                body = bytes((body[0] | DUP,)) + body[1:]
            await self._send(kind, body)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings["retry_ms"] / 1000):
                    while True:
                        received, content = await self._receive()
                        if received == awaited and self._is_mine(received, content):
                            return content
                        await self._reply(received, content)
        raise NoAnswerError

    def _is_mine(self, kind: int, body: bytes) -> bool:
        match kind:
            case 0x0B | 0x0D:  # REGACK, PUBACK
                return body[2:4] == u16(self._message_id)
            case 0x13:  # SUBACK
                return body[3:5] == u16(self._message_id)
        return True

    async def _reply(self, kind: int, body: bytes) -> None:
        if kind == DISCONNECT:
            raise ForgottenError
        if kind == REGISTER:
            await self._send(REGACK, body[:4] + b"\0")
        elif kind == PUBLISH and body[0] & QOS_1:
            await self._send(PUBACK, body[1:5] + b"\0")

    async def _send(self, kind: int, body: bytes) -> None:
        await self._link.send(bytes((len(body) + 2, kind)) + body)

    async def _receive(self) -> tuple[int, bytes]:
        """The next frame that is one; ours are short."""
        while True:
            datagram: bytes = await self._link.recv()
            if len(datagram) > 1 and datagram[0] == len(datagram):
                kind, body = datagram[1], datagram[2:]
                if len(body) >= LEAST.get(kind, 0):
                    return kind, body

    def _next_id(self) -> bytes:
        self._message_id = self._message_id % 0xFFFF + 1
        return u16(self._message_id)


def main() -> None:
    folder = Path(sys.argv[1])
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    asyncio.run(Sensor(settings, Store(folder)).run())


if __name__ == "__main__":
    main()
