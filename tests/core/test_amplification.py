"""Whatever comes in the name of an address: as long as nobody answers from there, no more than
three times as many octets go there.

Honest clients subscribe, sleep, leave and come back; the broker publishes; time passes. Between
them somebody sends what anybody can send without hearing us, in the name of addresses at which
nobody is, with the honest clients' ids as well.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from gateway.core.clients.qos_minus_one import QosMinusOneOptions
from gateway.core.effects import Dropped, Effect, Send
from gateway.core.engine import EngineOptions
from gateway.core.session.egress_budget import AMPLIFICATION_MAX
from gateway.core.session.options import SessionOptions
from gateway.frames import (
    Advertise,
    Connect,
    Disconnect,
    Frame,
    GwInfo,
    Pingreq,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    SearchGw,
    Subscribe,
    TopicIdType,
    encode,
)
from tests.support.engine_bench import UPSTREAM, Bench
from tests.support.samples import named, seeds

WORLDS, WORLDS_SOAKED = 20, 600
STEPS = 300
HONEST = (b"h1", b"h2", b"h3")
TOPICS = ("a", "tp", "a/topic", "a/topic/that/is/rather/long/for/a/small/sensor/" + "x" * 240)
PAYLOADS = (b"", b"1", b"x" * 30, b"x" * 300)


class Street(Bench):
    """A bench that weighs what goes to and comes from each address."""

    def __init__(self, seed: int) -> None:
        self.octets_in: Counter[bytes] = Counter()
        self.octets_out: Counter[bytes] = Counter()
        self.kinds_out: Counter[str] = Counter()  # to spoofed addresses
        self.spoofed = [b"v0"]
        self.dice = Random(seed)
        egress = self.dice.choice([0, 0, 200])
        session = SessionOptions(retry_count_max=3, egress_bytes_per_s_max=egress)
        qos_minus_one = QosMinusOneOptions(allow=True)
        super().__init__(EngineOptions(UPSTREAM, session=session, qos_minus_one=qos_minus_one))

    def say_octets(self, address: bytes, *datagrams: bytes) -> list[Frame]:
        self.octets_in[address] += sum(map(len, datagrams))
        return super().say_octets(address, *datagrams)

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                address = effect.peer.address
                self.octets_out[address] += len(encode(effect.frame))
                if address in self.spoofed:
                    self.kinds_out[type(effect.frame).__name__] += 1
        super().take(effects)

    # What happens

    def step(self) -> None:
        kinds = (self.be_honest, self.pick_up, self.spoof, self.publish, self.wait)
        (kind,) = self.dice.choices(kinds, (8, 8, 2, 8, 2))
        kind()

    def be_honest(self) -> None:
        dice, name = self.dice, self.dice.choice(HONEST)
        frames: list[Frame] = [
            *[Connect(name, 600)] * 3,
            Connect(name, 600, clean_session=dice.random() < 0.1),
            Subscribe(1, dice.choice([b"#", b"a", b"a/+"]), dice.randint(0, 2)),
            Subscribe(1, b"tp", 1, topic_id_type=TopicIdType.SHORT),
            Pingreq(name),
            Disconnect(dice.choice([None, 300, 300])),
        ]
        frame = dice.choice(frames)
        for heard in self.say(name, frame):
            self.reply(name, heard)

    def pick_up(self) -> None:
        name = self.dice.choice(HONEST)
        for heard in self.hear(name):
            self.reply(name, heard)

    def reply(self, name: bytes, frame: Frame) -> None:
        """What it hears after that waits until it is its turn again."""
        answer: Frame | None = None
        if isinstance(frame, Register):
            answer = Regack(frame.topic_id, frame.message_id, 0)
        elif isinstance(frame, Publish) and frame.qos == 1:
            answer = Puback(frame.topic_id, frame.message_id, 0)
        elif isinstance(frame, Publish) and frame.qos == 2:
            answer = Pubrec(frame.message_id)
        elif isinstance(frame, Pubrel):
            answer = Pubcomp(frame.message_id)
        if answer is not None:
            self.say(name, answer)

    def spoof(self) -> None:
        """At the address of the last time, or at another one."""
        dice = self.dice
        client_id = dice.choice([*HONEST, *HONEST, b"new", b"", b"x" * 64])
        if dice.random() < 0.4:
            self.spoofed.append(b"v%d" % len(self.spoofed))
        clean, will = dice.random() < 0.3, dice.random() < 0.5
        frames: list[Frame] = [
            *[Connect(client_id, 600)] * 8,
            Connect(client_id, 600, will=will, clean_session=clean),
            Connect(client_id, 600, protocol_id=2),
            Pingreq(dice.choice(HONEST)),
            SearchGw(0),
            Advertise(1, 900),
            GwInfo(1),
            Publish(0x7470, 0, b"x", -1, topic_id_type=TopicIdType.SHORT),
        ]
        self.say(self.spoofed[-1], dice.choice(frames))
        if dice.random() < 0.1:
            rubbish = dice.choice([b"\x02", b"\xff\x0c", b"\x03\x1e\x00"])
            self.say_octets(self.spoofed[-1], rubbish)

    def publish(self) -> None:
        dice = self.dice
        if self.subscribed:
            by = dice.choice(sorted(self.subscribed))
            topic = dice.choice([each for each in TOPICS if matches(by, each)])
            self.publishes(topic, dice.choice(PAYLOADS), dice.randint(0, 2), by=by)

    def wait(self) -> None:
        self.wake(self.at + self.dice.choice([0.1, 3.0, 11.0, 60.0]))


def matches(topic_filter: str, topic: str) -> bool:
    """As far as the filters of this street go."""
    if topic_filter == "a/+":
        return topic.count("/") == 1
    return topic_filter in ("#", topic)


@pytest.mark.guarantee("6b")
@pytest.mark.parametrize("some", seeds(WORLDS, WORLDS_SOAKED, each=10))
def test_an_address_nobody_answers_from_gets_no_more_than_three_times_what_it_sent(
    some: range,
) -> None:
    for seed in some:
        with named(seed=seed):
            street = Street(seed)
            for _ in range(STEPS):
                street.step()
                assert_no_amplification(street)


def assert_no_amplification(street: Street) -> None:
    for address in street.spoofed:
        got, sent = street.octets_out[address], street.octets_in[address]
        assert got <= AMPLIFICATION_MAX * sent, f"{address!r} got {got} for {sent} bytes"


@pytest.mark.guarantee("6b")
def test_the_street_is_busy() -> None:
    """A world in which nothing is sent proves nothing."""
    heard: Counter[str] = Counter()
    for seed in range(WORLDS):
        street = Street(seed)
        for _ in range(STEPS):
            street.step()
        heard += street.kinds_out
        heard["to honest clients"] += sum(street.octets_out[name] for name in HONEST)
        heard["dropped"] += len(street.told(Dropped))
    assert heard["to honest clients"] > 5_000
    for kind in ("Connack", "WillTopicReq", "Register", "Publish", "Pingreq", "Disconnect"):
        assert heard[kind] >= WORLDS // 10, heard
