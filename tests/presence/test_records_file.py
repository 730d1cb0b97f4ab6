"""What presence remembers over restarts: a file that is appended to, and written again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gateway.presence import records_file
from gateway.presence.line_file import RETRY_S, in_thread
from gateway.presence.records_file import BYTES_PER_S, FILE, LINE_BYTES_MAX, RecordsFile
from tests.admin.conftest import Log
from tests.support.waiting import until


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_the_last_row_of_a_key_counts_and_an_empty_one_deletes_it(tmp_path: Path) -> None:
    file = RecordsFile(tmp_path, now=Clock())
    for key, row in (("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("b", "")):
        file.put(key, row)
        assert file.flush(is_end=True) is False
    assert RecordsFile(tmp_path).load() == {"a": "2", "c": "1"}
    assert (tmp_path / FILE).read_text() == "a\t2\nc\t1\n", "a start writes what counts"
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_a_line_that_is_torn_is_skipped(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"a\t1\nb\t\xff\nnonsense\nc\t12")
    assert RecordsFile(tmp_path).load() == {"a": "1", "b": "\ufffd"}


def test_a_first_start_finds_nothing(tmp_path: Path, log: Log) -> None:
    assert RecordsFile(tmp_path).load() == {}
    assert log.read() == []


def test_batches_wait_until_those_before_are_paid_for(tmp_path: Path) -> None:
    clock = Clock()
    file = RecordsFile(tmp_path, now=clock)
    file.put("a", "x" * (BYTES_PER_S - 3))
    file.flush()
    file.put("a", "y")
    clock.at = 0.9
    file.flush()
    assert (tmp_path / FILE).stat().st_size == BYTES_PER_S
    clock.at = 1.0
    file.flush()
    assert (tmp_path / FILE).stat().st_size == BYTES_PER_S + 4
    file.put("big", "x" * (LINE_BYTES_MAX + 1))
    file.put("end", "x")
    file.flush(is_end=True)
    assert RecordsFile(tmp_path).load() == {"a": "y", "end": "x"}


def test_a_file_that_has_grown_is_written_again(tmp_path: Path) -> None:
    file = RecordsFile(tmp_path, now=Clock())
    row = "x" * LINE_BYTES_MAX
    for number in range(2 * records_file.BYTES_MAX // LINE_BYTES_MAX):
        file.put("a", row)
        file.put("b", str(number))
        file.flush(is_end=True)
        assert (tmp_path / FILE).stat().st_size <= records_file.BYTES_MAX + 2 * LINE_BYTES_MAX
    assert RecordsFile(tmp_path).load() == {"a": row, "b": str(number)}


def test_a_disk_that_fails_is_named_once_and_tried_again(tmp_path: Path, log: Log) -> None:
    (tmp_path / FILE).mkdir()
    clock = Clock()
    file = RecordsFile(tmp_path, now=clock)
    assert file.load() == {}
    file.put("a", "1")
    file.flush(is_end=True)
    file.put("a", "2")
    (tmp_path / FILE).rmdir()
    file.flush()
    assert not (tmp_path / FILE).exists()
    clock.at = RETRY_S
    file.flush()
    assert RecordsFile(tmp_path).load() == {"a": "2"}
    first, last = log.read()
    assert f"{FILE} cannot be used (Is a directory)" in first
    assert "can be used again" in last


def test_what_comes_while_the_disk_hangs_waits(tmp_path: Path) -> None:
    hanging: list[Callable[[], None]] = []
    file = RecordsFile(tmp_path, hanging.append, Clock())
    file.put("a", "1")
    assert file.flush(is_end=True)
    file.put("a", "2")
    assert file.flush(is_end=True)
    hanging.pop()()
    assert file.flush(is_end=True), "the next batch"
    hanging.pop()()
    assert file.flush(is_end=True) is False
    assert RecordsFile(tmp_path).load() == {"a": "2"}


def test_it_is_written_in_a_thread(tmp_path: Path) -> None:
    file = RecordsFile(tmp_path, in_thread)
    file.put("a", "1")
    file.flush(is_end=True)
    until(lambda: not file.flush())
    assert RecordsFile(tmp_path).load() == {"a": "1"}


def test_a_machine_without_threads_is_tried_again(tmp_path: Path, log: Log) -> None:
    def none_left(work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    file = RecordsFile(tmp_path, none_left, Clock())
    file.put("a", "1")
    assert file.flush(is_end=True) is False
    assert "limit on threads" in log.read()[0]
