"""What the admin server shows and does, and where it has that from: handed in by the daemon."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from ssl import SSLContext

from gateway.admin.audit import Audit, no_audit
from gateway.admin.clients import ClientsFound
from gateway.admin.event_log import EventLog
from gateway.admin.http.answers import Check
from gateway.admin.http.connections import LocalSocket
from gateway.admin.http.operating import Operations
from gateway.admin.http.queries import ClientsQuery, TopicsQuery
from gateway.admin.http.sign_in import Accounts
from gateway.admin.log.tail import LogTail
from gateway.admin.numbers import Numbers
from gateway.admin.topics import TopicsFound
from gateway.core.state_records import AsideRecord
from gateway.host.slow_callbacks import SlowCallbacks
from gateway.presence.latest import Latest

Configured = Callable[[], list[dict[str, object]]]


def _nothing() -> list[dict[str, object]]:
    return []


async def _no_peek() -> bytes:
    return b"{}"


async def _no_export() -> AsyncGenerator[bytes, None]:
    return
    yield b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """`numbers` are asked for each answer. A check says what is wrong, or None; a doubt as well,
    but is no reason to call the gateway dead. `now` is in monotonic seconds.

    `pulse` is another value when a client has come, gone or changed its state. `looked_at` hears
    how many live pages are open. `peek` and `export` read what is on disk, the next few as JSON and
    all of it as JSON lines; `aside` are the readings set aside. `operating` does what an operator
    asks for who may; `audit` records it.
    `hosts`: names of the page.
    """

    name: str
    version: str
    now: Callable[[], float]
    numbers: Callable[[], Numbers]
    clients: Callable[[ClientsQuery], Awaitable[ClientsFound]]
    topics: Callable[[TopicsQuery], Awaitable[TopicsFound]]
    news: EventLog
    checks: Mapping[str, Check] = field(default_factory=dict)
    ready_checks: Mapping[str, Check] = field(default_factory=dict)
    failures: Mapping[str, Check] = field(default_factory=dict)
    doubts: Mapping[str, Check] = field(default_factory=dict)
    latest: Latest = field(default_factory=Latest)
    log: LogTail = field(default_factory=LogTail)
    slow: SlowCallbacks = field(default_factory=SlowCallbacks)
    configured: Configured = _nothing
    pulse: Callable[[], object] = lambda: None
    looked_at: Callable[[int], None] = lambda _count: None
    peek: Callable[[], Awaitable[bytes]] = _no_peek
    export: Callable[[], AsyncGenerator[bytes, None]] = _no_export
    aside: Callable[[], list[AsideRecord]] = list
    operating: Operations | None = None
    accounts: Accounts = field(default_factory=Accounts)
    hosts: tuple[str, ...] = ()
    audit: Audit = no_audit
    tls: SSLContext | None = None
    socket: LocalSocket | None = None
