"""What a file of a table says of its columns, by which readers leave files out.

Rule 1: of all columns or of none. Where some have least and most, delta-rs takes the lack of it for
        null, and null for no row: a reader that asks for `seq = 5` would get nothing.
Rule 2: a bound may be wider than the truth, never narrower; so long texts are cut, and the larger
        bound is raised for that.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from math import isfinite
from typing import Any

TEXT_MAX = 32
LAST = "\U0010ffff"


class Stats:
    def __init__(self) -> None:
        self.rows = 0
        self._least: dict[str, Any] = {}
        self._most: dict[str, Any] = {}
        self._nulls: Counter[str] = Counter()

    def add(self, table: Any) -> None:
        """A `pyarrow.Table`, always with the same columns."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self.rows += table.num_rows
        for column in table.schema:
            values, name = table[column.name], column.name
            self._nulls[name] += values.null_count
            if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
                continue  # Delta has no bounds for these
            found = pc.min_max(values).as_py()
            if found["min"] is not None:
                self._least[name] = min(found["min"], self._least.get(name, found["min"]))
                self._most[name] = max(found["max"], self._most.get(name, found["max"]))

    def to_json(self) -> str:
        """As Delta has it."""
        bounds = {"minValues": self._least, "maxValues": self._most}
        if not all(_is_finite(each) for found in bounds.values() for each in found.values()):
            return json.dumps({"numRecords": self.rows})  # JSON has no word for it: Rule 1
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": {name: _spelled(each) for name, each in self._least.items()},
                "maxValues": {name: _spelled(each, LAST) for name, each in self._most.items()},
                "nullCount": dict(self._nulls),
            }
        )


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or isfinite(value)


def _spelled(value: Any, raised_by: str = "") -> Any:
    if isinstance(value, str) and len(value) > TEXT_MAX:
        return value[:TEXT_MAX] + raised_by
    if isinstance(value, datetime):  # milliseconds would cut off what the most has behind them
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat() if hasattr(value, "isoformat") else value
