"""What is wrong with a configuration: each problem with its place, its key and what would be right.

A ConfigError carries all of them at once, because nobody likes to start a daemon ten times to find
ten mistakes. The operator's values appear in messages only through `spelling.shown`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.config.spelling import printable

# A file can hold a million unknown keys; nobody reads more than this. The rest is counted.
PROBLEMS_MAX = 100


@dataclass(frozen=True, slots=True)
class Origin:
    """Who gave a value: a place in a file, a variable, the command line, or the default."""

    source: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        if self.line is None:
            return printable(self.source)
        return f"{printable(self.source)}:{self.line}:{self.column}"


DEFAULT = Origin("default")
COMMAND_LINE = Origin("command line")


@dataclass(frozen=True, slots=True)
class Problem:
    origin: Origin
    key: str | None
    message: str

    def __str__(self) -> str:
        key = "" if self.key is None else f"{self.key}: "
        return f"{self.origin}: {key}{self.message}"


class ConfigError(Exception):
    """The operator's mistakes, in the order in which the sources were read; one line each."""

    def __init__(self, problems: Sequence[Problem], left_out: int = 0) -> None:
        super().__init__(problems, left_out)
        self.problems = tuple(problems)
        self.left_out = left_out

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems]
        if self.left_out:
            lines.append(f"... and {self.left_out} more")
        return "\n".join(lines)
