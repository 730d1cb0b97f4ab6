"""What health, readiness and status say, as plain values for JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from http import HTTPStatus

from gateway.admin.news import News
from gateway.admin.numbers import Numbers
from gateway.effects import State

# Says what is wrong, or None.
Check = Callable[[], str | None]
Answer = tuple[HTTPStatus, dict[str, object]]


def health(checks: Mapping[str, Check]) -> Answer:
    reasons = {name: check() for name, check in checks.items()}
    is_well = all(reason is None for reason in reasons.values())
    results = {
        name: {"ok": reason is None, **({} if reason is None else {"reason": reason})}
        for name, reason in reasons.items()
    }
    status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return status, {"status": "ok" if is_well else "failing", "checks": results}


def readiness(checks: Mapping[str, Check], numbers: Numbers) -> Answer:
    """The broker is reported, not required: readings are taken while it is away."""
    status, body = health(checks)
    connected, state = numbers.upstream_connected, numbers.upstream_state
    return status, {**body, "upstream": {"connected": connected, "state": state}}


def status(name: str, version: str, numbers: Numbers, news: News) -> dict[str, object]:
    return {
        "gateway": name,
        "version": version,
        **{field.name: getattr(numbers, field.name) for field in fields(numbers)},
        "clients_by_state": {
            state.value: numbers.clients_by_state.get(state, 0) for state in State
        },
        "links": [asdict(link) for link in numbers.links],
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
