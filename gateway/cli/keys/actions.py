"""What the actions of `tidegate keys` do. Keys are printed by `show` and `export` alone."""

import argparse
import csv
import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gateway.app.exit_codes import ExitCode
from gateway.cli.keys.private import PrivateError, private_text
from gateway.cli.keys.table import COLUMNS, new_keys
from gateway.cli.output import print_error, print_line, put
from gateway.cli.tables import Column, table, terminal_columns
from gateway.config.credential import stored_at
from gateway.config.settings import Settings
from gateway.host.causes import brief
from gateway.host.supervisor import how_to
from gateway.storage.keys.errors import KeyRefusedError, KeysError
from gateway.storage.keys.file import change_keys, read_keys, write_private
from gateway.storage.keys.records import KeyRecords, NewKey, StoredKey, new_secret, secret_of

SCHEMA = "tidegate.keys/1"


class NoQrError(Exception):
    """What makes the codes is not installed."""


def perform(arguments: argparse.Namespace, settings: Settings) -> int:
    name = f"tidegate {arguments.verb}"
    try:
        return _ACTIONS[arguments.action](arguments, settings)
    except KeyRefusedError as error:
        print_error(f"{name}: {error}")
        return ExitCode.FAILURE
    except (KeysError, PrivateError) as error:
        print_error(f"{name}: {error}")
        return ExitCode.PERMISSION if isinstance(error, PrivateError) else ExitCode.FAILURE
    except NoQrError as error:
        print_error(f"{name}: {error}")
        return ExitCode.UNAVAILABLE
    except PermissionError as error:
        where = error.filename or settings.keys_file
        print_error(f"{name}: {where}: no permission; run this with sudo, or as the gateway's user")
        return ExitCode.PERMISSION
    except OSError as error:
        print_error(f"{name}: {error.filename or settings.keys_file}: {brief(error)}")
        return ExitCode.CANNOT_CREATE


def _add(arguments: argparse.Namespace, settings: Settings) -> int:
    secret = _secret(arguments)
    new = NewKey(name=arguments.name, client=arguments.client, secret=secret)
    records = change_keys(settings.keys_file, lambda before: before.added([new], time.time()))
    return _done(arguments, records.of(new.name), f"{new.name} has a key")


def _rotate(arguments: argparse.Namespace, settings: Settings) -> int:
    name, now_s = arguments.name, time.time()
    if arguments.finish:
        if arguments.key_file is not None or arguments.overlap_s is not None:
            raise KeyRefusedError("--finish takes neither --for nor --key-file")
        records = change_keys(settings.keys_file, lambda before: before.finished(name))
        return _done(arguments, records.of(name), f"{name} has its newest key alone")
    secret = _secret(arguments)
    until_s = None if arguments.overlap_s is None else int(now_s) + arguments.overlap_s
    records = change_keys(
        settings.keys_file, lambda before: before.rotated(name, secret, now_s, until_s)
    )
    said = f"{name} has a further key; the one before is valid until "
    said += f"tidegate keys rotate {name} --finish" if until_s is None else _time(until_s)
    return _done(arguments, records.of(name), said)


def _revoke(arguments: argparse.Namespace, settings: Settings) -> int:
    change_keys(settings.keys_file, lambda before: before.revoked(arguments.name))
    return _done(arguments, (), f"{arguments.name} has no key any more")


def _list(arguments: argparse.Namespace, settings: Settings) -> int:
    records = read_keys(stored_at(settings.keys_file))[0]
    now_s = time.time()
    valid = [each for each in records if not each.is_over(now_s)]
    if arguments.json:
        shown = [_without_key(each) for each in valid]
        print_line(json.dumps({"schema": SCHEMA, "keys": shown}))
        return ExitCode.OK
    if not valid:
        print_line("no device has a key; `tidegate keys add NAME` gives it one")
        return ExitCode.OK
    columns = (
        Column("NAME", is_name=True),
        Column("CLIENT", 3, is_name=True),
        Column("SENDER", 2),
        Column("EPOCH", right=True),
        Column("SINCE", 4),
        Column("UNTIL", 1),
    )
    for line in table(columns, [_row(each) for each in valid], terminal_columns()):
        put(f"{line}\n")
    return ExitCode.OK


def _show(arguments: argparse.Namespace, settings: Settings) -> int:
    records = read_keys(stored_at(settings.keys_file))[0]
    now_s = time.time()
    keys = [each for each in records.of(arguments.name) if not each.is_over(now_s)]
    if not keys:
        raise KeyRefusedError(f"no device {arguments.name!r} has a key")
    if arguments.qr:
        from gateway.cli.keys.qr import code_of, text_of

        code = code_of(text_of(keys[0]))
        if code is None:
            from gateway.host.installation import Installation

            raise NoQrError(
                "QR codes need a package that is not installed; install it with:\n"
                f"  {Installation.this().adding('qr')}"
            )
        put(code)
        return ExitCode.OK
    if arguments.json:
        shown = [_without_key(each) | {"key": each.secret.hex()} for each in keys]
        print_line(json.dumps({"schema": SCHEMA, "keys": shown}))
        return ExitCode.OK
    for each in keys:
        until = "" if each.until_s is None else f", until {_time(each.until_s)}"
        print_line(f"name    {each.name}")
        print_line(f"client  {each.client}")
        print_line(f"sender  {each.sender_id.hex()}")
        print_line(f"epoch   {each.epoch}{until}")
        print_line(f"key     {each.secret.hex()}")
    return ExitCode.OK


def _import(arguments: argparse.Namespace, settings: Settings) -> int:
    text = private_text(arguments.file)
    shown = "stdin" if str(arguments.file) == "-" else str(arguments.file)
    new = new_keys(text, shown)
    records = change_keys(settings.keys_file, lambda before: _all_added(before, new))
    count = len({each.name for each in new})
    said = f"{count} {'device has a key' if count == 1 else 'devices have keys'} now, of {shown}"
    added = {each.name for each in new}
    return _done(arguments, tuple(each for each in records if each.name in added), said)


def _all_added(before: KeyRecords, new: list[NewKey]) -> KeyRecords:
    try:
        return before.added(new, time.time())
    except KeyRefusedError as error:
        raise KeyRefusedError(f"nothing was changed: {error}") from None


def _export(arguments: argparse.Namespace, settings: Settings) -> int:
    records = read_keys(stored_at(settings.keys_file))[0]
    for name in arguments.names:
        if not records.of(name):
            raise KeyRefusedError(f"no device {name!r} has a key")
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for each in records:
        if not arguments.names or each.name in arguments.names:
            until = "" if each.until_s is None else str(each.until_s)
            sender, secret = each.sender_id.hex(), each.secret.hex()
            rows.writerow((each.name, each.client, sender, each.epoch, secret, until))
    if arguments.output is None:
        put(text.getvalue())
        return ExitCode.OK
    write_private(arguments.output, text.getvalue().encode())
    print_error(f"{arguments.output}: keys of {len(arguments.names) or len(records)} devices")
    return ExitCode.OK


_ACTIONS: dict[str, Callable[[argparse.Namespace, Settings], int]] = {
    "add": _add,
    "list": _list,
    "show": _show,
    "rotate": _rotate,
    "revoke": _revoke,
    "import": _import,
    "export": _export,
}


def _secret(arguments: argparse.Namespace) -> bytes:
    if arguments.key_file is None:
        return new_secret()
    return secret_of(private_text(Path(arguments.key_file)))


def _done(arguments: argparse.Namespace, keys: tuple[StoredKey, ...], said: str) -> int:
    """What came of it, and what the running gateway needs for it."""
    if arguments.json:
        shown = [_without_key(each) for each in keys]
        print_line(json.dumps({"schema": SCHEMA, "done": said, "keys": shown}))
    else:
        print_line(said)
        print_error(f"a running gateway takes it with a reload:  {how_to('reload')}")
    return ExitCode.OK


def _without_key(key: StoredKey) -> dict[str, Any]:
    return {
        "name": key.name,
        "client": key.client,
        "sender": key.sender_id.hex(),
        "epoch": key.epoch,
        "created": key.created_s,
        "until": key.until_s,
    }


def _row(key: StoredKey) -> tuple[str, ...]:
    return tuple(_cells(key))


def _cells(key: StoredKey) -> Iterator[str]:
    yield key.name
    yield key.client
    yield key.sender_id.hex()
    yield str(key.epoch)
    yield _time(key.created_s)
    yield "" if key.until_s is None else _time(key.until_s)


def _time(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    except (OverflowError, ValueError):
        return str(seconds)
