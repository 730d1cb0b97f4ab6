"""Tables for people: as wide as the terminal, whole in a file or a pipe.

What does not fit is made to: names are cut in their middle, the longest first and no further than
their column allows; then columns are left out, those that matter least first.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

GAP = "  "
NAME_COLUMNS_MIN = 20


@dataclass(frozen=True, slots=True)
class Column:
    """`rank` 0 always stays; of the others the highest are left out first. `is_name`: it may be
    cut to NAME_COLUMNS_MIN.
    """

    title: str
    rank: int = 0
    right: bool = False
    is_name: bool = False


def terminal_columns() -> int | None:
    """None where nobody counts them."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None
) -> Iterator[str]:
    """Lines, headings first."""
    widths = {
        n: max(len(column.title), *(len(row[n]) for row in rows), 0)
        for n, column in enumerate(columns)
    }
    if width is not None:
        widths = _fitting(columns, widths, width)
    for row in ([column.title for column in columns], *rows):
        cells = (_cell(row[n], room, right=columns[n].right) for n, room in widths.items())
        yield GAP.join(cells).rstrip()


def _fitting(columns: Sequence[Column], widths: dict[int, int], width: int) -> dict[int, int]:
    """The columns that stay, and their widths."""
    kept = dict(widths)
    while True:
        cut = _cut(columns, kept, width)
        dispensable = [n for n in kept if columns[n].rank]
        if _total(cut) <= width or not dispensable:
            return cut
        del kept[max(dispensable, key=lambda n: columns[n].rank)]


def _cut(columns: Sequence[Column], widths: dict[int, int], width: int) -> dict[int, int]:
    cut = dict(widths)
    while (excess := _total(cut) - width) > 0:
        names = sorted((n for n in cut if columns[n].is_name), key=lambda n: -cut[n])
        if not names or cut[names[0]] <= NAME_COLUMNS_MIN:
            return cut
        # Down to the second longest, so that all get shorter together.
        second = cut[names[1]] if len(names) > 1 else 0
        least = max(second, NAME_COLUMNS_MIN)
        step = 1 if cut[names[0]] == least else cut[names[0]] - least
        cut[names[0]] = max(cut[names[0]] - min(step, excess), NAME_COLUMNS_MIN)
    return cut


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + len(GAP) * (len(widths) - 1)


def _cell(text: str, width: int, *, right: bool) -> str:
    if len(text) > width:
        head = (width - 1) // 2
        text = f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
    return text.rjust(width) if right else text.ljust(width)
