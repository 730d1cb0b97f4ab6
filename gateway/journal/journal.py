"""Skeleton; the names are final."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gateway.effects import Forward, Reason
from gateway.journal.files import Files
from gateway.journal.numbers import JournalNumbers
from gateway.journal.recovered import Recovered
from gateway.journal.rules import JournalRules
from gateway.saved import ClientId


@dataclass(slots=True)
class Group:
    """What one `write` makes durable."""


@dataclass(slots=True)
class Outcome:
    """What a group came to: for the core, in this order."""

    stored: list[Forward] = field(default_factory=list)
    not_stored: list[Forward] = field(default_factory=list)
    reason: Reason = Reason.JOURNAL_FULL  # why not
    dropped: dict[ClientId, int] = field(default_factory=dict)  # parked ones, by drop_oldest


@dataclass(slots=True)
class BacklogRequest:
    """Where the next parked readings are."""


class Journal:
    """One job at a time: begin_group, write, end_group; or begin_read, read, end_read. `begin` and
    `end` belong to the loop, what is between them to one worker. store, finish, receive and
    release may come at any moment.
    """

    numbers: JournalNumbers
    unix_ms_at_zero: float  # set it again when the wall clock was set
    durable_mark: int  # all marks up to this one are on disk

    def __init__(self, folder: Path, files: Files, rules: JournalRules) -> None:
        raise NotImplementedError

    def open(self, now: float, unix_ms_at_zero: float, boot_id: bytes) -> Recovered:
        raise NotImplementedError

    # From the loop: no I/O

    def store(self, forward: Forward, *, is_parked: bool) -> Reason | None:
        raise NotImplementedError

    def finish(self, forward: Forward) -> None:
        raise NotImplementedError

    def receive(self, forward: Forward) -> int:
        """The number of this mark: it is durable once `durable_mark` has reached it."""
        raise NotImplementedError

    def release(self, client_id: ClientId, message_id: int) -> int:
        raise NotImplementedError

    def begin_group(self, now: float, *, is_stopping: bool = False) -> Group | None:
        raise NotImplementedError

    def end_group(self, group: Group, error: OSError | None) -> Outcome:
        raise NotImplementedError

    def begin_read(self, now: float) -> BacklogRequest | None:
        """None: there is no backlog (left)."""
        raise NotImplementedError

    def end_read(self, request: BacklogRequest, forwards: list[Forward]) -> list[Forward]:
        """Those of them that are still wanted. Empty does not mean that there are no more."""
        raise NotImplementedError

    def wake_at(self) -> float | None:
        """When `begin_group` will have something to do though nothing new is pending."""
        raise NotImplementedError

    # From the worker: I/O

    def write(self, group: Group) -> None:
        raise NotImplementedError

    def read(self, request: BacklogRequest) -> list[Forward]:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError
