"""What is missing: holes in the numbering, devices that fell silent, how complete each hour is.

DataFrame to DataFrame. A reading in quarantine has arrived, so quarantine counts here too. "Now" is
when the newest reading got to a collector: what nobody has collected yet is no silence.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

HOUR_S = 3600
# Fewer intervals do not say how often a device speaks.
INTERVALS_MIN = 3


@dataclass(frozen=True, slots=True)
class SilenceOptions:
    periods: float = 5.0
    period_s: float | None = None  # None: of each device its own


def arrived(bronze: DataFrame, quarantine: DataFrame) -> DataFrame:
    """Of every value, good or not, what the audit looks at."""
    columns = ("gw", "epoch", "seq", "device", "ts", "gw_ts", "rx_ts")
    return bronze.select(*columns).unionByName(quarantine.select(*columns))


def gaps(arrived_rows: DataFrame) -> DataFrame:
    """Gateways number from 0 in each epoch, and leave nothing out."""
    numbered = (
        arrived_rows.where(f.col("seq").isNotNull())
        .groupBy("gw", "epoch", "seq")
        .agg(f.min(f.coalesce("gw_ts", "rx_ts")).alias("taken_on"))
    )
    in_order = Window.partitionBy("gw", "epoch").orderBy("seq")
    before = f.lag("seq", 1, -1).over(in_order)
    return (
        numbered.select(
            "*", before.alias("before"), f.lag("taken_on").over(in_order).alias("after_ts")
        )
        .where(f.col("seq") > f.col("before") + 1)
        .select(
            "gw",
            "epoch",
            (f.col("before") + 1).alias("first_seq"),
            (f.col("seq") - 1).alias("last_seq"),
            (f.col("seq") - f.col("before") - 1).alias("missing"),
            "after_ts",
            f.col("taken_on").alias("before_ts"),
        )
    )


def silences(arrived_rows: DataFrame, options: SilenceOptions) -> DataFrame:
    """Longer than so many periods between two readings, or since the last one."""
    spoken = _spoken(arrived_rows)
    in_order = Window.partitionBy("device").orderBy("ts")
    steps = spoken.select("*", f.lead("ts").over(in_order).alias("until")).join(
        _periods(spoken, options), "device"
    )
    silent_s = _seconds(f.coalesce("until", "now")) - _seconds(f.col("ts"))
    return (
        steps.crossJoin(_now(arrived_rows))
        .where(silent_s > f.col("period_s") * options.periods)
        .select(
            "gw", "device", f.col("ts").alias("since"), "until",
            silent_s.alias("silent_s"), "period_s",
        )
    )  # fmt: skip


def completeness(arrived_rows: DataFrame, options: SilenceOptions) -> DataFrame:
    """Each hour from a device's first reading on, also those without a reading."""
    spoken = _spoken(arrived_rows)
    hour = f.date_trunc("hour", "ts")
    counts = spoken.groupBy("device", hour.alias("hour")).agg(f.count("*").alias("readings"))
    spans = spoken.groupBy("device").agg(f.min("ts").alias("first"), f.max("ts").alias("latest"))
    spans = spans.crossJoin(_now(arrived_rows)).withColumn("end", f.greatest("latest", "now"))
    every = f.sequence(
        f.date_trunc("hour", "first"), f.date_trunc("hour", "end"), f.expr("interval 1 hour")
    )
    hours = spans.select("*", f.explode(every).alias("hour"))
    begin = f.greatest(_seconds(f.col("hour")), _seconds(f.col("first")))
    end = f.least(_seconds(f.col("hour")) + HOUR_S, _seconds(f.col("end")))
    readings = f.coalesce("readings", f.lit(0))
    expected = f.greatest(f.lit(1), f.round((end - begin) / f.col("period_s"))).cast("bigint")
    return (
        hours.join(counts, ["device", "hour"], "left")
        .join(_periods(spoken, options), "device")
        .select("device", "hour", readings.alias("readings"), expected.alias("expected"))
        .withColumn(
            "percent", f.least(f.lit(100.0), f.lit(100.0) * f.col("readings") / f.col("expected"))
        )
    )


def _spoken(arrived_rows: DataFrame) -> DataFrame:
    """When each device measured something; a pack of ten values at one time is one moment."""
    return (
        arrived_rows.where(f.col("device").isNotNull())
        .groupBy("device", "ts")
        .agg(f.max("gw").alias("gw"))
    )


def _periods(spoken: DataFrame, options: SilenceOptions) -> DataFrame:
    if options.period_s is not None:
        return spoken.select("device").distinct().withColumn("period_s", f.lit(options.period_s))
    in_order = Window.partitionBy("device").orderBy("ts")
    step = _seconds(f.col("ts")) - _seconds(f.lag("ts").over(in_order))
    return (
        spoken.select("device", step.alias("step"))
        .where(f.col("step").isNotNull())
        .groupBy("device")
        .agg(f.median("step").alias("period_s"), f.count("*").alias("steps"))
        .where(f.col("steps") >= INTERVALS_MIN)
        .select("device", "period_s")
    )


def _now(arrived_rows: DataFrame) -> DataFrame:
    return arrived_rows.agg(f.max("rx_ts").alias("now"))


def _seconds(moment: Column) -> Column:
    return f.unix_micros(moment) / 1e6
