"""Which application runs: trial, rollback, safe mode, and back."""

from __future__ import annotations

import pytest

from firmware.loader.slots import DIED_MAX, TRIAL_WAKES_MAX, Slots
from tests.firmware.app.conftest import FlashMaker
from tests.firmware.app.fragile_flash import PowerCutError
from tests.firmware.app.simulated_flash import SimulatedFlash

DIGEST = bytes(range(32))


def on_trial(flash: SimulatedFlash) -> None:
    slots = Slots(flash)
    slots.booted(is_wake=False)
    slots.lived(is_safe=False)
    slots.switch(DIGEST)


def test_a_new_board_runs_what_is_in_a() -> None:
    slots = Slots(SimulatedFlash())
    assert (slots.name, slots.other, slots.is_trial) == ("a", "b", False)
    assert not slots.booted(is_wake=False)


def test_an_ordinary_wake_writes_nothing() -> None:
    flash = SimulatedFlash()
    Slots(flash).booted(is_wake=False)
    Slots(flash).lived(is_safe=False)
    before = flash.operations
    for _ in range(5):
        slots = Slots(flash)
        assert not slots.booted(is_wake=True)
        slots.lived(is_safe=False)
        slots.published()
    assert flash.operations == before


def test_three_died_boots_lead_to_safe_mode_and_a_cycle_there_to_one_more_try() -> None:
    flash = SimulatedFlash()
    boots = [Slots(flash).booted(is_wake=False) for _ in range(DIED_MAX + 1)]
    assert boots == [False] * DIED_MAX + [True]
    slots = Slots(flash)
    slots.lived(is_safe=True)
    assert not Slots(flash).booted(is_wake=True)
    assert not Slots(flash).booted(is_wake=False)
    assert Slots(flash).booted(is_wake=False)


def test_a_cycle_that_came_to_its_end_wipes_the_count() -> None:
    flash = SimulatedFlash()
    for _ in range(DIED_MAX - 1):
        Slots(flash).booted(is_wake=False)
    Slots(flash).lived(is_safe=False)
    assert [Slots(flash).booted(is_wake=False) for _ in range(DIED_MAX)] == [False] * DIED_MAX


def test_when_safe_mode_dies_as_often_the_other_slot_is_tried_by_turns() -> None:
    flash = SimulatedFlash()
    names = []
    for _ in range(4 * DIED_MAX):
        slots = Slots(flash)
        slots.booted(is_wake=False)
        names.append(slots.name)
    assert names == list("aaaaaabbbaaa")


def test_one_on_trial_that_publishes_stays() -> None:
    flash = SimulatedFlash()
    on_trial(flash)
    slots = Slots(flash)
    assert (slots.name, slots.is_trial) == ("b", True)
    slots.booted(is_wake=False)
    slots.published()
    for _ in range(DIED_MAX + 1):
        slots = Slots(flash)
        slots.booted(is_wake=False)
        assert (slots.name, slots.is_trial) == ("b", False)


def test_one_on_trial_that_dies_is_left_for_the_former_one() -> None:
    flash = SimulatedFlash()
    on_trial(flash)
    names = []
    for _ in range(DIED_MAX + 2):
        slots = Slots(flash)
        assert not slots.booted(is_wake=False)
        names.append(slots.name)
    assert names == ["b"] * DIED_MAX + ["a"] * 2
    assert Slots(flash).tried == DIGEST[:8]


def test_one_on_trial_that_never_publishes_is_left_too() -> None:
    flash = SimulatedFlash()
    on_trial(flash)
    for _ in range(TRIAL_WAKES_MAX):
        slots = Slots(flash)
        slots.booted(is_wake=True)
        slots.lived(is_safe=False)
        assert slots.name == "b"
    Slots(flash).booted(is_wake=True)
    assert (Slots(flash).name, Slots(flash).is_trial) == ("a", False)


def test_a_power_cut_leaves_a_record_that_was_or_is_to_be(new_flash: FlashMaker) -> None:
    for seed in range(20):
        for cut_at in range(8):
            flash = new_flash(seed)
            Slots(flash).booted(is_wake=False)
            slots = Slots(flash)
            flash.cut_in(cut_at)
            try:
                slots.switch(DIGEST)
                done = True
            except PowerCutError:
                done = False
            flash.restart()
            found = Slots(flash)
            states = {(False, "b", True)} | ({(False, "a", False)} if not done else set())
            assert (found.booted(is_wake=True), found.name, found.is_trial) in states


def test_a_record_of_another_version_is_none() -> None:
    flash = SimulatedFlash()
    on_trial(flash)
    kept = flash.load("/boot")
    assert kept is not None
    flash.save("/boot", b"\x02" + kept[1:])
    assert Slots(flash).name == "a"


def test_on_a_flash_that_takes_nothing_the_node_runs_and_no_update_is_tried() -> None:
    flash = SimulatedFlash(octets_max=0)
    slots = Slots(flash)
    for _ in range(5):
        assert not Slots(flash).booted(is_wake=False)
    slots.lived(is_safe=False)
    with pytest.raises(OSError, match="5"):
        slots.switch(DIGEST)
    assert Slots(flash).name == "a"
