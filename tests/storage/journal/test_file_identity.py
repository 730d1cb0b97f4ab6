"""Which file a path leads to, and that to ask for it does not change what a sync writes."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.storage.journal import file_identity
from gateway.storage.journal.file_identity import Identity
from gateway.storage.journal.files import OsFiles
from tests.storage.journal.support import Driven, new_reading

Look = Callable[[str], Identity]


@pytest.fixture(params=["statx", "stat"])
def look(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways, whichever this machine takes."""
    way: Look | None = file_identity._by_stat
    if request.param == "statx":
        way = file_identity._by_statx()
        if way is None:
            pytest.skip("no statx here")
    monkeypatch.setattr(file_identity, "_look", way)


@pytest.mark.usefixtures("look")
def test_it_is_that_of_the_file_whatever_the_path(tmp_path: Path) -> None:
    path, link = tmp_path / "näme", tmp_path / "link"
    path.touch()
    link.symlink_to(path)
    status = path.stat()
    expected = status.st_dev, status.st_ino
    files = OsFiles()
    assert files.identity(path) == files.identity(link) == expected
    folder = tmp_path.stat()
    assert files.identity(tmp_path) == (folder.st_dev, folder.st_ino)
    with path.open("rb") as file:
        assert files.entry_of(file.fileno()).identity == expected
    entry = files.entry(path)
    assert entry is not None
    assert entry.identity == expected


@pytest.mark.usefixtures("look")
def test_it_is_another_once_the_file_was_replaced(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.touch()
    other.touch()
    before = file_identity.file_identity(path)
    other.replace(path)
    assert file_identity.file_identity(path) not in (None, before)


@pytest.mark.usefixtures("look")
def test_nothing_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in ("none", "none/a", "file/a"):
        assert file_identity.file_identity(tmp_path / path) is None


@pytest.mark.usefixtures("look")
def test_what_cannot_be_looked_at_is_an_error(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match=str(loop)) as raised:
        file_identity.file_identity(loop)
    assert raised.value.errno == errno.ELOOP


@pytest.mark.parametrize("why", ["no symbol", "ENOSYS", "EPERM", "EACCES", "another device"])
def test_without_statx_it_is_asked_by_stat(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def statx(*_: Any) -> int:
        if why == "another device":
            return 0
        ctypes.set_errno(getattr(errno, why))
        return -1

    class Library:
        def __init__(self, *_: object, **__: object) -> None:
            if why != "no symbol":
                self.statx = statx

    monkeypatch.setattr(ctypes, "CDLL", Library)
    assert file_identity._by_statx() is None


def test_the_journal_never_asks_for_the_times_of_what_it_writes_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if file_identity._by_statx() is None:
        pytest.skip("no statx here")
    driven = Driven(tmp_path / "journal")
    driven.store(new_reading(1))
    asked = []
    stat, fstat = os.stat, os.fstat

    def noted(look: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def noting(*arguments: Any, **named: Any) -> os.stat_result:
            asked.append(arguments)
            return look(*arguments, **named)

        return noting

    monkeypatch.setattr(os, "stat", noted(stat))
    monkeypatch.setattr(os, "fstat", noted(fstat))
    for number in range(2, 10):
        driven.store(new_reading(number))
    driven.journal.look(driven.journal.begin_look())
    assert asked == []
