"""Puts measured sections into docs/performance.md, each between its two markers, and plots beside
it."""

from collections.abc import Mapping
from pathlib import Path

from tests.bench.gateway_process import PROJECT_DIR

DOCUMENT = PROJECT_DIR / "docs" / "performance.md"
IMAGES = "images"  # beside the document
SECTIONS = ("bench", "load-curve", "growth", "where", "sleepers")
LINES_MAX = 150


class DocumentError(Exception):
    """The document does not have the two markers, once each and in order."""


def markers(name: str) -> tuple[str, str]:
    return f"<!-- {name}:begin -->", f"<!-- {name}:end -->"


def with_section(document: str, section: str, name: str) -> str:
    begin, end = markers(name)
    if document.count(begin) != 1 or document.count(end) != 1:
        raise DocumentError(f"it must have {begin} and {end} once each")
    before, _, rest = document.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise DocumentError(f"{end} must come after {begin}")
    return f"{before}{begin}\n{section.strip()}\n{end}{after}"


def write_section(
    section: str, name: str, path: Path = DOCUMENT, plots: Mapping[str, str] | None = None
) -> None:
    """`plots`: drawings by the names of their files."""
    try:
        path.write_text(with_section(path.read_text(), section, name))
    except DocumentError as error:
        raise DocumentError(f"{path}: {error}") from error
    for file, drawing in (plots or {}).items():
        (path.parent / IMAGES / file).write_text(drawing)
