"""Keys of simulated sensors, from a file that `tidegate keys export` has written; and what the
scheme needs.
"""

from __future__ import annotations

import time
from pathlib import Path

from gateway.app.protected_packets import has_package
from gateway.cli.keys.private import PrivateError, private_text
from gateway.cli.keys.table import new_keys
from gateway.core.access.device_keys import DeviceKey, DeviceKeys
from gateway.core.protection.envelope import SCHEMES
from gateway.core.protection.schemes import NEEDS_PACKAGE
from gateway.host.installation import Installation
from gateway.storage.keys.errors import KeyRefusedError
from gateway.storage.keys.records import KeyRecords

MISSING_SHOWN_MAX = 3


class NoKeyError(Exception):
    """Why sensors have no keys, and what to do about it."""


def keys_of(file: Path, names: list[str]) -> dict[str, DeviceKey]:
    """The newest of each device. `file`: "-" is standard input. Raises NoKeyError."""
    try:
        text = private_text(file)
        new = new_keys(text, str(file))
        if "key" not in text.partition("\n")[0].lower().split(","):  # it would be made
            raise NoKeyError(f"{file} has no keys in it: `tidegate keys export` writes them")
        records = KeyRecords().added(new, time.time())
    except (PrivateError, KeyRefusedError) as error:
        raise NoKeyError(str(error)) from None
    known = DeviceKeys(each.device_key() for each in records)
    missing = [name for name in names if not known.of_name(name)]
    if missing:
        shown = " ".join(missing[:MISSING_SHOWN_MAX])
        raise NoKeyError(
            f"{file} has no key for {len(missing)} of {len(names)} sensors: for each of them "
            f"`tidegate keys add NAME` ({shown}{' ...' * (len(missing) > MISSING_SHOWN_MAX)}), "
            "then `tidegate keys export`"
        )
    return {name: known.of_name(name)[0] for name in names}


def missing_package(scheme: str) -> str | None:
    """A sentence for the user where what the scheme needs is not installed."""
    if SCHEMES[scheme] not in NEEDS_PACKAGE or has_package():
        return None
    return (
        f"{scheme} needs the package cryptography; install it with:  "
        f"{Installation.this().adding('security')}"
    )
