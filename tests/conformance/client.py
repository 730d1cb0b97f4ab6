"""A client "dev1" of a real engine, in each state that the gateway knows, and what comes of what
it says there.

It is subscribed to a/b (topic id 1) and w/+ in a session that stays; what waits for it was sent
while it was active. One that is awake always has a message under way, or it would sleep again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mqtt5

from gateway.core.addresses import address_behind
from gateway.core.clients.qos_minus_one import QosMinusOneOptions
from gateway.core.effects import Dropped
from gateway.core.options import EngineOptions
from gateway.core.session.options import PredefinedTopics
from gateway.core.state_records import State
from gateway.core.values import Peer
from gateway.frames import (
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Publish,
    Pubrec,
    Subscribe,
    WillMsgUpd,
    WillTopic,
    WillTopicUpd,
    encode,
)
from hil.rig.scripted_client import framed
from tests.conformance.matrix import TYPE_NAMED, Outcome
from tests.support.engine_bench import UPSTREAM
from tests.support.state_bench import StateBench

STATES = (
    "stranger", "disconnected", "topic-due", "message-due", "active", "asleep", "awake", "lost",
)  # fmt: skip
BEFORE = ("-", "qos1", "qos2", "released", "register", "reading", "will")
HERE = b"here"
# A quarter of an hour in which every alarm is handled has few pings then.
AT_BROKER = replace(UPSTREAM, keep_alive_s=600)


def options(*, allow_trailing_octets: bool = True) -> EngineOptions:
    return EngineOptions(
        AT_BROKER,
        qos_minus_one=QosMinusOneOptions(allow=True),
        predefined=PredefinedTopics.of({"sensors/boot": 7}),
        allow_trailing_octets=allow_trailing_octets,
        saves=True,
    )


class GatewayBench(StateBench):
    """A gateway as it is run, saving what it promises, with a disk as fast as can be, and a broker
    that is alive for longer than a keep-alive.
    """

    def answer(self, packet: Any) -> None:
        if isinstance(packet, mqtt5.PingReqPacket):
            self.from_broker(mqtt5.PingRespPacket().write())
        super().answer(packet)


class Client:
    """`envelope`: the head of the encapsulation, if it is the node of a forwarder."""

    def __init__(
        self, state: str, before: str = "-", *, strict: bool = False, envelope: bytes = b""
    ) -> None:
        self._envelope = envelope
        self.at = address_behind(HERE, envelope[3:]) if envelope else HERE
        self.bench = GatewayBench(options(allow_trailing_octets=not strict))
        self.bench.ask(self.bench.engine.discovery.set_serving(None, 0.0))
        if state != "stranger":
            self._connect()
            self._prepare(before, state)
            self._enter(state)
        assert self.state() == state
        self.bench.seen()
        self.bench.hear(self.at)
        self.bench.news.clear()

    def _connect(self) -> None:
        self._say(Connect(b"dev1", 60))
        self._say(Subscribe(1, b"a/b", 2), Subscribe(2, b"w/+", 2))

    def _prepare(self, before: str, state: str) -> None:
        bench = self.bench
        if before == "will":
            self._say(WillTopicUpd(b"lw/d"), WillMsgUpd(b"bye"))
        if before == "reading":
            self._say(Publish(1, 9, b"z", qos=2))
        if before == "register":
            bench.publishes("w/x", qos=1, by="w/+")
        if before in ("qos2", "released"):
            bench.publishes("a/b", qos=2)
        elif before == "qos1" or (state == "awake" and before != "register"):
            bench.publishes("a/b", qos=1)
        if before == "released":
            self._say(Pubrec(1))

    def _enter(self, state: str) -> None:
        will = Connect(b"dev1", 60, will=True)
        way: dict[str, list[Frame]] = {
            "disconnected": [Disconnect()],
            "topic-due": [Disconnect(), will],
            "message-due": [Disconnect(), will, WillTopic(b"lw/d", 1)],
            "asleep": [Disconnect(600)],
            "awake": [Disconnect(600), Pingreq(b"dev1")],
        }
        self._say(*way.get(state, []))
        if state == "lost":
            self.bench.wake(90.0)

    def _say(self, *frames: Frame) -> None:
        for frame in frames:
            self._bring(encode(frame))

    def _bring(self, datagram: bytes) -> list[Frame]:
        """What it hears at once; a forwarder brings the whole datagram, as it came."""
        heard = self.bench.say_octets(HERE, self._envelope + datagram)
        return self.bench.hear(self.at) if self._envelope else heard

    # What it comes to

    def state(self) -> str:
        session = self.bench.engine.sessions.get("dev1")  # type: ignore[call-overload]
        if session is None:
            return self._called()
        if session.state is State.CONNECTING:
            return "message-due" if session._open_will_handshake().is_named else "topic-due"
        return str(session.state.value)

    def _called(self) -> str:
        """One whose CONNECT was answered and who has said nothing since has no session yet."""
        caller = self.bench.engine._acceptor.half_open.at(Peer(0, self.at))
        if caller is None or caller.client_id != "dev1":
            return "stranger"
        return "topic-due" if caller.will else "active"

    def says(self, datagram: bytes) -> Outcome:
        before = self.state()
        heard = self._bring(datagram)
        follows = self.state()
        drops = [drop.reason.value for drop in self.bench.told(Dropped)]
        return (
            in_words([encode(frame) for frame in heard]),
            "=" if follows == before else follows,
            ", ".join(drops) or "-",
            ", ".join(self._passed_on()) or "-",
        )

    def _passed_on(self) -> list[str]:
        words: list[str] = []
        for packet in self.bench.seen():
            if isinstance(packet, mqtt5.PublishPacket):
                words.append(f"PUBLISH {packet.topic}")
            elif isinstance(packet, mqtt5.SubscribePacket):
                words += [f"SUBSCRIBE {each.pattern}" for each in packet.topic_filters]
            elif isinstance(packet, mqtt5.UnsubscribePacket):
                words += [f"UNSUBSCRIBE {pattern}" for pattern in packet.patterns]
        return list(dict.fromkeys(words))


NAMES = {kind: name for name, kind in TYPE_NAMED.items()}


def in_words(datagrams: list[bytes]) -> str:
    """Each message by its name and, in hexadecimal, what follows its type."""
    words = [f"{NAMES[octets[1]]} {octets[2:].hex()}".strip() for octets in datagrams]
    return " + ".join(words) or "-"


def spelled(answered: str) -> str:
    """What a person wrote, with blanks between fields, as `in_words` spells it."""
    if answered == "-":
        return answered
    datagrams = []
    for message in answered.split(" + "):
        name, *fields = message.split()
        datagrams.append(framed(TYPE_NAMED[name], bytes.fromhex("".join(fields))))
    return in_words(datagrams)
