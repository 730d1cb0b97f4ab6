"""A folder that may belong to another user, who may change it at any moment.

`tidegate backup` and `tidegate restore` are run by root, and the state folder belongs to the
service's user: a link there must not make root read or write a file of somebody else.

Rule 1: the folder is opened once. All in it is named relative to its descriptor, one level at a
        time, and no link is followed.
Rule 2: what is read is a regular file of the folder's owner, with one name. Else it is refused,
        and named.
Rule 3: what is made did not exist before, and gets mode and owner by its descriptor, whatever the
        umask.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from gateway.storage.backup.archive import BackupError

Ids = tuple[int, int]
# SQLite's log has a second name for a moment, while a gateway ends (storage/state/room.py).
SPARE_SUFFIX = ".spare"
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Folder:
    """`path` is for messages."""

    path: Path
    descriptor: int
    owner: Ids

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Self]:
        """The path itself is the operator's, who may have made a link of it."""
        folder = cls._of(path, os.open(path, _FOLDER_FLAGS))
        try:
            yield folder
        finally:
            os.close(folder.descriptor)

    @contextmanager
    def child(self, name: str, *, also_root: bool = False) -> Iterator[Folder]:
        """A folder in it, of the same owner. Raises BackupError, FileNotFoundError."""
        path = self.path / name
        flags = _FOLDER_FLAGS | os.O_NOFOLLOW
        try:
            descriptor = os.open(name, flags, dir_fd=self.descriptor)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise self._refused(name, _kind_of(self.status(name), "no folder")) from None
            raise _at(path, error) from None
        try:
            self._check_owner(name, os.fstat(descriptor), also_root=also_root)
            yield Folder._of(path, descriptor)
        finally:
            os.close(descriptor)

    @classmethod
    def _of(cls, path: Path, descriptor: int) -> Self:
        status = os.fstat(descriptor)
        return cls(path, descriptor, (status.st_uid, status.st_gid))

    def names(self) -> list[str]:
        return os.listdir(self.descriptor)  # noqa: PTH208 - a descriptor has no path

    def status(self, name: str) -> os.stat_result | None:
        """Of the link itself, if it is one."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def has(self, name: str) -> bool:
        return self.status(name) is not None

    # Reading

    @contextmanager
    def reading(self, name: str) -> Iterator[BinaryIO]:
        """Raises BackupError if it is not the owner's own file; FileNotFoundError, OSError."""
        try:
            descriptor = os.open(name, os.O_RDONLY | _FILE_FLAGS, dir_fd=self.descriptor)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise self._refused(name, _kind_of(self.status(name), "no file")) from None
            raise _at(self.path / name, error) from None
        try:
            self.check_file(name, os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        with os.fdopen(descriptor, "rb") as file:
            yield file

    def check_file(self, name: str, status: os.stat_result, *, also_root: bool = False) -> None:
        """Raises BackupError."""
        if not stat.S_ISREG(status.st_mode):
            raise self._refused(name, _kind_of(status, "no file"))
        self._check_owner(name, status, also_root=also_root)
        if status.st_nlink > 1 and status.st_nlink - self._is_spared(name, status) > 1:
            raise self._refused(name, f"a file with {status.st_nlink} names (hard links)")

    def check_folder(self, name: str, status: os.stat_result, *, also_root: bool = False) -> None:
        """Raises BackupError."""
        if not stat.S_ISDIR(status.st_mode):
            raise self._refused(name, _kind_of(status, "no folder"))
        self._check_owner(name, status, also_root=also_root)

    def _is_spared(self, name: str, status: os.stat_result) -> bool:
        spare = self.status(name + SPARE_SUFFIX)
        return spare is not None and os.path.samestat(spare, status)

    def _check_owner(self, name: str, status: os.stat_result, *, also_root: bool) -> None:
        if status.st_uid != self.owner[0] and not (also_root and status.st_uid == 0):
            whose = f"of user {status.st_uid}, and the folder is of user {self.owner[0]}"
            raise self._refused(name, whose)

    def _refused(self, name: str, what: str) -> BackupError:
        return BackupError(
            f"{self.path / name} is {what}: only files of the folder's own user are taken, and no "
            "link is followed; put a file of its own there"
        )

    # Changing

    def make(self, name: str, mode: int = 0o700) -> None:
        with self._named(name):
            os.mkdir(name, mode, dir_fd=self.descriptor)
            try:
                self.give_folder(name, None, mode)
            except BaseException:
                os.rmdir(name, dir_fd=self.descriptor)
                raise

    @contextmanager
    def step(self, name: str) -> Iterator[Folder]:
        """A folder in it, of any owner, which is made if it is not there. Raises OSError."""
        with self._named(name):
            if not self.has(name):
                self.make(name, 0o755)
            descriptor = os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=self.descriptor)
        try:
            yield Folder._of(self.path / name, descriptor)
        finally:
            os.close(descriptor)

    def write(
        self, name: str, pieces: Iterable[bytes], mode: int = 0o600, owner: Ids | None = None
    ) -> None:
        """A new file, durable. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE_FLAGS
        with self._named(name):
            descriptor = os.open(name, flags, 0o600, dir_fd=self.descriptor)
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                with self._named(name):
                    file.write(piece)
            with self._named(name):
                file.flush()
                if owner is not None:
                    os.fchown(descriptor, *owner)
                os.fchmod(descriptor, mode)
                os.fsync(descriptor)

    def give_folder(self, name: str, owner: Ids | None, mode: int) -> None:
        """A folder of ours, or of this one's owner. Raises BackupError, OSError."""
        flags = _FOLDER_FLAGS | os.O_NOFOLLOW
        descriptor = os.open(name, flags, dir_fd=self.descriptor)
        try:
            if os.fstat(descriptor).st_uid not in (os.geteuid(), self.owner[0]):
                raise self._refused(name, "a folder of another user")
            if owner is not None:
                os.fchown(descriptor, *owner)
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)

    def remove(self, name: str) -> None:
        """A file, or a folder with all that is in it; nothing if it is not there."""
        status = self.status(name)
        if status is None:
            return
        if stat.S_ISDIR(status.st_mode):
            shutil.rmtree(name, ignore_errors=True, dir_fd=self.descriptor)
        else:
            with suppress(FileNotFoundError), self._named(name):
                os.unlink(name, dir_fd=self.descriptor)

    def rename(self, name: str, to: Folder, new_name: str) -> None:
        with self._named(name):
            os.rename(name, new_name, src_dir_fd=self.descriptor, dst_dir_fd=to.descriptor)

    def link(self, name: str, to: Folder, new_name: str) -> None:
        """A second name, of the link itself if it is one. Raises OSError."""
        os.link(
            name,
            new_name,
            src_dir_fd=self.descriptor,
            dst_dir_fd=to.descriptor,
            follow_symlinks=False,
        )

    def sync(self) -> None:
        os.fsync(self.descriptor)

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _at(self.path / name, error) from None


class Moves:
    """Changes of names that can be taken back together."""

    def __init__(self) -> None:
        self._back: list[Callable[[], None]] = []

    def rename(self, folder: Folder, name: str, to: Folder, new_name: str) -> None:
        folder.rename(name, to, new_name)
        self._back.append(lambda: to.rename(new_name, folder, name))

    def keep(self, folder: Folder, name: str, to: Folder, new_name: str) -> None:
        """Under another name as well, so that the first one is there at any moment; where there are
        no hard links, under the other one alone."""
        try:
            folder.link(name, to, new_name)
        except OSError:
            self.rename(folder, name, to, new_name)
            return

        def back() -> None:
            to.rename(new_name, folder, name)
            to.remove(new_name)  # two names of one file are left as they are by rename

        self._back.append(back)

    def make(self, folder: Folder, name: str) -> None:
        folder.make(name)
        self._back.append(lambda: os.rmdir(name, dir_fd=folder.descriptor))

    def take_back(self) -> None:
        """Raises OSError, and leaves what was done before that one."""
        while self._back:
            self._back[-1]()
            self._back.pop()


def _at(path: Path, error: OSError) -> OSError:
    """With the whole path, for messages."""
    return error if error.filename == str(path) else OSError(error.errno, error.strerror, str(path))


def _kind_of(status: os.stat_result | None, otherwise: str) -> str:
    kinds = (
        (stat.S_ISLNK, "a link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
        (stat.S_ISREG, "a file"),
    )
    if status is None:
        return otherwise
    return next((name for is_kind, name in kinds if is_kind(status.st_mode)), otherwise)
