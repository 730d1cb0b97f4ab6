"""The audit log in the state folder: who changed what, when and from where; one JSON object a line.

- audit.jsonl has the newest lines; when it would be larger than FILE_BYTES_MAX it becomes
  audit.1.jsonl, in place of the one before. Both together are bounded by twice that.
- A line is on the disk (fdatasync) when `append` returns. A line that a power cut has torn ends
  where the next one begins; reading leaves it out and counts it.
- The fields are in docs/security.md, "The audit log". Fields may be added, and readers must ignore
  those that they do not know.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

AUDIT_FILE = "audit.jsonl"
FORMER_FILE = "audit.1.jsonl"
FILE_BYTES_MAX = 1 << 20  # 4,000 changes
LINE_BYTES_MAX = 8 << 10
TEXT_LENGTH_MAX = 1000
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """`who`: such as `user:anna`, `token:ci`, `uid:0`, `broker`. `way`: page, api, cli, mqtt or
    signal. `place`: address, or `unix pid 17`. `asked`: what is safe to keep of the request.
    """

    who: str
    role: str
    way: str
    place: str
    what: str
    asked: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""
    is_done: bool = True
    unix_s: float = field(default_factory=time.time)

    def line(self) -> bytes:
        document = {
            "time": datetime.fromtimestamp(self.unix_s, UTC).isoformat(timespec="milliseconds"),
            "who": self.who,
            "role": self.role,
            "via": self.way,
            "from": self.place,
            "what": self.what,
            "asked": dict(self.asked),
            "done": self.is_done,
            "answer": self.said[:TEXT_LENGTH_MAX],
        }
        content = json.dumps(document).encode()
        if len(content) > LINE_BYTES_MAX:
            content = json.dumps(document | {"asked": {"left_out": len(content)}}).encode()
        return content + b"\n"


def append(folder: Path, lines: Sequence[bytes]) -> None:
    """Raises OSError. May block as long as the disk does."""
    path = folder / AUDIT_FILE
    content = b"".join(lines)
    file = os.open(path, _FLAGS, 0o600)
    try:
        size = os.fstat(file).st_size
        if size and size + len(content) > FILE_BYTES_MAX:
            path.replace(folder / FORMER_FILE)
            os.close(file)
            file = os.open(path, _FLAGS, 0o600)
            size = 0
        if size and os.pread(file, 1, size - 1) != b"\n":
            content = b"\n" + content  # what a power cut has torn
        while content:
            content = content[os.write(file, content) :]
        os.fdatasync(file)
    finally:
        os.close(file)


def read(folder: Path, since_unix_s: float = 0.0) -> Iterator[dict[str, Any] | None]:
    """From the oldest on; None for a line that is none. Raises OSError."""
    for name in (FORMER_FILE, AUDIT_FILE):
        try:
            with (folder / name).open("rb") as file:
                for line in file:
                    found = _document(line)
                    if found is None or _unix_s(found) >= since_unix_s:
                        yield found
        except FileNotFoundError:
            continue


def _document(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
        _unix_s(found)
    except (ValueError, TypeError, KeyError):
        return None
    return found if isinstance(found, dict) else None


def _unix_s(document: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(document["time"]).timestamp()
