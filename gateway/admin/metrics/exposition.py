"""/metrics: the metrics of Numbers and EventLog, and what the system knows of the process, in
Prometheus' text format.

Written by ourselves: the format is a line for each number, and the library that writes it takes
4 MB of memory and a tenth of a second to import, for the HTTP servers that it has beside. Tests
read what is written here with that library's own parser. Nothing is counted here and nothing is
kept between two scrapes.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import inf, isnan
from pathlib import Path

from gateway.admin.alarms import named_alarms
from gateway.admin.event_log import EventLog
from gateway.admin.metrics.metric import (
    Kind,
    Metric,
    Sample,
    Samples,
    counter,
    metrics_of,
)
from gateway.admin.numbers import OF_SEVERAL, Numbers
from gateway.core.alarm_names import AlarmName

# Every Prometheus since 2014 takes this one; newer formats allow names that we do not use.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True)
class Moment:
    """All that a scrape sees."""

    numbers: Numbers
    news: EventLog
    version: str


def _news(moment: Moment) -> EventLog:
    return moment.news


def _numbers(moment: Moment) -> Numbers:
    return moment.numbers


def alarms_on(moment: Moment) -> Samples:
    found = {name for name, _ in named_alarms(moment.numbers, moment.news)}
    return [((name.value,), name in found) for name in AlarmName]


# What is counted as it happens.
# fmt: off
OF_NEWS: tuple[Metric[EventLog], ...] = (
    Metric("tidegate_client_transitions_total", Kind.COUNTER,
           "How often a session entered this state", ("state",),
           lambda n: [((state.value,), count) for state, count in n.state_changes.items()]),
    counter("tidegate_client_rebinds_total",
            "Sleeping sensors that woke up at another address; see mqtt_sn.rebind_sleepers",
            lambda n: n.rebound),
    Metric("tidegate_dropped_total", Kind.COUNTER,
           "Frames, readings and messages that were dropped or refused", ("reason",),
           lambda n: [((reason.value,), count) for reason, count in n.dropped.items()]),
    counter("tidegate_upstream_sessions_kept_total",
            "Connections at which the broker still knew our session",
            lambda n: n.upstream_sessions_kept),
    counter("tidegate_upstream_sessions_new_total",
            "Connections at which the broker knew no session: the first one, or it lost its state",
            lambda n: n.upstream_sessions_new),
    counter("tidegate_upstream_resent_total", "Readings sent again after a new connection",
            lambda n: n.upstream_resent),
    counter("tidegate_upstream_refusals_total", "Connections that the broker refused or ended",
            lambda n: n.upstream_refusals),
    counter("tidegate_subscription_refusals_total", "Subscriptions that the broker refused",
            lambda n: n.subscription_refusals),
)

OF_MOMENT: tuple[Metric[Moment], ...] = (
    Metric("tidegate_build_info", Kind.GAUGE, "Always 1; says which version runs",
           ("version",), lambda moment: [((moment.version,), 1)]),
    Metric("tidegate_alarm", Kind.GAUGE,
           "1 while the alarm of this name is on, else 0; the sentences are in /api/status",
           ("alarm",), alarms_on),
)
# fmt: on

# By name: Prometheus does not mind the order, who looks for one in docs/metrics.md does.
METRICS: tuple[Metric[Moment], ...] = tuple(
    sorted(
        (
            *OF_MOMENT,
            *(each.inside(_news) for each in OF_NEWS),
            *(each.inside(_numbers) for each in (*metrics_of(Numbers), *OF_SEVERAL)),
        ),
        key=lambda metric: metric.name,
    )
)

# Where there is a /proc; the names are those of every exporter.
PROCESS_METRICS: tuple[tuple[str, Kind, str], ...] = (
    ("process_virtual_memory_bytes", Kind.GAUGE, "Virtual memory size"),
    ("process_resident_memory_bytes", Kind.GAUGE, "Memory in use"),
    ("process_start_time_seconds", Kind.GAUGE, "Start of the process, in Unix time"),
    ("process_cpu_seconds_total", Kind.COUNTER, "Processor time used"),
    ("process_open_fds", Kind.GAUGE, "Open file descriptors"),
    ("process_max_fds", Kind.GAUGE, "How many may be open"),
)


class Metrics:
    def __init__(self, numbers: Callable[[], Numbers], news: EventLog, version: str) -> None:
        self._numbers = numbers
        self._news = news
        self._version = version

    def render(self) -> tuple[bytes, str]:
        """The exposition and its content type."""
        return "".join(f"{line}\n" for line in self._lines()).encode(), CONTENT_TYPE

    def _lines(self) -> Iterator[str]:
        moment = Moment(self._numbers(), self._news, self._version)
        for metric in METRICS:
            samples = metric.samples(moment)
            yield from _family(metric.name, metric.kind, metric.help, metric.labels, samples)
            if metric.whole is not None:
                total, count = metric.whole(moment)
                yield f"{metric.name}_sum {_written(total)}"
                yield f"{metric.name}_count {_written(count)}"
        found = process_numbers()
        for name, kind, help_ in PROCESS_METRICS:
            if name in found:
                yield from _family(name, kind, help_, (), [((), found[name])])


def _family(
    name: str, kind: Kind, help_: str, labels: tuple[str, ...], samples: Iterable[Sample]
) -> Iterator[str]:
    yield f"# HELP {name} {help_}."
    yield f"# TYPE {name} {kind.value}"
    for values, number in samples:
        named = ",".join(
            f'{label}="{value.translate(_ESCAPES)}"'
            for label, value in sorted(zip(labels, values, strict=True))
        )
        yield f"{name}{{{named}}} {_written(number)}" if named else f"{name} {_written(number)}"


def _written(number: float) -> str:
    """As Go reads it."""
    if isnan(number):
        return "NaN"
    if number in (inf, -inf):
        return "+Inf" if number > 0 else "-Inf"
    return repr(float(number))


# The process, from /proc; what that does not say is left out.

_SELF = Path("/proc/self")
# Of /proc/self/stat, behind the name of the program: see proc(5).
_USER_TICKS, _SYSTEM_TICKS, _START_TICKS, _VIRTUAL_BYTES, _RESIDENT_PAGES = 11, 12, 19, 20, 21


def process_numbers() -> dict[str, float]:
    found: dict[str, float] = {}
    for reader in (_stat, _descriptors):
        with suppress(OSError, ValueError, IndexError):
            found.update(reader())
    return found


def _stat() -> Iterator[tuple[str, float]]:
    fields = (_SELF / "stat").read_text().rpartition(") ")[2].split()
    per_s = os.sysconf("SC_CLK_TCK")
    yield "process_virtual_memory_bytes", float(fields[_VIRTUAL_BYTES])
    pages = float(fields[_RESIDENT_PAGES])
    yield "process_resident_memory_bytes", pages * resource.getpagesize()
    ticks = float(fields[_USER_TICKS]) + float(fields[_SYSTEM_TICKS])
    yield "process_cpu_seconds_total", ticks / per_s
    yield "process_start_time_seconds", _booted_at() + float(fields[_START_TICKS]) / per_s


def _booted_at() -> float:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    raise ValueError("no time of boot")


def _descriptors() -> Iterator[tuple[str, float]]:
    yield "process_max_fds", float(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    yield "process_open_fds", float(sum(1 for _ in (_SELF / "fd").iterdir()))
