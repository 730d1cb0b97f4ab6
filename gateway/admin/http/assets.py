"""The files of the page, as they are in the package: HTML, CSS and ES modules of our own.

They are read when the gateway starts, 84 kB: later a disk that hangs would hold up the event loop.
They are checked against the browser's copy by ETag, so that a page that is opened again costs a few
hundred bytes. No other file can be asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "web"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    octets: bytes
    content_type: str
    etag: str


@cache
def names() -> frozenset[str]:
    return frozenset(each.name for each in FOLDER.iterdir())


def asset(name: str) -> Asset | None:
    """None for what is not there."""
    return _all().get(name)


def read_all() -> None:
    """Before anybody is served."""
    _all()


@cache
def _all() -> dict[str, Asset]:
    return {name: _read(name) for name in names()}


def _read(name: str) -> Asset:
    octets = (FOLDER / name).read_bytes()
    suffix = name[name.rfind(".") :]
    return Asset(octets, TYPES[suffix], f'"{sha256(octets).hexdigest()[:16]}"')
