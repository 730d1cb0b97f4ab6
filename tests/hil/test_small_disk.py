"""The small disk is small, runs full, and is seen by who shall see it."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from hil.rig.small_disk import NoSmallDiskError, SmallDisk, disk_in_a_namespace, small_disk

SIZE_BYTES = 1 << 20


def fills_and_empties(disk: SmallDisk, place: Path) -> None:
    disk.fill()
    assert disk.free_bytes == 0
    with pytest.raises(OSError, match="No space left"):
        (disk.path / "more").write_bytes(b"x")
    disk.free()
    (disk.path / "more").write_bytes(b"x" * (SIZE_BYTES // 2))
    written = subprocess.run(
        [*disk.prefix, "cat", str(place / "more")], capture_output=True, check=True
    )
    assert len(written.stdout) == SIZE_BYTES // 2


def test_a_small_disk_runs_full_and_has_room_again(tmp_path: Path) -> None:
    with small_disk(tmp_path, SIZE_BYTES) as disk:
        fills_and_empties(disk, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_in_a_namespace_only_those_within_see_it(tmp_path: Path) -> None:
    """A system that allows no namespaces says so, and what to do."""
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(disk_in_a_namespace(tmp_path, SIZE_BYTES))
        except NoSmallDiskError as error:
            assert_tells_what_to_do(error)
            return
        fills_and_empties(disk, tmp_path)
        assert list(tmp_path.iterdir()) == []


def assert_tells_what_to_do(error: NoSmallDiskError) -> None:
    assert "as root or allow user namespaces" in str(error)
