"""A driver of Spark that dies at its commits: before the first one, then behind each."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import pytest

from spark_ingest.spark.job import JobError
from spark_ingest.tables.delta.table import Table

# In the order in which a batch makes them.
COMMITS = ("bronze", "quarantine", "rollup_1m", "rollup_1h", "rollup_1d")


class DeathError(Exception):
    """The driver ends here."""


def die_at_each_commit(run: Callable[[], object]) -> None:
    """The first batch dies before its first commit, the second behind that, and so on: each `run`
    goes on where the one before ended; the last comes to its end.
    """
    append = Table.append
    deaths: list[str] = []

    def dying(self: Table, added: list[object], app: str, batch: int) -> bool:
        if len(deaths) == batch == 0:
            deaths.append("before the first")
            raise DeathError
        done = append(self, added, app, batch)  # type: ignore[arg-type]
        if 0 < batch == len(deaths) <= len(COMMITS) and self.folder.name == COMMITS[batch - 1]:
            deaths.append(self.folder.name)
            raise DeathError
        return done

    with patch.object(Table, "append", dying):
        for _ in range(1 + len(COMMITS)):
            with pytest.raises(JobError, match="DeathError"):
                run()
        run()
    assert deaths == ["before the first", *COMMITS]
