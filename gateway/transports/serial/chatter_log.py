"""Logs what a board prints on its line, at debug level, with a limit."""

from __future__ import annotations

import logging

from gateway.transports.framing.chatter import shown

LINES_MAX = 50  # in each window: a traceback and a boot log whole
WINDOW_S = 10.0

log = logging.getLogger("tidegate.serial")


class ChatterLog:
    def __init__(self, name: str) -> None:
        self._name = name
        self._since = 0.0
        self._lines = 0

    def log_line(self, line: bytes, now: float) -> None:
        if not log.isEnabledFor(logging.DEBUG):
            return
        text = shown(line)
        if not text:
            return
        if now - self._since >= WINDOW_S:
            held_back = self._lines - LINES_MAX
            self._since, self._lines = now, 0
            if held_back > 0:
                log.debug("%s printed %d more lines", self._name, held_back)
        self._lines += 1
        if self._lines <= LINES_MAX:
            log.debug("%s prints: %s", self._name, text)
