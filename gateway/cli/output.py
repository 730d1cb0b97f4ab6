"""Answers on stdout and complaints on stderr, by whatever is left of both.

A full disk behind `> file` must be said, not shown as a traceback; a closed pipe is nobody's
mistake and stays a BrokenPipeError, which `main` takes for the end.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

from gateway.cli.called import runnable


class OutputError(Exception):
    """The answer could not be written; the message says why."""


def prepare() -> None:
    """A name in a file must not fail on a terminal that cannot show it."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    with _failures_named():
        print(text, flush=True)


def put(text: str) -> None:
    """As it is, and not at once: for answers of many lines."""
    with _failures_named():
        sys.stdout.write(text)


def finish() -> None:
    """Writes what others, such as argparse, have printed."""
    if sys.stdout is not None:  # it is None when the caller has closed it
        with _failures_named():
            sys.stdout.flush()


@contextmanager
def _failures_named() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.strerror) from None


def complain(text: str) -> None:
    print(runnable(text), file=sys.stderr)


def abandon() -> None:
    """Else the interpreter flushes once more at its end, and complains."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
