"""Which readings a query has had by the end of each batch, where Spark's offset has no room for it.

    <checkpoint>/seen/<batch>.json        the newest FILES_KEPT

It does for a Kafka topic what the offset of `gwlog` does for segments: a batch that is repeated
after a crash begins with what was seen before it, and so leaves out the same.

Rule 1: the file of a batch is durable before any table has the batch. A batch without the file of
        the one before it would take repeats for new, so it is refused.
Rule 2: repeating a batch writes the same file again.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path

from spark_ingest.planning.seen import Seen
from spark_ingest.segments.disk import Disk
from spark_ingest.tables.checkpoint import CheckpointError

FOLDER = "seen"
VERSION = 1
# Spark repeats the newest batch, and the one before it when its files were taken away.
FILES_KEPT = 10


class SeenBatches:
    def __init__(self, checkpoint: Path) -> None:
        self._folder = checkpoint / FOLDER
        self._disk = Disk()

    def before(self, batch: int) -> Seen:
        """Raises CheckpointError, and OSError."""
        if batch == 0:
            return Seen()
        path = self._path(batch - 1)
        try:
            checksum, body = path.read_bytes().split(b"\n", 1)
            given = json.loads(body)
            if checksum != b"%08x" % zlib.crc32(body) or given["version"] != VERSION:
                raise ValueError("another checksum or version")
            return Seen.decoded(given["lives"], given.get("forgotten", 0))
        except (FileNotFoundError, ValueError, TypeError, KeyError) as error:
            raise CheckpointError(
                f"{path} does not say what was read before batch {batch} ({error!r}), and without "
                "it readings would be there twice. Bring it back from a backup, or move checkpoint "
                "and tables away to build both again from the topic"
            ) from None

    def keep(self, batch: int, seen: Seen) -> None:
        """Durable when this returns."""
        given = {"version": VERSION, "lives": seen.encoded(), "forgotten": seen.forgotten}
        body = json.dumps(given).encode()
        self._disk.make_folder(self._folder)
        self._disk.replace(self._path(batch), b"%08x\n%b" % (zlib.crc32(body), body))
        self._path(batch - FILES_KEPT).unlink(missing_ok=True)

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch}.json"
