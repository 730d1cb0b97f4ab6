"""Tables for people: as wide as the terminal, whole in a file or a pipe.

What does not fit is made to: first columns are left out, those that matter least first, then the
first column, which is a name, is cut with an ellipsis.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

GAP = "  "
NAME_COLUMNS_MIN = 12


@dataclass(frozen=True, slots=True)
class Column:
    """`rank` 0 always stays; of the others the highest are left out first."""

    title: str
    rank: int = 0
    right: bool = False


def terminal_columns() -> int | None:
    """None where nobody counts them."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None
) -> Iterator[str]:
    """Lines, headings first."""
    widths = [
        max(len(column.title), *(len(row[n]) for row in rows), 0)
        for n, column in enumerate(columns)
    ]
    shown = list(range(len(columns)))
    if width is not None:
        shown = _fitting(columns, widths, width)
        spare = width - sum(widths[n] + len(GAP) for n in shown[1:])
        widths[0] = min(widths[0], max(spare, NAME_COLUMNS_MIN))
    for row in ([column.title for column in columns], *rows):
        yield GAP.join(_cell(row[n], widths[n], right=columns[n].right) for n in shown).rstrip()


def _fitting(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    shown = list(range(len(columns)))
    by_rank = sorted((n for n in shown if columns[n].rank), key=lambda n: -columns[n].rank)
    for n in by_rank:
        if sum(widths[each] + len(GAP) for each in shown) - len(GAP) <= width:
            break
        shown.remove(n)
    return shown


def _cell(text: str, width: int, *, right: bool) -> str:
    if len(text) > width:
        text = f"{text[: width - 1]}…"
    return text.rjust(width) if right else text.ljust(width)
