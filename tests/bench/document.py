"""Puts the measured section into docs/performance.md, between its two markers."""

from pathlib import Path

from tests.bench.gateway_process import PROJECT_DIR

DOCUMENT = PROJECT_DIR / "docs" / "performance.md"
BEGIN = "<!-- bench:begin -->"
END = "<!-- bench:end -->"


class DocumentError(Exception):
    """The document does not have the two markers, once each and in order."""


def with_section(document: str, section: str) -> str:
    if document.count(BEGIN) != 1 or document.count(END) != 1:
        raise DocumentError(f"it must have {BEGIN} and {END} once each")
    before, _, rest = document.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise DocumentError(f"{END} must come after {BEGIN}")
    return f"{before}{BEGIN}\n{section.strip()}\n{END}{after}"


def write_section(section: str, path: Path = DOCUMENT) -> None:
    try:
        path.write_text(with_section(path.read_text(), section))
    except DocumentError as error:
        raise DocumentError(f"{path}: {error}") from error
