"""An MQTT-SN 1.2 sensor on aioudp: the scripted client, which is written by the specification
alone; `python.py` of the kinds starts it as a process. It measures, stores, publishes at QoS 1,
fetches what came, and sleeps.

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

from hil.rig.scripted_client import (
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBLISH,
    REGACK,
    REGISTER,
    Script,
    Steps,
    T,
    again,
    framed,
    id_in,
    opened,
    u16,
)

QOS_1 = 0x20
ACCEPTED, INVALID_TOPIC_ID = 0, 2
KEEP_ALIVE_S, SLEEP_S = 60, 70
TRIES = 4


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


def payload(device: str, number: int) -> bytes:
    """The same at each try."""
    x = random.Random(number).getrandbits(20)
    head = {-2: f"{device}/", 0: "seq", 2: number}
    return cbor2.dumps([head, {0: "x", 2: x}, {0: "check", 2: x * 7919 % 10007}])


class Sensor(Script):
    def __init__(self, settings: dict[str, Any], store: Store) -> None:
        super().__init__(settings["id"])
        self._settings = settings
        self._store = store
        self._message_id = random.getrandbits(16)
        self._topic_id = 0  # not registered yet
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
            body = bytes((QOS_1,)) + u16(self._topic_id) + u16(self.next_id())
            answer = await self._request(PUBLISH, body + payload(self.client_id, number), PUBACK)
            if answer[4] == INVALID_TOPIC_ID:
                raise ForgottenError
            if answer[4] != ACCEPTED:
                raise NoAnswerError  # congestion: next time
            self._store.acknowledge(number)
        await self._request(PINGREQ, self.client_id.encode(), PINGRESP)

    async def _connect(self) -> None:
        topic: str = self._settings["topic"]
        await self._does(self.connecting(clean=False, keep_alive_s=KEEP_ALIVE_S))
        await self._does(self.subscribing(topic.encode() + b"/set", qos=1))
        self._topic_id = await self._does(self.registering(topic))
        await self._does(self.leaving(SLEEP_S))

    async def _does(self, steps: Steps[T]) -> T:
        try:
            kind, body, answer = next(steps)
            while True:
                assert answer is not None
                kind, body, answer = steps.send(await self._request(kind, body, answer))
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]
        except AssertionError as refused:
            raise NoAnswerError from refused  # congestion: next time

    async def _request(self, kind: int, body: bytes, awaited: int) -> bytes:
        """The answer's body."""
        for attempt in range(TRIES):
            await self._link.send(framed(kind, again(kind, body) if attempt else body))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings["retry_ms"] / 1000):
                    while True:
                        heard, content = await self._receive()
                        if heard == awaited and id_in(heard, content) == id_in(kind, body):
                            return content
                        await self._reply(heard, content)
        raise NoAnswerError

    async def _reply(self, kind: int, body: bytes) -> None:
        if kind == DISCONNECT:
            raise ForgottenError
        if kind == REGISTER:
            await self._link.send(framed(REGACK, body[:4] + b"\0"))
        elif kind == PUBLISH and body[0] & QOS_1:
            await self._link.send(framed(PUBACK, body[1:5] + b"\0"))

    async def _receive(self) -> tuple[int, bytes]:
        """The next frame that is one."""
        while True:
            datagram: bytes = await self._link.recv()
            with suppress(AssertionError, IndexError):
                return opened(datagram)


def main() -> None:
    folder = Path(sys.argv[1])
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    asyncio.run(Sensor(settings, Store(folder)).run())


if __name__ == "__main__":
    main()
