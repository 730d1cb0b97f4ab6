"""The keys of all devices, as values: what is added, rotated and revoked, and the text of the file.

```
{"format": "tidegate.keys/1"}
{"name": "tank", "client": "tank", "sender": "16 hex digits", "epoch": 1, "secret": "hex digits",
 "created": 1767225600, "until": null}
...
{"sha256": "of all lines before, as bytes"}
```
One line for each key, by name, the newest epoch of a device first. `created` and `until` are Unix
seconds; at `until` the key ends.

Rule 1: a text is taken as a whole or not at all. What is cut off or changed is found by its
        checksum, before anything of it counts.
Rule 2: a device has at most EPOCHS_MAX keys. No two devices share a secret or a sender id.
Rule 3: no error has a part of a secret in it.

Limits: DEVICES_MAX devices, FILE_BYTES_MAX bytes. What goes beyond is refused, and nothing changes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from gateway.core.access.device_keys import (
    EPOCH_MAX,
    SECRET_BYTES_MAX,
    SECRET_BYTES_MIN,
    DeviceKey,
    sender_id_of,
)
from gateway.core.addresses import SENDER_ID_BYTES
from gateway.storage.keys.errors import KeyRefusedError, KeysError

FORMAT = "tidegate.keys/1"
FILE_BYTES_MAX = 8 << 20  # as a backup takes it
DEVICES_MAX = 20_000
EPOCHS_MAX = 2
NEW_KEY_BYTES = 16  # what AES-128 of both ways takes
NAME_BYTES_MAX = 64  # as of client ids; identities of DTLS-PSK may have 128 (RFC 4279, 5.3)
SECONDS_MAX = 1 << 40
_FIELDS = {"name", "client", "sender", "epoch", "secret", "created", "until"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """`client`: the client id that the device has. Times in Unix seconds."""

    name: str
    client: str
    sender_id: bytes
    epoch: int
    secret: bytes = field(repr=False)
    created_s: int
    until_s: int | None = None

    def is_over(self, now_s: float) -> bool:
        return self.until_s is not None and now_s >= self.until_s

    def device_key(self) -> DeviceKey:
        return DeviceKey(self.name, self.epoch, self.sender_id, self.secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """What is asked for. `sender_id` and `epoch` are made from the name, and counted, without."""

    name: str
    secret: bytes = field(repr=False)
    client: str | None = None
    sender_id: bytes | None = None
    epoch: int | None = None
    until_s: int | None = None


class KeyRecords:
    """Never changed: each change makes another one, or raises KeyRefusedError."""

    def __init__(self, keys: Iterable[StoredKey] = ()) -> None:
        """Raises KeyRefusedError for keys that cannot stand beside each other."""
        self._by_name: dict[str, tuple[StoredKey, ...]] = {}
        by_sender: dict[bytes, str] = {}
        by_secret: dict[bytes, str] = {}
        for key in sorted(keys, key=lambda each: (each.name, -each.epoch)):
            there = self._by_name.get(key.name, ())
            if len(there) >= EPOCHS_MAX:
                raise KeyRefusedError(f"{key.name} would have more than {EPOCHS_MAX} keys")
            if there and there[-1].epoch == key.epoch:
                raise KeyRefusedError(f"{key.name} has epoch {key.epoch} twice")
            if there and (there[0].sender_id, there[0].client) != (key.sender_id, key.client):
                raise KeyRefusedError(f"{key.name} has two sender ids or client ids")
            other = by_sender.setdefault(key.sender_id, key.name)
            if other != key.name:
                raise KeyRefusedError(f"{key.name} has the sender id of {other}")
            if key.secret in by_secret:
                raise KeyRefusedError(f"{key.name} has a key that {by_secret[key.secret]} has")
            by_secret[key.secret] = key.name
            self._by_name[key.name] = (*there, key)
        if len(self._by_name) > DEVICES_MAX:
            raise KeyRefusedError(f"more than {DEVICES_MAX} devices")

    def __len__(self) -> int:
        """Devices."""
        return len(self._by_name)

    def __iter__(self) -> Iterator[StoredKey]:
        for keys in self._by_name.values():
            yield from keys

    def of(self, name: str) -> tuple[StoredKey, ...]:
        """The newest first; none of a device that is not there."""
        return self._by_name.get(name, ())

    # Changes

    def added(self, new: Iterable[NewKey], now_s: float) -> KeyRecords:
        """Devices that have no key yet, all of them or none."""
        made = list(new)
        for each in made:
            if each.name in self._by_name:
                raise KeyRefusedError(
                    f"{each.name} has a key: rotate or revoke it before another is added"
                )
        return KeyRecords([*self, *(_stored(each, now_s) for each in made)])

    def rotated(
        self, name: str, secret: bytes, now_s: float, until_s: int | None = None
    ) -> KeyRecords:
        """With a further epoch. The one before ends at `until_s`, or when it is finished."""
        valid = [each for each in self._require(name) if not each.is_over(now_s)]
        if len(valid) >= EPOCHS_MAX:
            raise KeyRefusedError(f"{name} is being rotated: finish that before the next rotation")
        newest = self._require(name)[0]
        if newest.epoch >= EPOCH_MAX:
            raise KeyRefusedError(f"{name} has had {EPOCH_MAX} keys: revoke it and add it again")
        check_secret(secret)
        following = replace(
            newest, epoch=newest.epoch + 1, secret=secret, created_s=int(now_s), until_s=None
        )
        ending = [replace(each, until_s=until_s or each.until_s) for each in valid]
        return KeyRecords([*self._others(name), following, *ending])

    def finished(self, name: str) -> KeyRecords:
        """Only the newest epoch stays."""
        keys = self._require(name)
        if len(keys) == 1:
            raise KeyRefusedError(f"{name} is not being rotated: it has one key")
        return KeyRecords([*self._others(name), keys[0]])

    def revoked(self, name: str) -> KeyRecords:
        """Without this device."""
        self._require(name)
        return KeyRecords(self._others(name))

    def without_over(self, now_s: float) -> KeyRecords:
        """Without keys that have ended."""
        return KeyRecords(each for each in self if not each.is_over(now_s))

    def _require(self, name: str) -> tuple[StoredKey, ...]:
        if name not in self._by_name:
            raise KeyRefusedError(f"no device {name!r} has a key: `tidegate keys list` shows them")
        return self._by_name[name]

    def _others(self, name: str) -> list[StoredKey]:
        return [each for each in self if each.name != name]


def check_name(name: str, what: str = "a name") -> None:
    """Raises KeyRefusedError."""
    raw = name.encode(errors="replace")
    if not 0 < len(raw) <= NAME_BYTES_MAX or not name.isprintable() or name != name.strip():
        raise KeyRefusedError(
            f"{what} has 1 to {NAME_BYTES_MAX} bytes that can be shown, and no space around it"
        )


def new_secret() -> bytes:
    """For a device that was given none."""
    return secrets.token_bytes(NEW_KEY_BYTES)


def check_secret(secret: bytes) -> None:
    """Raises KeyRefusedError."""
    if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise KeyRefusedError(
            f"a key has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes, this one {len(secret)}"
        )
    if len(set(secret)) == 1:
        raise KeyRefusedError("a key of one repeated byte is no secret")


def secret_of(text: str) -> bytes:
    """Hexadecimal digits, for one who typed them. Raises KeyRefusedError, without them in it."""
    digits = text.strip()
    try:
        if not digits.isalnum():  # bytes.fromhex takes spaces
            raise ValueError
        secret = bytes.fromhex(digits)
    except ValueError:
        raise KeyRefusedError(
            f"a key is {2 * SECRET_BYTES_MIN} to {2 * SECRET_BYTES_MAX} hexadecimal digits"
        ) from None
    check_secret(secret)
    return secret


def sender_of(text: str) -> bytes:
    """Raises KeyRefusedError."""
    try:
        sender_id = bytes.fromhex(text) if text.isalnum() else b""
    except ValueError:
        sender_id = b""
    if len(sender_id) != SENDER_ID_BYTES:
        raise KeyRefusedError(f"a sender id is {2 * SENDER_ID_BYTES} hexadecimal digits")
    return sender_id


def _stored(new: NewKey, now_s: float) -> StoredKey:
    client = new.client or new.name
    check_name(new.name)
    check_name(client, "a client id")
    check_secret(new.secret)
    epoch = 1 if new.epoch is None else new.epoch
    if not 1 <= epoch <= EPOCH_MAX:
        raise KeyRefusedError(f"an epoch is a number from 1 to {EPOCH_MAX}")
    return StoredKey(
        name=new.name,
        client=client,
        sender_id=new.sender_id or sender_id_of(new.name),
        epoch=epoch,
        secret=new.secret,
        created_s=int(now_s),
        until_s=new.until_s,
    )


# The text of the file


def text_of(records: KeyRecords) -> bytes:
    """Raises KeyRefusedError if it is too large."""
    head = json.dumps({"format": FORMAT})
    lines = [head, *(json.dumps(_as_json(each)) for each in records)]
    body = "".join(f"{line}\n" for line in lines).encode()
    end = json.dumps({"sha256": sha256(body).hexdigest()}).encode() + b"\n"
    if len(body) + len(end) > FILE_BYTES_MAX:
        raise KeyRefusedError(f"the file would have more than {FILE_BYTES_MAX >> 20} MiB")
    return body + end


def records_of(text: bytes) -> KeyRecords:
    """Raises KeysError with the line and what is wrong there, and nothing of what it says."""
    if len(text) > FILE_BYTES_MAX:
        raise KeysError(f"has more than {FILE_BYTES_MAX >> 20} MiB")
    lines = text.splitlines(keepends=True)
    head = _object(lines[0] if lines else b"", 1)
    if not str(head.get("format", "")).startswith("tidegate.keys/"):
        raise KeysError("is no file of keys: line 1 does not say so")
    if head["format"] != FORMAT:
        raise KeysError("was written by a newer release: install that one, or a later one")
    end = _object(lines[-1], len(lines))
    if "sha256" not in end:
        raise KeysError(f"is damaged: it is cut off after line {len(lines)}")
    if end["sha256"] != sha256(b"".join(lines[:-1])).hexdigest():
        raise KeysError("is damaged: its checksum is another one")
    keys = [_key(_object(line, number), number) for number, line in enumerate(lines[1:-1], 2)]
    try:
        return KeyRecords(keys)
    except KeyRefusedError as error:
        raise KeysError(f"is not right: {error}") from None


def _object(line: bytes, number: int) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise KeysError(f"is damaged: line {number} is no JSON object")
    return found


def _key(found: Mapping[str, Any], number: int) -> StoredKey:
    try:
        if found.keys() != _FIELDS:
            raise KeyRefusedError("its fields are others")
        texts = [found[each] for each in ("name", "client", "sender", "secret")]
        until = found["until"]
        numbers = [found["epoch"], found["created"], 0 if until is None else until]
        if not all(isinstance(each, str) for each in texts):
            raise KeyRefusedError("a text is missing")
        if not all(type(each) is int and 0 <= each <= SECONDS_MAX for each in numbers):
            raise KeyRefusedError("a number is missing")
        name, client, sender, secret = texts
        new = NewKey(
            name=name,
            client=client,
            sender_id=sender_of(sender),
            secret=secret_of(secret),
            epoch=found["epoch"],
            until_s=until,
        )
        return _stored(new, found["created"])
    except KeyRefusedError as error:
        raise KeysError(f"is not right: line {number}: {error}") from None


def _as_json(key: StoredKey) -> dict[str, object]:
    return {
        "name": key.name,
        "client": key.client,
        "sender": key.sender_id.hex(),
        "epoch": key.epoch,
        "secret": key.secret.hex(),
        "created": key.created_s,
        "until": key.until_s,
    }
