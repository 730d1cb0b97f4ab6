"""What nodes ask for, answered at the broker: the time, and the parts of a new application.

    python -m firmware.ota_server --broker HOST[:PORT] [--nodes sensors/+] [--update NODE-N.img]

- It answers on `<node>/set/answer` what is asked on `<node>/ask` (app/link.py, app/ota.py).
- With an image, whose manifest is beside it, it publishes the manifest, retained, on
  `<node>/set/update` for every node that it hears of, and for those that `--node` names. It stays
  there when this ends; `--withdraw` takes it away.

It keeps nothing, and any number of them may run. Limits: a question is answered with at most
PARTS_MAX messages; questions that are none are not answered. PENDING_MAX wait for the broker, then
questions are dropped, and the node asks again.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import logging
import socket
import ssl
import struct
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiomqtt

log = logging.getLogger("ota_server")

TIME, PART = b"T", b"C"
PART_OCTETS = 192
PARTS_MAX = 32
TIME_QUESTION_OCTETS = 5
QUESTION = struct.Struct(">c4sIB")
MANIFEST = struct.Struct(">2sII32s32s")
NODES = "sensors/+"
MQTT_PORT = 1883
PORT_MAX = 65_535
RECONNECT_S = 5.0
PENDING_MAX = 1_000
EXIT_UNAVAILABLE = 69
EXIT_DATA = 65


class ImageError(Exception):
    """The image or its manifest is not what it should be; the text says what to do."""


class OtaServerError(Exception):
    """The broker does not do what was asked of it; the text says which, and what it said."""


@dataclass(frozen=True, slots=True)
class Update:
    image: bytes
    manifest: bytes
    number: int
    digest: bytes

    @classmethod
    def read(cls, path: Path) -> Update:
        beside = path.with_suffix(".manifest")
        try:
            image, manifest = path.read_bytes(), beside.read_bytes()
        except OSError as error:
            how = "make it with  python -m firmware.image --number N --key-file FILE"
            raise ImageError(f"{error.filename}: {error.strerror}; {how}") from None
        if len(manifest) != MANIFEST.size:
            raise ImageError(f"{beside}: {len(manifest)} octets, a manifest has {MANIFEST.size}")
        _, number, octets, digest, _ = MANIFEST.unpack(manifest)
        if octets != len(image):
            raise ImageError(f"{beside} is of another image: {octets} octets, not {len(image)}")
        return cls(image, manifest, number, digest)


@dataclass(slots=True)
class OtaServer:
    """Answers; no I/O."""

    update: Update | None
    offered: set[str] = field(default_factory=set)  # nodes that have the manifest

    def answers(self, question: bytes, unix_ms: int) -> list[bytes]:
        if question[:1] == TIME and len(question) == TIME_QUESTION_OCTETS:
            return [question + unix_ms.to_bytes(8, "big")]
        if question[:1] == PART and len(question) == QUESTION.size and self.update is not None:
            _, digest, at, parts = QUESTION.unpack(question)
            if digest == self.update.digest[:4]:
                return [self._part(start) for start in self._starts(at, parts)]
        return []

    def offer(self, node: str) -> bytes | None:
        """The manifest, the first time that this node is heard of."""
        if self.update is None or node in self.offered:
            return None
        self.offered.add(node)
        return self.update.manifest

    def _starts(self, at: int, parts: int) -> range:
        assert self.update is not None
        end = min(len(self.update.image), at + min(parts, PARTS_MAX) * PART_OCTETS)
        return range(at, end, PART_OCTETS)

    def _part(self, at: int) -> bytes:
        assert self.update is not None
        head = PART + self.update.digest[:4] + at.to_bytes(4, "big")
        return head + self.update.image[at : at + PART_OCTETS]


def password_in(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise OSError(errno.EINVAL, "it is no text", str(path)) from None


def client(asked: argparse.Namespace) -> aiomqtt.Client:
    """Raises OSError when a file cannot be read, or is none."""
    import aiomqtt

    host, port = asked.broker
    return aiomqtt.Client(
        host,
        port,
        username=asked.username,
        password=asked.password_file and password_in(asked.password_file),
        tls_context=asked.ca_file and ssl.create_default_context(cafile=asked.ca_file),
        max_queued_incoming_messages=PENDING_MAX,
        socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],  # nodes wait for an answer
    )


async def serve(server: OtaServer, asked: argparse.Namespace) -> None:
    """Until the connection breaks."""
    async with client(asked) as broker:
        log.info("broker %s:%d is there", *asked.broker)
        server.offered.clear()
        for node in asked.node:
            await _offer(broker, server, node)
        await broker.subscribe([(f"{asked.nodes}{end}", 1) for end in ("", "/ask", "/state")])
        async for message in broker.messages:
            topic = str(message.topic)
            node = topic.removesuffix("/ask").removesuffix("/state")
            await _offer(broker, server, node)
            if topic.endswith("/ask") and isinstance(message.payload, bytes):
                for answer in server.answers(message.payload, time.time_ns() // 1_000_000):
                    await broker.publish(f"{node}/set/answer", answer, qos=1)
            elif topic.endswith("/state") and isinstance(message.payload, bytes):
                log.info("%s says %s", node, message.payload.decode(errors="replace"))


async def _offer(broker: aiomqtt.Client, server: OtaServer, node: str) -> None:
    manifest = server.offer(node)
    if manifest is not None:
        await broker.publish(f"{node}/set/update", manifest, qos=1, retain=True)
        log.info("%s is offered %d", node, server.update.number if server.update else 0)


async def withdraw(asked: argparse.Namespace) -> None:
    """Every manifest that the broker has retained."""
    async with client(asked) as broker:
        await broker.subscribe(f"{asked.nodes}/set/update", 1)
        try:
            async with asyncio.timeout(2.0):
                async for message in broker.messages:
                    if message.retain:
                        await broker.publish(str(message.topic), b"", qos=1, retain=True)
                        log.info("%s is withdrawn", message.topic)
        except TimeoutError:
            log.info("no more of them")


async def run(server: OtaServer, asked: argparse.Namespace) -> None:
    import aiomqtt

    while True:
        try:
            if asked.withdraw:
                return await withdraw(asked)
            await serve(server, asked)
        except aiomqtt.MqttError as error:
            if asked.withdraw:
                raise OtaServerError("broker {}:{}: {}".format(*asked.broker, error)) from None
            log.warning("broker %s:%d: %s; again in %d s", *asked.broker, error, RECONNECT_S)
        await asyncio.sleep(RECONNECT_S)


def host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.removeprefix("mqtt://").partition(":")
    if not host or (colon and not (port.isdecimal() and 0 < int(port) <= PORT_MAX)):
        raise argparse.ArgumentTypeError(f"{text} is no HOST or HOST:PORT")
    return host, int(port or MQTT_PORT)


def nodes(text: str) -> str:
    if not text or "#" in text or any(len(part) > 1 and "+" in part for part in text.split("/")):
        raise argparse.ArgumentTypeError(f"{text} is no filter of nodes; it is like {NODES}")
    return text


def node(text: str) -> str:
    if not text or "#" in text or "+" in text:
        raise argparse.ArgumentTypeError(f"{text} is no topic of one node")
    return text


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="python -m firmware.ota_server",
        description="Answer nodes that ask for the time or for an update, at the broker.",
    )
    found.add_argument("--broker", type=host_and_port, default=("127.0.0.1", MQTT_PORT),
                       metavar="HOST[:PORT]")  # fmt: skip
    found.add_argument("--username")
    found.add_argument("--password-file", type=Path)
    found.add_argument("--ca-file", type=Path, help="TLS to the broker; who signed its certificate")
    found.add_argument(
        "--nodes",
        type=nodes,
        default=NODES,
        metavar="FILTER",
        help=f"their topics, a filter; default: {NODES}",
    )
    found.add_argument("--node", type=node, action="append", default=[], metavar="TOPIC",
                       help="offer the update to this one, before it was heard")  # fmt: skip
    found.add_argument("--update", type=Path, metavar="IMAGE", help="made by firmware.image")
    found.add_argument("--withdraw", action="store_true", help="take all manifests away, and end")
    return found


def main() -> int:
    asked = parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    try:
        server = OtaServer(Update.read(asked.update) if asked.update else None)
    except ImageError as error:
        print(error, file=sys.stderr)
        return EXIT_DATA
    try:
        asyncio.run(run(server, asked))
    except ModuleNotFoundError as error:
        print(f'{error.name} is not installed:  pip install "tidegate[demo]"', file=sys.stderr)
        return EXIT_UNAVAILABLE
    except OSError as error:  # of a file; the network's are MqttError
        print(f"{error.filename or asked.ca_file}: {error.strerror or error}", file=sys.stderr)
        return EXIT_DATA
    except OtaServerError as error:
        print(f"nothing was withdrawn: {error}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
