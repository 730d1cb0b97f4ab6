"""/metrics: METRICS in Prometheus' text format, from a registry of our own.

Nothing is counted here and nothing is kept between two scrapes. This module brings
`prometheus_client` with it, a tenth of a second of imports: only the admin server imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from gateway.admin.metric_table import METRICS, Kind, Metric, Moment
from gateway.admin.news import News
from gateway.admin.numbers import Numbers

# Every Prometheus since 2014 takes this one; newer formats allow names that we do not use.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Family = CounterMetricFamily | GaugeMetricFamily


class Metrics(Collector):
    def __init__(self, numbers: Callable[[], Numbers], news: News, version: str) -> None:
        self._numbers = numbers
        self._news = news
        self._version = version
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self) -> tuple[bytes, str]:
        """The exposition and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE

    def describe(self) -> Iterator[Family]:
        """Names only, so that the registry need not collect to learn them."""
        return (_family(metric) for metric in METRICS)

    def collect(self) -> Iterator[Family]:
        moment = Moment(self._numbers(), self._news, self._version)
        for metric in METRICS:
            family = _family(metric)
            for labels, value in metric.samples(moment):
                family.add_metric(labels, value)
            yield family


def _family(metric: Metric) -> Family:
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    return kind(metric.name, f"{metric.help}.", labels=metric.labels)
