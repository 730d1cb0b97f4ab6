"""Kill the process at any call to the file system; the next life must know what was stored."""

from pathlib import Path
from random import Random

import pytest

from gateway.effects import Forward, contents_of
from tests.journal.support import SMALL, Driven, FaultyFiles, Killed, reading, rules


class Witness:
    """What was promised, over all lives."""

    def __init__(self) -> None:
        self.tags: dict[int, Forward] = {}  # stored, not yet settled, by sequence
        self.settled: set[int] = set()  # the broker has them, which may or may not be on disk
        self.durably_settled: set[int] = set()
        self.unreleased: dict[tuple[str, int], int] = {}
        self.maybe_released: set[tuple[str, int]] = set()
        self.next_sequence = 0


def play(seed: int, folder: Path) -> int:
    dice = Random(seed)
    witness = Witness()
    kills = 0
    for _ in range(6):
        try:
            live(dice, folder, witness)
        except Killed:
            kills += 1
    return kills


def live(dice: Random, folder: Path, witness: Witness) -> None:
    countdown = dice.randint(5, 400)

    def fault(_: str) -> object:
        nonlocal countdown
        countdown -= 1
        if countdown < 0:
            raise Killed
        return dice.random() < 0.05

    size = dice.choice([SMALL // 2, SMALL])
    driven = Driven(folder, rules(size, recent_s=dice.choice([0.0, 90.0])), FaultyFiles(fault))
    assert driven.recovered.report.damaged == []
    waiting = driven.recovered.received + driven.read()
    found = {forward.sequence: forward for forward in waiting}
    assert len(found) == len(waiting)
    assert [forward.record for forward in driven.recovered.received] == sorted(
        forward.record for forward in driven.recovered.received
    )
    for sequence, forward in witness.tags.items():
        assert sequence in found, f"{sequence} was stored and is lost"
        assert found[sequence].payload == forward.payload
    assert not witness.durably_settled & found.keys()
    unreleased = {
        (client, message_id): contents
        for client, exchanges in driven.recovered.exchanges.items()
        for message_id, contents in exchanges.unreleased
    }
    for key, contents in witness.unreleased.items():
        if key not in witness.maybe_released:
            assert unreleased.get(key) == contents
    witness.tags.update(found)
    witness.unreleased = unreleased
    witness.maybe_released.clear()
    held = list(found.values())
    parked: list[Forward] = []
    for _ in range(dice.randint(1, 60)):
        step(dice, driven, witness, held, parked)


def step(
    dice: Random, driven: Driven, witness: Witness, held: list[Forward], parked: list[Forward]
) -> None:
    journal = driven.journal
    driven.now += dice.random()
    new = []
    for _ in range(dice.randint(0, 12)):
        forward = reading(
            witness.next_sequence,
            client=f"s{dice.randint(0, 3)}",
            payload=dice.randbytes(dice.choice([1, 100, 3000])),
            qos=dice.choice([1, 2]),
            received_at=driven.now,
        )
        forward.message_id = dice.randint(1, 30)
        key = forward.client_id, forward.message_id
        if forward.qos == 2 and key in witness.unreleased:
            continue
        is_parked = dice.random() < 0.5
        if journal.store(forward, is_parked=is_parked) is None:
            witness.next_sequence += 1
            new.append((forward, is_parked))
            if forward.qos == 2:
                witness.unreleased[key] = contents_of(forward.topic, forward.payload, 2)
                witness.maybe_released.add(key)
    for forward in dice.sample(held, min(len(held), dice.randint(0, 14))):
        held.remove(forward)
        journal.finish(forward)
        del witness.tags[forward.sequence]
        witness.settled.add(forward.sequence)
    for key in list(witness.unreleased):
        if key not in witness.maybe_released and dice.random() < 0.4:
            witness.maybe_released.add(key)
            mark = journal.release(*key)
            driven.run()
            assert journal.durable_mark >= mark
            del witness.unreleased[key]
            witness.maybe_released.discard(key)
    outcome = driven.run()
    if not journal.has_pending:
        witness.durably_settled |= witness.settled
    for forward, is_parked in new:
        key = forward.client_id, forward.message_id
        if forward in outcome.stored or forward.record >= 0:
            witness.tags[forward.sequence] = forward
            (parked if is_parked else held).append(forward)
            witness.maybe_released.discard(key)
        else:
            witness.unreleased.pop(key, None)
            witness.maybe_released.discard(key)
    if dice.random() < 0.3:
        back = driven.read()
        assert [f.sequence for f in back] == [f.sequence for f in parked]
        held += back
        parked.clear()


@pytest.mark.parametrize("seed", range(60))
def test_nothing_stored_is_lost_whenever_the_process_is_killed(seed: int, tmp_path: Path) -> None:
    play(seed, tmp_path / "journal")
