"""What the core says to the journal of readings by their numbers there (`record`), most of it about
those that are kept until they are ingested; a part of the vocabulary in `effects.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keep:
    """The broker has taken a reading, and the journal keeps it: a later life need not send it.
    Written with the next group; nobody waits for it.
    """

    record: int


@dataclass(frozen=True, slots=True)
class Unpark:
    """The core has a parked reading in memory still, and it goes on: it is not to be read back."""

    record: int


@dataclass(frozen=True, slots=True)
class FinishRun:
    """As `Finish`, for so many readings from this one on."""

    record: int
    count: int


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Read these, in order, as many as are read at once; then say `read_again`."""

    records: tuple[int, ...]


ByRecord = Keep | Unpark | FinishRun | ReadAgain


@dataclass(frozen=True, slots=True)
class KeptRun:
    """So many readings of an epoch that a former life kept: from this sequence and record on."""

    epoch: int
    first: int
    record: int
    count: int
