"""The thread that writes the log: real pipes and files, small limits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.admin.log import writer
from gateway.admin.log.writer import NOT_READ, LogWriter
from tests.support.full_pipe import fill
from tests.support.waiting import until

REPOSITORY = Path(__file__).parents[2]


@contextmanager
def full_pipe() -> Iterator[tuple[int, int]]:
    """Its ends; `emptied` makes it move. The writing one stays open: a thread still writes to it,
    and its number must not become that of another file.
    """
    reading, writing = os.pipe()
    fill(writing)
    yield reading, writing
    os.close(reading)


def emptied(reading: int, until_text: str) -> list[str]:
    text = ""
    while until_text not in text:
        text += os.read(reading, 1 << 20).decode()
    return text.lstrip("x").splitlines()


def blocked(writing: int, first: str = "first") -> LogWriter:
    """One that waits in write(2) for its first line."""
    made = LogWriter(writing)
    made.put(first)
    until(lambda: made._write_began is not None)
    return made


def test_lines_beyond_the_limit_are_lost_and_one_line_states_them_at_their_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer, "LINES_MAX", 4)
    with full_pipe() as (reading, writing):
        made = blocked(writing)
        for number in range(10):
            made.put(f"line {number}")
        assert made.lost_lines == 6
        lines = emptied(reading, "lost")
        assert lines[:5] == ["first", "line 0", "line 1", "line 2", "line 3"]
        assert re.fullmatch(rf"6 lines were lost in 0\.\d s: {NOT_READ}", lines[5])
        made.put("after")
        assert emptied(reading, "after") == ["after"]
        assert made.flush(10)
        assert (made.lost_lines, made.error) == (6, None)


def test_bytes_are_limited_as_well_and_a_line_alone_is_never_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer, "BYTES_MAX", 20)
    with full_pipe() as (reading, writing):
        made = blocked(writing)
        made.put("a" * 30)
        made.put("b")
        assert made.lost_lines == 1
        assert emptied(reading, "lost")[:2] == ["first", "a" * 30]


def test_while_lines_are_lost_none_is_taken_before_the_queue_is_half_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a slow reader would get a line about one lost line between any two others."""
    monkeypatch.setattr(writer, "LINES_MAX", 4)
    monkeypatch.setattr(writer, "WRITE_BYTES_MAX", 1)  # one line a write
    with full_pipe() as (reading, writing):
        made = blocked(writing)
        for number in range(8):
            made.put(f"line {number}")
        lines = emptied(reading, "line 3\n")
        assert [line for line in lines if "lost" in line] == [
            line for line in lines[-2:] if "4 lines were lost" in line
        ]


def test_lines_of_several_threads_stay_whole_and_in_the_order_of_each() -> None:
    reading, writing = os.pipe()
    made, count = LogWriter(writing), 500

    def log(name: str) -> None:
        for number in range(count):
            made.put(f"{name} {number}")

    threads = [threading.Thread(target=log, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    lines: list[str] = []
    text = ""
    while text.count("\n") < 3 * count:
        text += os.read(reading, 1 << 16).decode()
    lines = text.splitlines()
    for name in "abc":
        assert [line for line in lines if line[0] == name] == [f"{name} {n}" for n in range(count)]
    for thread in threads:
        thread.join()
    os.close(reading)
    os.close(writing)


def test_whoever_logs_does_not_wait_and_it_is_known_for_how_long_nobody_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer, "BLOCKED_AFTER_S", 0.05)
    with full_pipe() as (reading, writing):
        made = blocked(writing)
        began = time.monotonic()
        for _ in range(1000):
            made.put("line")
        assert not made.flush(0.1)
        assert time.monotonic() - began < 1.0
        until(lambda: made.blocked_s is not None)
        os.read(reading, 1 << 20)
        assert made.flush(10)
        assert made.blocked_s is None


def test_a_pipe_that_was_made_non_blocking_by_others_loses_nothing() -> None:
    with full_pipe() as (reading, writing):
        os.set_blocking(writing, False)
        made = blocked(writing)
        made.put("second")
        assert emptied(reading, "second") == ["first", "second"]
        assert made.lost_lines == 0


def test_what_a_full_disk_lost_is_stated_before_the_next_line_that_is_written(
    tmp_path: Path,
) -> None:
    """The descriptor stays, what is behind it gets room."""
    writing = os.open("/dev/full", os.O_WRONLY)
    made = LogWriter(writing)
    for number in range(3):
        made.put(f"line {number}")
        assert made.flush(10)
    assert (made.lost_lines, made.error) == (3, "No space left on device")
    room = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(room, writing)
    made.put("after")
    assert made.flush(10)
    stated, after = (tmp_path / "log").read_text().splitlines()
    assert re.fullmatch(r"3 lines were lost in \d+\.\d s: No space left on device", stated)
    assert (after, made.lost_lines, made.error) == ("after", 3, None)
    os.close(room)
    os.close(writing)


NO_THREAD = """
import resource, sys, os, threading, time
refused = lambda self: (_ for _ in ()).throw(RuntimeError("can't start new thread"))
threading.Thread.start = refused
from gateway.admin.log.writer import LogWriter
writer = LogWriter(2)
writer.put("first")
os.read(0, 1)
for _ in range(100):
    writer.put("x" * 2000)
print(writer.lost_lines > 0, flush=True)
os.read(0, 1)
writer.put("after")
"""


def test_without_a_thread_what_can_be_written_at_once_is_and_the_rest_is_lost() -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", NO_THREAD]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=pipe, stdout=pipe, stderr=pipe) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stderr.readline() == b"first\n"
        child.stdin.write(b"1")
        child.stdin.flush()
        assert child.stdout.readline() == b"True\n"
        taken = os.read(child.stderr.fileno(), 1 << 20)
        child.stdin.write(b"2")
        child.stdin.flush()
        lines = (taken + child.stderr.read()).decode().splitlines()
        assert child.wait(10) == 0
    assert set(lines[:-2]) == {"x" * 2000}
    assert re.fullmatch(rf"\d+ lines were lost in \d+\.\d s: {NOT_READ}", lines[-2])
    assert lines[-1] == "after"


ENDING = """
import logging, sys
from gateway.admin.log.logs import configure, log_everything
configure("info", "text")
log_everything()
for number in range(200):
    logging.getLogger("tidegate").info("m" * 1000)
{}
"""


@pytest.mark.parametrize(
    ("last", "code"),
    [("sys.exit(7)", 7), ("raise ValueError('m')", 1), ("", 0), ("print('x' * 10)", 0)],
)
def test_a_process_whose_log_is_not_read_ends_soon_and_with_its_own_code(
    last: str, code: int
) -> None:
    """Also while the thread waits in write(2)."""
    with full_pipe() as (_, writing):
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", ENDING.format(last)],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=writing,
            timeout=200,
            check=False,
        )
        assert done.returncode == code
        assert time.monotonic() - began < 10


def test_a_process_whose_log_is_read_late_still_gets_all_of_it_out() -> None:
    reading, writing = os.pipe()
    program = ENDING.format("sys.exit(3)")
    with subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, stderr=writing) as child:
        os.close(writing)
        text = b""
        while piece := os.read(reading, 1 << 16):
            text += piece
        assert child.wait(10) == 3
    os.close(reading)
    assert len(text.splitlines()) == 200
