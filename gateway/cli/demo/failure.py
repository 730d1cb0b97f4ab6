"""Why a demo could not run, with what to do about it and the exit code that says so."""

from __future__ import annotations

from typing import TypeVar

from gateway.app.exit_codes import ExitCode

E = TypeVar("E", bound=BaseException)


class DemoError(Exception):
    """`evidence` are the last log lines of the part that failed."""

    def __init__(
        self, message: str, *, code: ExitCode = ExitCode.FAILURE, evidence: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.evidence = evidence


def leaves(group: BaseExceptionGroup[E]) -> list[E]:
    """The exceptions that a group of groups is about, in order."""
    found: list[E] = []
    for each in group.exceptions:
        found += leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return found
