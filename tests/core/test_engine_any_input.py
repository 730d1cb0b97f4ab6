"""Any frames, packets, breaks and waits, in any order: nothing raises, every limit holds, and
every reading that asked for an answer is unsettled, acknowledged or refused.

One seed is one world; the seed is in the name of the test that failed. The limits are so small
here that they are reached all the time. Half of what sensors say answers what they heard, so that
conversations get somewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import mqtt5
import pytest

from gateway.core.clients.admission import AdmissionOptions
from gateway.core.clients.client_table import TIMERS_SPARE
from gateway.core.clients.contests import former_name
from gateway.core.clients.qos_minus_one import QosMinusOneOptions
from gateway.core.downlink.pending_subscriptions import BROKER_PATIENCE_S
from gateway.core.effects import DropUpstream, Effect
from gateway.core.engine import Engine, EngineOptions
from gateway.core.mqtt.options import MqttOptions
from gateway.core.mqtt.session import Phase
from gateway.core.session.inbound import UNACKNOWLEDGED_MAX
from gateway.core.session.options import PredefinedTopics, SessionOptions
from gateway.core.session.session import ABSENT, Session
from gateway.core.state_records import State
from gateway.frames import (
    Connect,
    Disconnect,
    Frame,
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
    Unsubscribe,
    WillMsg,
    WillMsgReq,
    WillMsgUpd,
    WillTopic,
    WillTopicReq,
    WillTopicUpd,
    encode,
)
from tests.support.engine_bench import Bench
from tests.support.samples import named, seeds

WORLDS, WORLDS_SOAKED = 40, 2000
STEPS = 700
CLIENTS_MAX, SUBSCRIPTIONS_MAX, TOPICS_MAX, OUTBOX_MAX = 4, 3, 5, 3
CALLERS_MAX = 2
WAITING_MAX, RECEIVE_MAX = 4, 3
RETAINED_MAX, RETAINED_BYTES_MAX = 2, 100

RULES = EngineOptions(
    MqttOptions("gh", 3, "gw", waiting_messages_max=WAITING_MAX, packet_bytes_max=5000),
    SessionOptions(
        retry_count_max=2,
        topics_max=TOPICS_MAX,
        subscriptions_max=SUBSCRIPTIONS_MAX,
        outbox_messages_max=OUTBOX_MAX,
        outbox_bytes_max=400,
        payload_bytes_max=64,
        topic_bytes_max=16,
    ),
    AdmissionOptions(
        clients_max=CLIENTS_MAX,
        assign_empty_client_id=True,
        answers_per_s_max=2,
        connects_per_s_max=1,
        connects_at_once_max=50,
        callers_max=CALLERS_MAX,
        handshakes_max=CALLERS_MAX,
    ),
    QosMinusOneOptions(allow=True, long_topics=True),
    PredefinedTopics.of({"p/1": 1, "p/2": 2}),
    retained_messages_max=RETAINED_MAX,
    retained_bytes_max=RETAINED_BYTES_MAX,
)

ADDRESSES = (b"a1", b"a2", b"a3", b"a4", b"a5")
CLIENT_IDS = (b"s1", b"s2", b"s3", b"s4", b"s5", b"s6", b"")
NAMES = (b"t/a", b"t/b", b"u", b"$s", b"tp", b"bad/#/x", b"\xff", b"x" * 17)
FILTERS = (b"t/a", b"t/+", b"+/a", b"#", b"u/#", b"$s", b"a/#/b", b"$share/g/t")
TWO_OCTETS = (b"\0\1", b"\0\2", b"\0\3", b"tp", b"a+")
PAYLOADS = (b"", b"1", b"2", b"x" * 64, b"x" * 65)
REFERENCES = (
    (TopicIdType.NORMAL, 1),
    (TopicIdType.NORMAL, 2),
    (TopicIdType.PREDEFINED, 1),
    (TopicIdType.SHORT, int.from_bytes(b"tp", "big")),
)
TOPICS = ("t/a", "t/b", "u", "$s", "x" * 20)


class World:
    def __init__(self, seed: int, bench: Bench | None = None) -> None:
        self.dice = Random(seed)
        self.bench = bench or Bench(RULES, connected=False)
        self.bench.holds = True
        self.steps: dict[Callable[[], None], int] = {  # with how often in all
            self.say: 90, self.answer_what_was_heard: 40, self.say_bent: 3, self.say_octets: 2,
            self.broker_answers: 70, self.broker_publishes: 12, self.open_or_accept: 15,
            self.close: 1, self.broker_sends_octets: 1, self.wait: 6, self.clog: 1,
        }  # fmt: skip

    def step(self) -> None:
        (step,) = self.dice.choices(list(self.steps), list(self.steps.values()))
        step()
        if self.bench.told(DropUpstream):
            self.close()
        self.bench.news.clear()

    # From the air

    def say(self) -> None:
        frames = [self.any_frame() for _ in range(self.dice.randint(1, 3))]
        address = self.dice.choice(ADDRESSES)
        self.bench.take(self.receive(address, *map(encode, frames)))

    def say_bent(self) -> None:
        octets = bytearray(encode(self.any_frame()))
        octets[self.dice.randrange(len(octets))] = self.dice.randrange(256)
        self.bench.take(self.receive(self.dice.choice(ADDRESSES), bytes(octets)))

    def say_octets(self) -> None:
        octets = self.dice.randbytes(self.dice.randint(0, 24))
        self.bench.take(self.receive(self.dice.choice(ADDRESSES), octets))

    def receive(self, address: bytes, *datagrams: bytes) -> list[Effect]:
        bench = self.bench
        return bench.engine.receive(0, [(address, each) for each in datagrams], bench.at)

    def any_frame(self) -> Frame:
        return self.dice.choice(MAKERS)(self.dice)

    def answer_what_was_heard(self) -> None:
        """A client that plays by the rules, for once; it hears what comes of it later."""
        address = self.dice.choice(ADDRESSES)
        for frame in self.bench.hear(address):
            answer = _answer_to(frame, self.dice)
            if answer is not None:
                self.bench.take(self.receive(address, encode(answer)))

    # From the broker

    def open_or_accept(self) -> None:
        bench, dice = self.bench, self.dice
        phase = bench.engine.upstream.phase
        if phase is Phase.CLOSED:
            bench.seen()
            bench.take(bench.engine.opened(bench.at))
        elif phase is Phase.CONNECTING:
            session_present = dice.random() < 0.5
            if not session_present:
                bench.subscribed.clear()
            packet = mqtt5.ConnAckPacket(
                session_present=session_present,
                max_qos=mqtt5.QoS(dice.choice([2] * 8 + [1, 0])),
                subscription_id_available=dice.random() < 0.8,
                retain_available=dice.random() < 0.8,
                max_packet_size=dice.choice([None, None, None, 200]),
                receive_max=dice.randint(1, RECEIVE_MAX),
            )
            self.bench.from_broker(packet.write())

    def close(self) -> None:
        self.bench.seen()
        self.bench.lose_broker()

    def broker_answers(self) -> None:
        bench, dice = self.bench, self.dice
        bench.packets = [packet for packet in bench.packets if _is_answered(packet)]
        if not bench.packets or bench.engine.upstream.phase is not Phase.UP:
            return
        # Mostly in order, as brokers do.
        which = 0 if dice.random() < 0.8 else dice.randrange(len(bench.packets))
        packet = bench.packets.pop(which)
        refuses = dice.random() < 0.15
        if refuses and isinstance(packet, mqtt5.SubscribePacket) and _decides(packet):
            bench.refuses = {each.pattern for each in packet.topic_filters[:1]}
        if refuses and isinstance(packet, mqtt5.PublishPacket) and int(packet.qos) == 1:
            code = mqtt5.PubAckReasonCode.QUOTA_EXCEEDED
            self.bench.from_broker(
                mqtt5.PubAckPacket(packet.packet_id or 0, reason_code=code).write()
            )
        else:
            bench.answer(packet)
        bench.refuses = set()

    def broker_publishes(self) -> None:
        dice = self.dice
        if self.bench.engine.upstream.phase is not Phase.UP:
            return
        qos = dice.randint(0, 2)
        packet = mqtt5.PublishPacket(
            dice.choice(TOPICS),
            dice.choice(PAYLOADS),
            qos=mqtt5.QoS(qos),
            packet_id=dice.randint(1, 3) if qos else None,
            retain=dice.random() < 0.4,
            subscription_ids=[3 << 16 | dice.randint(1, 12) for _ in range(dice.randint(0, 2))],
        )
        self.bench.from_broker(packet.write())
        if qos == 2 and dice.random() < 0.7:
            self.bench.from_broker(mqtt5.PubRelPacket(packet.packet_id or 0).write())

    def broker_sends_octets(self) -> None:
        self.bench.from_broker(self.dice.randbytes(self.dice.randint(1, 24)))

    def clog(self) -> None:
        if self.dice.random() < 0.5:
            self.bench.engine.congested()
        else:
            self.bench.take(self.bench.engine.uncongested(self.bench.at))

    # Time

    def wait(self) -> None:
        bench = self.bench
        bench.at += self.dice.choice([0.0, 0.1, 5.0, 11.0, 40.0, 70_000.0])
        bench.take(bench.engine.handle_time(bench.at))

    # What must hold

    def check(self) -> None:
        self.check_limits()
        self.check_addresses()
        self.check_subscriptions()
        self.check_readings()
        engine = self.bench.engine
        assert all(engine.wake_at() <= each.wake_at() for each in everyone(engine))
        self.check_contests()

    def check_limits(self) -> None:
        engine = self.bench.engine
        downlink, in_flight = engine.downlink, engine.upstream.publisher.in_flight
        assert len(engine.sessions) <= CLIENTS_MAX
        timed = len(engine.sessions) + len(engine.client_table.formers)
        assert len(engine.client_table._timers) <= 2 * timed + TIMERS_SPARE
        assert len(downlink.retained) <= RETAINED_MAX
        assert downlink.retained.size_bytes <= RETAINED_BYTES_MAX
        subscribed = sum(len(session.filters) for session in everyone(engine))
        assert len(downlink._newcomers) <= subscribed
        assert max(len(in_flight), in_flight.window) <= RECEIVE_MAX
        assert in_flight.held_count == sum(map(len, in_flight.held_back.values()))
        assert len(in_flight.waiting) <= WAITING_MAX + RECEIVE_MAX
        assert in_flight._qos2 == sum(each.upstream_qos == 2 for _, each in in_flight.in_order())
        for session in everyone(engine):
            assert session.outbound.waiting <= OUTBOX_MAX + 1
            assert len(session._subscribing.filters) <= SUBSCRIPTIONS_MAX
            assert len(session._topics._topics) <= TOPICS_MAX
            assert len(session.inbound.unacknowledged) <= UNACKNOWLEDGED_MAX

    def check_addresses(self) -> None:
        """Who has an address is not gone, and who is not gone has one."""
        engine = self.bench.engine
        address_validated = [
            each
            for client_table in engine.client_table._by_address.values()
            for each in client_table.values()
        ]
        unvalidated = engine.client_table._doubted
        assert all(each.is_address_validated and not each.is_newcomer for each in address_validated)
        assert not any(
            each.is_address_validated and not each.is_newcomer for each in unvalidated.values()
        )
        assert not {(each.peer) for each in address_validated} & unvalidated.keys()
        at_addresses = [*address_validated, *unvalidated.values()]
        half_open = engine._acceptor.half_open
        assert not half_open._by_client.keys() & engine.sessions.keys()
        assert len(half_open._welcomed) + len(half_open._handshakes) == len(half_open)
        assert len(half_open._welcomed) <= CALLERS_MAX
        assert len(half_open._handshakes) <= CALLERS_MAX
        assert not {each.peer for each in at_addresses} & {
            each.peer for each in half_open._by_client.values()
        }
        assert len(at_addresses) == len(set(map(id, at_addresses)))
        here = {
            client_id
            for client_id, session in engine.sessions.items()
            if session.state not in (State.DISCONNECTED, State.LOST)
        }
        assert {session.client_id for session in at_addresses} == here

    def check_contests(self) -> None:
        """Beside each newcomer is the former session of its client, and only there."""
        engine = self.bench.engine
        formers, contests = engine.client_table.formers, engine._acceptor.contests
        newcomers = {key for key, one in engine.sessions.items() if one.is_newcomer}
        assert newcomers == formers.keys() == contests._contests.keys()
        assert all(each.asking() == [] and each.held == () for each in formers.values())
        assert all(
            each is formers[each.client_id] and each.peer == peer and each.state not in ABSENT
            for peer, each in contests._by_former.items()
        )

    def check_subscriptions(self) -> None:
        """Sessions and routing agree on who hears what and who waits; the broker is asked so."""
        engine = self.bench.engine
        subscriptions = engine.downlink.subscriptions
        heard = {
            (client_id, topic_filter)
            for topic_filter in subscriptions._tree
            for client_id in subscriptions.subscribers_of(topic_filter)
        }
        assert heard == {
            (name, topic_filter)
            for name, session in named_sessions(engine)
            for topic_filter in session._subscribing.filters
        }
        pending = engine.downlink.pending
        waiting = [each for group in pending._asked.values() for each in group.values()]
        if waiting and engine.upstream.phase is not Phase.UP:
            assert pending.due_at <= self.bench.at + BROKER_PATIENCE_S, "nobody waits for ever"
        waiting += pending.saving()
        asking = [each for session in engine.sessions.values() for each in session.asking()]
        assert sorted(map(id, waiting)) == sorted(map(id, asking))
        upstream = engine.upstream.subscriptions
        assert set(upstream._wanted) == set(subscriptions.covering)
        if engine.upstream._partial:
            return  # the broker may have said more than is whole
        granted = {each for each in upstream._wanted if upstream.is_granted(each)}
        assert granted <= self.bench.subscribed, "nothing that clients hear by was given up"

    def check_readings(self) -> None:
        """What a session waits for is on its way, so its sensor will hear of it."""
        in_flight = self.bench.engine.upstream.publisher.in_flight
        on_the_way = set(map(id, in_flight.unacknowledged()))
        for session in everyone(self.bench.engine):
            for reading in session.inbound.unacknowledged:
                assert id(reading) in on_the_way


def named_sessions(engine: Engine) -> list[tuple[str, Session]]:
    """Former ones too, which go by other names."""
    formers = engine.client_table.formers.items()
    return [*engine.sessions.items(), *((former_name(key), one) for key, one in formers)]


def everyone(engine: Engine) -> list[Session]:
    return [session for _, session in named_sessions(engine)]


def _decides(packet: mqtt5.SubscribePacket) -> bool:
    """Of two for one filter, a broker refuses both or none; the second one's word counts."""
    return (packet.subscription_id or 0) % 2 == 0


def _is_answered(packet: object) -> bool:
    if isinstance(packet, mqtt5.PublishPacket):
        return int(packet.qos) > 0
    return isinstance(packet, mqtt5.SubscribePacket | mqtt5.UnsubscribePacket | mqtt5.PubRelPacket)


def _answer_to(frame: Frame, dice: Random) -> Frame | None:
    match frame:
        case Register(topic_id, message_id):
            return Regack(topic_id, message_id, dice.choice([0, 0, 0, 0, 1, 2]))
        case Publish(topic_id, message_id, _, 1):
            return Puback(topic_id, message_id, dice.choice([0, 0, 0, 0, 1, 2, 3]))
        case Publish(_, message_id, _, 2):
            return Pubrec(message_id)
        case Pubrec(message_id):
            return Pubrel(message_id)
        case Pubrel(message_id):
            return Pubcomp(message_id)
        case WillTopicReq():
            return WillTopic(dice.choice(NAMES), dice.randint(0, 2))
        case WillMsgReq():
            return WillMsg(dice.choice(PAYLOADS))
    return None


def _connect(dice: Random) -> Frame:
    protocol_id = 2 if dice.random() < 0.03 else 1
    keep_alive_s = dice.choice([0, 60, 60, 65_535])
    will, clean = dice.random() < 0.2, dice.random() < 0.4
    return Connect(dice.choice(CLIENT_IDS), keep_alive_s, will, clean, protocol_id)


def _publish(dice: Random) -> Frame:
    kind, topic_id = dice.choice(REFERENCES)
    if dice.random() < 0.1:
        kind, topic_id = dice.choice(list(TopicIdType)), dice.choice([0, 3, 9, 0xFFFF])
    qos, dup = dice.choice([-1, 0, 1, 1, 2, 2]), dice.random() < 0.3
    payload, retain = dice.choice(PAYLOADS), dice.random() < 0.2
    return Publish(topic_id, dice.randint(0, 5), payload, qos, retain, dup, kind)


def _subscribe(dice: Random) -> Frame:
    qos = dice.randint(-1, 2)
    if dice.random() < 0.7:
        return Subscribe(dice.randint(0, 9), dice.choice(FILTERS), qos)
    kind = dice.choice([TopicIdType.PREDEFINED, TopicIdType.SHORT])
    return Subscribe(dice.randint(0, 9), dice.choice(TWO_OCTETS), qos, False, kind)


MAKERS: list[Callable[[Random], Frame]] = [
    *[_connect] * 3,
    *[_publish] * 14,
    *[_subscribe] * 3,
    lambda dice: Unsubscribe(dice.randint(0, 9), dice.choice(FILTERS)),
    lambda dice: Register(0, dice.randint(0, 3), dice.choice(NAMES)),
    lambda dice: Puback(dice.randint(0, 3), dice.randint(0, 3), dice.randint(0, 4)),
    lambda dice: Regack(dice.randint(0, 3), dice.randint(0, 3), dice.randint(0, 4)),
    lambda dice: Pubrec(dice.randint(0, 4)),
    lambda dice: Pubrel(dice.randint(0, 5)),
    lambda dice: Pubcomp(dice.randint(0, 4)),
    lambda dice: Pingreq(dice.choice(CLIENT_IDS)),
    lambda dice: Disconnect(dice.choice([None, 0, 30, 65_535])),
    lambda dice: SearchGw(dice.randint(0, 1)),
    lambda dice: WillTopic(dice.choice(NAMES), dice.randint(0, 2)),
    lambda dice: WillMsg(dice.choice(PAYLOADS)),
    lambda dice: WillTopicUpd(dice.choice(NAMES), dice.randint(0, 2)),
    lambda dice: WillMsgUpd(dice.choice(PAYLOADS)),
]


# What the codec leaves behind when its native code panics.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("some", seeds(WORLDS, WORLDS_SOAKED, each=10))
def test_no_input_breaks_the_engine(some: range) -> None:
    for seed in some:
        with named(seed=seed):
            world = World(seed)
            for _ in range(STEPS):
                world.step()
                world.check()
