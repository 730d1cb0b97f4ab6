"""Why the state folder cannot be used, and what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path


class StateError(OSError):
    """The state folder cannot be used; the message says what to do."""


def advice(folder: Path, error: OSError | sqlite3.Error) -> str:
    if isinstance(error, PermissionError):
        return (
            f"gateway.state_dir {folder} may not be written by this user: "
            f"`sudo install -d -o $USER {folder}`, or set another gateway.state_dir"
        )
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"gateway.state_dir {folder} is not a folder: remove the file or set another path"
    words = error.strerror if isinstance(error, OSError) else str(error)
    return f"gateway.state_dir {folder} cannot be used: {words}"
