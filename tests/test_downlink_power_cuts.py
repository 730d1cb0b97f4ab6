"""Messages to a sensor while the power goes at any step: none is lost, at QoS 2 none comes twice."""

from __future__ import annotations

import pytest

from tests.support.power_cuts import World

SEEDS = range(6)


def first_of_each(payloads: list[bytes]) -> list[bytes]:
    return list(dict.fromkeys(payloads))


def check(world: World) -> None:
    heard = world.sensor.heard
    assert first_of_each(heard) == world.published, "each came, in order"
    if world.qos == 2:
        assert heard == world.published, "each came once"
    assert not [row for key, row in world.rows.durable.items() if key[0] in ("message", "packet")]


@pytest.mark.parametrize("sleeps", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_power_may_go_at_any_step(seed: int, qos: int, sleeps: bool) -> None:
    calm = World(seed, qos=qos, sleeps=sleeps, cuts=()).run()
    check(calm)
    for cut in range(1, calm.steps + 1):
        try:
            check(World(seed, qos=qos, sleeps=sleeps, cuts=(cut,)).run())
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, QoS {qos}, cut after step {cut}: {error}") from error
