"""Kinds of arguments that several verbs have."""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path

from spark_ingest.segments.local_paths import EXPECTED, NotServedError, local_path

HOURS_MAX = 1_000_000


def hours(text: str) -> int:
    significant = text.lstrip("0")[:18]
    if not text.isdecimal() or not text.isascii() or int(significant or 0) > HOURS_MAX:
        raise argparse.ArgumentTypeError(
            f"expected 0 to {HOURS_MAX} whole hours, got {text[:20]!r}"
        )
    return int(text)


def day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a day such as 2026-11-21, got {text!r}"
        ) from None


def path(text: str) -> Path:
    """Raises ArgumentTypeError for the URL of a store."""
    try:
        return local_path(text)
    except NotServedError as error:
        raise argparse.ArgumentTypeError(f"expected {EXPECTED}, got {text!r}: {error}") from None
