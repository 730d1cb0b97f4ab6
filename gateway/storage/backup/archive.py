"""The file that a backup is: a compressed tar archive that says what it is and proves to be whole.

```
tidegate-backup.json   what it is, first: format, release, gateway, when
config.toml            the configuration, if there was a file
files/KEY              what the configuration names, by key: files/upstream.ca_file
state/state.db         sessions and all that is kept for sensors
state/announced.jsonl  which retained topics of the gateway's own the broker may have
state/journal/...      segments of the journal, as they are on the disk
checksums.json         SHA-256 of each of them, last: an archive without it was cut off
```
Rule 1: nothing of an archive counts before its checksums have been seen.
Rule 2: only the names above are read, each of at most the size that it may have; an archive is
        input from outside like any other.
Rule 3: a newer format is refused before anything of it is read, and named.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from gateway.config.settings import MIB
from gateway.storage.journal.options import FILE_BYTES_MAX

FORMAT = 1
HEAD_NAME = "tidegate-backup.json"
CHECKSUMS_NAME = "checksums.json"
CONFIG_NAME = "config.toml"
FILES = "files/"
DATABASE_NAME = "state/state.db"
ANNOUNCED_NAME = "state/announced.jsonl"
JOURNAL = "state/journal/"

# Most of a segment is zeros or text, and a small board has one slow core for this.
COMPRESSION = 3
PIECE_BYTES = 1 << 20
MEMBERS_MAX = 1 << 21  # a journal of the largest size is a million segments
_SIZES_MAX = (
    (re.compile(re.escape(HEAD_NAME)), 64 << 10),
    (re.compile(re.escape(CHECKSUMS_NAME)), 512 * MIB),
    (re.compile(re.escape(CONFIG_NAME)), 8 * MIB),
    (re.compile(r"files/[a-z_0-9.]{1,100}"), 8 * MIB),
    (re.compile(re.escape(DATABASE_NAME)), 64 << 30),
    (re.compile(re.escape(ANNOUNCED_NAME)), 128 * MIB),
    (re.compile(r"state/journal/[0-9a-f-]{1,60}\.segment"), FILE_BYTES_MAX),
)
_DAMAGE = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, KeyError)


class BackupError(Exception):
    """Why there is no backup, or none to restore, in a sentence."""


@dataclass(frozen=True, slots=True)
class BackupHeader:
    """`taken_at` in seconds since 1970."""

    format: int
    release: str
    gateway: str
    taken_at: int
    has_secrets: bool


@dataclass(frozen=True, slots=True)
class Owner:
    mode: int = 0o600
    user: str = ""
    group: str = ""

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        """Names are for the machine that it is restored on; tarfile finds them by number."""
        import grp
        import pwd

        user = group = ""
        with suppress(KeyError):  # numbers without names mean nothing elsewhere
            user, group = pwd.getpwuid(status.st_uid).pw_name, grp.getgrgid(status.st_gid).gr_name
        return cls(status.st_mode & 0o777, user, group)


class Writer:
    """The parts in the order of the format; `close` makes it whole."""

    def __init__(self, path: Path, head: BackupHeader) -> None:
        """Raises OSError; `path` must not be there."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._taken_at = head.taken_at
        packed = gzip.GzipFile("", "wb", COMPRESSION, self._file, mtime=head.taken_at)
        self._packed = packed
        self._tar = tarfile.open(mode="w|", fileobj=packed, format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._checksums: dict[str, str] = {}
        self.add(HEAD_NAME, json.dumps(asdict(head)).encode())

    def add(self, name: str, octets: bytes, owner: Owner | None = None) -> None:
        self._add(name, io.BytesIO(octets), len(octets), owner or Owner())
        self._checksums[name] = hashlib.sha256(octets).hexdigest()

    def add_file(self, name: str, path: Path) -> None:
        """A file that nobody changes meanwhile."""
        with path.open("rb") as file:
            self._checksums[name] = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            self._add(name, file, size, Owner())

    def _add(self, name: str, content: Any, size: int, owner: Owner) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mtime, member.mode = size, self._taken_at, owner.mode
        member.uname, member.gname = owner.user, owner.group
        self._tar.addfile(member, content)

    def close(self) -> None:
        """Durable when this returns."""
        octets = json.dumps(self._checksums).encode()
        self._add(CHECKSUMS_NAME, io.BytesIO(octets), len(octets), Owner())
        self._tar.close()
        self._packed.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """What was written is of no use; nothing may want to be written later on."""
        for part in (self._tar, self._packed, self._file):
            with suppress(OSError, ValueError, tarfile.TarError):
                part.close()


@dataclass(slots=True)
class Part:
    """One member; `pieces` are to be read before the next one is asked for."""

    name: str
    size: int
    owner: Owner
    pieces: Iterator[bytes]

    def read(self) -> bytes:
        return b"".join(self.pieces)


class Reader:
    """Every part once, in order; then `check` says whether all of them were whole."""

    def __init__(self, path: Path) -> None:
        """Raises BackupError or OSError."""
        self._path = path
        self._found: dict[str, str] = {}
        self._stated: dict[str, str] | None = None
        self._file = path.open("rb")
        try:
            with self._damage_named():
                self._tar = tarfile.open(mode="r|gz", fileobj=self._file)  # noqa: SIM115
                self.head = self._read_head()
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def parts(self) -> Iterator[Part]:
        """Raises BackupError as soon as something is wrong. OSError is the disk's."""
        with self._damage_named():
            for _ in range(MEMBERS_MAX):
                member = self._tar.next()
                if member is None:
                    break
                part = self._part(member)
                if part.name == CHECKSUMS_NAME:
                    self._stated = json.loads(part.read())
                    del self._found[CHECKSUMS_NAME]
                    break
                yield part
                for _rest in part.pieces:
                    pass
        self._check()

    def _read_head(self) -> BackupHeader:
        member = self._tar.next()
        if member is None or member.name != HEAD_NAME:
            raise BackupError(f"{self._path} is no backup of Tidegate")
        told = json.loads(self._part(member).read())
        if not isinstance(told, dict) or not isinstance(told.get("format"), int):
            raise ValueError("no format")
        if told["format"] > FORMAT:
            raise BackupError(
                f"{self._path} was written by a newer release, {str(told.get('release'))[:40]!r} "
                f"(format {told['format']}; this one reads up to {FORMAT}): install that release, "
                "or a later one, and restore it there"
            )
        return BackupHeader(
            format=told["format"],
            release=str(told["release"])[:40],
            gateway=str(told["gateway"])[:64],
            taken_at=int(told["taken_at"]),
            has_secrets=bool(told["has_secrets"]),
        )

    def _part(self, member: tarfile.TarInfo) -> Part:
        limit = next((most for name, most in _SIZES_MAX if name.fullmatch(member.name)), None)
        if limit is None or not member.isreg() or member.name in self._found:
            raise ValueError(f"unexpected {member.name[:100]!r}")
        if member.size > limit:
            raise ValueError(f"{member.name} is too large")
        owner = Owner(member.mode & 0o777, member.uname, member.gname)
        return Part(name=member.name, size=member.size, owner=owner, pieces=self._pieces(member))

    def _pieces(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        """In the hands of who reads them, so what goes wrong is named here as well."""
        digest, left = hashlib.sha256(), member.size
        with self._damage_named():
            content = self._tar.extractfile(member)
        assert content is not None  # it is a regular file
        while left:
            with self._damage_named():
                piece = content.read(min(PIECE_BYTES, left))
                if not piece:
                    raise EOFError
            left -= len(piece)
            digest.update(piece)
            yield piece
        self._found[member.name] = digest.hexdigest()

    def _check(self) -> None:
        if self._stated is None:
            raise self._damaged("it ends too early")
        if self._stated != self._found:
            names = self._stated.keys() | self._found.keys()
            wrong = [name for name in names if self._stated.get(name) != self._found.get(name)]
            raise self._damaged(f"{min(wrong)} is not what was put in")

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except EOFError:
            raise self._damaged("it ends too early") from None
        except gzip.BadGzipFile as error:
            is_other = "Not a gzipped file" in str(error)
            what = "is no backup of Tidegate" if is_other else f"is damaged: {error}"
            raise BackupError(f"{self._path} {what}") from None
        except tarfile.ReadError as error:
            if "not a gzip" in str(error):
                raise BackupError(f"{self._path} is no backup of Tidegate") from None
            raise self._damaged(str(error)) from None
        except _DAMAGE as error:
            raise self._damaged(str(error)) from None

    def _damaged(self, how: str) -> BackupError:
        return BackupError(f"{self._path} is damaged, {how}: take another copy of it")
