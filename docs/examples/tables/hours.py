"""The mean of each hour of a day, of each series, from the tables of spark_ingest, without Spark.

    python hours.py LAKE DAY          # such as: python hours.py ./lake 2026-11-20

Needs deltalake and pandas. A batch adds rows to a rollup, and those of one key belong together: so
sums are added up before they are divided.
"""

import datetime
import sys

from deltalake import DeltaTable

SERIES = ["start", "device", "metric", "unit"]


def main() -> None:
    lake, text = sys.argv[1:]
    day = datetime.date.fromisoformat(text)
    rollup = DeltaTable(f"{lake}/tables/rollup_1h")
    # Files of other days are not opened.
    parts = rollup.to_pandas(filters=[("day", "=", day)])
    hours = parts.groupby(SERIES, dropna=False)[["n", "sum"]].sum()
    for (start, device, metric, unit), (n, total) in hours.iterrows():
        of = f" {unit}" if isinstance(unit, str) else ""
        print(f"{start:%H:%M} {device} {metric} {total / n:.2f}{of}, of {n:.0f}")


if __name__ == "__main__":
    main()
