"""Why a board cannot be worked on: a sentence that says what to do."""

from __future__ import annotations

import enum


class Failure(enum.Enum):
    ABSENT = "absent"  # a board, a drive, a file, a program, a gateway
    AMBIGUOUS = "ambiguous"  # more than one that could be meant
    PERMISSION = "permission"
    BUSY = "busy"
    WRONG = "wrong"  # another board, another chip, a file for something else
    CUT = "cut"  # it broke off on the way
    FOLDER = "folder"  # a file of ours that cannot be written


class FlashError(Exception):
    def __init__(self, failure: Failure, text: str) -> None:
        super().__init__(text)
        self.failure = failure


def busy(text: str, port: str) -> FlashError:
    """The gateway is mostly who has it."""
    lent = f"tidegate serial release {port} --for 10m"
    return FlashError(Failure.BUSY, f"{text}. If it is the gateway, type:  {lent}")
