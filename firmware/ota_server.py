"""What nodes ask for, answered at the broker: the time, and the parts of a new application.

    python -m firmware.ota_server --broker HOST[:PORT] [--nodes sensors/+]
                                  [--update NODE-N.img [--on-request]]

- It answers on `<node>/set/answer` what is asked on `<node>/ask` (app/link.py, app/ota.py).
- With an image, whose manifest is beside it, it publishes the manifest, retained, on
  `<node>/set/update` for every node that it hears of, and for those that `--node` names. It stays
  there when this ends; `--withdraw` takes it away.
- With `--on-request` it does that for a node when `install` came on `<node>/install`.
- On `<node>/update` it publishes how far each node's update is, retained (update_entity.py).

It keeps nothing, and any number of them may run. It has one connection, to the broker, and listens
on none. Topics and payloads are from outside: who may publish them, the broker decides.

Limits: a question is answered with at most PARTS_MAX messages; questions that are none are not
answered. A node gets PARTS_PER_S messages a second, PARTS_AT_ONCE after a rest; a question beyond
that is dropped, and the node asks again. One message is under way to the broker, for PUBLISH_S_MAX
at most, then the connection is made again. PENDING_MAX messages of PACKET_BYTES_MAX wait to be
looked at; the broker keeps back larger ones. NODES_MAX nodes are offered an update and counted;
beyond that further ones are not offered it, and the one that asked the longest ago is forgotten.
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
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from firmware.update_entity import Outcome, UpdateEntities, is_document, parsed

if TYPE_CHECKING:
    import aiomqtt

log = logging.getLogger("ota_server")

TIME, PART = b"T", b"C"
PART_OCTETS = 192
PARTS_MAX = 32
TIME_QUESTION_OCTETS = 5
INSTALL = b"install"
QUESTION = struct.Struct(">c4sIB")
MANIFEST = struct.Struct(">2sII32s32s")
NODES = "sensors/+"
MQTT_PORT = 1883
PORT_MAX = 65_535
RECONNECT_S = 5.0
PENDING_MAX = 1_000
PACKET_BYTES_MAX = 16 << 10  # a node's longest frame is 400 bytes
PUBLISH_S_MAX = 10.0
PARTS_PER_S = 500.0  # ten times what a node takes by UDP
PARTS_AT_ONCE = 1_000.0
NODES_MAX = 10_000
DROPPED_LOG_S = 60.0
SHOWN_LENGTH_MAX = 400
IMAGE_BYTES_MAX = 256 << 10  # app/ota.py
WITHDRAW_S = 2.0  # without another manifest
EXIT_UNAVAILABLE = 69
NOT_INSTALLED = "is not installed:  make setup, then .venv/bin/python in place of this one"
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
        how = "make it with  python -m firmware.image --number N --key-file FILE"
        try:
            image = _start_of(path, IMAGE_BYTES_MAX + 1)
            manifest = _start_of(beside, MANIFEST.size + 1)
        except OSError as error:
            raise ImageError(f"{error.filename}: {error.strerror}; {how}") from None
        if len(image) > IMAGE_BYTES_MAX:
            raise ImageError(f"{path} is larger than the {IMAGE_BYTES_MAX} bytes that a node takes")
        if len(manifest) != MANIFEST.size:
            raise ImageError(f"{beside} is no manifest, which has {MANIFEST.size} bytes: {how}")
        _, number, octets, digest, _ = MANIFEST.unpack(manifest)
        if octets != len(image):
            raise ImageError(f"{beside} is of another image: {octets} bytes, not {len(image)}")
        return cls(image, manifest, number, digest)


def _start_of(path: Path, bytes_max: int) -> bytes:
    with path.open("rb") as file:
        return file.read(bytes_max)


@dataclass(slots=True)
class Allowance:
    """How many messages each node may have; time is an argument."""

    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def take(self, node: str, messages: int, now: float) -> bool:
        """False, and nothing is taken, if it is too much."""
        left, at = self._left.pop(node, (PARTS_AT_ONCE, now))
        left = min(PARTS_AT_ONCE, left + (now - at) * PARTS_PER_S)
        is_allowed = messages <= left
        self._left[node] = (left - messages if is_allowed else left, now)
        if len(self._left) > NODES_MAX:
            self._left.popitem(last=False)
        return is_allowed


@dataclass(slots=True)
class OtaServer:
    """Answers; no I/O. `dropped`: questions beyond what a node may ask."""

    update: Update | None
    on_request: bool = False
    offered: set[str] = field(default_factory=set)  # nodes that have the manifest
    allowance: Allowance = field(default_factory=Allowance)
    dropped: int = 0
    entities: UpdateEntities = field(default_factory=UpdateEntities)

    def __post_init__(self) -> None:
        if self.update is not None:
            number, size = self.update.number, len(self.update.image)
            self.entities = UpdateEntities(number, size, self.update.manifest, self.on_request)

    def answers_to(self, node: str, question: bytes, unix_ms: int, now: float) -> list[bytes]:
        """Within what this node may have."""
        answers = self.answers(question, unix_ms)
        if not answers or self.allowance.take(node, len(answers), now):
            return answers
        self.dropped += 1
        return []

    def answers(self, question: bytes, unix_ms: int) -> list[bytes]:
        if question[:1] == TIME and len(question) == TIME_QUESTION_OCTETS:
            return [question + unix_ms.to_bytes(8, "big")]
        if question[:1] == PART and len(question) == QUESTION.size and self.update is not None:
            _, digest, at, parts = QUESTION.unpack(question)
            if digest == self.update.digest[:4]:
                return [self._part(start) for start in self._starts(at, parts)]
        return []

    def asked_from(self, question: bytes) -> int | None:
        """From which byte of the image on, where it is that."""
        if question[:1] != PART or len(question) != QUESTION.size or self.update is None:
            return None
        _, digest, at, _ = QUESTION.unpack(question)
        return int(at) if digest == self.update.digest[:4] else None

    def offer(self, node: str) -> bytes | None:
        """The manifest, the first time that this node is heard of."""
        if (
            self.update is None
            or self.on_request
            or node in self.offered
            or len(self.offered) >= NODES_MAX
        ):
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


def _trusting(ca_file: Path | None) -> ssl.SSLContext | None:
    if ca_file is None:
        return None
    context = ssl.create_default_context(cafile=ca_file)
    # Python 3.13 sets it; the usual home-made authority names no key usage.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def client(asked: argparse.Namespace) -> aiomqtt.Client:
    """Raises OSError when a file cannot be read, or is none."""
    import aiomqtt
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    host, port = asked.broker
    limits = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    limits.MaximumPacketSize = PACKET_BYTES_MAX
    return aiomqtt.Client(
        host,
        port,
        username=asked.username,
        password=asked.password_file and password_in(asked.password_file),
        tls_context=_trusting(asked.ca_file),
        protocol=aiomqtt.ProtocolVersion.V5,
        properties=limits,
        timeout=PUBLISH_S_MAX,
        max_queued_incoming_messages=PENDING_MAX,
        socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],  # nodes wait for an answer
    )


async def serve(server: OtaServer, asked: argparse.Namespace) -> None:
    """Until the connection breaks."""
    async with client(asked) as broker:
        log.info("connected to broker %s:%d", *asked.broker)
        server.offered.clear()
        server.entities.reconnected()
        for node in asked.node:
            await _offer(broker, server, node)
        # What an earlier run retained comes before what nodes did.
        before = ("/update", "/set/update") if server.on_request else ("/update",)
        await broker.subscribe([(asked.nodes + end, 1) for end in before])
        ends = ("", "/ask", "/state") + (("/install",) if server.on_request else ())
        await broker.subscribe([(asked.nodes + end, 1) for end in ends])
        dropped = DroppedLog(server)
        async for message in broker.messages:
            payload = message.payload if isinstance(message.payload, bytes) else b""
            node, end = parts_of(str(message.topic), asked.nodes)
            if end in ("update", "set/update"):
                if message.retain:  # else it is our own
                    await _found(broker, server, node, end, payload)
                continue
            await _offer(broker, server, node)
            now = time.monotonic()
            if end == "ask":
                await _answer(broker, server, node, payload, now)
                dropped.look(node, now)
            elif end == "state":
                log.info("%s says %s", shown(node), shown(payload.decode(errors="replace")))
                await _publish(broker, node, server.entities.state_heard(node, payload, now))
            elif end == "install" and payload == INSTALL and not message.retain:
                log.info("%s is to install %d", shown(node), server.entities.number)
                await _publish(broker, node, server.entities.install_asked(node, now))


def parts_of(topic: str, nodes: str) -> tuple[str, str]:
    """The node's topic, which has as many levels as the filter, and what is behind."""
    levels = topic.split("/")
    count = nodes.count("/") + 1
    return "/".join(levels[:count]), "/".join(levels[count:])


async def _answer(
    broker: aiomqtt.Client, server: OtaServer, node: str, question: bytes, now: float
) -> None:
    unix_ms = time.time_ns() // 1_000_000
    answers = server.answers_to(node, question, unix_ms, now)
    for answer in answers:
        await broker.publish(f"{node}/set/answer", answer, qos=1)
    at = server.asked_from(question)
    if answers and at is not None:
        await _publish(broker, node, server.entities.part_asked(node, at, now))


async def _found(
    broker: aiomqtt.Client, server: OtaServer, node: str, end: str, payload: bytes
) -> None:
    if end == "update":
        server.entities.document_found(node, payload)
    else:
        await _publish(broker, node, server.entities.manifest_found(node, payload))


async def _publish(broker: aiomqtt.Client, node: str, outcome: Outcome) -> None:
    if outcome.manifest is not None:
        await broker.publish(f"{node}/set/update", outcome.manifest, qos=1, retain=True)
        log.info("%s %s", shown(node), "is offered it" if outcome.manifest else "has no offer")
    if outcome.document is not None:
        await broker.publish(f"{node}/update", outcome.document, qos=1, retain=True)


def shown(text: str) -> str:
    """What came from outside, on one line of a log."""
    start = text[:SHOWN_LENGTH_MAX]
    plain = start if start.isprintable() else ascii(start)
    return plain if len(text) <= SHOWN_LENGTH_MAX else f"{plain}... ({len(text)} characters)"


class DroppedLog:
    """A line at most each DROPPED_LOG_S."""

    def __init__(self, server: OtaServer) -> None:
        self._server = server
        self._logged = server.dropped
        self._due_at = 0.0

    def look(self, node: str, now: float) -> None:
        new = self._server.dropped - self._logged
        if new and now >= self._due_at:
            self._logged, self._due_at = self._server.dropped, now + DROPPED_LOG_S
            log.warning("%d questions were too many and dropped, last of %s", new, shown(node))


async def _offer(broker: aiomqtt.Client, server: OtaServer, node: str) -> None:
    manifest = server.offer(node)
    if manifest is not None:
        await broker.publish(f"{node}/set/update", manifest, qos=1, retain=True)
        log.info("%s is offered %d", shown(node), server.update.number if server.update else 0)
        if len(server.offered) == NODES_MAX:
            log.warning("%d nodes were offered the update: further ones are not", NODES_MAX)


async def withdraw(asked: argparse.Namespace) -> None:
    """Every manifest that the broker has retained, and what we published of updates."""
    async with client(asked) as broker:
        await broker.subscribe([(f"{asked.nodes}/set/update", 1), (f"{asked.nodes}/update", 1)])
        try:
            async with asyncio.timeout(WITHDRAW_S) as limit:
                async for message in broker.messages:
                    if message.retain and _is_ours(message, asked.nodes):
                        await broker.publish(str(message.topic), b"", qos=1, retain=True)
                        log.info("%s is withdrawn", shown(str(message.topic)))
                        limit.reschedule(asyncio.get_running_loop().time() + WITHDRAW_S)
        except TimeoutError:
            log.info("no more of them")


def _is_ours(message: aiomqtt.Message, nodes: str) -> bool:
    if parts_of(str(message.topic), nodes)[1] == "set/update":
        return True
    return isinstance(message.payload, bytes) and is_document(parsed(message.payload))


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
            log.warning(
                "broker %s:%d unreachable: %s (retry in %d s)", *asked.broker, error, RECONNECT_S
            )
        await asyncio.sleep(RECONNECT_S)


def host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.removeprefix("mqtt://").partition(":")
    if not host or (colon and not port.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text} is no HOST or HOST:PORT")
    if colon and not 0 < int(port[:6]) <= PORT_MAX:
        raise argparse.ArgumentTypeError(f"port {port[:20]} is none from 1 to {PORT_MAX}")
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
    found.add_argument("--on-request", action="store_true",
                       help="offer it when `install` comes on a node's .../install")  # fmt: skip
    found.add_argument("--withdraw", action="store_true", help="take all manifests away, and end")
    return found


def main() -> int:
    asked = parser().parse_args()
    if asked.on_request and asked.node:
        parser().error("--node offers at once, --on-request does not: use one of them")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    try:
        server = OtaServer(Update.read(asked.update) if asked.update else None, asked.on_request)
    except ImageError as error:
        print(error, file=sys.stderr)
        return EXIT_DATA
    try:
        asyncio.run(run(server, asked))
    except ModuleNotFoundError as error:
        print(f"{error.name} {NOT_INSTALLED}", file=sys.stderr)
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
