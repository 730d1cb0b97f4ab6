"""Quantiles of any number of values from counts in buckets, which merge by addition. Pure.

A bucket holds the values from one limit to the next, 2 % apart, so a quantile is right to 1 % of
itself, whatever the values were and however often their counts were merged. That is the bound of
DDSketch (Masson, Rim, Lee, VLDB 2019); unlike a KLL or t-digest sketch it is the same number after
each order of merging, and a table of it can be read without a library: `map<int, bigint>`.

Buckets are numbered in the order of their values: 0 is nothing (less than LEAST away from it), 1
and up are positive, -1 and down are negative.

Limit: at most 36,000 buckets of each sign, for that is where doubles end.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import accumulate
from math import ceil, exp, log

ACCURACY = 0.01
LEAST = 1e-9
RATIO = (1 + ACCURACY) / (1 - ACCURACY)  # of a bucket's upper limit to its lower
LOG_RATIO = log(RATIO)
LOG_LEAST = log(LEAST)
LOG_MIDDLE = log(2 / (1 + RATIO))  # from a bucket's upper limit to what stands for it
LOG_MOST = log(sys.float_info.max)


def bucket_of(value: float) -> int:
    size = abs(value)
    if size <= LEAST:
        return 0
    bucket = ceil((log(size) - LOG_LEAST) / LOG_RATIO)  # a quotient of sizes could be infinite
    return bucket if value > 0 else -bucket


def value_of(bucket: int) -> float:
    """The one value that is within ACCURACY of all in the bucket."""
    if bucket == 0:
        return 0.0
    size = exp(min(LOG_LEAST + abs(bucket) * LOG_RATIO + LOG_MIDDLE, LOG_MOST))
    return size if bucket > 0 else -size


def quantile(sketch: Mapping[int, int], share: float) -> float | None:
    """0 is the least, 1 the most, 0.5 the median. None of an empty sketch."""
    count = sum(sketch.values())
    if not count:
        return None
    rank = max(1, ceil(share * count))
    buckets = sorted(sketch)
    up_to = accumulate(sketch[bucket] for bucket in buckets)
    return value_of(next(bucket for bucket, n in zip(buckets, up_to, strict=True) if n >= rank))
