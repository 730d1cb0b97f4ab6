"""Readings are heard for the page while somebody looks or few come, and cost nothing else."""

from __future__ import annotations

from gateway.core.effects import ReadingTaken
from gateway.presence.latest import Latest
from gateway.presence.sampler import FEW_PER_S, SAMPLE_EVERY, Sampler
from tests.support.engine_bench import Bench, short


class Second:
    """A second of so many readings, each of a sensor that says its number."""

    def __init__(self) -> None:
        self.bench, self.latest = Bench(), Latest()
        self.bench.join(b"well")
        self.sampler = Sampler(self.bench.engine, self.latest)
        self.said = 0

    def passes(self, readings: int) -> None:
        for _ in range(readings):
            self.said += 1
            self.bench.say(b"well", short(b"%d" % self.said, 0, 0))
        for each in self.bench.told(ReadingTaken):
            self.latest.receive(each.reading)
        self.bench.seen()
        self.sampler.beat()

    @property
    def heard(self) -> int:
        return sum(series.count for series in self.latest.of("well"))


def test_few_readings_are_heard_though_nobody_looks() -> None:
    second = Second()
    second.passes(5)
    second.passes(FEW_PER_S - 1)
    assert second.heard == FEW_PER_S + 4
    assert list(second.latest.of("well")[0].points[""]) == [5.0, FEW_PER_S + 4.0]


def test_many_readings_are_heard_one_second_of_some_while_nobody_looks() -> None:
    second = Second()
    second.passes(FEW_PER_S)  # which says that many come
    for _ in range(SAMPLE_EVERY):
        second.passes(FEW_PER_S)
    assert second.heard == 2 * FEW_PER_S, "the first, and one of ten"


def test_all_are_heard_from_the_moment_that_somebody_looks() -> None:
    second = Second()
    second.passes(FEW_PER_S)
    second.passes(FEW_PER_S)
    before = second.heard
    second.sampler.pages_open(1)
    second.passes(FEW_PER_S)
    assert second.heard == before + FEW_PER_S
    second.sampler.pages_open(0)
    second.passes(0)
    second.passes(5)
    assert second.heard == before + FEW_PER_S + 5


def test_readings_that_nobody_wants_are_not_reported() -> None:
    second = Second()
    engine = second.bench.engine
    second.passes(FEW_PER_S)
    assert not engine._reports_readings, "no step more for a reading"
    second.sampler.pages_open(1)
    assert engine._reports_readings
