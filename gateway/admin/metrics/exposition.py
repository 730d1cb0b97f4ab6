"""/metrics: METRICS and what the system knows of the process, in Prometheus' text format.

Written by ourselves: the format is a line for each number, and the library that writes it takes
4 MB of memory and a tenth of a second to import, for the HTTP servers that it has beside. Tests
read what is written here with that library's own parser. Nothing is counted here and nothing is
kept between two scrapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf, isnan

from gateway.admin.event_log import EventLog
from gateway.admin.metrics.process import process_numbers
from gateway.admin.metrics.table import METRICS, PROCESS_METRICS, Kind, Moment, Sample
from gateway.admin.numbers import Numbers

# Every Prometheus since 2014 takes this one; newer formats allow names that we do not use.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


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
