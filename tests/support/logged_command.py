"""Commands that fetch and build what tests need: quiet, and with the reason where one fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


def failure_of(
    command: list[str],
    log: Path,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str],
    timeout_s: float,
) -> str | None:
    """Runs it, with as little of the processor as it may. Its output is in `log`; of that the first
    line of an error, or else the first one, is the reason. None: it did not fail. Raises OSError
    and subprocess.TimeoutExpired.
    """
    with log.open("wb") as output:
        done = subprocess.run(
            ["nice", "-n", "19", *command],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    if not done.returncode:
        return None
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [each for each in text.splitlines() if each.strip()]
    told = [each for each in lines if "error" in each.lower()] or lines
    return told[0].strip() if told else str(done.returncode)
