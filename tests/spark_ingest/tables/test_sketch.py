"""Quantiles from buckets: right to one in a hundred, whatever was added in what order."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ingest.tables.sketch import ACCURACY, LEAST, bucket_of, quantile, value_of

VALUES = st.floats(-1e300, 1e300)


@given(VALUES)
def test_a_bucket_stands_for_its_values_to_one_in_a_hundred(value: float) -> None:
    shown = value_of(bucket_of(value))
    assert abs(shown - value) <= max(LEAST, abs(value) * ACCURACY * 1.0001)


@given(VALUES, VALUES)
def test_buckets_are_in_the_order_of_their_values(one: float, other: float) -> None:
    if one <= other:
        assert bucket_of(one) <= bucket_of(other)


@given(st.lists(VALUES, min_size=1), st.sampled_from([0.0, 0.25, 0.5, 0.95, 1.0]))
def test_a_quantile_is_that_of_the_sorted_values(values: list[float], share: float) -> None:
    found = quantile(Counter(map(bucket_of, values)), share)
    rank = max(1, -(-share * len(values) // 1))
    exact = sorted(values)[int(rank) - 1]
    assert found == pytest.approx(exact, rel=ACCURACY * 1.0001, abs=LEAST)


def test_there_is_no_quantile_of_nothing() -> None:
    assert quantile({}, 0.5) is None
