"""Lines as they reach a terminal, the journal, and who reads JSON."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.admin.log.logs import (
    MESSAGE_LENGTH_MAX,
    VALUE_LENGTH_MAX,
    JsonLines,
    TextLines,
    fields,
    is_journal,
)

REPOSITORY = Path(__file__).parents[2]
CREATED = 1795255323.1239  # 2026-11-21T10:02:03.1239Z


def record(message: str, level: int = logging.INFO, **given: str | int | float) -> Any:
    made = logging.LogRecord("tidegate.client", level, "x.py", 1, message, None, None)
    made.created = CREATED
    made.__dict__.update(fields(**given))
    return made


GOLDEN = [
    (
        record("= active", client="greenhouse-7", peer="192.0.2.7:1883", keep_alive_s=60),
        "2026-11-21T10:02:03.123Z INFO  tidegate.client = active client=greenhouse-7 "
        "peer=192.0.2.7:1883 keep_alive_s=60",
        '{"time": "2026-11-21T10:02:03.123Z", "level": "info", "logger": "tidegate.client", '
        '"message": "= active", "client": "greenhouse-7", "peer": "192.0.2.7:1883", '
        '"keep_alive_s": 60}',
    ),
    (
        record("= lost", logging.WARNING, client="green house"),
        "2026-11-21T10:02:03.123Z WARN  tidegate.client = lost client='green house'",
        '{"time": "2026-11-21T10:02:03.123Z", "level": "warning", "logger": "tidegate.client", '
        '"message": "= lost", "client": "green house"}',
    ),
    (
        record("two\nlines\x1b[0m", logging.ERROR, client=""),
        r"2026-11-21T10:02:03.123Z ERROR tidegate.client two\nlines\x1b[0m client=''",
        '{"time": "2026-11-21T10:02:03.123Z", "level": "error", "logger": "tidegate.client", '
        '"message": "two\\nlines\\u001b[0m", "client": ""}',
    ),
]


@pytest.mark.parametrize(("made", "text", "as_json"), GOLDEN)
def test_a_line_looks_like_this(made: logging.LogRecord, text: str, as_json: str) -> None:
    assert TextLines().format(made) == text
    assert JsonLines().format(made) == as_json


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("sensors/küche/#", "sensors/küche/#"),
        ("[2001:db8::1]:1883", "[2001:db8::1]:1883"),
        ("a=b", "'a=b'"),
        ("it's", '"it\'s"'),
        ("back\\slash", r"'back\\slash'"),
        ("\u2028", r"'\u2028'"),
        ("\udc80", r"'\udc80'"),
        ("no\xa0break", r"'no\xa0break'"),
    ],
)
def test_a_value_is_bare_or_quoted_and_always_printable(value: str, shown: str) -> None:
    assert TextLines().format(record("m", client=value)).endswith(f"m client={shown}")
    assert json.loads(JsonLines().format(record("m", client=value)))["client"] == value


def test_values_and_messages_are_cut() -> None:
    line = TextLines(for_journal=True).format(record("m" * 5000, client="c" * 5000))
    cut = "... (5000 characters)"
    assert line == (
        f"<6>INFO  tidegate.client {'m' * MESSAGE_LENGTH_MAX}{cut} "
        f"client='{'c' * VALUE_LENGTH_MAX}{cut}'"
    )


@pytest.mark.parametrize(
    ("level", "priority"),
    [(logging.DEBUG, 7), (logging.INFO, 6), (logging.WARNING, 4), (logging.ERROR, 3)],
)
def test_the_journal_gets_its_priority_in_both_formats(level: int, priority: int) -> None:
    made = record("m", level)
    assert TextLines(for_journal=True).format(made).startswith(f"<{priority}>")
    assert JsonLines(for_journal=True).format(made) == f"<{priority}>{JsonLines().format(made)}"


def _raise_deeply() -> None:
    raise ValueError("it\nbroke")


def test_an_exception_is_one_line_with_its_places_innermost_first() -> None:
    made = record("cannot answer", logging.ERROR)
    try:
        _raise_deeply()
    except ValueError:
        made.exc_info = sys.exc_info()
    line = TextLines().format(made)
    assert r" cannot answer error='ValueError: it\nbroke' at='test_logs.py:" in line
    assert line.count("test_logs.py:") == 2
    assert json.loads(JsonLines().format(made))["error"] == "ValueError: it\nbroke"


# A process of its own: `configure` changes the logging of the whole process.

PROGRAM = """
import logging, sys
from gateway.admin.log.logs import configure, fields
configure(sys.argv[1], sys.argv[2])
logging.getLogger("tidegate.client").debug("= detail")
logging.getLogger("tidegate.client").info("= active", extra=fields(client="a b"))
logging.getLogger("asyncio").info("foreign talk")
logging.getLogger("asyncio").warning("foreign trouble")
"""


def write_log(
    path: Path, *arguments: str, level: str = "info", journal_stream: str | None = None
) -> list[str]:
    with path.open("wb") as stderr:
        subprocess.run(
            [sys.executable, "-c", PROGRAM, level, *(arguments or ("text",))],
            cwd=REPOSITORY,
            env={**os.environ, "JOURNAL_STREAM": journal_stream or ""},
            stderr=stderr,
            check=True,
        )
    return path.read_text().splitlines()


def test_text_has_a_time_stamp_and_foreign_lines_only_from_warnings(tmp_path: Path) -> None:
    lines = write_log(tmp_path / "log")
    assert [line[25:] for line in lines] == [
        "INFO  tidegate.client = active client='a b'",
        "WARN  asyncio foreign trouble",
    ]
    assert all(line[10] == "T" and line[23] == "Z" for line in lines)


def test_the_level_is_the_least_that_is_written(tmp_path: Path) -> None:
    assert len(write_log(tmp_path / "log", level="debug")) == 3
    assert write_log(tmp_path / "log", level="error") == []


def test_when_stderr_is_the_journal_it_gets_priorities_and_no_time(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    stream = f"{path.stat().st_dev}:{path.stat().st_ino}"
    assert write_log(path, journal_stream=stream) == [
        "<6>INFO  tidegate.client = active client='a b'",
        "<4>WARN  asyncio foreign trouble",
    ]
    first, _ = write_log(path, "json", journal_stream=stream)
    assert json.loads(first.removeprefix("<6>"))["client"] == "a b"


def test_another_journal_stream_is_not_ours(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        status = os.fstat(stream.fileno())
        assert is_journal(stream, f"{status.st_dev}:{status.st_ino}")
        assert not is_journal(stream, f"{status.st_dev}:{status.st_ino + 1}")
        assert not is_journal(stream, None)
    assert not is_journal(io.StringIO(), "1:1")


def test_without_stderr_nothing_is_written_and_nothing_fails() -> None:
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", PROGRAM, "info", "text"]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, check=True)
    assert done.stdout == b""


FLOOD = """
import logging
from gateway.admin.log.logs import configure, log_numbers, output
configure("info", "text")
for _ in range(1000):
    logging.getLogger("tidegate.client").info("m")
output().writer.flush(10)
print(log_numbers().lost_lines, log_numbers().error)
"""


def test_lines_that_find_the_disk_full_are_counted_and_forgotten() -> None:
    command = ["sh", "-c", 'exec "$@" 2>/dev/full', "sh", sys.executable, "-c", FLOOD]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"1000 No space left on device\n"


MISTAKE = """
import logging
from gateway.admin.log.logs import configure
configure("info", "text")
logging.getLogger("tidegate.client").info("%d of them", "three")
logging.getLogger("tidegate.client").info("next")
"""


def test_a_mistake_in_a_call_of_the_logger_is_a_line_that_names_its_place() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MISTAKE], cwd=REPOSITORY, stderr=subprocess.PIPE, check=True
    )
    mistake, following = done.stderr.decode().splitlines()
    assert mistake[25:].startswith("ERROR tidegate.log Logging error at <string>:5: TypeError(")
    assert following[25:] == "INFO  tidegate.client next"


UNCAUGHT = """
import gc, logging, threading, warnings
from gateway.admin.log.logs import configure, log_everything
configure("info", "text")
log_everything()
class Leaves:
    def __del__(self):
        raise OSError("left")
thread = threading.Thread(target=lambda: 1 / 0, name="worker")
thread.start(); thread.join()
Leaves()
warnings.warn("old")
raise ValueError("on top")
"""


def test_what_python_itself_would_print_is_a_line_of_the_log() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNCAUGHT], cwd=REPOSITORY, stderr=subprocess.PIPE, check=False
    )
    assert done.returncode == 1
    lines = [line[25:] for line in done.stderr.decode().splitlines()]
    assert lines[0].startswith(
        "FATAL tidegate the thread 'worker' ended by an error "
        "error='ZeroDivisionError: division by zero'"
    )
    assert "Leaves.__del__" in lines[1]
    assert "OSError: left" in lines[1]
    assert lines[2].startswith(r"WARN  py.warnings <string>:12: UserWarning: old")
    assert lines[3].startswith(
        "FATAL tidegate ended by an error that nobody caught error='ValueError: on top'"
    )
