"""The charts of a day's page."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ingest.report import drawing

NUMBERS = st.floats(-50, 50) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.lists(st.none() | NUMBERS, min_size=1, max_size=40)


def polylines(chart: str) -> list[list[float]]:
    """The x of all points of each."""
    found = re.findall(r'<polyline class="line [^"]*" points="([^"]*)"', chart)
    return [[float(point.split(",")[0]) for point in points.split()] for points in found]


@given(VALUES.filter(lambda values: any(value is not None for value in values)))
def test_a_line_goes_from_left_to_right_and_breaks_where_nothing_came(
    values: list[float | None],
) -> None:
    chart = drawing.lines([("n1", values)], values, values, "")
    stretches = "".join("v" if value is not None else " " for value in values).split()
    drawn = polylines(chart)
    assert [len(each) for each in drawn] == [max(2, len(each)) for each in stretches]
    for line in drawn:
        assert line == sorted(line)
    for x, y in re.findall(r"(?<=[ \"])(-?[\d.a-z]+),(-?[\d.a-z]+)(?=[ \"])", chart):
        assert drawing.LEFT <= float(x) <= drawing.WIDTH - drawing.RIGHT
        assert 0 <= float(y) <= drawing.HEIGHT
    assert 2 <= len(re.findall('class="level"', chart)) <= 8
    labels = re.findall(r'<text class="name"[^>]*>([^<]*)<', chart)
    assert all(len(each) <= 16 for each in labels)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([20.0, 21.5], ["20.0 C", "20.5 C", "21.0 C", "21.5 C"]),
        ([0.0, 100.0], ["0 C", "20 C", "40 C", "60 C", "80 C", "100 C"]),
        ([5.0], ["5 C", "6 C"]),
        ([5e-324], ["0.0 C", "0.2 C"]),
        ([1.0, 1.0 + 2**-52], ["1.0 C", "1.5 C"]),
        ([0.0, 3e-12], ["0 C", "1e-12 C", "2e-12 C", "3e-12 C"]),
        ([-1.7e308, 1.7e308], ["-1e+300 C", "-5e+299 C", "0 C", "5e+299 C", "1e+300 C"]),
    ],
)
def test_levels_are_round_numbers_as_short_as_they_can_be(
    values: list[float], labels: list[str]
) -> None:
    chart = drawing.lines([("n1", values)], values, values, "C")
    assert re.findall(r'<text class="name"[^>]*>([^<]*)<', chart) == labels


def test_more_devices_than_colours_are_told_apart_by_dashes() -> None:
    styles = [drawing.style(number) for number in range(drawing.COLOURS * drawing.DASHES)]
    assert len(set(styles)) == len(styles)
