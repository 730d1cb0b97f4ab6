"""Paths as people write them: of this machine, or the URL of one. Nothing else is served.

The URL of a store, such as `s3a://bucket/lake`, is a relative path as well: taken for one it makes
a folder that is called `s3a:`, where its data is not looked for.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

EXPECTED = "a path of this machine, or a URL of one (file:///...)"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_FILE_URL = re.compile(r"(?i:file:)(?://(?i:localhost)?(?=/))?(/(?!/)[^?#]*)")


class NotServedError(ValueError):
    """A URL of another machine or of a store."""


def local_path(given: str) -> Path:
    """Raises NotServedError."""
    scheme = _SCHEME.match(given)
    if scheme is None:
        return Path(given)
    found = _FILE_URL.fullmatch(given)
    if found is None:
        raise NotServedError(
            f"no URL that begins with {scheme[0]} is served, only file:///...: mount the store "
            f'here and give its path, or write "./{scheme[0]}..." for a file that is called so'
        )
    return Path(unquote(found[1]))
