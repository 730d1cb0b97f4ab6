"""Many worlds, each from its seed, in which the gateway must keep its promises.

A failing seed is in the message, with the command that replays it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from functools import cache, partial
from pathlib import Path

import pytest

from gateway.core.effects import Send
from gateway.core.uplink import uplink
from gateway.frames import Puback, ReturnCode
from tests.simulation.gateway_host import GatewayHost
from tests.simulation.hard_plans import KINDS
from tests.simulation.plan import Trouble
from tests.simulation.watch import BrokenPromiseError
from tests.simulation.world import World
from tests.support.samples import sample, seeds

REPOSITORY = Path(__file__).resolve().parents[2]
WORLDS, WORLDS_ORDINARY = 2000, 150
HARD_WORLDS = 6  # of most kinds
OVERRUN_WORLDS = 3
HARD_WORLDS_SOAKED = 3000
OVERRUN_WORLDS_SOAKED = 200
WORLDS_SOAKED = 20_000
CHUNK = 25
CHUNK_SOAKED = 1000
OVERFLOW = 2  # readings in memory; ten thousand are more than a world has
SEEN_MIN = 3  # in the ordinary worlds, or in a chunk of a kind
ON_DISK = (
    "stored",
    "not stored",
    "read back",
    "recovered",
    "journal full",
    "journal failed",
    "journal degraded",
)

# Troubles that only worlds of these kinds have, and what must be seen in some of those.
OF_OTHER_KINDS = {Trouble.HUNG_DISK, Trouble.TAKEN_FILES}
WANTED_OF = {
    "failing": ("journal degraded", "journal failed", "not stored"),
    "hung": (Trouble.HUNG_DISK.value, "acknowledged while files hang"),
    "taken": (Trouble.TAKEN_FILES.value, "read back", "journal failed"),
    "resized": ("stored", "journal full", "lives"),
    "deaf": ("given up",),
    "ending": (
        "set aside",
        "refused for good",
        "ended by the broker",
        "filters that end the connection",
        "wills set aside",
    ),
}

# Nothing is covered by worlds alone, and to count lines makes them a quarter slower.
pytestmark = pytest.mark.no_cover


def failures(seeds: range, kind: str = "any", seen: Counter[str] | None = None) -> list[str]:
    """The promises that were broken; what was `seen` in those worlds is counted there."""
    found = []
    seen = Counter() if seen is None else seen
    for seed in seeds:
        world = World(seed, kind=kind)
        world.on_life = partial(listen_in, seen=seen)
        try:
            world.run()
        except BrokenPromiseError as error:
            found.append(str(error))
        else:
            take_stock(world, seen)
    return found


@cache
def run_of(some: range, kind: str = "any") -> tuple[list[str], Counter[str]]:
    """Promises broken in these worlds, and what was seen there; two tests ask for some."""
    seen: Counter[str] = Counter()
    return failures(some, kind, seen), seen


def ordinary(kind: str) -> range:
    return range(CHUNK if kind in WANTED_OF else HARD_WORLDS)


@pytest.mark.guarantee("9")
@pytest.mark.parametrize("some", seeds(WORLDS_ORDINARY, WORLDS, each=CHUNK))
def test_the_gateway_keeps_its_promises_in_every_world(some: range) -> None:
    found, _ = run_of(some)
    assert not found, "\n\n".join(found)


@pytest.mark.guarantee("9", "11")
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"any"}))
def test_the_gateway_keeps_its_promises_in_hard_worlds(kind: str) -> None:
    found, _ = run_of(ordinary(kind), kind)
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("any", 201352),
        ("attacked", 300100),
        ("eager", 300860),
        ("ending", 300212),
        ("failing", 300343),
        ("failing", 300562),
        ("faithful", 300997),
        ("full", 300611),
        ("hung", 300198),
        ("losing", 300508),
        ("resized", 300208),
        ("resized", 300500),
    ],
)
def test_so_does_one_in_worlds_that_have_found_something(kind: str, seed: int) -> None:
    assert failures(range(seed, seed + 1), kind) == []


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(
    "some",
    sample([range(OVERRUN_WORLDS), range(OVERRUN_WORLDS, OVERRUN_WORLDS_SOAKED)], 1),
    ids=["few", "many"],
)
def test_so_does_one_that_is_overrun_soon(
    some: range, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uplink, "OVERFLOW", OVERFLOW)
    found = failures(some, kind)
    assert not found, "\n\n".join([f"with uplink.OVERFLOW = {OVERFLOW}", *found])


@pytest.mark.soak
@pytest.mark.parametrize("first", range(HARD_WORLDS, HARD_WORLDS_SOAKED, CHUNK_SOAKED))
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"any"}))
def test_the_gateway_keeps_its_promises_in_very_many_hard_worlds(kind: str, first: int) -> None:
    found = failures(range(first, first + CHUNK_SOAKED), kind)
    assert not found, "\n\n".join(found)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(WORLDS, WORLDS + WORLDS_SOAKED, CHUNK_SOAKED))
def test_the_gateway_keeps_its_promises_in_very_many_worlds(first: int) -> None:
    found = failures(range(first, first + CHUNK_SOAKED))
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize("seed", [7, 4711])
def test_the_same_seed_is_the_same_world(seed: int) -> None:
    first, again = World(seed).run(), World(seed).run()
    assert (first.digest, first.steps) == (again.digest, again.steps)
    assert World(seed + 1).run().digest != first.digest


def test_the_same_seed_is_the_same_world_in_another_process() -> None:
    """Also where strings hash otherwise, so that a failing world replays."""
    command = [sys.executable, "-m", "tests.simulation", "4711"]
    said = [
        subprocess.run(
            command,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert said[0] == said[1] != ""


def test_a_trace_tells_what_happened_without_changing_it() -> None:
    lines: list[str] = []
    told = World(7, lines.append).run()
    assert told.digest == World(7).run().digest
    assert any("Connect(" in line for line in lines)
    assert any("broker routes" in line for line in lines)


def listen_in(host: GatewayHost, seen: Counter[str]) -> None:
    """Count what a life of the gateway says and does."""
    watch_said, on_disk = host.on_said, host.on_disk

    def said(send: Send) -> None:
        if isinstance(send.frame, Puback):
            code = send.frame.return_code
            seen["refused for lack of room"] += code == ReturnCode.CONGESTION
            is_hung = host.is_disk_hung
            seen["acknowledged while files hang"] += is_hung and code == ReturnCode.ACCEPTED
        watch_said(send)

    def disk_did(line: str) -> None:
        for what in ON_DISK:
            seen[what] += line.startswith(what)
        on_disk(line)

    host.on_said, host.on_disk = said, disk_did


def take_stock(world: World, seen: Counter[str]) -> None:
    """Count what was in a world that is over."""
    events = world.plan.events
    seen.update(event.trouble.value for event in events)
    seen.update(event.restart.value for event in events if event.trouble is Trouble.OUTAGE)
    for fate in world.readings.fates.values():
        seen[f"acknowledged at QoS {fate.reading.qos}"] += fate.acknowledged
        seen["repeated with its tag"] += any(times > 1 for times in fate.tags.values())
    seen["commands owed"] += sum(len(ear.owed) for ear in world.downlink.ears())
    seen["wills published"] += world.wills.routed_count
    seen["lives"] += world.gateway.options.upstream.epoch
    seen["set aside"] += world.endings.set_aside.total()
    seen["wills set aside"] += sum(
        payload.startswith(b"will:") for payload in world.endings.set_aside
    )
    seen["refused for good"] += len(world.endings.refused)
    seen["innocent and set aside or refused"] += len(world.endings.innocents)
    for session in world.gateway.engine.sessions.values():
        given_up = session.outbound.given_up
        seen["given up"] += 0 if given_up is None else given_up.count
    seen["over the broker's quota"] += world.broker.over_quota
    for cause, times in world.broker.ended.items():
        seen["ended by the broker"] += times
        seen["filters that end the connection"] += times if "SUBSCRIBE" in cause else 0
    seen["retained with the flag"] += sum(len(ear.flagged) for ear in world.downlink.ears())


def test_worlds_are_full_of_trouble() -> None:
    """A simulator in which nothing happens finds nothing. A degraded journal is rare in these."""
    parts = [range(first, first + CHUNK) for first in range(0, WORLDS_ORDINARY, CHUNK)]
    seen = sum((run_of(part)[1] for part in parts), Counter[str]())
    wanted = {
        *(what for what in ON_DISK if what != "journal degraded"),
        *(trouble.value for trouble in Trouble if trouble not in OF_OTHER_KINDS),
        "sessions lost",
        "sessions present, messages in flight forgotten",
        "acknowledged at QoS 1",
        "acknowledged at QoS 2",
        "repeated with its tag",
        "refused for lack of room",
        "commands owed",
        "wills published",
        "lives",
        "retained with the flag",
    }
    assert {what for what in wanted if seen[what] < SEEN_MIN} == set(), seen


@pytest.mark.parametrize("kind", sorted(WANTED_OF))
def test_so_are_those_of_a_kind(kind: str) -> None:
    _, seen = run_of(ordinary(kind), kind)
    assert {what for what in WANTED_OF[kind] if seen[what] < SEEN_MIN} == set(), seen
