"""The watch over all that must move, from the parts of the daemon."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from gateway.admin.part_numbers import Cause
from gateway.app.listeners import SensorLinks
from gateway.app.shell import UNCLOGGED_BYTES
from gateway.app.stores import Committers
from gateway.app.watch import BOUNDS_S, Part, Watch
from gateway.core.alarm_names import AlarmName
from gateway.core.engine import Engine
from gateway.core.liveness import WaitsFor
from gateway.transports.broker.link import BrokerLink


def watch_of(
    engine: Engine,
    *,
    committers: Committers,
    links: SensorLinks,
    broker: BrokerLink,
    notices: Callable[[], Hashable | None],
    bounds_s: Mapping[AlarmName, float] = BOUNDS_S,
) -> Watch:
    """`notices`: the mark of presence and announcements that are to be sent."""
    journal, state = committers.journal, committers.state

    def of_journal() -> Cause:
        return Cause.DISK if journal.waits_for_disk() else Cause.INSIDE

    def of_state() -> Cause:
        return Cause.DISK if state.waits_for_disk() else Cause.INSIDE

    def of_room() -> Cause:
        return Cause.BROKER if broker.unsent_bytes > UNCLOGGED_BYTES else Cause.INSIDE

    link = AlarmName.LINK_STALLED
    watched = [
        *(
            Part(link, f"the reader of udp port {udp.listening_on[1]}", udp.mark)
            for udp in links.udp
        ),
        *(Part(link, f"the keeper of {line.name}", line.mark) for line in links.serial),
        Part(link, "the keeper of the broker's connection", broker.mark),
        Part(
            name=AlarmName.JOURNAL_STALLED,
            what="the journal's work",
            mark=journal.mark,
            cause=of_journal,
        ),
        Part(
            name=AlarmName.STATE_STALLED,
            what="the saving of sessions",
            mark=state.mark,
            cause=of_state,
        ),
        Part(AlarmName.NOTICES_STALLED, "the sending of presence", notices),
    ]
    causes = {
        WaitsFor.NOBODY: lambda: Cause.INSIDE,
        WaitsFor.JOURNAL: of_journal,
        WaitsFor.STATE: of_state,
        WaitsFor.BROKER: lambda: Cause.BROKER,
        WaitsFor.ROOM: of_room,
    }
    return Watch(engine=engine, parts=watched, causes=causes, bounds_s=bounds_s)
