"""Rows to partial rollups, in compiled code and without Spark: what a worker makes of its rows.

Partials merge, so nothing has to be brought together for them: each worker aggregates what it has
while it writes it, and `compact` or a reader does the rest. As a `groupBy` over the whole batch,
with its two shuffles for each period, the same took five times as long as all else of a batch.
"""

from __future__ import annotations

from typing import Any

from spark_ingest.tables.sketch import LEAST, LOG_LEAST, LOG_RATIO
from spark_ingest.tables.tables import ROLLUPS, SERIES, rollup

# Of rows what is looked at.
NEEDED = (*SERIES, "ts", "value")
_KEYS = ["start", *SERIES]


def partials_of(rows: Any, period: str) -> Any:
    """A `pyarrow.Table` as `tables.rollup` has it. Rows without a number are left out; `rows` are
    good ones, `period` as `tables.ROLLUPS` has it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = rows.select(NEEDED).filter(pc.field("value").is_valid())
    rows = rows.append_column("start", pc.floor_temporal(rows["ts"], unit=period))
    rows = rows.sort_by(_ascending("ts", "value"))  # so that `first` and `last` are right
    found = _grouped(
        rows,
        *(("value", each) for each in ("count", "sum", "min", "max", "first", "last")),
        *(("ts", each) for each in ("min", "max")),
    )
    columns = {
        **{name: found[name] for name in _KEYS},
        "n": found["value_count"],
        **{name: found[f"value_{name}"] for name in ("sum", "min", "max", "first", "last")},
        "first_ts": found["ts_min"],
        "last_ts": found["ts_max"],
        "sketch": _sketches(rows),
        "day": pc.cast(found["start"], pa.date32()),
    }
    schema = rollup(next(iter(ROLLUPS))).schema()
    return pa.table([columns[name] for name in schema.names], names=schema.names).cast(schema)


def _sketches(rows: Any) -> Any:
    """One map for each key, in the order of the keys."""
    import pyarrow as pa

    rows = rows.select(_KEYS).append_column("bucket", _buckets(rows["value"]))
    counts = _grouped(rows, ([], "count_all"), also=("bucket",))
    sizes = _grouped(counts, ([], "count_all"))["count_all"]
    offsets = [0]
    for size in sizes.to_pylist():
        offsets.append(offsets[-1] + size)
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()),
        counts["bucket"].combine_chunks(),
        counts["count_all"].combine_chunks(),
    )


def _grouped(rows: Any, *wanted: tuple[Any, str], also: tuple[str, ...] = ()) -> Any:
    """In the order of the keys: Arrow's own order is none."""
    keys = [*_KEYS, *also]
    return rows.group_by(keys, use_threads=False).aggregate(list(wanted)).sort_by(_ascending(*keys))


def _ascending(*names: str) -> list[tuple[str, str]]:
    return [(name, "ascending") for name in names]


def _buckets(values: Any) -> Any:
    """As `sketch.bucket_of`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # What is nearer to 0 than LEAST is moved there, where its bucket is 0.
    sizes = pc.max_element_wise(pc.abs(values), LEAST)
    numbers = pc.ceil(pc.divide(pc.subtract(pc.ln(sizes), LOG_LEAST), LOG_RATIO))
    return pc.cast(pc.multiply(numbers, pc.sign(values)), pa.int32())
