"""What only LittleFS itself shows: a flash without room, and how many operations a wake costs."""

from __future__ import annotations

import pytest

pytest.importorskip("littlefs", reason="not run: littlefs-python has no build for this machine")

from firmware.app.store import Store
from firmware.loader.slots import Slots
from tests.firmware.app.fragile_flash import PowerCutError
from tests.firmware.app.littlefs_flash import BLOCK_OCTETS, LittleFsFlash

FOLDER = "/store"
READING = bytes(400)
# The root and a folder have two blocks each, an append needs one beside the segment's own.
BLOCKS_FEW = 9


def drained(store: Store) -> list[int]:
    found = []
    while (oldest := store.oldest()) is not None:
        assert oldest[1] == READING
        found.append(oldest[0])
        store.sent(oldest[0])
    return found


def test_what_it_says_of_a_full_one_is_what_a_board_says() -> None:
    flash = LittleFsFlash(blocks=BLOCKS_FEW)
    with pytest.raises(OSError, match="28"), flash.open("/big", "wb") as file:
        file.write(bytes(BLOCKS_FEW * BLOCK_OCTETS))
    with pytest.raises(FileNotFoundError):
        flash.open("/absent", "rb")
    flash.mkdir("/folder")
    with pytest.raises(FileExistsError):
        flash.mkdir("/folder")
    assert flash.contents("/") == {"big": b""}


def test_a_store_on_a_flash_without_room_has_the_newest_readings() -> None:
    flash = LittleFsFlash(blocks=BLOCKS_FEW)
    store = Store(flash, FOLDER)
    assert [store.append(READING) for _ in range(300)] == list(range(1, 301))
    found = drained(Store(flash, FOLDER))
    assert found == list(range(found[0], 301))
    assert len(found) > 8
    assert store.dropped == 300 - len(found)


def test_a_power_cut_without_room_takes_no_reading_but_the_oldest() -> None:
    flash = LittleFsFlash(blocks=BLOCKS_FEW, seed=5)
    newest = appended = cuts = 0
    while cuts < 300:
        flash.cut_in(flash.dice.randrange(60))
        try:
            store = Store(flash, FOLDER)
            for _ in range(4):
                newest = store.append(READING)
                appended += 1
        except PowerCutError:
            cuts += 1
        flash.restart()
        found = drained(Store(flash, FOLDER))
        assert found[-1] - newest in (0, 1)
        assert found == list(range(found[0], found[-1] + 1))
    assert appended > 200


def test_slots_are_switched_where_nothing_else_fits() -> None:
    flash = LittleFsFlash(blocks=BLOCKS_FEW)
    Slots(flash).booted(is_wake=False)
    store = Store(flash, FOLDER)
    for _ in range(100):
        store.append(READING)
    slots = Slots(flash)
    slots.switch(bytes(32))
    assert (Slots(flash).name, Slots(flash).is_trial) == ("b", True)


def test_an_ordinary_wake_costs_few_operations() -> None:
    flash = LittleFsFlash()
    Store(flash, FOLDER).append(READING)
    flash.save("/boot", b"value")
    before = flash.operations
    flash.save("/boot", b"other")
    saved = flash.operations - before
    Store(flash, FOLDER).append(READING)
    appended = flash.operations - before - saved
    assert (saved, appended) <= (6, 12)
