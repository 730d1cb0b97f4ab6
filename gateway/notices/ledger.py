"""What is noted of the retained messages that the broker may have; kept in `announced.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.effects import ClientId
from gateway.notices.catalogue import Known


@dataclass(frozen=True, slots=True)
class Entry:
    """Of one topic; without a client id it is the gateway's. `values`: of an announcement."""

    client_id: ClientId
    values: tuple[Known, ...] = ()


class Ledger(Protocol):
    """The one on disk, as `saying.py` needs it."""

    def load(self) -> dict[str, Entry]: ...
    def begin(self, kept: dict[str, Entry]) -> None: ...
    def told(self, topic: str, entry: Entry) -> None: ...
    def cleared(self, topic: str) -> None: ...
    def flush(self) -> None: ...
