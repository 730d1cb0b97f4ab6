"""The watch over what stands still, at work in a simulated world as it is in the daemon."""

from __future__ import annotations

from collections.abc import Callable

from gateway.admin.part_numbers import Cause, Standstill
from gateway.app.watch import Part, Watch
from gateway.core.alarm_names import AlarmName
from gateway.core.liveness import WaitsFor
from tests.simulation.agenda import Agenda
from tests.simulation.gateway_host import GatewayHost
from tests.simulation.world import World

LOOK_EVERY_S = 1.0


def watch_over(host: GatewayHost) -> Watch:
    """What `gateway/app/build_watch.py` does for the daemon; the world's broker takes all bytes."""
    journal, state = host._committer, host._state

    def of_journal() -> Cause:
        return Cause.DISK if journal.waits_for_disk() else Cause.INSIDE

    def of_state() -> Cause:
        return Cause.DISK if state.waits_for_disk() else Cause.INSIDE

    parts = (
        Part(AlarmName.JOURNAL_STALLED, "the journal's work", journal.mark, of_journal),
        Part(AlarmName.STATE_STALLED, "the saving of sessions", state.mark, of_state),
    )
    causes = {
        WaitsFor.NOBODY: lambda: Cause.INSIDE,
        WaitsFor.JOURNAL: of_journal,
        WaitsFor.STATE: of_state,
        WaitsFor.BROKER: lambda: Cause.BROKER,
        WaitsFor.ROOM: lambda: Cause.BROKER,
    }
    return Watch(engine=host.engine, parts=parts, causes=causes)


def watch_world(world: World, tell: Callable[[float, Standstill], None]) -> None:
    """`tell` gets each standstill at each look, and when."""

    def begin(host: GatewayHost) -> None:
        world.agenda.after(LOOK_EVERY_S, host.late.timer, look, world.agenda, host, None)

    def look(agenda: Agenda, host: GatewayHost, watch: Watch | None) -> None:
        if watch is not None and not host.is_on:
            return  # its life is over
        if host.is_on and not host._is_stopping:
            watch = watch or watch_over(host)
            watch.look(host.late.now())
            for one in watch.found:
                tell(agenda.now, one)
        agenda.after(LOOK_EVERY_S, host.late.timer, look, agenda, host, watch)

    world.on_life = begin
