"""Whose rows the latest commits were about, in a file beside the database: `state.db.commits`.

With it a start knows what a damaged write-ahead log has lost, also where the log alone does not
tell: it is gone, empty, or spoilt in its last commit (wal.py). A line for each commit since the log
began again: the frame at which it ends, and the clients. It is written behind the commit and never
synced, so that no answer waits for it: after a power cut the last lines may be missing, and then
only the log itself speaks.

What the log held may have been in the database already, and it cannot be told: so what is said to
be lost may be there. It is never the other way round but for those last lines.

Full: `LINES_MAX` lines, `NAMES_MAX` names in each; what is over is only counted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gateway.core.state_records import Change
from gateway.storage.state.room import PAGE_BYTES, log_of
from gateway.storage.state.wal import FRAME_HEAD_BYTES, HEADER_BYTES, Salts, frame_end, read_wal
from gateway.storage.state.wal import salts_of as salts_in

LINES_MAX = 1000
NAMES_MAX = 100
NAMED_MAX = 10  # in the sentence for the operator
_FRAME_BYTES = FRAME_HEAD_BYTES + PAGE_BYTES


@dataclass(frozen=True, slots=True)
class LostCommits:
    """Commits that were durable, and that this start does not find. `clients`: whose sessions they
    were about, as far as it is known; `others`: how many more.
    """

    commits: int
    clients: tuple[str, ...] = ()
    others: int = 0

    def __str__(self) -> str:
        whose = "which sessions they were about is not known"
        if self.clients:
            named = ", ".join(repr(name) for name in self.clients[:NAMED_MAX])
            more = len(self.clients[NAMED_MAX:]) + self.others
            and_more = f" and {more} more" if more else ""
            whose = f"they were about {self.count} sessions: {named}{and_more}"
        return (
            f"the write-ahead log of state.db is damaged: {self.commits} commits in it cannot be "
            f"read, and {whose}"
        )

    @property
    def count(self) -> int:
        """Of sessions, as far as it is known."""
        return len(self.clients) + self.others


class CommitNotes:
    """Of a database in a file, for what commits to it; all errors are ignored."""

    def __init__(self, database: Path) -> None:
        self._path = notes_of(database)
        self._log_path = log_of(database)
        self._log: int | None = None
        self._file: int | None = None
        self._salts: Salts | None = None
        self._end = 0
        self._lines = 0
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def note(self, changes: Sequence[Change]) -> None:
        """These were committed."""
        with suppress(OSError):
            self._note(changes)

    def close(self, *, is_clean: bool) -> None:
        """`is_clean`: all of the log is in the database."""
        for file in (self._log, self._file):
            if file is not None:
                with suppress(OSError):
                    os.close(file)
        self._log = self._file = None
        if is_clean:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _note(self, changes: Sequence[Change]) -> None:
        if self._log is None:
            self._log = os.open(self._log_path, os.O_RDONLY | os.O_CLOEXEC)
        salts = salts_in(os.pread(self._log, HEADER_BYTES, 0))
        if salts is None:
            return
        if self._file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
        if salts != self._salts:
            # Begun again: all before is in the database.
            os.ftruncate(self._file, 0)
            self._salts, self._end, self._lines = salts, 0, 0
            self._write({"salts": salts})
        self._end = self._find_end(self._log, salts)
        self._lines += 1
        if self._lines <= LINES_MAX:
            names = client_ids(changes)
            line = {"end": self._end, "clients": names[:NAMES_MAX]}
            self._write(line | {"others": len(names[NAMES_MAX:])})

    def _find_end(self, log: int, salts: Salts) -> int:
        end = at = self._end
        while len(head := os.pread(log, FRAME_HEAD_BYTES, HEADER_BYTES + at * _FRAME_BYTES)) == (
            FRAME_HEAD_BYTES
        ):
            found, is_end = frame_end(head)
            if found != salts:
                break
            at += 1
            if is_end:
                end = at
        return end

    def _write(self, line: dict[str, object]) -> None:
        assert self._file is not None
        os.write(self._file, json.dumps(line).encode() + b"\n")


def client_ids(changes: Iterable[Change]) -> list[str]:
    """Without repetition; rows of the gateway's own have none."""
    names = (getattr(change, "client_id", None) for change in changes)
    return list(dict.fromkeys(str(name) for name in names if name is not None))


def lost_commits(database: Path) -> LostCommits | None:
    """To be asked before SQLite opens the database, which may begin its log again. What cannot be
    read is left to SQLite.
    """
    with suppress(OSError):
        log = log_of(database)
        content = log.read_bytes() if log.exists() else b""
        return compare(content, _lines(notes_of(database)))
    return None


def compare(log: bytes, lines: list[str]) -> LostCommits | None:
    """What the log says of itself, and what was noted of it."""
    wal = read_wal(log, PAGE_BYTES)
    salts, ends = _noted(lines)
    follows = wal.salts is not None and wal.salts != salts and not wal.left_out
    if salts is None or follows or _is_closed(log):
        # Nothing was noted, or a log that began again later, or a clean end of another release.
        return LostCommits(wal.left_out) if wal.left_out else None
    read_to = wal.frames if wal.salts == salts else 0
    missing = [line for line in ends if line[0] > read_to]
    names = dict.fromkeys(name for _, clients, _ in missing for name in clients)
    commits = max(len(missing), wal.left_out)
    others = sum(others for _, _, others in missing)
    return LostCommits(commits, tuple(names), others) if commits else None


def _is_closed(log: bytes) -> bool:
    """As room.py leaves it at a clean close: zeros, and behind them what it had before."""
    return not any(log[:HEADER_BYTES]) and any(log[HEADER_BYTES : HEADER_BYTES + _FRAME_BYTES])


def _noted(lines: list[str]) -> tuple[Salts | None, list[tuple[int, list[str], int]]]:
    salts: Salts | None = None
    found: list[tuple[int, list[str], int]] = []
    # What is cut short or spoilt is no line.
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        for line in lines:
            said = json.loads(line)
            if salts is None:
                first, second = said["salts"]
                salts = int(first), int(second)
                continue
            names = [name for name in said["clients"] if isinstance(name, str)]
            found.append((int(said["end"]), names, int(said["others"])))
    return salts, found


def _lines(path: Path) -> list[str]:
    with suppress(FileNotFoundError):
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    return []


def notes_of(database: Path) -> Path:
    return database.with_name(database.name + ".commits")
