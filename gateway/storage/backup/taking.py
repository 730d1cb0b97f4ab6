"""Takes a backup: the configuration as it stands, the files it names, a moment of the state."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from gateway.config.credential import KEYS_KEY, is_secret, named_files, stored_at
from gateway.config.regular_file import read_regular
from gateway.config.settings import MIB, Settings
from gateway.host.version import version
from gateway.storage.backup.archive import (
    ANNOUNCED_BYTES_MAX,
    CONFIG_NAME,
    DATABASE_NAME,
    FILES,
    FORMAT,
    FORMAT_WITHOUT_KEYS,
    FORMAT_WITHOUT_VALUES,
    JOURNAL,
    PRESENCE_NAMES,
    STATE,
    VALUES_NAME,
    BackupError,
    BackupHeader,
    Owner,
    Writer,
)
from gateway.storage.backup.guarded import Folder
from gateway.storage.backup.snapshot import copy_database, segments
from gateway.storage.state.store import DATABASE_FILE

FILE_BYTES_MAX = 8 * MIB
_PRIVATE_KEY = b"PRIVATE KEY-----"


@dataclass(frozen=True, slots=True)
class Taken:
    """`left_out`: secrets, by key, that it does not hold."""

    segments: int
    has_state: bool
    has_config: bool
    files: tuple[str, ...]
    left_out: tuple[str, ...]


def take(
    path: Path, config: Path | None, settings: Settings, *, with_secrets: bool, is_forced: bool
) -> Taken:
    """Leaves no part of a file: what has this name is whole. Raises BackupError, OSError."""
    if path.exists() and not is_forced:
        raise FileExistsError(f"{path} is there already; --force replaces it")
    if path.exists() and not path.is_file():
        raise FileExistsError(f"{path} is no plain file, and is not replaced")
    if not os.access(settings.gateway.state_dir, os.R_OK | os.X_OK, effective_ids=True):
        settings.gateway.state_dir.stat()  # says so if it is not there
        raise PermissionError(f"{settings.gateway.state_dir} may not be read by this user")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with Folder.opened(settings.gateway.state_dir) as state:
        has_values = state.has(VALUES_NAME.removeprefix(STATE))
    files = files_of(settings)
    # The oldest release that can read it is to do so.
    has_keys = KEYS_KEY in files and with_secrets
    without_keys = FORMAT_WITHOUT_KEYS if has_values else FORMAT_WITHOUT_VALUES
    head = BackupHeader(
        format=FORMAT if has_keys else without_keys,
        release=version(),
        gateway=settings.gateway.name,
        taken_at=int(time.time()),
        has_secrets=with_secrets,
        left_out=() if with_secrets else tuple(filter(is_secret, files)),
    )
    try:
        writer = Writer(partial, head)
        try:
            taken = _fill(
                writer, partial, config, settings, with_secrets=with_secrets, has_values=has_values
            )
            writer.close()
        except BaseException:
            writer.abandon()
            raise
        partial.replace(path)
        _sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)
    return taken


def _fill(
    writer: Writer,
    partial: Path,
    config: Path | None,
    settings: Settings,
    *,
    with_secrets: bool,
    has_values: bool,
) -> Taken:
    if config is not None:
        writer.add(CONFIG_NAME, read_regular(config, FILE_BYTES_MAX), Owner.of(config.stat()))
    files, left_out = [], []
    for key, path in files_of(settings).items():
        content, owner = b"", Owner()
        if with_secrets or not is_secret(key):
            content, owner = _content(key, stored_at(path), settings.gateway.state_dir)
        if not content or (_PRIVATE_KEY in content and not with_secrets):
            left_out.append(key)
        else:
            writer.add(FILES + key, content, owner)
            files.append(key)
    # Beside the backup, where there is room for it in all likelihood.
    with TemporaryDirectory(prefix=".tidegate-backup-", dir=partial.parent) as folder:
        copy = Path(folder, DATABASE_FILE)
        has_state = copy_database(settings.gateway.state_dir, copy)
        if has_state:
            writer.add_file(DATABASE_NAME, copy)
    with Folder.opened(settings.gateway.state_dir) as state:
        for member in PRESENCE_NAMES:
            name = member.removeprefix(STATE)
            if state.has(name) and (has_values or member != VALUES_NAME):
                with state.reading(name) as announced:
                    writer.add(member, announced.read(ANNOUNCED_BYTES_MAX))
    count = 0
    for name, content in segments(settings.gateway.journal_dir):
        writer.add(JOURNAL + name, content)
        count += 1
    return Taken(
        segments=count,
        has_state=has_state,
        has_config=config is not None,
        files=tuple(files),
        left_out=tuple(left_out),
    )


def files_of(settings: Settings) -> dict[str, Path]:
    """What the configuration names, and the keys of devices if there are any."""
    found = named_files(settings)
    if KEYS_KEY not in found and settings.keys_file.exists():
        found[KEYS_KEY] = settings.keys_file
    return found


def _content(key: str, path: Path, state_dir: Path) -> tuple[bytes, Owner]:
    try:
        if key == KEYS_KEY and path.parent == state_dir:  # another user's folder
            with Folder.opened(state_dir) as state, state.reading(path.name) as file:
                content, owner = file.read(FILE_BYTES_MAX + 1), Owner()
        else:
            content, owner = read_regular(path, FILE_BYTES_MAX + 1), Owner.of(path.stat())
    except PermissionError:
        raise
    except OSError as error:
        raise BackupError(f"{key} {path} cannot be read: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise BackupError(f"{key} {path} is larger than {FILE_BYTES_MAX // MIB} MiB")
    return content, owner


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
