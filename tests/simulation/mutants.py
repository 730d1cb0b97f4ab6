"""What the worlds would notice: mistakes put into the gateway, and the promise each breaks.

`python -m tests.simulation.mutants` runs worlds against every mutant and writes the table of
docs/guarantees.md anew; `--print` only prints it. The numbers in the table are bounds that
test_mutants.py holds, so that not every change of the core makes them stale.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mqtt5
import pytest

from gateway.downlink import Downlink
from gateway.effects import Forward, Message, Send, Settled
from gateway.frames import Puback, Pubrec
from gateway.routing.retained import Kept, Retained
from gateway.session import publishing
from gateway.session.delivering import Delivering
from gateway.session.publishing import Publishing
from gateway.session.session import Session
from gateway.upstream.in_flight import InFlight
from gateway.upstream.readings import Readings
from gateway.upstream.receiving import Receiving
from tests.simulation.watch import BrokenPromise
from tests.simulation.world import World

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "guarantees.md"
BEGIN, END = "<!-- mutants -->\n", "<!-- end of mutants -->\n"
SEEDS_MAX = 2000

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake, the promise that it breaks first, and within how many worlds that is seen."""

    name: str
    patch: Patch
    promise: str
    within: int


def acknowledge_early(answer: Callable[[Forward], Any], qos: int) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        receive = Publishing.receive

        def mutant(self: Publishing, frame: Any, client_id: Any, peer: Any, now: float) -> Any:
            effects = receive(self, frame, client_id, peer, now)
            return effects + [
                Send(peer, answer(one))
                for one in effects
                if isinstance(one, Forward) and one.qos == qos
            ]

        monkeypatch.setattr(Publishing, "receive", mutant)

    return patch


def acknowledge_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = Readings.publish

    def mutant(self: Readings, forward: Forward) -> Any:
        sent = publish(self, forward)
        return Settled(forward) if sent is None and not self.is_open else sent

    monkeypatch.setattr(Readings, "publish", mutant)


def release_after_session_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Readings.open

    def mutant(self: Readings, packet: mqtt5.ConnAckPacket) -> Any:
        self._trust_session = True
        present = mqtt5.ConnAckPacket(session_present=True, receive_max=packet.receive_max)
        return opened(self, present)

    monkeypatch.setattr(Readings, "open", mutant)


def forget_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    close = Readings.close

    def mutant(self: Readings) -> None:
        close(self)
        for packet_id in [*self.in_flight.published]:
            self.in_flight.withdraw(packet_id)
        self.in_flight.released.clear()

    monkeypatch.setattr(Readings, "close", mutant)


def number_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start_over = InFlight.start_over

    def mutant(self: InFlight) -> None:
        start_over(self)
        for forward in self.waiting:
            forward.sequence = -1

    monkeypatch.setattr(InFlight, "start_over", mutant)


def qos0_overtakes(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = Readings.publish

    def mutant(self: Readings, forward: Forward) -> Any:
        if forward.qos == 0 and self.is_open:
            return self._transmit(forward)
        return publish(self, forward)

    monkeypatch.setattr(Readings, "publish", mutant)


def two_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(self: Delivering, message: Message, client_id: Any, peer: Any, now: float) -> Any:
        return self._start(message, client_id, peer, now)

    monkeypatch.setattr(Delivering, "deliver", mutant)


def newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = Delivering.keep

    def mutant(self: Delivering, message: Message, client_id: Any) -> Any:
        effects = keep(self, message, client_id)
        if self._outbox:
            self._outbox.rotate()
        return effects

    monkeypatch.setattr(Delivering, "keep", mutant)


def drop_for_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Delivering, "keep", lambda self, _message, _client: [] if self.due_at is None else []
    )


def replay_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = Retained.keep

    def mutant(self: Retained, message: Message) -> Kept:
        kept = keep(self, message)
        return Kept.NEW if kept is Kept.SAME else kept

    monkeypatch.setattr(Retained, "keep", mutant)


def constant(owner: Any, name: str, value: Any) -> Patch:
    """A method that always answers the same, or a number that is another."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        replaced = (lambda *_, **__: value) if callable(getattr(owner, name)) else value
        monkeypatch.setattr(owner, name, replaced)

    return patch


def topic_ids_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "next_topic_id", 1)


MUTANTS = (
    Mutant(
        "PUBACK before the settlement",
        acknowledge_early(lambda one: Puback(one.topic_id, one.message_id, 0), qos=1),
        "1",
        8,
    ),
    Mutant(
        "PUBREC before the settlement",
        acknowledge_early(lambda one: Pubrec(one.message_id), qos=2),
        "1",
        8,
    ),
    Mutant("acknowledge from memory while the broker is away", acknowledge_from_memory, "1", 8),
    Mutant("PUBREL after the broker lost its session", release_after_session_loss, "1", 8),
    Mutant(
        "PUBREL as if a forgetful broker could be trusted",
        constant(InFlight, "unrelease", None),
        "1",
        8,
    ),
    Mutant("what is in flight is forgotten with the connection", forget_in_flight, "1", 8),
    Mutant("a copy is known by its message id alone", constant(publishing, "_contents", 0), "1", 8),
    Mutant(
        "an acknowledgement goes to the next connection",
        constant(Publishing, "end_connection", None),
        "1",
        8,
    ),
    Mutant(
        "the receive set is forgotten", constant(Publishing, "_is_awaiting_release", False), "2", 8
    ),
    Mutant("no hold-down after PUBREL", constant(publishing, "HOLD_DOWN_S", 0.0), "2", 8),
    Mutant("a repeat gets a new sequence", number_again, "2", 8),
    Mutant("topic ids begin again with every session", topic_ids_again, "2", 8),
    Mutant("QoS 0 overtakes what waits", qos0_overtakes, "3", 8),
    Mutant("two messages under way to a sensor", two_under_way, "4a", 8),
    Mutant("the newest command first", newest_first, "4b", 8),
    Mutant("commands for an absent sensor are dropped", drop_for_absent, "4c", 8),
    Mutant(
        "QoS 2 from the broker is not remembered", constant(Receiving, "_is_repeat", False), "4d", 8
    ),
    Mutant("retained messages go to everyone again", replay_to_all, "4e", 8),
    Mutant("nothing is sent to a new subscriber", constant(Retained, "matching", ()), "4f", 8),
    Mutant("Receive Maximum is not obeyed", constant(InFlight, "has_room", True), "6", 8),
    Mutant("what waits has no limit", constant(InFlight, "wait", True), "6", 8),
)


@contextmanager
def switched_on(mutant: Mutant) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        mutant.patch(monkeypatch)
        yield


def first_catch(mutant: Mutant, seeds: int) -> tuple[int, str] | None:
    """How many worlds it took, and the message of the one that noticed."""
    with switched_on(mutant):
        for seed in range(seeds):
            try:
                World(seed).run()
            except BrokenPromise as error:
                return seed + 1, str(error)
    return None


def table() -> str:
    rows = [f"| {one.name} | {one.promise} | {one.within} |" for one in MUTANTS]
    head = [
        "| mistake in the gateway | breaks promise | seen within worlds |",
        "| --- | --- | --: |",
    ]
    return "\n".join([*head, *rows]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("--print", action="store_true", help="print the table, write nothing")
    parser.add_argument("--run", action="store_true", help="say what catches each mutant, and when")
    options = parser.parse_args()
    if options.run:
        for mutant in MUTANTS:
            caught = first_catch(mutant, SEEDS_MAX)
            print(f"{mutant.name}: {caught}")
    elif options.print:
        print(table(), end="")
    else:
        before, _, rest = DOCUMENT.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        DOCUMENT.write_text(before + BEGIN + table() + END + after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
