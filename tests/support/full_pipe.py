"""A pipe that takes nothing more until somebody reads it."""

from __future__ import annotations

import os
import select
from contextlib import suppress


def fill(writing: int) -> None:
    """Whoever writes now waits."""
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * select.PIPE_BUF)
    os.set_blocking(writing, True)
