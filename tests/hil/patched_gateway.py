"""The gateway with a mistake in it: `python -m tests.hil.patched_gateway MISTAKE run ...`.

Boards under test and their oracles must notice each of them.
"""

from __future__ import annotations

import copy
import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from gateway.__main__ import main
from gateway.core.downlink.downlink import Downlink
from gateway.core.effects import Transmit
from gateway.core.mqtt.publisher import Publisher
from gateway.core.values import Reading
from gateway.frames import Puback
from gateway.storage.journal.journal import CommitGroup, Journal
from tests.simulation.mutants import acknowledge_early

EVERY = 4
SLOW_WRITE_S = 1.0  # so long that a kill meanwhile is in time on a busy machine as well
ANOTHER = 1_000_000  # so far from all sequences of a test

Transmitted = Callable[[Publisher, Reading], Any]


def reorder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fourth reading goes to the broker behind the next one."""
    transmit: Transmitted = Publisher._transmit
    held: list[bytes] = []
    count = itertools.count(1)

    def mutant(self: Publisher, reading: Reading) -> Any:
        effect = transmit(self, reading)
        assert isinstance(effect, Transmit)
        if next(count) % EVERY == 0:
            held.append(bytes(effect.packet))
            return Transmit(b"")
        late = b"".join(held)
        held.clear()
        return Transmit(bytes(effect.packet) + late)

    monkeypatch.setattr(Publisher, "_transmit", mutant)


def repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fourth reading goes to the broker twice, as if it were two."""
    transmit: Transmitted = Publisher._transmit
    count = itertools.count(1)

    def mutant(self: Publisher, reading: Reading) -> Any:
        effect = transmit(self, reading)
        assert isinstance(effect, Transmit)
        if next(count) % EVERY:
            return effect
        again = copy.copy(reading)
        again.sequence += ANOTHER
        packet_id = self.in_flight.publish(again)
        return Transmit(bytes(effect.packet) + self._writer.write(again, packet_id, dup=False))

    monkeypatch.setattr(Publisher, "_transmit", mutant)


def drop_retained(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is retained is acknowledged to the broker and reaches nobody."""
    arrived = Downlink.arrived

    def mutant(self: Downlink, one: Any, now: float) -> Any:
        if one.message.retain:
            return self._hand_back(one, now)
        return arrived(self, one, now)

    monkeypatch.setattr(Downlink, "arrived", mutant)


def corrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last byte of every fourth reading is another."""
    transmit: Transmitted = Publisher._transmit
    count = itertools.count(1)

    def mutant(self: Publisher, reading: Reading) -> Any:
        if next(count) % EVERY == 0:
            reading.payload = reading.payload[:-1] + bytes((reading.payload[-1] ^ 1,))
        return transmit(self, reading)

    monkeypatch.setattr(Publisher, "_transmit", mutant)


def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading is acknowledged before it is written, to a slow disk."""
    acknowledge_early(lambda one: Puback(one.topic_id, one.message_id, 0), qos=1)(monkeypatch)
    write = Journal.write

    def slow(self: Journal, group: CommitGroup) -> None:
        time.sleep(SLOW_WRITE_S)
        write(self, group)

    monkeypatch.setattr(Journal, "write", slow)


MISTAKES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "early": early,
    "reorder": reorder,
    "repeat": repeat,
    "drop_retained": drop_retained,
    "corrupt": corrupt,
}


if __name__ == "__main__":
    MISTAKES[sys.argv.pop(1)](pytest.MonkeyPatch())
    sys.exit(main())
