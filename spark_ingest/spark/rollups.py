"""Partial rollups to whole ones, and to what people want to see. DataFrame to DataFrame.

Rule 1: merging is addition, minimum and maximum only, so every order and every grouping of merges
        gives the same row. A reading that is two days late makes one more partial.
Rule 2: partials are merged by key and never by when they were made.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from spark_ingest.tables.sketch import LOG_LEAST, LOG_MIDDLE, LOG_MOST, LOG_RATIO
from spark_ingest.tables.tables import DAY, SERIES

QUANTILES = (0.5, 0.95, 0.99)
_NO_BUCKETS = "cast(map() as map<int, bigint>)"


def merged(partial: DataFrame, period: str) -> DataFrame:
    """One row for each key, of the same period or a coarser one."""
    each = partial.select(
        f.date_trunc(period, "start").alias("start"),
        *SERIES,
        "n",
        "sum",
        "min",
        "max",
        "sketch",
        f.struct(f.col("first_ts").alias("ts"), f.col("first").alias("value")).alias("first"),
        f.struct(f.col("last_ts").alias("ts"), f.col("last").alias("value")).alias("last"),
    )
    sketch = f.reduce(f.collect_list("sketch"), f.expr(_NO_BUCKETS), _sum_of_buckets)
    return (
        each.groupBy("start", *SERIES)
        .agg(
            *(f.sum(name).alias(name) for name in ("n", "sum")),
            *(f.min(name).alias(name) for name in ("min", "first")),
            *(f.max(name).alias(name) for name in ("max", "last")),
            sketch.alias("sketch"),
        )
        .select(
            "start",
            *SERIES,
            "n",
            "sum",
            "min",
            "max",
            f.col("first.value").alias("first"),
            f.col("first.ts").alias("first_ts"),
            f.col("last.value").alias("last"),
            f.col("last.ts").alias("last_ts"),
            "sketch",
            f.to_date("start").alias(DAY),
        )
    )


def with_statistics(merged_rows: DataFrame) -> DataFrame:
    """For people: mean and quantiles beside what partials have."""
    quantiles = [
        # The middle of a bucket may be outside of what there was.
        f.least(f.greatest(quantile(share), "min"), "max").alias(f"p{round(share * 100)}")
        for share in QUANTILES
    ]
    return merged_rows.select(
        "start", *SERIES, "n", (f.col("sum") / f.col("n")).alias("mean"),
        "min", "max", "first", "first_ts", "last", "last_ts", *quantiles,
    )  # fmt: skip


def quantile(share: float) -> Column:
    """Of the column `sketch`; as `sketch.quantile` has it."""
    entries = f.array_sort(f.map_entries("sketch"))
    rank = f.greatest(f.lit(1), f.ceil(f.lit(share) * f.col("n")))
    nothing = f.struct(f.lit(0).cast("bigint").alias("below"), f.lit(None).cast("int").alias("at"))
    found = f.reduce(
        entries,
        nothing,
        lambda sum_, entry: f.struct(
            (sum_["below"] + entry["value"]).alias("below"),
            f.when(sum_["at"].isNotNull(), sum_["at"])
            .when(sum_["below"] + entry["value"] >= rank, entry["key"])
            .alias("at"),
        ),
    )
    return _middle_of(found["at"])


def _middle_of(bucket: Column) -> Column:
    """As `sketch.value_of`."""
    size = f.exp(
        f.least(f.lit(LOG_LEAST + LOG_MIDDLE) + f.abs(bucket) * LOG_RATIO, f.lit(LOG_MOST))
    )
    return f.when(bucket == 0, f.lit(0.0)).otherwise(f.signum(bucket.cast("double")) * size)


def _sum_of_buckets(one: Column, other: Column) -> Column:
    return f.map_zip_with(
        one, other, lambda _, a, b: f.coalesce(a, f.lit(0)) + f.coalesce(b, f.lit(0))
    )
