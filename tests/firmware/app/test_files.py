"""Small values in files: old or new after a power cut, never neither."""

from __future__ import annotations

import pytest

from tests.firmware.app.conftest import FlashMaker
from tests.firmware.app.fragile_flash import PowerCutError
from tests.firmware.app.simulated_flash import SimulatedFlash

PATH = "/boot"


def test_what_was_saved_is_loaded_until_it_is_forgotten() -> None:
    flash = SimulatedFlash()
    assert flash.load(PATH) is None
    flash.save(PATH, b"one")
    flash.save(PATH, b"")
    assert flash.load(PATH) == b""
    flash.forget(PATH)
    assert flash.load(PATH) is None
    assert flash.files == {}


def test_damaged_octets_are_nothing() -> None:
    flash = SimulatedFlash()
    flash.save(PATH, b"value")
    whole = flash.files[PATH]
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 4
        flash.files[PATH] = bytes(damaged)
        assert flash.load(PATH) is None
        flash.files[PATH] = whole[:at]
        assert flash.load(PATH) is None


def test_a_power_cut_leaves_the_old_value_or_the_new_one(new_flash: FlashMaker) -> None:
    seen = set()
    for cut_at in range(12):
        for seed in range(20):
            flash = new_flash(seed)
            flash.save(PATH, b"old")
            flash.cut_in(cut_at)
            try:
                flash.save(PATH, b"new")
            except PowerCutError:
                seen.add(cut_at)
            flash.restart()
            assert flash.load(PATH) in (b"old", b"new")
            flash.save(PATH, b"newer")
            assert flash.load(PATH) == b"newer"
    assert len(seen) >= 3


def test_a_flash_without_room_keeps_the_old_value() -> None:
    flash = SimulatedFlash(octets_max=20)
    flash.save(PATH, b"old")
    with pytest.raises(OSError, match="28"):
        flash.save(PATH, bytes(20))
    assert flash.load(PATH) == b"old"
