"""Messages to a sensor while the power goes at any step: none lost, at QoS 2 none twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from gateway.core.downlink.downlink import Downlink
from gateway.core.effects import Save, Send, UpstreamReleaseSaved
from gateway.core.events import Output
from gateway.core.mqtt.receiver import Receiver
from gateway.core.session.outbound import Outbound
from gateway.core.session.outbox import Stage
from gateway.core.values import Publication
from gateway.frames import Pubrel
from tests.support.power_cuts import World
from tests.support.samples import sample

SEEDS = range(40)  # two of them in the ordinary run


def first_of_each(payloads: list[bytes]) -> list[bytes]:
    return list(dict.fromkeys(payloads))


def check(world: World) -> None:
    heard = world.sensor.heard
    assert first_of_each(heard) == world.published, "each came, in order"
    if world.qos == 2:
        assert heard == world.published, "each came once"
    assert not [row for key, row in world.rows.durable.items() if key[0] in ("Message", "Packet")]


@pytest.mark.parametrize("sleeps", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("seed", sample(SEEDS, 2))
def test_the_power_may_go_at_any_step(seed: int, qos: int, sleeps: bool) -> None:
    calm = World(seed, qos=qos, sleeps=sleeps, cuts=()).run()
    check(calm)
    for cut in range(1, calm.steps + 1):
        try:
            check(World(seed, qos=qos, sleeps=sleeps, cuts=(cut,)).run())
        except AssertionError as error:
            raise AssertionError(
                f"seed {seed}, QoS {qos}, cut after step {cut}: {error}"
            ) from error


@pytest.mark.parametrize("seed", sample(SEEDS, 2))
def test_the_power_may_go_again_and_again(seed: int) -> None:
    dice = Random(seed)
    for qos in (1, 2):
        for sleeps in (False, True):
            for _ in range(30):
                cuts = tuple(sorted(dice.sample(range(1, 120), 4)))
                check(World(seed, qos=qos, sleeps=sleeps, cuts=cuts).run())


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("seed", sample(SEEDS, 2))
def test_the_connection_to_the_broker_may_break_at_any_step_and_the_power_may_go(
    seed: int, qos: int
) -> None:
    dice = Random(seed)
    for broken in range(1, 80, 2):
        breaks = (broken, broken + dice.randint(1, 40))
        sleeps = dice.random() < 0.5
        check(World(seed, qos=qos, sleeps=sleeps, breaks=breaks).run())
        cuts = (dice.randint(1, 100),)
        check(World(seed, qos=qos, sleeps=sleeps, breaks=breaks, cuts=cuts).run())


# The mistakes that this must see


def send_before_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = Outbound.deliver

    def mutant(self: Outbound, *given: Any) -> Any:
        self._durable_to = 1 << 60
        return sorted(deliver(self, *given), key=lambda effect: isinstance(effect, Save))

    monkeypatch.setattr(Outbound, "deliver", mutant)


def release_before_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    received = Outbound.receive_pubrec

    def mutant(self: Outbound, message_id: int, client_id: Any, peer: Any, now: float) -> Any:
        effects = received(self, message_id, client_id, peer, now)
        current = self.outstanding
        if current is not None and current.stage is Stage.RELEASING:
            current.stage = Stage.PUBCOMP
            effects.insert(0, Send(peer, Pubrel(message_id)))
        return effects

    monkeypatch.setattr(Outbound, "receive_pubrec", mutant)


def hand_back_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(self: Downlink, arrived: Publication, _now: float) -> list[Output]:
        return self._upstream.acknowledge(arrived)

    monkeypatch.setattr(Downlink, "_hand_back", mutant)


def forget_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Receiver, "restore", lambda *_: None)


def complete_before_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    release = Receiver.release

    def mutant(self: Receiver, packet_id: int) -> Any:
        release(self, packet_id)
        return [UpstreamReleaseSaved(packet_id, self.connection, True)]

    monkeypatch.setattr(Receiver, "release", mutant)


def begin_message_ids_again(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = Outbound.restore

    def mutant(self: Outbound, saved: Any, *rest: Any) -> None:
        restore(self, saved, *rest)
        if self.outstanding is not None:
            self.outstanding.message_id += 1000

    monkeypatch.setattr(Outbound, "restore", mutant)


def forget_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = Outbound.restore

    def mutant(self: Outbound, saved: Any, *rest: Any) -> None:
        restore(self, [replace(row, is_released=False) for row in saved], *rest)

    monkeypatch.setattr(Outbound, "restore", mutant)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("mistake", "qos"),
    [
        (send_before_it_is_durable, 2),
        (release_before_it_is_durable, 2),
        (forget_releases, 2),
        (begin_message_ids_again, 2),
        (hand_back_at_once, 1),
        (hand_back_at_once, 2),
        (forget_packets, 2),
        (complete_before_it_is_durable, 2),
    ],
)
def test_a_mistake_is_seen(
    mistake: Callable[[pytest.MonkeyPatch], None], qos: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    for seed in range(30):
        for cut in range(1, 80):
            try:
                check(World(seed, qos=qos, sleeps=bool(seed % 2), cuts=(cut,)).run())
            except AssertionError:
                return
    pytest.fail("nothing was lost, and nothing came twice")


@pytest.mark.plain
def test_that_what_came_before_is_saved_later_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Downlink, "save_late", lambda _: [])
    with pytest.raises(AssertionError, match="in order"):
        cut_again_and_again(3000)


def cut_again_and_again(worlds: int) -> None:
    dice = Random(1)
    for seed in range(worlds):
        cuts = tuple(sorted(dice.sample(range(1, 120), 4)))
        check(World(seed, qos=1, sleeps=True, cuts=cuts).run())
