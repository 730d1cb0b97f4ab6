"""One line per event on stderr: for people, for the journal of systemd, or as JSON.

- What an event is about stands in fields: `log.info("= active", extra=fields(client=...))`. Text
  and JSON show the same fields in the same order.
- One event is one line, whatever is in it. Control characters are escaped; a value with a space, a
  quote or an equals sign in it is quoted, so that nobody who chose a value can forge a line or a
  field. Values and messages are cut at a stated length.
- An exception becomes the fields `error` and `at`, innermost place first, not a traceback of many
  lines.
- When stderr is the journal, lines begin with its `<N>` priority, and text has no time stamp: the
  journal has its own.
- Logging never waits: lines are written by a thread of their own (writer.py), and those that
  cannot be written are counted and lost. The gateway serves sensors first.
- Whatever else Python itself would write to stderr, such as what nobody caught, becomes such a line
  too (`log_everything`).
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import sys
import threading
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Literal, TextIO, TypeAlias

from gateway.admin.log.writer import FLUSH_S, NOT_READ, LogWriter
from gateway.admin.part_numbers import LogNumbers

Value: TypeAlias = str | int | float
Level: TypeAlias = Literal["debug", "info", "warning", "error"]
Format: TypeAlias = Literal["text", "json"]

VALUE_LENGTH_MAX = 200  # a client id of 64, or so much of a topic that it is recognised
MESSAGE_LENGTH_MAX = 2000  # what asyncio says about a task, and more
PLACES_MAX = 8  # of an exception

LEVELS: dict[Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
# sd-daemon(3), which has them from syslog.
_PRIORITIES = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}
_SHORT_NAMES = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL"}
_BARE = re.compile(r"[^\s\"'=\\]+")


def fields(**values: Value | None) -> dict[str, dict[str, Value]]:
    """For `extra=`: what the event is about. None is left out."""
    return {"fields": {name: _cut(value) for name, value in values.items() if value is not None}}


def configure(level: Level, format: Format) -> None:
    """From here on everything goes to stderr; of other packages only warnings and worse."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    root.addHandler(_handler(output(), format))
    root.setLevel(max(LEVELS[level], logging.WARNING))
    logging.getLogger("tidegate").setLevel(LEVELS[level])


def log_everything() -> None:
    """Warnings of Python and exceptions that nobody caught as lines of the log, without waiting."""
    log = logging.getLogger("tidegate")

    def uncaught(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        log.critical("ended by an error that nobody caught", exc_info=(kind, error, trace))

    def uncaught_in_thread(found: threading.ExceptHookArgs) -> None:
        if found.exc_value is None:
            return
        name = "?" if found.thread is None else found.thread.name
        error = (found.exc_type, found.exc_value, found.exc_traceback)
        log.critical("the thread %r ended by an error", name, exc_info=error)

    def unraisable(found: sys.UnraisableHookArgs) -> None:
        error = found.exc_value
        trace = (found.exc_type, error, found.exc_traceback) if error is not None else None
        log.error("%s: %r", found.err_msg or "an error was ignored", found.object, exc_info=trace)

    def warned(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        """Without the line of the source, which logging's own would read from disk."""
        text = f"{filename}:{lineno}: {category.__name__}: {message}"
        logging.getLogger("py.warnings").warning("%s", text)

    warnings.showwarning = warned
    sys.excepthook, threading.excepthook, sys.unraisablehook = (
        uncaught,
        uncaught_in_thread,
        unraisable,
    )


@dataclass(frozen=True, slots=True)
class Output:
    """Where the log goes; `for_journal`: to the journal of systemd."""

    writer: LogWriter
    for_journal: bool

    def numbers(self) -> LogNumbers:
        writer = self.writer
        return LogNumbers(writer.lost_lines, writer.blocked_s, writer.error)


@cache
def output() -> Output | None:
    """The one of this process, which other levels and formats keep; None if the parent process has
    closed stderr.
    """
    stream = sys.stderr
    if stream is None:
        return None
    writer = LogWriter(stream.fileno(), stream.encoding)
    atexit.register(_flush_at_end, writer)
    return Output(writer, is_journal(stream, os.environ.get("JOURNAL_STREAM")))


def _flush_at_end(writer: LogWriter) -> None:
    """Of `say`. Where there is a handler, logging flushes that one itself."""
    if not any(isinstance(each, LineHandler) for each in logging.getLogger().handlers):
        writer.flush(FLUSH_S)


def log_numbers() -> LogNumbers:
    found = output()
    return LogNumbers() if found is None else found.numbers()


def say(text: str) -> None:
    """Lines of no event, for people, from a loop that must not wait for them to be read."""
    found = output()
    if found is not None:
        for line in text.splitlines():
            found.writer.put(line)


def _handler(to: Output | None, format: Format) -> logging.Handler:
    if to is None:
        return logging.NullHandler()
    handler = LineHandler(to.writer)
    kind = JsonLines if format == "json" else TextLines
    handler.setFormatter(kind(for_journal=to.for_journal))
    to.writer.notice = handler.notice
    return handler


def is_journal(stream: TextIO, journal_stream: str | None) -> bool:
    """`journal_stream`: the device and inode that systemd connected; see systemd.exec(5)."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # closed, or not a file
        return False
    return journal_stream == f"{status.st_dev}:{status.st_ino}"


class LineHandler(logging.Handler):
    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.put(self.format(record))
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """For at most FLUSH_S; at the end of the process, not in the event loop."""
        self._writer.flush(FLUSH_S)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's word
        """A mistake of ours in a call of the logger, which logging would write to stderr itself."""
        place = f"{Path(record.pathname).name}:{record.lineno}"
        self._writer.put(
            self._made(logging.ERROR, f"Logging error at {place}: {sys.exc_info()[1]!r}")
        )

    def notice(self, lines: int, seconds: float, why: str) -> str:
        """For the writer: the line that states how many were lost."""
        text = f"{lines} lines of the log were lost in {seconds:.1f} s: "
        text += NOT_READ if why == NOT_READ else f"they could not be written: {why}"
        return self._made(logging.WARNING, text)

    def _made(self, level: int, text: str) -> str:
        return self.format(logging.LogRecord("tidegate.log", level, "", 0, text, None, None))


class TextLines(logging.Formatter):
    """`2026-11-21T10:02:03.123Z INFO  tidegate.client = active client=greenhouse-7`"""

    def __init__(self, *, for_journal: bool = False) -> None:
        super().__init__()
        self._for_journal = for_journal

    def format(self, record: logging.LogRecord) -> str:
        start = _priority(record) if self._for_journal else f"{_time(record)} "
        level = _SHORT_NAMES.get(record.levelno, record.levelname)
        parts = [f"{start}{level:5} {record.name}", _escaped(_message(record))]
        parts += [f"{name}={_quoted(value)}" for name, value in _fields_of(record).items()]
        return " ".join(parts)


class JsonLines(logging.Formatter):
    """An object with `time`, `level`, `logger`, `message` and then the fields."""

    def __init__(self, *, for_journal: bool = False) -> None:
        super().__init__()
        self._for_journal = for_journal

    def format(self, record: logging.LogRecord) -> str:
        line = json.dumps(
            {
                "time": _time(record),
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": _message(record),
                **_fields_of(record),
            }
        )
        return _priority(record) + line if self._for_journal else line


def _priority(record: logging.LogRecord) -> str:
    return f"<{_PRIORITIES.get(record.levelno, 6)}>"


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _message(record: logging.LogRecord) -> str:
    return _shortened(record.getMessage(), MESSAGE_LENGTH_MAX)


def _fields_of(record: logging.LogRecord) -> dict[str, Value]:
    given: dict[str, Value] = getattr(record, "fields", {})
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return given
    return {
        **given,
        **fields(error=f"{type(error).__name__}: {error}", at=_places(error))["fields"],
    }


def _places(error: BaseException) -> str:
    # Not by StackSummary, which looks at the files of the source.
    places = [
        f"{Path(frame.f_code.co_filename).name}:{line}"
        for frame, line in walk_tb(error.__traceback__)
    ]
    return " < ".join(reversed(places[-PLACES_MAX:]))


def _cut(value: Value) -> Value:
    return _shortened(value, VALUE_LENGTH_MAX) if isinstance(value, str) else value


def _shortened(text: str, length_max: int) -> str:
    if len(text) <= length_max:
        return text
    return f"{text[:length_max]}... ({len(text)} characters)"


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _quoted(value: Value) -> str:
    text = str(value)
    return text if text.isprintable() and _BARE.fullmatch(text) else repr(text)
