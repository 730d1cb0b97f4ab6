"""That sleepers and wills really meet trouble in the worlds: counted once, over some of them.

What they are promised is held by all worlds, in downlink_watch.py and will_watch.py.
"""

from __future__ import annotations

from collections import Counter

import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Effect, Save, Send, StateChanged
from gateway.core.session.session import Session
from gateway.core.state_records import DueWillRecord, MessageRecord, State
from gateway.frames import Connect, Disconnect, Frame, Pingreq, Publish, Pubrel
from tests.simulation.eager import Eager
from tests.simulation.gateway_host import GatewayHost
from tests.simulation.world import World
from tests.support.samples import sample

WORLDS, DYING = 120, 30  # and in the ordinary run one in PART of them
PART = 2
SLEEPING = (State.ASLEEP, State.AWAKE)
# In so many worlds at least; all of test_worlds.py hold very many more.
SEEN_MIN = {
    "fell asleep": 150,
    "declared sleep again while asleep": 60,
    "with another duration": 45,
    "kept for a sleeper": 120,
    "woke to fetch": 300,
    "PINGRESP to one that fetched": 300,
    "asked again while awake": 15,
    "sent while awake": 150,
    "sent while awake with DUP": 45,
    "PUBREL while awake": 30,
    "went back unanswered": 1,  # chance decides which worlds have this, and the next
    "woke by CONNECT": 30,
    "published in its sleep": 45,
    "QoS 0 dropped for a sleeper": 30,
    "lost in its sleep": 15,
    "lost with its will": 15,
    "came back from a gateway's end asleep": 30,
    "will due": 15,
    "will due and restored": 1,
    "will at the broker": 15,
}

NAPPING_WORLDS = 50
NAPPING_MIN = {
    "fell asleep": 250,
    "woke to fetch": 250,
    "woke by CONNECT": 25,
    "published in its sleep": 50,
    "of several at once": 25,
    "came back from a gateway's end asleep": 25,
}


class Count:
    """What happens to sleepers and wills in one world."""

    def __init__(self, world: World, seen: Counter[str]) -> None:
        self._world = world
        self._seen = seen
        heard = world.downlink.heard
        self._heard = heard
        world.on_life = self._listen_in
        world.downlink.heard = self._hear  # type: ignore[method-assign]

    def _listen_in(self, host: GatewayHost) -> None:
        said, news, saved, on_disk = host.on_said, host.on_news, host.on_saved, host.on_disk

        def on_said(send: Send) -> None:
            self._say(host, send)
            said(send)

        def on_news(effect: Effect) -> None:
            self._tell(host, effect)
            news(effect)

        def on_saved(effect: Save) -> None:
            self._save(host, effect)
            saved(effect)

        def disk_did(line: str) -> None:
            on_disk(line)
            if line.startswith("recovered"):
                self._restored(host)

        host.on_said, host.on_news, host.on_saved, host.on_disk = (
            on_said,
            on_news,
            on_saved,
            disk_did,
        )

    def _hear(self, sensor: object, frame: Frame, session: Session | None) -> None:
        seen = self._seen
        if session is not None and session.state in SLEEPING:
            is_awake = session.state is State.AWAKE
            match frame:
                case Disconnect(duration_s) if duration_s:
                    seen["declared sleep again while asleep"] += 1
                    seen["with another duration"] += duration_s != session.sleep_s
                case Connect():
                    seen["woke by CONNECT"] += 1
                case Pingreq(client_id) if client_id:
                    seen["asked again while awake"] += is_awake
                case Publish():
                    seen["published in its sleep"] += 1
                    seen["of several at once"] += isinstance(sensor, Eager) and sensor.under_way > 1
        self._heard(sensor, frame, session)  # type: ignore[arg-type]

    def _say(self, host: GatewayHost, send: Send) -> None:
        for session in host.engine.sessions.values():
            if session.peer == send.peer and session.state is State.AWAKE:
                if isinstance(send.frame, Publish):
                    self._seen["sent while awake"] += 1
                    self._seen["sent while awake with DUP"] += send.frame.dup
                self._seen["PUBREL while awake"] += isinstance(send.frame, Pubrel)

    def _tell(self, host: GatewayHost, news: Effect) -> None:
        seen = self._seen
        match news:
            case Dropped(Reason.ASLEEP):
                seen["QoS 0 dropped for a sleeper"] += 1
            case StateChanged(_, State.ACTIVE, State.ASLEEP):
                seen["fell asleep"] += 1
            case StateChanged(_, State.ASLEEP, State.AWAKE):
                seen["woke to fetch"] += 1
            case StateChanged(_, State.AWAKE, State.ASLEEP, _, detail) if "retries" in detail:
                seen["went back unanswered"] += 1
            case StateChanged(client_id, before, State.LOST):
                session = host.engine.sessions.get(client_id)
                seen["lost in its sleep"] += before is State.ASLEEP
                seen["lost with its will"] += session is not None and session.will is not None

    def _save(self, host: GatewayHost, effect: Save) -> None:
        change = effect.change
        self._seen["will due"] += isinstance(change, DueWillRecord)
        if isinstance(change, MessageRecord):
            state = host.engine.sessions[change.client_id].state
            self._seen["kept for a sleeper"] += state is State.ASLEEP

    def _restored(self, host: GatewayHost) -> None:
        states = [session.state for session in host.engine.sessions.values()]
        self._seen["came back from a gateway's end asleep"] += states.count(State.ASLEEP)
        self._seen["will due and restored"] += len(host.engine._pending_wills._due)


def too_few(seen: Counter[str], wanted: dict[str, int], part: int) -> dict[str, int]:
    """Of a part of the worlds half of its share is enough, as chance decides more there."""
    share = part if part == 1 else 2 * part
    return {what: seen[what] for what, least in wanted.items() if seen[what] < least // share}


@pytest.mark.parametrize("part", sample([PART, 1], 1))
def test_the_worlds_are_full_of_sleepers_and_wills(part: int) -> None:
    seen: Counter[str] = Counter()
    # Wills that are due when the gateway ends are most where the journal is full and sensors die.
    counts = {"any": WORLDS // part, "dying": DYING // part}
    seeds = [(kind, seed) for kind, count in counts.items() for seed in range(count)]
    for kind, seed in seeds:
        world = World(seed, kind=kind)
        Count(world, seen)
        world.run()
        seen["PINGRESP to one that fetched"] += world.downlink.pingresps
        seen["will at the broker"] += world.wills.routed_count
    assert too_few(seen, SEEN_MIN, part) == {}, seen


@pytest.mark.parametrize("part", sample([PART, 1], 1))
def test_those_with_several_readings_under_way_sleep_and_talk_in_their_sleep(part: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(NAPPING_WORLDS // part):
        world = World(seed, kind="napping")
        Count(world, seen)
        world.run()
    assert too_few(seen, NAPPING_MIN, part) == {}, seen
