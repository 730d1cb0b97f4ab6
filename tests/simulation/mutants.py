"""What the worlds would notice: mistakes put into the gateway, and the promise each breaks.

docs/guarantees.md has their table. `python -m tests.simulation.mutants --run` prints which worlds
see each mistake first, and notes them in mutant_seeds.txt, where test_mutants.py begins to look.
The numbers in the table are bounds, so that not every change of the core makes the document stale.
Seeds that a change has made stale cost the test time, and it warns of them: `--stale` looks again
for those alone.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mqtt5
import pytest

from gateway.core.clients.former_topics import FormerTopics
from gateway.core.downlink import pending_subscriptions
from gateway.core.downlink.retained import NEW, SAME, Retained
from gateway.core.effects import Send
from gateway.core.mqtt.inflight import InFlight
from gateway.core.mqtt.publisher import Publisher
from gateway.core.mqtt.receiver import Receiver
from gateway.core.mqtt.subscriber import Subscriber
from gateway.core.session import inbound, outbound
from gateway.core.session.inbound import Inbound
from gateway.core.session.outbound import Outbound
from gateway.core.uplink.uplink import Uplink
from gateway.core.values import Message, Reading
from gateway.frames import Puback, Pubrec
from tests.simulation.attack_mutants import ATTACK_MUTANTS
from tests.simulation.bounds import BOUNDED
from tests.simulation.downlink_watch import IN_ORDER as COMMANDS_IN_ORDER
from tests.simulation.downlink_watch import (
    LATEST_VALUE,
    NOTHING_MISSED,
    ONE_AT_A_TIME,
    RETAINED_ONCE,
)
from tests.simulation.downlink_watch import ONCE as COMMANDS_ONCE
from tests.simulation.ending_mutants import ENDING_MUTANTS
from tests.simulation.ingest_mutants import INGEST_MUTANTS
from tests.simulation.late_mutants import LATE_MUTANTS
from tests.simulation.mutant import Mutant, Patch, constant
from tests.simulation.restart_mutants import RESTART_MUTANTS
from tests.simulation.sleep_mutants import SLEEP_MUTANTS
from tests.simulation.standstill_mutants import STANDSTILL_MUTANTS
from tests.simulation.watch import IN_ORDER, NO_HOLES, ONCE, SAFE, BrokenPromiseError
from tests.simulation.world import World

NOTED = Path(__file__).with_name("mutant_seeds.txt")
NOTED_MAX = 3  # of a mistake that is not seen at once, as a change makes some of them stale
AT_ONCE = 8


def acknowledge_early(answer: Callable[[Reading], Any], qos: int) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        take = Uplink.take

        def mutant(self: Uplink, reading: Reading, now: float) -> Any:
            effects = take(self, reading, now)
            session = self._sessions.get(reading.client_id)
            if reading.qos != qos or session is None:
                return effects
            return [*effects, Send(session.peer, answer(reading))]

        monkeypatch.setattr(Uplink, "take", mutant)

    return patch


def acknowledge_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Uplink.take

    def mutant(self: Uplink, reading: Reading, now: float) -> Any:
        effects = take(self, reading, now)
        session = self._sessions.get(reading.client_id)
        if reading.qos == 0 or self._publisher.is_open or session is None:
            return effects
        return effects + session.acknowledged(reading)

    monkeypatch.setattr(Uplink, "take", mutant)


def release_after_session_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Publisher.open

    def mutant(self: Publisher, packet: mqtt5.ConnAckPacket, now: float) -> Any:
        self._trust_session = True
        present = mqtt5.ConnAckPacket(session_present=True, receive_max=packet.receive_max)
        return opened(self, present, now)

    monkeypatch.setattr(Publisher, "open", mutant)


def trust_forgetful_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Publisher.open

    def mutant(self: Publisher, packet: mqtt5.ConnAckPacket, now: float) -> Any:
        self._trust_session = True
        return opened(self, packet, now)

    monkeypatch.setattr(Publisher, "open", mutant)


def forget_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    close = Publisher.close

    def mutant(self: Publisher) -> None:
        close(self)
        for packet_id in [*self.in_flight.published]:
            self.in_flight.withdraw(packet_id)
        self.in_flight.released.clear()

    monkeypatch.setattr(Publisher, "close", mutant)


def number_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start_over = InFlight.start_over

    def mutant(self: InFlight) -> None:
        start_over(self)
        for reading in self.waiting:
            reading.sequence = -1

    monkeypatch.setattr(InFlight, "start_over", mutant)


def leave_out_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    transmit = Publisher._transmit

    def mutant(self: Publisher, reading: Reading) -> Any:
        effect = transmit(self, reading)
        self._sequence += reading.sequence >= 0 and reading.sequence % 2
        return effect

    monkeypatch.setattr(Publisher, "_transmit", mutant)


def qos0_overtakes(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = Publisher.publish

    def mutant(self: Publisher, reading: Reading, *, ahead: bool = False) -> Any:
        if reading.qos == 0 and self.is_open:
            return self._transmit(reading)
        return publish(self, reading, ahead=ahead)

    monkeypatch.setattr(Publisher, "publish", mutant)


def two_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = Outbound.deliver

    def mutant(self: Outbound, *given: Any) -> Any:
        outbox, self._outbox, self.outstanding = self._outbox, None, None
        effects = deliver(self, *given)
        self._outbox = outbox
        return effects

    monkeypatch.setattr(Outbound, "deliver", mutant)


def newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = Outbound.keep

    def mutant(self: Outbound, *given: Any) -> Any:
        effects = keep(self, *given)
        if self._outbox:
            self._outbox._queue.rotate()
        return effects

    monkeypatch.setattr(Outbound, "keep", mutant)


def forget_received(monkeypatch: pytest.MonkeyPatch) -> None:
    repeated = Receiver._repeated

    def mutant(self: Receiver, *given: Any, **named: Any) -> Any:
        self._open.clear()
        self._unreleased.clear()
        return repeated(self, *given, **named)

    monkeypatch.setattr(Receiver, "_repeated", mutant)


def drop_for_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outbound, "keep", lambda *_: [])


def replay_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = Retained.keep

    def mutant(self: Retained, message: Message, *, is_exact: bool) -> Any:
        found, effects = keep(self, message, is_exact=is_exact)
        return (NEW if found is SAME else found), effects

    monkeypatch.setattr(Retained, "keep", mutant)


def topic_ids_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FormerTopics, "take", lambda *_: None)


MUTANTS = (
    Mutant(
        "PUBACK before the broker or the disk has the reading",
        acknowledge_early(lambda one: Puback(one.topic_id, one.message_id, 0), qos=1),
        SAFE,
        within=8,
    ),
    Mutant(
        "PUBREC before the broker or the disk has the reading",
        acknowledge_early(lambda one: Pubrec(one.message_id), qos=2),
        SAFE,
        within=8,
    ),
    Mutant("acknowledged from memory while the broker is away", acknowledge_from_memory, SAFE, 64),
    Mutant(
        "PUBREL, not PUBLISH, after the broker lost its session",
        release_after_session_loss,
        SAFE,
        within=1000,
    ),
    Mutant(
        "PUBREL to a forgetful broker with `trust = connection`",
        trust_forgetful_broker,
        SAFE,
        within=1000,
    ),
    Mutant(
        "what was unacknowledged is forgotten at a reconnect", forget_in_flight, SAFE, within=250
    ),
    Mutant(
        "a copy is known by its message id alone",
        constant(inbound, "_contents", 0),
        SAFE,
        within=8,
    ),
    Mutant(
        "the receive set of a sensor is forgotten",
        constant(Inbound, "_is_awaiting_release", False),
        ONCE,
        within=32,
    ),
    Mutant("no hold-down after PUBREL", constant(inbound, "HOLD_DOWN_S", 0.0), ONCE, within=64),
    Mutant("topic ids begin again in each session", topic_ids_again, ONCE, within=2000),
    Mutant("sequences are left out", leave_out_sequences, NO_HOLES, within=8),
    Mutant("QoS 0 overtakes what waits", qos0_overtakes, IN_ORDER, within=250),
    Mutant("two messages under way to a sensor", two_under_way, ONE_AT_A_TIME, within=8),
    Mutant("the newest command first", newest_first, COMMANDS_IN_ORDER, within=1000),
    Mutant(
        "commands for an absent sensor are dropped", drop_for_absent, NOTHING_MISSED, within=250
    ),
    Mutant(
        "a message that is never acknowledged is never given up",
        constant(outbound, "ROUNDS_MAX", 1 << 30),
        NOTHING_MISSED,
        8,
        "deaf",
    ),
    Mutant(
        "a message is given up when its repeats are spent once",
        constant(outbound, "ROUNDS_MAX", 1),
        ONE_AT_A_TIME,
        8,
        "deaf",
    ),
    Mutant(
        "what came at QoS 2 from the broker is forgotten",
        forget_received,
        COMMANDS_ONCE,
        within=1000,
    ),
    Mutant(
        "SUBACK before the broker has the subscription",
        constant(Subscriber, "is_granted", True),
        NOTHING_MISSED,
        within=8,
    ),
    Mutant(
        "SUBACK at once where the broker is away for a moment",
        constant(pending_subscriptions, "BROKER_PATIENCE_S", 0.0),
        NOTHING_MISSED,
        within=32,
    ),
    Mutant("retained messages go to everyone again", replay_to_all, RETAINED_ONCE, within=250),
    Mutant(
        "a new subscriber is not told what is retained",
        constant(Retained, "matching", ()),
        LATEST_VALUE,
        within=250,
    ),
    Mutant("a repeat gets a new sequence", number_again, ONCE, within=1000),
    Mutant(
        "Receive Maximum is not obeyed", constant(InFlight, "has_room", True), BOUNDED, within=32
    ),
    *RESTART_MUTANTS,
    *SLEEP_MUTANTS,
    *INGEST_MUTANTS,
    *LATE_MUTANTS,
    *STANDSTILL_MUTANTS,
    *ENDING_MUTANTS,
    *ATTACK_MUTANTS,
)


@contextmanager
def switched_on(mutant: Mutant) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        mutant.patch(monkeypatch)
        yield


def noted_seeds() -> dict[str, list[int]]:
    """The worlds that saw each mistake first, when that was looked for."""
    pairs = (line.rpartition(": ") for line in NOTED.read_text().splitlines())
    return {name: [int(seed) for seed in seeds.split()] for name, _, seeds in pairs}


def first_catch(mutant: Mutant, seeds: Iterable[int]) -> tuple[int, str] | None:
    """The first of these worlds that saw the promise broken, and what it said.

    Each has the mistake again: some count their calls, and a seed must see the same whatever was
    before it.
    """
    for seed in seeds:
        with switched_on(mutant):
            try:
                World(seed, kind=mutant.kind).run()
            except BrokenPromiseError as error:
                if isinstance(error.__cause__, AttributeError | TypeError):
                    raise  # that is a mistake in the mistake
                if f"promise {mutant.promise}" in str(error):
                    return seed, str(error)
    return None


def table() -> str:
    rows = [f"| {one.name} | {one.promise.split()[0]} | {one.worlds} |" for one in MUTANTS]
    head = [
        "| mistake in the gateway | breaks promise | seen within runs |",
        "| --- | --- | --: |",
    ]
    return "\n".join([*head, *rows]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("--run", action="store_true", help="say what catches each mutant, and when")
    parser.add_argument("--stale", action="store_true", help="look again where what is noted fails")
    options = parser.parse_args()
    if not options.run and not options.stale:
        parser.error("one of --run and --stale is needed")
    logging.disable()  # what the state store says of its disk
    noted = noted_seeds()
    for mutant in MUTANTS:
        known = noted.pop(mutant.name, [])
        if options.run or first_catch(mutant, known) is None:
            known = seeds_that_see(mutant)
        if known:
            noted[mutant.name] = known
    lines = [f"{name}: {' '.join(map(str, seeds))}\n" for name, seeds in noted.items()]
    NOTED.write_text("".join(lines))
    return 0 if len(noted) == len(MUTANTS) else 1


def seeds_that_see(mutant: Mutant) -> list[int]:
    """The first of its worlds that do: one if that is at once, or as many as are noted."""
    found: list[int] = []
    seeds = iter(range(mutant.within))
    while len(found) < NOTED_MAX and (caught := first_catch(mutant, seeds)) is not None:
        sys.stdout.write(f"{mutant.name}: {caught[1]}\n")
        found.append(caught[0])
        if caught[0] < AT_ONCE:
            return found[:1]
    if not found:
        sys.stdout.write(f"{mutant.name}: not seen\n")
    return found


if __name__ == "__main__":
    sys.exit(main())
