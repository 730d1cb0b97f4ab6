"""The files that are read for an import, and what comes of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gateway.cli.importing.draft import Draft
from gateway.config.regular_file import read_regular
from gateway.config.settings import MIB
from gateway.host.causes import brief

FILE_BYTES_MAX = 8 * MIB


class NotReadError(Exception):
    """A file cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Imported:
    """`password` is in no file yet."""

    draft: Draft
    password: str | None


def text_of(path: Path) -> str:
    try:
        data = read_regular(path, FILE_BYTES_MAX + 1)
    except OSError as error:
        raise NotReadError(f"{path} cannot be read: {brief(error)}") from None
    if len(data) > FILE_BYTES_MAX:
        raise NotReadError(f"{path} is larger than {FILE_BYTES_MAX // MIB} MiB")
    return data.decode("utf-8-sig", "replace")


def text_beside(beside: Path, name: str, shown_max: int | None = None) -> tuple[str, str]:
    """Name and text of a list that the file names. Raises NotReadError, with at most so much of the
    name.
    """
    there = found(beside, name)
    if there is None:
        raise NotReadError(f"{name[:shown_max]} is not there")
    return there.name, text_of(there)


def found(beside: Path, name: str) -> Path | None:
    """In the folder of the file that names it, or where this is called, which is where the other
    program would look that was started here.
    """
    places = (beside.absolute().parent / name, Path.cwd() / name)
    return next((place for place in places if place.is_file()), None)
