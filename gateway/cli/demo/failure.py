"""Why a demo could not run, with what to do about it and the exit code that says so."""

from __future__ import annotations

from typing import TypeVar

E = TypeVar("E", bound=BaseException)

EX_FAILURE = 1
EX_UNAVAILABLE = 69  # sysexits.h: something the demo needs is not installed
EX_CANNOT_CREATE = 73


class DemoError(Exception):
    """`evidence` are the last log lines of the part that failed."""

    def __init__(self, message: str, *, code: int = EX_FAILURE, evidence: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.evidence = evidence


def leaves(group: BaseExceptionGroup[E]) -> list[E]:
    """The exceptions that a group of groups is about, in order."""
    found: list[E] = []
    for each in group.exceptions:
        found += leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return found
