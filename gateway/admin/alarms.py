"""What an operator should look at now, each in a sentence that says what it means or what to do.

Made of the same numbers as everything else, so that `tidegate status` and /api/status agree with
the metrics. Counters begin with the start of the gateway, so an alarm of a counter stays until the
next start: what was lost is lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.admin import conditions
from gateway.admin.durations import duration
from gateway.admin.event_levels import DROPPED, SHARED_ADVICE
from gateway.admin.event_log import EventLog
from gateway.admin.numbers import Numbers
from gateway.admin.part_numbers import Condition
from gateway.core.alarm_names import AlarmName
from gateway.core.state_records import State
from gateway.presence.numbers import PresenceNumbers

FILL_MAX = 0.8
LAG_S_MAX = 0.1

Alarm = tuple[AlarmName, str]


def alarms(numbers: Numbers, news: EventLog, gateway_name: str = "+") -> list[str]:
    return [sentence for _, sentence in named_alarms(numbers, news, gateway_name)]


def named_alarms(numbers: Numbers, news: EventLog, gateway_name: str = "+") -> list[Alarm]:
    return [
        *_of_standstills(numbers),
        *_of_upstream(numbers),
        *_of_disk(numbers),
        *_of_configuration(numbers),
        *(
            (AlarmName.INGEST, one)
            for one in conditions.ingest_doubts(numbers.ingest, gateway_name)
        ),
        *_of_aside(numbers),
        *_of_clients(numbers),
        *_of_links(numbers),
        *_of_drops(news),
        *_of_notices(numbers.notices),
        *_of_log(numbers),
        *_of_the_operator(numbers),
    ]


def _of_standstills(numbers: Numbers) -> Iterator[Alarm]:
    for one in numbers.standstills:
        yield one.name, conditions.standstill(one)


def _of_upstream(numbers: Numbers) -> Iterator[Alarm]:
    if not numbers.upstream_connected:
        yield AlarmName.BROKER_AWAY, f"the broker is away: {numbers.upstream_state}"


_OF_JOURNAL = {
    Condition.DEGRADED: AlarmName.JOURNAL_DEGRADED,
    Condition.FULL: AlarmName.JOURNAL_FULL,
}


def _of_disk(numbers: Numbers) -> Iterator[Alarm]:
    journal = numbers.journal
    failure, doubt = conditions.journal_failure(journal), conditions.journal_doubt(journal)
    if failure is not None:
        yield AlarmName.JOURNAL_FAILED, failure
    if doubt is not None:
        yield _OF_JOURNAL[journal.condition], doubt
    unreadable = conditions.backlog_failure(journal)
    if unreadable is not None:
        yield AlarmName.BACKLOG_UNREADABLE, unreadable
    unsaved = conditions.state_doubt(numbers.state)
    if unsaved is not None:
        yield AlarmName.STATE_NOT_SAVED, unsaved
    if numbers.state.lost is not None:
        again = "they may have to register or subscribe again"
        advice = "`tidegate doctor --disk` measures the disk"
        yield AlarmName.STATE_LOST, f"{numbers.state.lost}: {again}; {advice}"
    if failure is None and doubt is None and journal.fill > FILL_MAX:
        filled = f"the journal is {100 * journal.fill:.0f} % full: see `tidegate buffer`"
        yield AlarmName.JOURNAL_FILLING, filled
    if journal.lost:
        lost = f"{journal.lost} readings on disk could not be read back: replace the disk"
        yield AlarmName.READINGS_UNREADABLE, lost


def _of_configuration(numbers: Numbers) -> Iterator[Alarm]:
    if numbers.configuration_doubt is not None:
        yield AlarmName.CONFIGURATION_UNREADABLE, numbers.configuration_doubt
    if numbers.restart_wanted is not None:
        yield AlarmName.RESTART_WANTED, numbers.restart_wanted


def _of_aside(numbers: Numbers) -> Iterator[Alarm]:
    aside = numbers.aside
    if aside.readings:
        first = aside.subjects[0]
        others = len(aside.subjects) - 1
        more = f" and of {others} more" if others else ""
        yield (
            AlarmName.SET_ASIDE,
            f"{aside.readings} readings are set aside, which the broker does not take, of "
            f"{first.client} on {first.topic!r}{more}: see `tidegate buffer aside`",
        )
    blocked = [
        *(f"readings of {client} on {topic!r}" for client, topic in aside.blocked_readings),
        *(f"the filter {name!r}" for name in aside.blocked_filters),
        *(f"our own topic {name!r}" for name in aside.blocked_own_topics),
    ]
    if blocked:
        more = f" and {len(blocked) - 1} more" if len(blocked) > 1 else ""
        yield (
            AlarmName.BROKER_ENDS_CONNECTIONS,
            f"the broker has ended the connection for {blocked[0]}{more}: not sent for a while; "
            "see its log and its access rules",
        )


def _of_clients(numbers: Numbers) -> Iterator[Alarm]:
    lost = numbers.clients_by_state.get(State.LOST, 0)
    if lost:
        yield AlarmName.CLIENTS_LOST, f"lost: {lost}; `tidegate clients --state lost` says which"
    scarce = conditions.memory_doubt(numbers.memory)
    if scarce is not None:
        yield AlarmName.MEMORY_SCARCE, scarce
    overdue = numbers.clients_overdue
    if overdue:
        said = f"overdue: {overdue}; `tidegate clients --overdue` says which"
        yield AlarmName.CLIENTS_OVERDUE, said
    if numbers.shared_ids:
        shared = numbers.shared_ids[0]
        others = len(numbers.shared_ids) - 1
        more = f"; so {'is' if others == 1 else 'are'} {others} more" if others else ""
        yield (
            AlarmName.CLIENT_ID_SHARED,
            f"client id {shared.client!r} is in use at two addresses in turn, {shared.one} and "
            f"{shared.other}{more}: {SHARED_ADVICE}",
        )
    if numbers.event_loop_lag_s > LAG_S_MAX:
        yield (
            AlarmName.EVENT_LOOP_LATE,
            f"the event loop was {numbers.event_loop_lag_s:.1f} s late in the last minute: "
            "the machine is overloaded",
        )


def _of_links(numbers: Numbers) -> Iterator[Alarm]:
    for link in numbers.links:
        if link.line is not None and link.line.problem is not None:
            yield AlarmName.SERIAL_LINE, f"{link.name}: {link.line.problem}"
        if link.lost_address is not None:
            yield AlarmName.ADDRESS_LOST, f"{link.name}: {link.lost_address}"
        if link.receive_buffer_drops:
            yield (
                AlarmName.DATAGRAMS_LOST,
                f"{link.receive_buffer_drops} datagrams came faster than they were taken on "
                f"{link.name}: see udp.receive_buffer_bytes",
            )


def _of_notices(notices: PresenceNumbers) -> Iterator[Alarm]:
    if notices.refusal is not None:
        yield (
            AlarmName.BIRTH_REFUSED,
            f"the broker does not say when Home Assistant starts, {notices.refusal}: let the "
            "gateway subscribe to home_assistant.birth_topic",
        )
    if notices.announcement_refusal is not None:
        yield (
            AlarmName.ANNOUNCEMENT_REFUSED,
            f"the broker takes no announcement for Home Assistant, {notices.announcement_refusal}: "
            "let the gateway publish below home_assistant.discovery_prefix",
        )
    if notices.error is not None:
        yield (
            AlarmName.PRESENCE_NOT_NOTED,
            f"what was said on MQTT is not noted, {notices.error}: of devices that are forgotten "
            "while the broker is away something may stay there",
        )
    if notices.left_out is not None:
        yield (
            AlarmName.VALUES_LEFT_OUT,
            f"Home Assistant does not get all values, {notices.left_out}: raise the limit, or hide "
            "values with [[home_assistant_value]]",
        )


def _of_log(numbers: Numbers) -> Iterator[Alarm]:
    doubt = conditions.log_doubt(numbers.log)
    if doubt is not None:
        yield AlarmName.LOG_NOT_READ, doubt


def _of_the_operator(numbers: Numbers) -> Iterator[Alarm]:
    """What was asked for on the page, and could be forgotten there."""
    if numbers.drain_paused:
        paused = "the drain is paused: readings that wait on disk stay there until it goes on"
        yield AlarmName.DRAIN_PAUSED, paused
    if numbers.permit_left_s:
        left = duration(numbers.permit_left_s)
        yield AlarmName.PERMIT_OPEN, f"new sensors may come in for {left}, listed or not"


def _of_drops(news: EventLog) -> Iterator[Alarm]:
    """Only what someone can change; the rest is a part of the day, and in the counters."""
    for reason, count in news.dropped.items():
        telling = DROPPED[reason]
        if count and reason.value.endswith("_full"):
            advice = "" if telling.advice is None else f": {telling.advice}"
            yield AlarmName.DROPPED, f"dropped, {reason.value}: {count}{advice}"
