"""Protected packets in worlds with every trouble; and mistakes that these worlds notice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from firmware.mqttsn.protect import Protected
from gateway.core.protection.channel import Channel
from gateway.core.protection.protection import Protection
from gateway.core.protection.replay_window import Age, ReplayWindow
from tests.simulation.protected_world import (
    NO_NONCE_TWICE,
    NOT_LOCKED_OUT,
    NOTHING_REPLAYED,
    ProtectedWorld,
)
from tests.simulation.watch import BrokenPromiseError
from tests.support.samples import seeds

pytestmark = pytest.mark.no_cover  # as of the other worlds
WORLDS = seeds(20, 2000, each=20)
SEEN_WITHIN = 12
SHORT_LIFE = 336
Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("some", WORLDS)
def test_no_nonce_twice_nothing_replayed_no_device_locked_out(some: range) -> None:
    for seed in some:
        ProtectedWorld(seed).run()


def test_the_same_seed_is_the_same_world() -> None:
    assert ProtectedWorld(3).run().counts == ProtectedWorld(3).run().counts


def device_saves_what_it_has_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not what it may use until it saves again."""
    reserve = Protected._reserve

    def mutant(self: Protected) -> None:
        save = self._save
        self._save = lambda kept: save(kept[:2] + self._next.to_bytes(4, "big"))
        try:
            reserve(self)
        finally:
            self._save = save

    monkeypatch.setattr(Protected, "_reserve", mutant)


def copies_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = ReplayWindow.judge

    def mutant(self: ReplayWindow, counter: int) -> Age:
        found = judge(self, counter)
        return Age.NEW if found is Age.SEEN else found

    monkeypatch.setattr(ReplayWindow, "judge", mutant)


def any_series_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    is_new = Protected._is_new

    def mutant(
        self: Protected, run: bytes, series: int, counter: int, answer: bytes
    ) -> bool | None:
        return True if series else is_new(self, run, series, counter, answer)

    monkeypatch.setattr(Protected, "_is_new", mutant)


def gateway_never_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Channel, "_may_talk", lambda *_: False)


def gateway_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the counters of this run are on its disk."""
    monkeypatch.setattr(Protection, "hold", lambda _: None)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("patch", "promise"),
    [
        (device_saves_what_it_has_used, NO_NONCE_TWICE),
        (copies_are_new, NOTHING_REPLAYED),
        (any_series_is_right, NOTHING_REPLAYED),
        (gateway_never_asks, NOT_LOCKED_OUT),
    ],
)
def test_the_worlds_notice(patch: Patch, promise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch(monkeypatch)
    with pytest.raises(BrokenPromiseError, match=promise[:2]):
        run_many()


@pytest.mark.plain
def test_a_gateway_that_does_not_wait_for_its_disk_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes an ordered end, a start, and a power cut within a quarter of a second."""
    ProtectedWorld(SHORT_LIFE).run()
    gateway_does_not_wait(monkeypatch)
    with pytest.raises(BrokenPromiseError, match=NO_NONCE_TWICE[:2]):
        ProtectedWorld(SHORT_LIFE).run()


def run_many() -> None:
    for seed in range(1, 1 + SEEN_WITHIN):
        ProtectedWorld(seed).run()
