"""What health, readiness and status say, as plain values for JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from http import HTTPStatus
from itertools import islice

from gateway.admin.alarms import named_alarms
from gateway.admin.event_log import EventLog
from gateway.admin.numbers import Numbers
from gateway.admin.part_numbers import JournalNumbers, StateNumbers
from gateway.core.drop_reasons import Reason
from gateway.core.state_records import State

BUFFER_SCHEMA = "tidegate.buffer/1"
STATUS_SCHEMA = "tidegate.status/1"
REFUSED_SCHEMA = "tidegate.refused/1"

# Says what is wrong, or None.
Check = Callable[[], str | None]
Answer = tuple[HTTPStatus, dict[str, object]]


# Readings that were in the journal's care, or should have been.
BUFFER_REASONS = (
    Reason.JOURNAL_FULL,
    Reason.JOURNAL_FAILED,
    Reason.WAITING_FULL,
    Reason.BROKER_AWAY,
    Reason.BROKER_SLOW,
    Reason.BROKER_REFUSED,
    Reason.ASIDE_FULL,
    Reason.EXPIRED,
    Reason.COALESCED,
)


def health(
    faults: Mapping[str, Check],
    failures: Mapping[str, Check],
    doubts: Mapping[str, Check],
) -> Answer:
    """503 is for a supervisor: a fault of the gateway, which a restart helps. A failure is no less
    bad, and a doubt less, but a restart helps neither, so both are 200.
    """
    found = faulty, failing, doubtful = _reasons(faults), _reasons(failures), _reasons(doubts)
    names = dict.fromkeys(name for reasons in found for name in reasons)
    reasons = {name: failing.get(name) or faulty.get(name) or doubtful.get(name) for name in names}
    helps = any(faulty.values())
    is_failing = helps or any(failing.values())
    word = "failing" if is_failing else "degraded" if any(reasons.values()) else "ok"
    status = HTTPStatus.SERVICE_UNAVAILABLE if helps else HTTPStatus.OK
    return status, {"status": word, "restart_helps": helps, "checks": _results(reasons)}


def readiness(checks: Mapping[str, Check], numbers: Numbers) -> Answer:
    """The broker is reported, not required: readings are taken while it is away."""
    reasons = _reasons(checks)
    is_failing = any(reasons.values())
    connected, state = numbers.upstream_connected, numbers.upstream_state
    body: dict[str, object] = {
        "status": "failing" if is_failing else "ok",
        "checks": _results(reasons),
        "upstream": {"connected": connected, "state": state},
    }
    return HTTPStatus.SERVICE_UNAVAILABLE if is_failing else HTTPStatus.OK, body


def _reasons(checks: Mapping[str, Check]) -> dict[str, str | None]:
    return {name: check() for name, check in checks.items()}


def _results(reasons: Mapping[str, str | None]) -> dict[str, dict[str, object]]:
    return {
        name: {"ok": reason is None, **({} if reason is None else {"reason": reason})}
        for name, reason in reasons.items()
    }


def journal(numbers: JournalNumbers) -> dict[str, object]:
    return {
        **asdict(numbers),
        "condition": numbers.condition.value,
        "drain_s": numbers.drain_s,
    }


def state(numbers: StateNumbers) -> dict[str, object]:
    return {**asdict(numbers), "condition": numbers.condition.value}


def buffer(name: str, numbers: Numbers, news: EventLog) -> dict[str, object]:
    """What `tidegate buffer --json` prints as well."""
    return {
        "schema": BUFFER_SCHEMA,
        "gateway": name,
        **journal(numbers.journal),
        "drain_paused": numbers.drain_paused,
        "upstream_connected": numbers.upstream_connected,
        "upstream_state": numbers.upstream_state,
        "aside": asdict(numbers.aside),
        "dropped": {reason.value: news.dropped[reason] for reason in BUFFER_REASONS},
    }


def refused(
    name: str, news: EventLog, now: float, unix_s: float, shown_max: int | None = None
) -> dict[str, object]:
    """What the rules of access did not allow, the last one first."""
    listed = islice(news.refusals or (), shown_max)
    shown = [each.json(now, unix_s) for each in listed]
    return {"schema": REFUSED_SCHEMA, "gateway": name, "refused": shown}


def _standstills(numbers: Numbers) -> list[dict[str, object]]:
    return [
        {"name": one.name.value, "cause": one.cause.value, "unmoved_s": one.unmoved_s}
        for one in numbers.standstills
    ]


def status(name: str, version: str, numbers: Numbers, news: EventLog) -> dict[str, object]:
    alarms = named_alarms(numbers, news, name)
    return {
        "schema": STATUS_SCHEMA,
        "gateway": name,
        "version": version,
        "alarms": [sentence for _, sentence in alarms],
        "alarm_names": [name.value for name, _ in alarms],  # of these, in the same order
        **{field.name: getattr(numbers, field.name) for field in fields(numbers)},
        "standstills": _standstills(numbers),
        "unmoved_s": {name.value: seconds for name, seconds in numbers.unmoved_s.items()},
        "unproven_clients": numbers.unproven_clients,
        "clients_by_state": {
            state.value: numbers.clients_by_state.get(state, 0) for state in State
        },
        "links": [asdict(link) for link in numbers.links],
        "shared_ids": [asdict(shared) for shared in numbers.shared_ids],
        "waiting_clients": list(numbers.waiting_clients),
        "discovery": numbers.discovery.value,
        "journal": journal(numbers.journal),
        "state": state(numbers.state),
        "memory": asdict(numbers.memory),
        "ingest": asdict(numbers.ingest),
        "aside": asdict(numbers.aside),
        "notices": asdict(numbers.notices),
        "log": asdict(numbers.log),
        "counters": {
            "dropped": {reason.value: count for reason, count in news.dropped.items()},
            "state_changes": {state.value: count for state, count in news.state_changes.items()},
            "upstream_sessions_kept": news.upstream_sessions_kept,
            "upstream_sessions_new": news.upstream_sessions_new,
            "upstream_resent": news.upstream_resent,
            "upstream_refusals": news.upstream_refusals,
            "subscription_refusals": news.subscription_refusals,
        },
    }
