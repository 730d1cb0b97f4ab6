"""Files that have keys in them, read: from stdin, or from a file that others cannot read."""

import stat
import sys
from pathlib import Path

from gateway.config.regular_file import read_regular

TEXT_BYTES_MAX = 16 << 20


class PrivateError(Exception):
    """Why it was not read, in a sentence without any of it."""


def private_text(path: Path) -> str:
    """Raises PrivateError."""
    try:
        if str(path) == "-":
            content = sys.stdin.buffer.read(TEXT_BYTES_MAX + 1)
        else:
            if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
                raise PrivateError(f"{path} has keys, and others may read it:  chmod 600 {path}")
            content = read_regular(path, TEXT_BYTES_MAX + 1)
    except OSError as error:
        raise PrivateError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > TEXT_BYTES_MAX:
        raise PrivateError(f"{path} has more than {TEXT_BYTES_MAX >> 20} MiB")
    try:
        return content.decode("utf-8-sig")  # as spreadsheets write it
    except UnicodeDecodeError:
        raise PrivateError(f"{path} is no text") from None
