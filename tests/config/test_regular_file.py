"""What a configuration names is read if it is a regular file; the last path tried is known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.config.regular_file import last_opened, read_regular


def test_it_is_read_as_far_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_bytes(b"tide")
    assert read_regular(path, 3) == b"tid"
    assert read_regular(path, 9) == b"tide"


def test_the_last_path_is_known_before_it_is_opened(tmp_path: Path) -> None:
    for name in ("one", "other"):
        with pytest.raises(FileNotFoundError):
            read_regular(tmp_path / name, 9)
        assert last_opened() == tmp_path / name


def test_another_kind_of_file_is_said_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a pipe, and only a regular file is read"):
        read_regular(tmp_path / "pipe", 9)
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path, 9)
    assert read_regular(Path("/dev/null"), 9) == b""
