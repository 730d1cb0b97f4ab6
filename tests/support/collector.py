"""The collector as its user runs it, and what has come of it in the lake."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hil.rig.logged_process import LoggedProcess
from spark_ingest.segments.shelf import segment_numbers, segment_path


class CollectorProcess(LoggedProcess):
    """`python -m spark_ingest collect`; several of one folder share its lake."""

    def __init__(
        self,
        folder: Path,
        broker_url: str,
        name: str = "c1",
        extra_config: str = "",
        *,
        arguments: Sequence[str] = (),
        prefix: Sequence[str] = (),
        lake: Path | None = None,
    ) -> None:
        """`prefix` comes before the command, as `nsenter` does."""
        super().__init__(folder / f"{name}.log")
        self.name = name
        self.lake = lake or folder / "lake"
        self.config_path = folder / f"{name}.toml"
        self.config_path.write_text(
            f'[lake]\npath = "{self.lake}"\n'
            f'[broker]\nurl = "{broker_url}"\nreconnect_delay_s_max = 0.3\n'
            f'[collector]\nname = "{name}"\ntopics = ["farm/#"]\n' + extra_config,
            encoding="utf-8",
        )
        self._arguments = arguments
        self._prefix = prefix

    def start(self) -> None:
        command = [sys.executable, "-m", "spark_ingest", "collect", "--config"]
        self.launch([*self._prefix, *command, str(self.config_path), *self._arguments])

    def wait_until_collecting(self) -> None:
        self.wait_for_log("connected to broker ")


def rows_in(lake: Path, *collectors: str) -> list[dict[str, Any]]:
    """In the order of the segments, whose numbers have no holes."""
    rows: list[dict[str, Any]] = []
    for collector in collectors or ("c1",):
        if not (lake / "segments" / collector).exists():
            continue
        numbers = segment_numbers(lake, collector)
        assert numbers == list(range(len(numbers)))
        for number in numbers:
            rows += pq.read_table(segment_path(lake, collector, number)).to_pylist()
    return rows


def times_seen(lake: Path, *collectors: str) -> Counter[float]:
    """How often each value is in the lake."""
    seen: Counter[float] = Counter()
    for collector in collectors or ("c1",):
        if (lake / "segments" / collector).exists():
            for number in segment_numbers(lake, collector):
                path = segment_path(lake, collector, number)
                seen.update(pq.read_table(path, columns=["value"])["value"].to_pylist())
    return seen
