"""The key of a new node: made and added to the gateway's, or the one that it has already."""

import argparse
import os
import time

from gateway.cli.sources import configuration_of
from gateway.config import ConfigError
from gateway.flashing.errors import Failure, FlashError
from gateway.host.causes import brief
from gateway.storage.keys.errors import KeyRefusedError, KeysError
from gateway.storage.keys.file import change_keys
from gateway.storage.keys.records import KeyRecords, NewKey, new_secret


def node_key(arguments: argparse.Namespace, name: str) -> dict[str, str | int]:
    """What /secrets.json has of it. A node that is flashed again keeps its newest key. Raises
    FlashError; the key is durable in the gateway's file before a board is touched.
    """
    new = NewKey(name=name, secret=new_secret())

    def with_key(before: KeyRecords) -> KeyRecords:
        return before if before.of(name) else before.added([new], time.time())

    try:
        path = configuration_of(arguments, os.environ).settings.keys_file
        records = with_key(KeyRecords()) if arguments.dry_run else change_keys(path, with_key)
    except (ConfigError, KeyRefusedError, KeysError) as error:
        raise FlashError(Failure.WRONG, f"--key: {error}") from None
    except PermissionError:
        text = f"--key: {path} cannot be written: run this with sudo, or as the gateway's user"
        raise FlashError(Failure.PERMISSION, text) from None
    except OSError as error:
        raise FlashError(Failure.FOLDER, f"--key: {path}: {brief(error)}") from None
    key = records.of(name)[0]
    return {
        "device_key": key.secret.hex(),
        "device_key_epoch": key.epoch,
        "device_sender": key.sender_id.hex(),
    }
