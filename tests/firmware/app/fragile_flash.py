"""A board's file system (`firmware/loader/files.py`) whose power goes at an operation of its own.

What an operation is, and what one that the power cuts leaves behind, is for those that inherit.
"""

from __future__ import annotations

import random
from abc import abstractmethod

from firmware.loader.files import Files

NEVER = -1


class PowerCutError(BaseException):
    """No program survives it, whatever it catches."""


class FragileFlash(Files):
    def __init__(self, seed: int) -> None:
        self.operations = 0
        self.cut_at = NEVER  # the operation in which the power goes
        self.dice = random.Random(seed)

    def cut_in(self, operations: int) -> None:
        """So many more come to their end."""
        self.cut_at = self.operations + operations

    def restart(self) -> None:
        """The power is back, and stays."""
        self.cut_at = NEVER

    @abstractmethod
    def contents(self, folder: str) -> dict[str, bytes]:
        """Its files, and those in the folders in it, by their path from there."""
