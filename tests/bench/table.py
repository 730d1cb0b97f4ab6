"""A table as text for the terminal and as Markdown for docs/performance.md, from the same cells."""

from dataclasses import dataclass
from textwrap import fill

NOTHING = "–"
COLUMNS = 100


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    header: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]

    def as_text(self) -> str:
        widths = [
            max(len(line[column]) for line in (self.header, *self.lines))
            for column in range(len(self.header))
        ]
        rule = tuple("-" * width for width in widths)
        drawn = [
            "  ".join(
                _aligned(cell, width, column)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in (self.header, rule, *self.lines)
        ]
        return "\n".join([self.title, *drawn])

    def as_markdown(self) -> str:
        """Without the title: the document has headings of its own."""
        rule = tuple("---" if column == 0 else "---:" for column in range(len(self.header)))
        drawn = [f"| {' | '.join(line)} |" for line in (self.header, rule, *self.lines)]
        return "\n".join(drawn)


def wrapped(text: str) -> str:
    """As .ci/wrap.py wraps it."""
    return fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def number(value: float | None, decimals: int) -> str:
    return NOTHING if value is None else f"{value:,.{decimals}f}"


def two_times(first_us: float | None, second_us: float | None) -> str:
    """In milliseconds."""
    if first_us is None or second_us is None:
        return NOTHING
    return f"{first_us / 1000:.2f} / {second_us / 1000:.2f}"


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)
