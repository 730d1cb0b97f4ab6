"""Options of sources and sinks: text to values, and a clear word about what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from spark_ingest.segments.local_paths import EXPECTED, NotServedError, local_path


class OptionError(Exception):
    """An option that is missing or not what it should be."""


def required(options: Mapping[str, str], name: str, meaning: str) -> str:
    value = options.get(name)
    if not value:
        raise OptionError(f"the option {name!r} must be given: {meaning}")
    return value


def folder(options: Mapping[str, str], meaning: str) -> Path:
    try:
        return local_path(required(options, "path", meaning))
    except NotServedError as error:
        raise OptionError(f"the option 'path': expected {EXPECTED}: {error}") from None


def whole_number(options: Mapping[str, str], name: str, default: int | None) -> int | None:
    """More than 0."""
    given = options.get(name)
    if given is None:
        return default
    if not given.isascii() or not given.isdecimal() or int(given) == 0:
        raise OptionError(f"the option {name!r} must be a whole number above 0, not {given!r}")
    return int(given)


def truth(options: Mapping[str, str], name: str, default: bool) -> bool:
    given = options.get(name, str(default)).lower()
    if given not in ("true", "false"):
        raise OptionError(f"the option {name!r} must be true or false, not {given!r}")
    return given == "true"


def local_folder(location: str) -> Path | None:
    """Of a path or URI as Spark takes them; None for stores that are no folder here."""
    try:
        return local_path(location)
    except NotServedError:
        return None
