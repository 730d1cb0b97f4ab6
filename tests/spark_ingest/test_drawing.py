"""The charts of a day's page."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from spark_ingest.report import drawing

VALUES = st.lists(st.none() | st.floats(-50, 50), min_size=1, max_size=40)


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


def test_more_devices_than_colours_are_told_apart_by_dashes() -> None:
    styles = [drawing.style(number) for number in range(drawing.COLOURS * drawing.DASHES)]
    assert len(set(styles)) == len(styles)
