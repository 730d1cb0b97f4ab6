"""Paths and URLs of this machine are taken, and no folder is ever called `s3a:`."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_ingest.segments.local_paths import NotServedError, local_path


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("lake", "lake"),
        ("/srv/lake", "/srv/lake"),
        ("../lake a", "../lake a"),
        ("./s3a:lake", "s3a:lake"),
        ("lakes/a:b", "lakes/a:b"),
        ("file:///srv/lake", "/srv/lake"),
        ("file:/srv/lake", "/srv/lake"),
        ("FILE://localhost/srv/lake%20a", "/srv/lake a"),
    ],
)
def test_what_is_of_this_machine_is_a_path(given: str, path: str) -> None:
    assert local_path(given) == Path(path)


@pytest.mark.parametrize(
    "given",
    [
        "s3a://bucket/lake", "s3://bucket", "gs://bucket/lake", "abfss://c@a.dfs.core.windows.net/l",
        "hdfs://host:8020/lake", "hdfs:///lake", "dbfs:/mnt/lake", "wasbs://c@a/l", "S3A://bucket/l",
        "http://host/lake", "s3a:lake", "file://host/lake", "file:lake", "file:////lake",
    ],
)  # fmt: skip
def test_what_is_not_is_refused_with_what_is_served(given: str) -> None:
    with pytest.raises(NotServedError, match=r"only file:///\.\.\.: mount"):
        local_path(given)
