"""The file of keys: read with its rights checked, and replaced as a whole.

Rule 1: it is a regular file with mode 0600 or less, of the user who reads it or of its folder's;
        no link is followed. A credential of systemd is systemd's to protect, and only read.
Rule 2: a change is written beside it, durable (fsync), and takes its name then (rename): after a
        power cut the file is the one before or the one after. What cannot be read is never
        replaced.
Rule 3: one process at a time changes it: the folder is locked (flock) meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from gateway.config.credential import credential_of
from gateway.config.regular_file import opening, read_regular
from gateway.storage.keys.errors import KeysError
from gateway.storage.keys.records import FILE_BYTES_MAX, KeyRecords, records_of, text_of

PATIENCE_S = 5.0
POLL_S = 0.05
FOLDER_MODE = 0o700
_FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def read_keys(path: Path) -> tuple[KeyRecords, bytes]:
    """And a digest of what was read. A file that is not there has no keys, unless it is a
    credential. Raises KeysError.
    """
    text = _text(path)
    if text is None:
        return KeyRecords(), b""
    try:
        return records_of(text), sha256(text).digest()
    except KeysError as error:
        raise KeysError(
            f"{path} {error}. It is left as it is: put a good copy there "
            "(tidegate restore), or move it away and add the devices again"
        ) from None


def change_keys(path: Path, change: Callable[[KeyRecords], KeyRecords]) -> KeyRecords:
    """What is in the file afterwards. What `change` raises leaves it as it was. Raises KeysError,
    KeyRefusedError, OSError.
    """
    if credential_of(path) is not None:
        raise KeysError(
            f"{path} is a credential of systemd, which is only read: change the file that it is "
            "made of, with --set security.keys_file=FILE"
        )
    _make_folder(path.parent)
    folder = os.open(path.parent, _FOLDER_FLAGS)
    try:
        _lock(folder, path)
        records = change(read_keys(path)[0])
        _replace(folder, path, text_of(records))
        return records
    finally:
        os.close(folder)


def write_private(path: Path, content: bytes) -> None:
    """A new file with mode 0600. Raises OSError, FileExistsError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE_FLAGS
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _text(path: Path) -> bytes | None:
    try:
        if credential_of(path) is not None:
            return read_regular(path, FILE_BYTES_MAX + 1)
        return _private_text(path)
    except FileNotFoundError:
        if credential_of(path) is None:
            return None
        raise KeysError(f"{path} is not there: systemd was not asked for it") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise KeysError(f"{path} is a link: name the file itself") from None
        cure = f":  {_cure(path)}" if isinstance(error, PermissionError) else ""
        raise KeysError(f"{path} cannot be read: {error.strerror}{cure}") from None


def _private_text(path: Path) -> bytes:
    opening(path)
    with os.fdopen(os.open(path, os.O_RDONLY | _FILE_FLAGS), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise KeysError(f"{path} is no regular file")
        if stat.S_IMODE(status.st_mode) & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            raise KeysError(f"{path} is open to others (mode {mode:04o}):  {_cure(path)}")
        if status.st_uid not in (os.geteuid(), path.parent.stat().st_uid):
            raise KeysError(f"{path} belongs to user {status.st_uid}:  {_cure(path)}")
        return file.read(FILE_BYTES_MAX + 1)


def _cure(path: Path) -> str:
    file, folder = shlex.quote(str(path)), shlex.quote(str(path.parent))
    return f"sudo chown --reference={folder} {file} && sudo chmod 600 {file}"


def _make_folder(folder: Path) -> None:
    """As root it would be root's, and closed to the gateway. Raises KeysError, OSError."""
    if folder.exists():
        return
    if os.geteuid() == 0:
        raise KeysError(f"{folder} is not there: start the gateway once, which makes it")
    folder.mkdir(mode=FOLDER_MODE, parents=True)


def _lock(folder: int, path: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise KeysError(f"{path}: another program is changing it: try it again") from None
            time.sleep(POLL_S)
        else:
            return


def _replace(folder: int, path: Path, text: bytes) -> None:
    new = f".{path.name}.new"
    with suppress(FileNotFoundError):  # of one that was killed
        os.unlink(new, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE_FLAGS
    descriptor = os.open(new, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            if os.geteuid() == 0:  # with sudo: it is the gateway that reads it
                owner = os.fstat(folder)
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.rename(new, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(new, dir_fd=folder)
        raise
    os.fsync(folder)
