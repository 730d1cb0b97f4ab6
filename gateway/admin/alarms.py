"""What an operator should look at now, each in a sentence that says what it means or what to do.

Made of the same numbers as everything else, so that `tidegate status` and /api/status agree with
the metrics. Counters begin with the start of the gateway, so an alarm of a counter stays until the
next start: what was lost is lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.admin import conditions
from gateway.admin.durations import duration
from gateway.admin.news import News
from gateway.admin.numbers import NoticeNumbers, Numbers
from gateway.admin.tellings import DROPPED
from gateway.effects import State

FILL_MAX = 0.8
LAG_S_MAX = 0.1


def alarms(numbers: Numbers, news: News, gateway_name: str = "+") -> list[str]:
    return [
        *_of_upstream(numbers),
        *_of_disk(numbers),
        *([] if numbers.configuration_doubt is None else [numbers.configuration_doubt]),
        *conditions.ingest_doubts(numbers.ingest, gateway_name),
        *_of_clients(numbers),
        *_of_links(numbers),
        *_of_drops(news),
        *_of_notices(numbers.notices),
        *_of_the_operator(numbers),
    ]


def _of_upstream(numbers: Numbers) -> Iterator[str]:
    if not numbers.upstream_connected:
        yield f"the broker is away: {numbers.upstream_state}"


def _of_disk(numbers: Numbers) -> Iterator[str]:
    journal = numbers.journal
    found = (
        conditions.journal_failure(journal),
        conditions.journal_doubt(journal),
        conditions.state_doubt(numbers.state),
    )
    yield from (each for each in found if each is not None)
    if found[0] is None and found[1] is None and journal.fill > FILL_MAX:
        yield f"the journal is {100 * journal.fill:.0f} % full: see `tidegate buffer`"
    if journal.lost:
        yield f"{journal.lost} readings on disk could not be read back: replace the disk"


def _of_clients(numbers: Numbers) -> Iterator[str]:
    lost = numbers.clients_by_state.get(State.LOST, 0)
    if lost:
        yield f"lost: {lost}; `tidegate clients --state lost` says which"
    if numbers.clients_overdue:
        yield f"overdue: {numbers.clients_overdue}; `tidegate clients --overdue` says which"
    if numbers.event_loop_lag_s > LAG_S_MAX:
        yield (
            f"the event loop was {numbers.event_loop_lag_s:.1f} s late in the last minute: "
            "the machine is overloaded"
        )


def _of_links(numbers: Numbers) -> Iterator[str]:
    for link in numbers.links:
        if link.line is not None and link.line.problem is not None:
            yield f"{link.name}: {link.line.problem}"
        if link.receive_buffer_drops:
            yield (
                f"{link.receive_buffer_drops} datagrams came faster than they were taken on "
                f"{link.name}: see udp.receive_buffer_bytes"
            )


def _of_notices(notices: NoticeNumbers) -> Iterator[str]:
    if notices.refusal is not None:
        yield (
            f"the broker does not say when Home Assistant starts, {notices.refusal}: let the "
            "gateway subscribe to home_assistant.birth_topic"
        )
    if notices.error is not None:
        yield (
            f"what was said on MQTT is not noted, {notices.error}: of devices that are forgotten "
            "while the broker is away something may stay there"
        )


def _of_the_operator(numbers: Numbers) -> Iterator[str]:
    """What was asked for on the page, and could be forgotten there."""
    if numbers.drain_paused:
        yield "the drain is paused: readings that wait on disk stay there until it goes on"
    if numbers.permit_left_s:
        yield f"new sensors may come in for {duration(numbers.permit_left_s)}, listed or not"


def _of_drops(news: News) -> Iterator[str]:
    """Only what someone can change; the rest is a part of the day, and in the counters."""
    for reason, count in news.dropped.items():
        telling = DROPPED[reason]
        if count and reason.value.endswith("_full"):
            advice = "" if telling.advice is None else f": {telling.advice}"
            yield f"dropped, {reason.value}: {count}{advice}"
