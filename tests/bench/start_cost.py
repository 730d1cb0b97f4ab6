"""What a start costs, in figures.

    python -m tests.bench.start_cost

The budgets are in tests/app/test_start_costs.py. The best of several times, as machines are shared;
the worst for memory.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support.starting import OURS, seconds_of_imports, starts

TRIES = 10


def main() -> None:
    imports_s, asyncio_s = (seconds_of_imports(each, TRIES) for each in (OURS, "asyncio"))
    with tempfile.TemporaryDirectory() as folder:
        found = list(starts(Path(folder), TRIES))
    ready_s = sorted(each.ready_s for each in found)
    for name, value in (
        ("imports of `tidegate run`", f"{imports_s * 1e3:.0f} ms of processor"),
        ("of these asyncio", f"{asyncio_s * 1e3:.0f} ms"),
        ("start to READY, best", f"{ready_s[0] * 1e3:.0f} ms"),
        ("start to READY, median", f"{ready_s[len(ready_s) // 2] * 1e3:.0f} ms"),
        ("RSS when ready", f"{max(each.rss_kib for each in found) / 1024:.1f} MiB"),
        ("RSS after scrapes", f"{max(each.rss_scraped_kib for each in found) / 1024:.1f} MiB"),
    ):
        sys.stdout.write(f"{name:<28}{value}\n")


if __name__ == "__main__":
    main()
