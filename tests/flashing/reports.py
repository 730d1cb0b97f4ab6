"""A report that is kept, and that can do something when it is told how far it is."""

from __future__ import annotations

from collections.abc import Callable


class KeptReport:
    def __init__(self, on_progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        self.said: list[str] = []
        self.progress: list[tuple[str, int, int]] = []
        self._on_progress = on_progress

    def print_line(self, text: str) -> None:
        self.said.append(text)

    def at(self, what: str, done: int, total: int) -> None:
        self.progress.append((what, done, total))
        self._on_progress(done, total)
