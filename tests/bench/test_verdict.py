"""How a cost grows is judged by its figures: constant, b log n and b n are told apart."""

from math import log10

import pytest

from tests.bench.verdict import Growth, growth, whole_ratio, worst_tenfold

SIZES = (10, 100, 1000, 10_000, 100_000)


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (lambda _: 5.0, Growth.FLAT),
        (lambda size: 5 + 0.3 * log10(size), Growth.FLAT),
        (lambda size: 5 - 0.5 * log10(size), Growth.FLAT),
        (lambda size: 3 * log10(size), Growth.LINEAR),  # doubled from 10 to 100 already
        (lambda size: 5 + 2 * log10(size), Growth.LOGARITHMIC),
        (lambda size: 5 + size / 10_000, Growth.LINEAR),
        (lambda size: 0.001 * size, Growth.LINEAR),
    ],
)
def test_growth_is_told_by_the_figures(cost: object, expected: Growth) -> None:
    assert callable(cost)
    assert growth([(size, cost(size)) for size in SIZES]) is expected


def test_what_first_falls_and_then_rises_is_not_flat_because_its_ends_are_alike() -> None:
    assert growth([(10, 9.0), (100, 3.0), (1000, 9.0)]) is Growth.LINEAR


def test_a_step_is_counted_for_ten_times_the_number() -> None:
    assert worst_tenfold([(10_000, 10.0), (20_000, 11.0)]) == pytest.approx(1.1 ** (1 / log10(2)))
    assert worst_tenfold([(100_000, 8.0), (10, 1.0), (1000, 4.0)]) == pytest.approx(2.0)


def test_the_whole_ratio_is_that_of_the_ends() -> None:
    assert whole_ratio([(1000, 6.0), (10, 3.0), (100, 9.0)]) == 2.0
