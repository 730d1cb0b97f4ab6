"""Secrets that systemd hands to the service: `credential:NAME` in place of a path.

systemd puts them where only the service can read them, and says where in CREDENTIALS_DIRECTORY (see
"Credentials" in systemd.exec(5)); elsewhere the usual place is looked at, so that who checks the
file as root sees whether they are there.
"""

import os
import re
from pathlib import Path

from gateway.config.kinds import FilePath, MismatchError
from gateway.config.settings import Settings
from gateway.config.spelling import quoted

KEYS_KEY = "security.keys_file"
# Of the files that the configuration names.
FILE_KEYS = (
    "upstream.password_file",
    "upstream.ca_file",
    "upstream.cert_file",
    "upstream.key_file",
    "admin.password_file",
    KEYS_KEY,
    "admin.certificate",
    "admin.key",
    "dtls.certificate",
    "dtls.key",
    "dtls.ca",
    "dtls.crl",
    "dtls.allow_file",
)
PREFIX = "credential:"
NAME = re.compile(r"[A-Za-z0-9_.@-]{1,100}")
OF_THE_SERVICE = Path("/run/credentials/tidegate.service")
# Where systemd takes what LoadCredential= names without a path.
STORE = Path("/etc/credstore")
# And where it also looks; encrypted ones are for it alone to read.
OTHER_STORES = tuple(
    Path(place)
    for place in (
        "/etc/credstore.encrypted",
        "/run/credstore",
        "/run/credstore.encrypted",
        "/usr/lib/credstore",
        "/usr/lib/credstore.encrypted",
    )
)


def handed_over_at() -> Path:
    return Path(os.environ.get("CREDENTIALS_DIRECTORY") or OF_THE_SERVICE)


def credential_path(name: str) -> Path | None:
    """None if it cannot be one's name."""
    is_name = NAME.fullmatch(name) is not None and name not in (".", "..")
    return handed_over_at() / name if is_name else None


def credential_of(path: Path) -> str | None:
    """The name, if the path is that of a credential."""
    return path.name if path.parent in (handed_over_at(), OF_THE_SERVICE) else None


def stored_at(path: Path) -> Path:
    """Where an operator puts such a file; any other path is that already."""
    name = credential_of(path)
    return path if name is None else STORE / name


def is_stored(name: str) -> bool | None:
    """None if only root may know."""
    try:
        return any((store / name).exists() for store in (STORE, *OTHER_STORES))
    except PermissionError:
        return None


class CredentialPath(FilePath):
    """A path, or the name of a credential."""

    @property
    def name(self) -> str:
        return 'path or "credential:NAME"'

    def read(self, raw: object) -> Path:
        if not isinstance(raw, str) or not raw.startswith(PREFIX):
            return super().read(raw)
        path = credential_path(raw.removeprefix(PREFIX))
        if path is None:
            raise MismatchError(f"{PREFIX} and a name of letters, digits, . _ @ and -", raw)
        return path

    def _literal(self, value: object) -> str:
        name = credential_of(value) if isinstance(value, Path) else None
        return quoted(str(value) if name is None else f"{PREFIX}{name}")


def named_files(settings: Settings) -> dict[str, Path]:
    """Those that are named, by their keys, as they are written."""
    found: dict[str, Path | None] = {}
    for key in FILE_KEYS:
        table, name = key.split(".")
        found[key] = getattr(getattr(settings, table), name)
    return {key: path for key, path in found.items() if path is not None}


def is_secret(key: str) -> bool:
    names = ("password_file", "key_file", "keys_file")
    return key.endswith(names) or key in ("key", "admin.key", "dtls.key")
