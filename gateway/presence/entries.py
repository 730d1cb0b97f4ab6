"""What is recorded of one retained message that the broker may have: an entry of the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.core.state_records import ClientId

if TYPE_CHECKING:
    from gateway.presence.catalogue import KnownValue


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Of one topic. An empty client id: the message is about the gateway. Of an announcement:
    `values`, and `components`, the key and platform of each entity.
    """

    client_id: ClientId
    values: tuple[KnownValue, ...] = ()
    components: tuple[tuple[str, str], ...] = ()
