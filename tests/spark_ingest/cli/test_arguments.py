"""What is typed as a number of hours."""

from __future__ import annotations

import argparse

import pytest

from spark_ingest.cli.arguments import HOURS_MAX, hours


@pytest.mark.parametrize("text", ["0", "00", "1", "0007", str(HOURS_MAX), "0" * 30 + "12"])
def test_hours_are_whole_and_bounded(text: str) -> None:
    assert hours(text) == int(text)


@pytest.mark.parametrize(
    "text",
    ["", "-1", "1.5", "x", "٣", str(HOURS_MAX + 1), "0" * 18 + "99999999", "9" * 5000],
)
def test_others_are_told_the_range(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"expected 0 to {HOURS_MAX} whole hours"):
        hours(text)
