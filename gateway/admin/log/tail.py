"""The last lines of the log, for the page: as they were written, with their level and a number.

Limit: LINES_MAX lines, each as long as logs.py lets a line be cut to LINE_LENGTH_MAX; 200 kB when
it is full of usual ones. The oldest gives way. Nothing is kept below the level of the log.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass

from gateway.admin.log.logs import LEVELS, Level, TextLines

LINES_MAX = 500
LINE_LENGTH_MAX = 1000
LOG_SCHEMA = "tidegate.log/1"


@dataclass(frozen=True, slots=True)
class Line:
    number: int  # from 1, without holes
    level: int
    text: str


class LogTail(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(TextLines())
        self.last = 0  # number given
        self._lines: deque[Line] = deque(maxlen=LINES_MAX)

    def emit(self, record: logging.LogRecord) -> None:
        self.last += 1
        text = self.format(record)[:LINE_LENGTH_MAX]
        self._lines.append(Line(self.last, record.levelno, text))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's word
        """The handler that writes the log has reported it already."""

    def lines(self, level: Level, after: int = 0) -> list[Line]:
        """Those of this level and above, behind a number; the oldest first."""
        least = LEVELS[level]
        self.acquire()  # other threads log as well
        try:
            lines = tuple(self._lines)
        finally:
            self.release()
        return [line for line in lines if line.number > after and line.level >= least]


def log_json(gateway: str, tail: LogTail, lines: list[Line]) -> dict[str, object]:
    return {
        "schema": LOG_SCHEMA,
        "gateway": gateway,
        "last": tail.last,
        "lines": [
            {
                "number": line.number,
                "level": logging.getLevelName(line.level).lower(),
                "text": line.text,
            }
            for line in lines
        ],
    }
