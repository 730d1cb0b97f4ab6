"""Devices from a CSV file: every line is checked, and what is wrong is told by its line."""

import csv
import io
from collections.abc import Mapping

from gateway.core.access.device_keys import EPOCH_MAX, sender_id_of
from gateway.storage.keys.errors import KeyRefusedError
from gateway.storage.keys.records import (
    SECONDS_MAX,
    NewKey,
    check_name,
    new_secret,
    secret_of,
    sender_of,
)

COLUMNS = ("name", "client", "sender", "epoch", "key", "until")
PROBLEMS_SHOWN_MAX = 20


def new_keys(text: str, shown: str) -> list[NewKey]:
    """`shown`: what the file is called. Raises KeyRefusedError with all lines that are wrong."""
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True, restkey="")
    try:
        columns = [each.strip().lower() for each in rows.fieldnames or ()]
    except csv.Error as error:
        raise KeyRefusedError(f"{shown}:1: {error}") from None
    unknown = [each for each in columns if each not in COLUMNS]
    if "name" not in columns or unknown or len(set(columns)) < len(columns):
        raise KeyRefusedError(f"{shown}:1: a head of columns is expected: {', '.join(COLUMNS)}")
    rows.fieldnames = columns
    lines = _Lines()
    try:
        for row in rows:
            lines.take(row, rows.line_num)
    except csv.Error as error:
        lines.problems.append((rows.line_num, str(error)))
    if lines.problems:
        found = lines.problems[:PROBLEMS_SHOWN_MAX]
        more = len(lines.problems) - len(found)
        ends = [f"and {more} more lines"] if more else []
        texts = [f"{shown}:{number}: {problem}" for number, problem in found]
        raise KeyRefusedError("\n".join(["nothing was changed", *texts, *ends]))
    return lines.keys


class _Lines:
    """What has been read, with the lines, as no two may have the same key or sender id."""

    def __init__(self) -> None:
        self.keys: list[NewKey] = []
        self.problems: list[tuple[int, str]] = []
        self._secrets: dict[bytes, int] = {}
        self._senders: dict[bytes, tuple[str, int]] = {}
        self._epochs: dict[tuple[str, int], int] = {}

    def take(self, row: Mapping[str, str | None], number: int) -> None:
        try:
            key = _key_of(row)
            self._refuse_twice(key, number)
        except KeyRefusedError as error:
            self.problems.append((number, str(error)))
        else:
            self.keys.append(key)

    def _refuse_twice(self, key: NewKey, number: int) -> None:
        first = self._epochs.setdefault((key.name, key.epoch or 1), number)
        if first != number:
            raise KeyRefusedError(f"{key.name} is in line {first} as well")
        first = self._secrets.setdefault(key.secret, number)
        if first != number:
            raise KeyRefusedError(f"the key is that of line {first}")
        sender_id = key.sender_id or sender_id_of(key.name)
        name, first = self._senders.setdefault(sender_id, (key.name, number))
        if name != key.name:
            raise KeyRefusedError(f"the sender id is that of {name} in line {first}")


def _key_of(row: Mapping[str, str | None]) -> NewKey:
    if "" in row or None in row.values():
        raise KeyRefusedError("it has more or fewer columns than the head")
    given = {name: (text or "").strip() for name, text in row.items()}
    check_name(given["name"])
    if client := given.get("client"):
        check_name(client, "a client id")
    sender, secret = given.get("sender"), given.get("key")
    return NewKey(
        name=given["name"],
        client=client or None,
        sender_id=sender_of(sender) if sender else None,
        secret=secret_of(secret) if secret else new_secret(),
        epoch=_number(given, "epoch", 1, EPOCH_MAX),
        until_s=_number(given, "until", 0, SECONDS_MAX),
    )


def _number(given: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    text = given.get(name)
    if not text:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= 15
    if not is_number or not least <= int(text) <= most:
        raise KeyRefusedError(f"{name} is a whole number from {least} to {most}")
    return int(text)
