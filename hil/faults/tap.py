"""Observers of a board's conversation at the board's own end, before and behind all faults."""

from __future__ import annotations

from typing import Protocol


class Tap(Protocol):
    def up(self, frame: bytes) -> None:
        """The board sent it."""

    def down(self, frame: bytes) -> None:
        """The board got it, whole."""

    def on_air(self, octets_up: int, octets_down: int) -> None:
        """So many, framing and damaged ones included."""


class NoTap:
    """Records nothing."""

    def up(self, frame: bytes) -> None:
        pass

    def down(self, frame: bytes) -> None:
        pass

    def on_air(self, octets_up: int, octets_down: int) -> None:
        pass
