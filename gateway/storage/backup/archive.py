"""The file that a backup is: a compressed tar archive that says what it is and proves to be whole.

```
tidegate-backup.json   what it is, first: format, release, gateway, when
config.toml            the configuration, if there was a file
files/KEY              what the configuration names, by key: files/upstream.ca_file
state/state.db         sessions and all that is kept for sensors
state/announced.jsonl  which retained topics of the gateway's own the broker may have
state/announced.values.jsonl  last values and habits of devices, for Home Assistant
state/journal/...      segments of the journal, as they are on the disk
checksums.json         SHA-256 of each of them, last: an archive without it was cut off
```
Rule 1: nothing of an archive counts before its checksums have been seen.
Rule 2: only the names above are read, once each, as plain files of at most the size that they may
        have, with the heads that `Writer` gives them: no numbers of users, no rights beyond 0777,
        no extension of tar but those for large sizes and names of users in other scripts. An
        archive is input from outside like any other.
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

from gateway.config.credential import FILE_KEYS
from gateway.config.settings import MIB
from gateway.storage.journal.options import FILE_BYTES_MAX

FORMAT = 3  # with keys of devices
FORMAT_WITHOUT_KEYS = 2
FORMAT_WITHOUT_VALUES = 1  # which older releases read
HEAD_NAME = "tidegate-backup.json"
CHECKSUMS_NAME = "checksums.json"
CONFIG_NAME = "config.toml"
FILES = "files/"
DATABASE_NAME = "state/state.db"
STATE = "state/"
ANNOUNCED_NAME = "state/announced.jsonl"
VALUES_NAME = "state/announced.values.jsonl"
PRESENCE_NAMES = (ANNOUNCED_NAME, VALUES_NAME)
JOURNAL = "state/journal/"

# Most of a segment is zeros or text, and a small board has one slow core for this.
COMPRESSION = 3
PIECE_BYTES = 1 << 20
MEMBERS_MAX = 1 << 21  # a journal of the largest size is a million segments
ANNOUNCED_BYTES_MAX = 128 * MIB
CHECKSUM_LINE_BYTES = 256  # more than a name and its checksum take
_SIZES_MAX = {
    HEAD_NAME: 64 << 10,
    CHECKSUMS_NAME: 512 * MIB,
    CONFIG_NAME: 8 * MIB,
    **{f"{FILES}{key}": 8 * MIB for key in FILE_KEYS},
    DATABASE_NAME: 64 << 30,
    **dict.fromkeys(PRESENCE_NAMES, ANNOUNCED_BYTES_MAX),
}
# As journal/segment.py has it, but for digits of other scripts.
_SEGMENT = re.compile(r"state/journal/[0-9]{20}-[0-9]{10}-[0-9a-f]{8}\.segment")
_EXTENSION_BYTES_MAX = 4096
_EXTENSIONS = {"size", "uname", "gname"}
_TAKEN_AT_MAX = 1 << 36
_DAMAGE = (
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    OverflowError,
    RecursionError,
)


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
    left_out: tuple[str, ...] = ()  # files that were there, by key


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


class _Member(tarfile.TarInfo):
    """What may be in the archive; else tarfile would read extensions of any size into memory.

    Each header that was read comes to `_proc_member`, "which can be overridden in a subclass" (a
    comment of tarfile's). Some Pythons, Debian 12's with its security updates among them, do not
    call `frombuf`.
    """

    def _proc_member(self, archive: tarfile.TarFile) -> Self:
        is_extension = self.type == tarfile.XHDTYPE
        if not is_extension and self.type != tarfile.REGTYPE:
            raise ValueError(f"unexpected {self.name[:100]!r}, which is no plain file")
        if self.size < 0 or (is_extension and self.size > _EXTENSION_BYTES_MAX):
            raise ValueError(f"unexpected {self.name[:100]!r} of {self.size} bytes")
        member: Self = super()._proc_member(archive)  # type: ignore[misc] # not in its types
        return member


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
                self._tar = tarfile.open(mode="r|gz", fileobj=self._file, tarinfo=_Member)  # noqa: SIM115
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
                self._tar.members.clear()  # type: ignore[attr-defined] # it would remember all
                if member is None:
                    break
                part = self._part(member)
                if part.name == CHECKSUMS_NAME:
                    self._read_checksums(part)
                    break
                yield part
                for _rest in part.pieces:
                    pass
        self._check()

    @property
    def checksums(self) -> dict[str, str]:
        """Of all that was read."""
        return dict(self._found)

    def _read_checksums(self, part: Part) -> None:
        if part.size > CHECKSUM_LINE_BYTES * (len(self._found) + 1):
            raise ValueError(f"{CHECKSUMS_NAME} is too large")
        stated = json.loads(part.read())
        if not isinstance(stated, dict):
            raise ValueError(f"{CHECKSUMS_NAME} has no checksums")
        self._stated = stated
        del self._found[CHECKSUMS_NAME]
        after = self._tar.next()
        if after is not None:
            raise ValueError(f"unexpected {after.name[:100]!r} after {CHECKSUMS_NAME}")

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
        head = BackupHeader(
            format=told["format"],
            release=str(told["release"])[:40],
            gateway=str(told["gateway"])[:64],
            taken_at=int(told["taken_at"]),
            has_secrets=bool(told["has_secrets"]),
            left_out=tuple(each for each in FILE_KEYS if each in told.get("left_out", ())),
        )
        if head.format < 1 or not 0 <= head.taken_at < _TAKEN_AT_MAX:
            raise ValueError("no format, or no time, that there can be")
        if not (head.release.isprintable() and head.gateway.isprintable()):
            raise ValueError("names that cannot be shown")
        return head

    def _part(self, member: tarfile.TarInfo) -> Part:
        name = member.name
        limit = FILE_BYTES_MAX if _SEGMENT.fullmatch(name) else _SIZES_MAX.get(name)
        if limit is None or name in self._found:
            raise ValueError(f"unexpected {name[:100]!r}")
        if member.sparse is not None or not member.pax_headers.keys() <= _EXTENSIONS:
            raise ValueError(f"unexpected extensions of {name}")
        if not 0 <= member.size <= limit:
            raise ValueError(f"{name} is too large")
        if member.mode & ~0o777:
            raise ValueError(f"{name} has the mode {member.mode & 0o7777:04o}")
        if member.uid or member.gid or member.linkname:
            raise ValueError(f"{name} has an owner by number, or is a link")
        owner = Owner(member.mode, member.uname, member.gname)
        if name.startswith("state/") and owner != Owner():
            raise ValueError(f"{name} has an owner, or rights of others")
        return Part(name=name, size=member.size, owner=owner, pieces=self._pieces(member))

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
