"""Keys of devices, as DTLS and protected packets ask for them: one secret a device and epoch.

Rule 1: a device is known by its name: as the identity of DTLS-PSK (`psk:NAME`), and by a sender id
        in protected packets (`sender:ID`, in hexadecimal digits).
Rule 2: while a key is rotated two epochs are valid, of which the newer comes first. None is used
        for two purposes: what protects packets is derived from the secret (HKDF, RFC 5869).
Rule 3: a secret is in no text: `repr` of what has one does not show it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256

from gateway.core.addresses import SENDER_ID_BYTES

SECRET_BYTES_MIN = 16
SECRET_BYTES_MAX = 64
EPOCH_MAX = 0xFFFF


def sender_id_of(name: str) -> bytes:
    """Of a device that was given none of its own."""
    return sha256(name.encode()).digest()[:SENDER_ID_BYTES]


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """`epoch`: counted from 1 for each device. `sender_id` has SENDER_ID_BYTES."""

    name: str
    epoch: int
    sender_id: bytes
    secret: bytes = field(repr=False)


class DeviceKeys:
    """What is valid now. It is never changed, and another one takes its place at a reload."""

    def __init__(self, keys: Iterable[DeviceKey] = ()) -> None:
        newest_first = sorted(keys, key=lambda each: -each.epoch)
        self._by_name: dict[str, tuple[DeviceKey, ...]] = {}
        self._by_sender: dict[bytes, tuple[DeviceKey, ...]] = {}
        for each in newest_first:
            self._by_name[each.name] = (*self.of_name(each.name), each)
            self._by_sender[each.sender_id] = (*self.of_sender(each.sender_id), each)

    def __len__(self) -> int:
        """Devices."""
        return len(self._by_name)

    def of_name(self, name: str) -> tuple[DeviceKey, ...]:
        """The newest first; none of a device that is not known."""
        return self._by_name.get(name, ())

    def of_sender(self, sender_id: bytes) -> tuple[DeviceKey, ...]:
        """The newest first; none of a sender that is not known."""
        return self._by_sender.get(sender_id, ())
