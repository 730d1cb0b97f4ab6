"""What `backfill quarantine` is about to do, on the disk before it does it.

It writes to several tables, one after the other. One that is ended between them must be finished by
the schemas and routes that it had: by others it would choose other rows for the tables that are
missing.

    <lake>/checkpoints/<query>/tidegate-replay
    {"version": 7, "rows": {...}, "schemas": [...], "routes": {...}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spark_ingest.payload.decoding import Format
from spark_ingest.payload.registry import Field, Kind, SchemaOptions
from spark_ingest.segments.disk import Disk
from spark_ingest.segments.rows import RowOptions
from spark_ingest.tables.checkpoint import CheckpointError

FILE = "tidegate-replay"


@dataclass(frozen=True, slots=True)
class Intent:
    version: int  # of the quarantine that it reads
    schemas: tuple[SchemaOptions, ...]
    rows: RowOptions
    routes: Mapping[str, str] | None = None  # conditions by table; None: it is not known

    @classmethod
    def left_in(cls, folder: Path) -> Intent | None:
        """What was last begun here. Raises CheckpointError."""
        path = folder / FILE
        try:
            given = json.loads(path.read_text(encoding="utf-8"))
            schemas = tuple(map(_schema, given["schemas"]))
            rows = RowOptions(**given["rows"])
            return cls(int(given["version"]), schemas, rows, given.get("routes"))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{path} is damaged: {error!r}. If no backfill of quarantine was ended half way, "
                "remove it"
            ) from None

    def record(self, folder: Path) -> None:
        """Durable when this returns."""
        described = {
            "version": self.version,
            "rows": asdict(self.rows),
            "schemas": [asdict(each) for each in self.schemas],
            **({} if self.routes is None else {"routes": dict(self.routes)}),
        }
        text = json.dumps(described, default=lambda word: word.value)
        Disk().replace(folder / FILE, text.encode())


def _schema(given: dict[str, Any]) -> SchemaOptions:
    fields = {name: _field(each) for name, each in given["fields"].items()}
    return SchemaOptions(**{**given, "format": Format(given["format"]), "fields": fields})


def _field(given: dict[str, Any]) -> Field:
    kind = None if given["kind"] is None else Kind(given["kind"])
    return Field(**{**given, "kind": kind})
