"""An engine full of clients, topics or filters, and what one message costs it there.

In process, without sockets and disk: a reading from its datagram to the broker's PUBACK and the
sensor's; a message from the broker's packet to the sensor's PUBACK. Messages come in batches of
ten, from clients and topics all over the crowd, so that nothing stays in the processor's caches by
chance. Time goes on as at 5,000 messages a second, with the alarms that fall due.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

import mqtt5

from gateway.app.memory import GC_THRESHOLD
from gateway.core.clients.admission import AdmissionOptions
from gateway.core.effects import Effect, Send, Transmit
from gateway.core.engine import EngineOptions
from gateway.core.session.options import SessionOptions
from gateway.frames import Puback, Publish, encode
from tests.support.engine_bench import UPSTREAM, Bench, granted_id, short

BATCH = 10
BATCHES = 200
BATCH_S = BATCH / 5000
# Who shares the topics, or the filters, whatever their number.
CLIENTS_OF_MANY = 100
PAYLOAD = bytes(64)
MESSAGE_IDS = 65_535

Said = TypeVar("Said")


class Crowd:
    def __init__(self, clients: int, names_each: int = 1) -> None:
        """`names_each`: how many topics and filters one client may have, together."""
        options = AdmissionOptions(
            clients + 1, connects_at_once_max=clients + 1, callers_max=clients + 1
        )
        session = SessionOptions(topics_max=names_each + 1, subscriptions_max=names_each + 1)
        self.bench = Bench(EngineOptions(UPSTREAM, admission=options, session=session))
        self.engine = self.bench.engine
        self.clients = [b"sensor-%06d" % number for number in range(clients)]
        self.topics: list[tuple[bytes, int]] = []  # whose, and its topic id
        self.filters: list[tuple[bytes, str]] = []
        self._dice = Random(1)
        self._message_id = 0
        for client in self.clients:
            self.bench.join(client, keep_alive_s=3600)
            self.bench.news.clear()

    def register(self, count: int) -> None:
        """Different topics, one client's after the other's."""
        for number in range(count):
            client = self.clients[number % len(self.clients)]
            topic_id = self.bench.register(client, b"field/%06d/temperature" % number)
            self.topics.append((client, topic_id))
        self.bench.news.clear()

    def subscribe(self, count: int) -> None:
        """To different filters."""
        for number in range(count):
            client = self.clients[number % len(self.clients)]
            name = f"field/{number:06}/valve"
            granted_id(self.bench.subscribe(client, name.encode(), 1))
            self.filters.append((client, name))
            self.bench.seen()
        self.bench.news.clear()

    # CPU microseconds of a message, in the best of all rounds, for the machine is shared.

    def reading_us(self, rounds: int) -> float:
        """On the short topic, from any clients."""
        return self._best_us(self.clients, self._readings, rounds)

    def reading_on_topic_us(self, rounds: int) -> float:
        return self._best_us(self.topics, self._readings_on_topics, rounds)

    def message_us(self, rounds: int) -> float:
        """For one client each, that has the only filter which matches."""
        return self._best_us(self.filters, self._messages, rounds)

    def _best_us(
        self, everyone: Sequence[Said], turn: Callable[[Sequence[Said]], float], rounds: int
    ) -> float:
        """`turn` takes a batch to its end, and returns the CPU seconds that the engine needed."""
        gc.collect()
        threshold = gc.get_threshold()
        gc.set_threshold(*GC_THRESHOLD)
        try:
            for at in range(0, len(everyone), BATCH):  # what is done once for each is not asked for
                turn(everyone[at : at + BATCH])
            best = min(
                sum(turn(self._dice.sample(everyone, BATCH)) for _ in range(BATCHES))
                for _ in range(rounds)
            )
        finally:
            gc.set_threshold(*threshold)
        return best / BATCHES / BATCH * 1e6

    def _readings(self, clients: Sequence[bytes]) -> float:
        return self._up(
            [(client, encode(short(PAYLOAD, 1, self._next_id()))) for client in clients]
        )

    def _readings_on_topics(self, topics: Sequence[tuple[bytes, int]]) -> float:
        return self._up(
            [
                (client, encode(Publish(topic, self._next_id(), PAYLOAD, 1)))
                for client, topic in topics
            ]
        )

    def _messages(self, filters: Sequence[tuple[bytes, str]]) -> float:
        packets = b"".join(
            mqtt5.PublishPacket(
                name,
                PAYLOAD,
                qos=mqtt5.QoS(1),
                packet_id=number,
                subscription_ids=[self.bench.identifiers[name]],
            ).write()
            for number, (_, name) in enumerate(filters, 1)
        )
        taken, effects = self._timed(lambda now: self.engine.receive_upstream(packets, now))
        heard = 0
        while sends := [effect for effect in effects if type(effect) is Send]:
            answers = [(one.peer.address, _puback(one)) for one in sends]
            heard += len(answers)
            further, effects = self._timed(
                lambda now, said=answers: self.engine.receive(0, said, now)  # type: ignore[misc]
            )
            taken += further
        assert heard == len(filters), f"{heard} of {len(filters)} messages came down"
        return taken + self._time_passes()

    def _up(self, datagrams: list[tuple[bytes, bytes]]) -> float:
        taken, effects = self._timed(lambda now: self.engine.receive(0, datagrams, now))
        packets = [effect.packet for effect in effects if type(effect) is Transmit]
        acknowledgements = b"".join(map(_acknowledged, packets))
        further, effects = self._timed(
            lambda now: self.engine.receive_upstream(acknowledgements, now)
        )
        answers = sum(type(effect) is Send for effect in effects)
        sent = len(datagrams)
        assert answers == sent, f"{answers} of {sent} readings were acknowledged"
        return taken + further + self._time_passes()

    def _time_passes(self) -> float:
        self.bench.at += BATCH_S
        if self.engine.wake_at() > self.bench.at:
            return 0.0
        taken, _ = self._timed(self.engine.handle_time)
        return taken

    def _timed(self, work: Callable[[float], list[Effect]]) -> tuple[float, list[Effect]]:
        began = time.thread_time()
        effects = work(self.bench.at)
        return time.thread_time() - began, effects

    def _next_id(self) -> int:
        self._message_id = self._message_id % MESSAGE_IDS + 1
        return self._message_id


def _acknowledged(packet: bytes) -> bytes:
    """The broker's answer to a PUBLISH."""
    publish, _ = mqtt5.read(memoryview(packet))
    assert isinstance(publish, mqtt5.PublishPacket)
    return mqtt5.PubAckPacket(publish.packet_id or 0).write()


def _puback(sent: Send) -> bytes:
    frame = sent.frame
    assert isinstance(frame, Publish)
    return encode(Puback(frame.topic_id, frame.message_id, 0))
