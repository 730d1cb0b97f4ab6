"""The ring of readings: what it gives, what it drops, and that no power cut takes a reading."""

from __future__ import annotations

import random

import pytest

from firmware.app.store import READING_OCTETS_MAX, SEGMENT_OCTETS, Store
from tests.firmware.app.conftest import FlashMaker
from tests.firmware.app.fragile_flash import FragileFlash, PowerCutError
from tests.firmware.app.simulated_flash import SimulatedFlash

FOLDER = "/store"


def reading(number: int) -> bytes:
    return b"%d:" % number + bytes(range(number % 60))


def drained(store: Store) -> list[tuple[int, bytes]]:
    found = []
    while (oldest := store.oldest()) is not None:
        found.append(oldest)
        store.sent(oldest[0])
    return found


def test_readings_are_given_in_order_until_they_are_sent() -> None:
    store = Store(SimulatedFlash(), FOLDER)
    assert store.oldest() is None
    assert [store.append(reading(number)) for number in (1, 2, 3)] == [1, 2, 3]
    assert store.oldest() == store.oldest() == (1, reading(1))
    store.sent(1)
    assert store.waiting == 2
    assert drained(store) == [(2, reading(2)), (3, reading(3))]
    assert store.oldest() is None
    assert store.append(b"more") == 4
    assert store.oldest() == (4, b"more")


def test_after_a_restart_the_unsent_ones_are_there_over_many_segments() -> None:
    flash = SimulatedFlash()
    store = Store(flash, FOLDER)
    for number in range(1, 401):
        store.append(reading(number))
        if number <= 200:
            store.sent(number)
    assert len(flash.files) > 2
    again = Store(flash, FOLDER)
    assert (again.next, again.oldest_unsent) == (401, 201)
    assert drained(again) == [(number, reading(number)) for number in range(201, 401)]


def test_what_was_sent_since_the_last_reading_is_given_again_unless_the_caller_knows() -> None:
    flash = SimulatedFlash()
    store = Store(flash, FOLDER)
    store.append(b"one")
    store.sent(1)
    again = Store(flash, FOLDER)
    assert again.oldest() == (1, b"one")
    again.sent(1)
    assert again.oldest() is None


def test_a_full_ring_drops_the_oldest_and_counts_them() -> None:
    flash = SimulatedFlash()
    store = Store(flash, FOLDER, segments=3)
    for _ in range(100):
        store.append(bytes(400))
    assert len(flash.files) == 3
    assert all(len(content) <= SEGMENT_OCTETS for content in flash.files.values())
    kept = drained(store)
    assert store.dropped == 100 - len(kept)
    assert [sequence for sequence, _ in kept] == list(range(store.dropped + 1, 101))
    assert len(kept) >= 2 * (SEGMENT_OCTETS // 415)


def test_segments_of_which_all_is_sent_are_removed_before_they_are_needed() -> None:
    flash = SimulatedFlash()
    store = Store(flash, FOLDER)
    for _ in range(100):
        store.append(bytes(400))
        drained(store)
    assert len(flash.files) <= 2
    assert store.dropped == 0


def test_a_flash_without_room_loses_the_oldest_reading_and_not_the_newest() -> None:
    flash = SimulatedFlash(octets_max=10_000)
    store = Store(flash, FOLDER)
    for _ in range(60):
        store.append(bytes(400))
    assert drained(store)[-1][0] == 60
    assert store.dropped > 30


def test_a_flash_that_takes_nothing_is_an_error_that_names_it() -> None:
    store = Store(SimulatedFlash(octets_max=300), FOLDER)
    with pytest.raises(OSError, match="28"):
        store.append(bytes(400))
    assert store.append(b"small") == 1
    assert drained(store) == [(1, b"small")]


def test_a_reading_too_long_is_refused() -> None:
    store = Store(SimulatedFlash(), FOLDER)
    with pytest.raises(ValueError, match="512"):
        store.append(bytes(READING_OCTETS_MAX + 1))
    store.append(bytes(READING_OCTETS_MAX))
    assert drained(store) == [(1, bytes(READING_OCTETS_MAX))]


@pytest.mark.parametrize("seed", range(30))
def test_damaged_octets_cost_the_readings_they_hit_and_no_other(seed: int) -> None:
    dice = random.Random(seed)
    flash = SimulatedFlash()
    store = Store(flash, FOLDER)
    for number in range(1, 401):
        store.append(reading(number))
    name = dice.choice(sorted(flash.files))
    content = bytearray(flash.files[name])
    at = dice.randrange(len(content))
    content[at] ^= 1 << dice.randrange(8)
    flash.files[name] = bytes(content)
    again = Store(flash, FOLDER)
    found = drained(again)
    assert len(found) == 400 - again.dropped >= 399
    assert all(octets == reading(sequence) for sequence, octets in found)


def test_the_store_goes_on_behind_a_torn_record() -> None:
    flash = SimulatedFlash()
    store = Store(flash, FOLDER)
    store.append(b"one")
    (name,) = flash.files
    flash.files[name] += b"\xa7\x00\x30torn"
    again = Store(flash, FOLDER)
    again.append(b"two")
    assert list(flash.files) == [name]
    assert drained(Store(flash, FOLDER)) == [(1, b"one"), (2, b"two")]


def test_a_segment_without_an_octet_is_one_to_write_to() -> None:
    flash = SimulatedFlash()
    Store(flash, FOLDER)
    flash.files["/store/00000001"] = b""
    store = Store(flash, FOLDER)
    for number in (1, 2):
        store.append(reading(number))
    assert drained(store) == [(1, reading(1)), (2, reading(2))]
    assert list(flash.files) == ["/store/00000001"]


def one_life(flash: FragileFlash, kept: dict[int, bytes], given: list[int]) -> None:
    """Append what comes next and send most of what there is; note what was promised."""
    store = Store(flash, FOLDER, segments=4)
    for _ in range(3):
        while (oldest := store.oldest()) is not None and len(given) % 7:
            assert oldest[1] == b"%d" % oldest[0] * 50, "a corrupt one"
            given.append(oldest[0])
            store.sent(oldest[0])
        given.append(0)
        octets = b"%d" % store.next * 50
        kept[store.append(octets)] = octets


def lives(flash: FragileFlash, points: int) -> None:
    """The power goes at so many points of them; no reading is lost, and none comes corrupt."""
    kept: dict[int, bytes] = {}
    given: list[int] = []
    usual = cuts = 0  # operations of a life whose power stayed
    while cuts < points:
        before = flash.operations
        one_life(flash, kept, given)
        usual = max(usual, flash.operations - before)
        flash.cut_in(flash.dice.randrange(usual))
        try:
            one_life(flash, kept, given)
        except PowerCutError:
            cuts += 1
        flash.restart()
    store = Store(flash, FOLDER, segments=4)
    while (oldest := store.oldest()) is not None:
        assert oldest[1] == b"%d" % oldest[0] * 50
        given.append(oldest[0])
        store.sent(oldest[0])
    assert len(kept) > 3 * points
    assert kept.keys() - set(given) == set()


@pytest.mark.parametrize("seed", range(4))
def test_no_power_cut_takes_a_reading_or_gives_a_corrupt_one(
    new_flash: FlashMaker, seed: int
) -> None:
    lives(new_flash(seed), points=100)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4, 8))
def test_no_power_cut_of_ten_thousand_takes_a_reading_or_gives_a_corrupt_one(
    new_flash: FlashMaker, seed: int
) -> None:
    lives(new_flash(seed), points=2500)
