"""What a batch brought to the tables; and the way it takes from a Spark Connect server to the job,
which have nothing in common but the lake.

    <checkpoint>/written/<batch>.json     the newest FILES_KEPT

These are numbers for people: one that is lost with the power is a number that is too low.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

log = logging.getLogger("tidegate.ingest.tables")

FOLDER = "written"
FILES_KEPT = 10


@dataclass(frozen=True, slots=True)
class Written:
    batch: int
    rows: Mapping[str, int]  # by table; none of a table that had the batch already
    seconds: float
    repeated: int = 0  # records of Kafka that went to no table, because their reading was there
    foreign: int = 0  # or because no collector wrote them
    forgotten: int = 0  # with Kafka: what planning/seen.py has forgotten, for ever


class WrittenBatches:
    def __init__(self, checkpoint: Path) -> None:
        self._folder = checkpoint / FOLDER

    def keep(self, written: Written) -> None:
        path = self._path(written.batch)
        temporary = path.with_suffix(".tmp")
        try:
            self._folder.mkdir(exist_ok=True)
            temporary.write_text(json.dumps(asdict(written)), encoding="utf-8")
            temporary.rename(path)
            self._path(written.batch - FILES_KEPT).unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be written: %s", path, error.strerror or error)

    def take(self, batch: int) -> Written | None:
        """Once; None where it was not kept."""
        path = self._path(batch)
        try:
            found = Written(**json.loads(path.read_text(encoding="utf-8")))
            path.unlink()
        except (OSError, ValueError, TypeError):
            return None
        return found

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch}.json"
