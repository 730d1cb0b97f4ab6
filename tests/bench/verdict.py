"""How a cost grows with a number, by what was measured.

**flat**: at the dearest place at most FLAT_MAX times what it costs at the cheapest one before it;
caches of the processor take about that much. **logarithmic**: no tenfold makes it dearer than
TENFOLD_MAX times; a cost of b log n grows from 10,000 to 100,000 by a quarter. **linear**: anything
dearer; a cost of b n grows tenfold by each tenfold.
"""

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise
from math import log10

FLAT_MAX = 1.3
TENFOLD_MAX = 1.5


class Growth(Enum):
    FLAT = "flat"
    LOGARITHMIC = "logarithmic"
    LINEAR = "linear"


def whole_ratio(costs: Sequence[tuple[float, float]]) -> float:
    """By how much the largest number is dearer than the smallest."""
    ordered = sorted(costs)
    return ordered[-1][1] / ordered[0][1]


def worst_tenfold(costs: Sequence[tuple[float, float]]) -> float:
    """By how much the cost grows for ten times the number, where that is most."""
    steps = (
        log10(after / before) / log10(more / number)
        for (number, before), (more, after) in pairwise(sorted(costs))
    )
    return float(10 ** max(steps))


def growth(costs: Sequence[tuple[float, float]]) -> Growth:
    """`costs`: pairs of a number and what one thing costs there; two at least."""
    cheapest, dearest = float("inf"), 1.0
    for _, cost in sorted(costs):
        cheapest = min(cheapest, cost)
        dearest = max(dearest, cost / cheapest)
    if dearest <= FLAT_MAX:
        return Growth.FLAT
    return Growth.LOGARITHMIC if worst_tenfold(costs) <= TENFOLD_MAX else Growth.LINEAR
