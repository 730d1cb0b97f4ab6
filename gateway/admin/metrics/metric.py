"""What a metric is, and how a number of the gateway is declared: once, with where it is read and
with the metrics that are made of it.

    subscriptions: int = number(
        lambda look: len(look.downlink.subscriptions),
        gauge("tidegate_subscriptions", "Subscriptions of sensors"),
    )

Names are `tidegate_`, then what it is, then its base unit; what only grows ends in `_total`. The
values of labels come from an enum or from the configuration, never from a client: how many series
there are is known beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any, Generic, TypeVar, cast

Sample = tuple[tuple[str, ...], float]
Samples = Iterable[Sample]

Source = TypeVar("Source", contravariant=True)
Whole = TypeVar("Whole")
Value = TypeVar("Value")
Record = TypeVar("Record")
From = TypeVar("From")

_READ, _METRICS = "read", "metrics"


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Metric(Generic[Source]):
    """`samples` gives the values of `labels`, and the number that belongs to them; of a summary
    `whole` is the sum of all observations, and how many they are.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    samples: Callable[[Source], Samples]
    whole: Callable[[Source], tuple[float, int]] | None = None

    def inside(self, part: Callable[[Whole], Source]) -> Metric[Whole]:
        """The same metric, of what has its source as a part."""
        samples, whole = self.samples, self.whole
        return Metric(
            self.name,
            self.kind,
            self.help,
            self.labels,
            lambda of: samples(part(of)),
            None if whole is None else lambda of: whole(part(of)),
        )


def gauge(name: str, help_: str, value: Callable[[Value], float] | None = None) -> Metric[Value]:
    """`value` is what is exposed of the number, if it is not the number itself."""
    return _single(Kind.GAUGE, name, help_, value)


def counter(name: str, help_: str, value: Callable[[Value], float] | None = None) -> Metric[Value]:
    return _single(Kind.COUNTER, name, help_, value)


def _single(
    kind: Kind, name: str, help_: str, value: Callable[[Value], float] | None
) -> Metric[Value]:
    shown = cast(Callable[[Value], float], float) if value is None else value
    return Metric(name, kind, help_, (), lambda source: [((), shown(source))])


def declared(
    read: Callable[[From], Value] | None,
    metrics: tuple[Metric[Value], ...],
    default: Any = MISSING,
    default_factory: Any = MISSING,
) -> Value:
    """A field of a dataclass; without `read` its value is an argument of the constructor."""
    made: Any = field(
        default=default, default_factory=default_factory, metadata={_READ: read, _METRICS: metrics}
    )
    return cast(Value, made)


def exposed(default: Value, *metrics: Metric[Value]) -> Value:
    """A field with these metrics."""
    return declared(None, metrics, default)


def read_from(kind: type[Record], source: object, **others: object) -> Record:
    """A record with each field as it is declared to be read, and `others`."""
    found = {
        each.name: each.metadata[_READ](source)
        for each in fields(cast(Any, kind))
        if each.metadata.get(_READ) is not None
    }
    return kind(**found, **others)


def metrics_of(kind: type[Record]) -> Iterator[Metric[Record]]:
    """All that the fields declare, and those of the records that they have as defaults."""
    for each in fields(cast(Any, kind)):
        part = _part(each.name)
        for metric in each.metadata.get(_METRICS, ()):
            yield metric.inside(part)
        inner = each.default_factory if each.default is MISSING else type(each.default)
        if is_dataclass(inner):
            for metric in metrics_of(cast(type[object], inner)):
                yield metric.inside(part)


def _part(name: str) -> Callable[[object], Any]:
    return lambda record: getattr(record, name)
