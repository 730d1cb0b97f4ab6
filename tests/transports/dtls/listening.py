"""A DTLS link without sockets and with a clock that stands: datagrams are handed from one to the
other, and the test decides which are lost.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from gateway.core.access.device_keys import DeviceKey, DeviceKeys, sender_id_of
from gateway.transports.dtls.keys import KeyHook
from gateway.transports.dtls.link import DtlsLink
from gateway.transports.dtls.openssl import Contexts
from gateway.transports.dtls.options import DtlsOptions
from gateway.transports.socket_address import address_of
from tests.support.dtls_client import DtlsClient

KEY, OTHER_KEY = bytes(range(16)), bytes(range(100, 116))
HERE, ELSEWHERE = address_of("192.0.2.7", 4000), address_of("192.0.2.8", 4001)


def keys(**secrets: tuple[bytes, ...]) -> DeviceKeys:
    """Of each device the newest first."""
    return DeviceKeys(
        DeviceKey(name, len(found) - number, sender_id_of(name), secret)
        for name, found in secrets.items()
        for number, secret in enumerate(found)
    )


@dataclass
class Air:
    """What the link has sent."""

    address_bytes: int = 8
    sent: list[tuple[bytes, bytes]] = field(default_factory=list)
    is_closed: bool = False
    waits: bool = False  # for a flush

    def send(self, address: bytes, datagram: bytes) -> None:
        self.sent.append((address, datagram))
        self.waits = True

    def send_all(self, datagrams: list[tuple[bytes, bytes]]) -> None:
        self.sent += datagrams

    def flush(self) -> None:
        self.waits = False

    def close(self) -> None:
        self.is_closed = True

    def taken(self, address: bytes) -> list[bytes]:
        """What went to this address, once."""
        found = [datagram for to, datagram in self.sent if to == address]
        self.sent = [each for each in self.sent if each[0] != address]
        return found


class Listening:
    def __init__(
        self,
        known: DeviceKeys | None = None,
        *,
        options: DtlsOptions | None = None,
        contexts: Contexts | None = None,
        hook: KeyHook | None = None,
    ) -> None:
        self.now = 1000.0
        self.air = Air()
        self.heard: list[tuple[bytes, bytes]] = []
        self.identities: list[str] = []
        self.used: Container[bytes] = ()
        self.known = keys(tank=(KEY,), well=(OTHER_KEY,)) if known is None else known
        self.link = DtlsLink(
            self.air,
            self.heard.extend,
            secret=b"secret of a run.",
            options=options or DtlsOptions(),
            keys=None if contexts is not None else lambda: self.known,
            contexts=contexts,
            hook=hook,
            on_identity=lambda address: self.identities.append(self.link.identity_of(address)),
            used=lambda: self.used,
            now=lambda: self.now,
        )

    def receive(self, address: bytes, *datagrams: bytes) -> None:
        self.link.on_datagrams([(address, each) for each in datagrams])

    def shake_hands(self, client: DtlsClient, address: bytes = HERE) -> bool:
        """Whether both say that it is complete."""
        outgoing = client.begin()
        for _ in range(10):
            self.receive(address, *outgoing)
            outgoing = []
            for each in self.air.taken(address):
                outgoing += client.receive(each)
            if not outgoing:
                break
        return client.is_open and bool(self.link.suite_of(address))

    def connected(
        self, name: str = "tank", key: bytes = KEY, address: bytes = HERE, **more: str
    ) -> DtlsClient:
        client = DtlsClient(name, key, **more)  # type: ignore[arg-type]
        assert self.shake_hands(client, address)
        return client
