"""A broker that cannot follow, again and again, in any order of what happens: no reading of a
client overtakes another, none of QoS 1 is lost, and afterwards all is as before.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import mqtt5
import pytest

from gateway.core.effects import Effect, ReadBacklog, Store, Unqueue
from gateway.core.events import Output
from gateway.core.topic_options import Acknowledge, ReadingOptions
from gateway.core.uplink import uplink
from gateway.frames import Puback
from gateway.storage.journal.journal import CommitGroup
from tests.support.engine_bench import short
from tests.support.journal_bench import JournalBench, options_of
from tests.support.samples import named

CLIENTS = (b"s1", b"s2", b"s3")
OVERFLOWS, WINDOW = (1, 4, 100), 2
RUNS, RUNS_SOAKED, STEPS = 15, 300, 400
UNACKNOWLEDGED_MAX = 12  # of a client; it is not what is tested


class Overrun(JournalBench):
    """One run, from its seed."""

    def __init__(self, seed: int, acknowledge: Acknowledge) -> None:
        self.dice = Random(seed)
        self.asked: Counter[type[Output]] = Counter()  # of the journal
        self.said = dict.fromkeys(CLIENTS, 0)
        self.may_go: set[bytes] = set()  # of QoS 0
        self.acknowledged: set[bytes] = set()
        self.publication: dict[bytes, list[int]] = {client: [] for client in CLIENTS}
        self.on_the_wire: list[int] = []  # packet ids
        self.group: CommitGroup | None = None
        super().__init__(options_of(ReadingOptions(acknowledge)), connected=False)
        for client in CLIENTS:
            self.join(client)
        self.holds = True
        self.return_broker()

    def take(self, effects: list[Effect]) -> None:
        self.asked.update(type(effect) for effect in effects)
        super().take(effects)
        for packet in self.seen_of(mqtt5.PublishPacket):
            self.note(packet)

    def note(self, packet: Any) -> None:
        client, _, number = (packet.payload or b"").partition(b" ")
        if client in self.publication:
            self.publication[client].append(int(number))
            if packet.packet_id:
                self.on_the_wire.append(packet.packet_id)

    def step(self) -> None:
        self.at += 0.01
        happens = (
            *(self.publish,) * 6,
            *(self.begin_group,) * 3,
            *(self.end_group,) * 3,
            *(self.look_at_backlog,) * 2,
            *(self.settle,) * 7,
            self.pause,
            self.lose,
        )
        self.dice.choice(happens)()
        self.hear_acknowledgements()

    def publish(self) -> None:
        client = self.dice.choice(CLIENTS)
        number = self.said[client] + 1
        acknowledged = sum(each.startswith(client) for each in self.acknowledged | self.may_go)
        if number - acknowledged > UNACKNOWLEDGED_MAX:
            return
        self.said[client] = number
        reading = b"%b %d" % (client, number)
        qos = int(self.dice.random() < 0.8)
        if not qos:
            self.may_go.add(reading)
        self.say(client, short(reading, qos, number))

    def begin_group(self) -> None:
        if self.group is None:
            self.group = self.journal.begin_group(self.at)

    def end_group(self) -> None:
        if self.group is not None:
            self.end_write(self.group)
            self.group = None

    def look_at_backlog(self) -> None:
        if self.group is None:
            self.read()

    def settle(self) -> None:
        """Some of what is on the wire, in its order."""
        count = self.dice.randint(1, WINDOW)
        acknowledged, self.on_the_wire = self.on_the_wire[:count], self.on_the_wire[count:]
        self.from_broker(b"".join(mqtt5.PubAckPacket(each).write() for each in acknowledged))

    def pause(self) -> None:
        is_paused = self.dice.random() < 0.3
        self.ask(self.engine.operator.pause_drain(is_paused=is_paused))

    def lose(self) -> None:
        if self.dice.random() < 0.3:
            self.lose_broker()
            for _ in range(self.dice.randint(0, 8)):
                self.publish()
            self.return_broker()

    def return_broker(self) -> None:
        self.on_the_wire.clear()
        self.end_group()
        self.connect_broker(receive_max=WINDOW, session_present=True)

    def hear_acknowledgements(self) -> None:
        for client in CLIENTS:
            for frame in self.hear(client):
                if isinstance(frame, Puback):
                    assert frame.return_code == 0
                    self.acknowledged.add(b"%b %d" % (client, frame.message_id))

    def come_to_rest(self) -> None:
        self.ask(self.engine.operator.pause_drain(is_paused=False))
        self.end_group()
        while self.on_the_wire or self.write() or self.read():
            self.settle()
        self.hear_acknowledgements()

    def assert_all_is_well(self) -> None:
        for client in CLIENTS:
            came = list(dict.fromkeys(self.publication[client]))  # after a break some come again
            assert came == sorted(came)
            everything = set(range(1, self.said[client] + 1))
            missing = {b"%b %d" % (client, number) for number in everything - set(came)}
            assert missing <= self.may_go
            said = {b"%b %d" % (client, number) for number in everything}
            assert said - self.may_go == {each for each in self.acknowledged if each in said}
        assert self.journal.numbers.depth == 0


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("acknowledge", [Acknowledge.AUTO, Acknowledge.JOURNAL])
def test_in_any_order_of_what_happens(
    acknowledge: Acknowledge, overflow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uplink, "OVERFLOW", overflow)
    run_all(range(RUNS), acknowledge)


@pytest.mark.soak
@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("acknowledge", [Acknowledge.AUTO, Acknowledge.JOURNAL])
def test_in_any_order_of_what_happens_for_long(
    acknowledge: Acknowledge, overflow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uplink, "OVERFLOW", overflow)
    run_all(range(RUNS, RUNS_SOAKED), acknowledge)


def run_all(seeds: range, acknowledge: Acknowledge) -> None:
    asked: Counter[type[Output]] = Counter()
    for seed in seeds:
        with named(seed=seed):
            asked += asked_in(Overrun(seed, acknowledge), acknowledge)
    assert min(asked[ReadBacklog], asked[Unqueue]) > 2 * len(seeds), "both ways were gone"


def asked_in(run: Overrun, acknowledge: Acknowledge) -> Counter[type[Output]]:
    for _ in range(STEPS):
        run.step()
    run.come_to_rest()
    run.assert_all_is_well()
    asked = run.asked.copy()
    run.asked.clear()
    run.say(CLIENTS[0], short(b"later", 1, 60_000))
    assert run.asked[Store] == (acknowledge is Acknowledge.JOURNAL), "all is as before"
    return asked
