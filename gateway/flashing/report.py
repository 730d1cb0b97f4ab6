"""What those who wait are told while something takes its time."""

from __future__ import annotations

from typing import Protocol


class Report(Protocol):
    def print_line(self, text: str) -> None:
        """One line, for good."""

    def at(self, what: str, done: int, total: int) -> None:
        """How far it is; when `done` is `total`, the line may vanish."""
