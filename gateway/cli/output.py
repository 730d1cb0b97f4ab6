"""Answers on stdout and errors on stderr, by whatever is left of both.

A full disk behind `> file`, or an output that the caller has closed, is reported and not shown as a
traceback; a closed pipe is no mistake and stays a BrokenPipeError, which `main` takes for the end.
An error that cannot be written is lost.
"""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOBase, TextIOWrapper
from pathlib import Path
from typing import TextIO, cast

from gateway.cli.called import runnable


class OutputError(Exception):
    """The answer could not be written; the message says why."""


class _Closed(TextIOBase):
    """Stands in for an output that the caller has closed."""

    is_wanted = False

    def write(self, _text: str) -> int:
        self.is_wanted = True
        raise OSError(errno.EBADF, "standard output is closed")

    def flush(self) -> None:
        """Of what was written too: argparse hides since Python 3.12 that it could not be."""
        if self.is_wanted:
            raise OSError(errno.EBADF, "standard output is closed")


def prepare() -> None:
    """A name in a file must not fail on a terminal that cannot show it."""
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115 (for as long as the process lives)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = cast("TextIO", _Closed())
    elif isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def print_line(text: str) -> None:
    with failures_named():
        print(text, flush=True)


def put(text: str) -> None:
    """As it is, and not at once: for answers of many lines."""
    with failures_named():
        sys.stdout.write(text)


def finish() -> None:
    """Writes what others, such as argparse, have printed."""
    with failures_named():
        sys.stdout.flush()


@contextmanager
def failures_named() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.strerror) from None


def print_error(text: str) -> None:
    with suppress(OSError):
        print(runnable(text), file=sys.stderr)


def abandon() -> None:
    """The answer: else the interpreter flushes once more at its end, and prints an error."""
    if isinstance(sys.stdout, _Closed):
        sys.stdout.is_wanted = False
    _send_nowhere(sys.stdout)


def close_quietly() -> None:
    """Errors that cannot be written do not change the exit code."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        _send_nowhere(sys.stderr)


def _send_nowhere(stream: TextIO) -> None:
    with suppress(OSError):  # one without a descriptor
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
