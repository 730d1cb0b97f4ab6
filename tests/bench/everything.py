"""All parts of the benchmark, one after the other: what `make bench` runs.

    python -m tests.bench.everything [--quick] [--write-docs] [--json FOLDER]

A part that fails does not keep the others from being measured; it is told at the end.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.bench import __main__ as matrix
from tests.bench import growth, load_curve, sleepers, where
from tests.bench.part import EXIT_INTERRUPTED, EXIT_OK, say

# In the order of the sections in the document.
PARTS: Mapping[str, Callable[[Sequence[str]], int]] = {
    "bench": matrix.main,
    "load-curve": load_curve.main,
    "growth": growth.main,
    "where": where.main,
    "sleepers": sleepers.main,
}


def main(words: Sequence[str], parts: Mapping[str, Callable[[Sequence[str]], int]] = PARTS) -> int:
    asked = _parser().parse_args(words)
    common = [
        *(["--quick"] if asked.quick else []),
        *(["--write-docs"] if asked.write_docs else []),
    ]
    worst, failed = EXIT_OK, []
    for name, run in parts.items():
        kept = []
        if asked.json is not None:
            asked.json.mkdir(parents=True, exist_ok=True)
            kept = ["--json", str(asked.json / f"{name}.json")]
        began = time.monotonic()
        code = run([*common, *kept])
        say(f"{name}: {time.monotonic() - began:.0f} s, exit code {code}")
        if code == EXIT_INTERRUPTED:
            return code
        if code != EXIT_OK:
            failed.append(name)
            worst = max(worst, code)
    if failed:
        say(f"not all could be measured: {' '.join(failed)}")
    return worst


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.everything",
        description="Measures everything. Takes half an hour, and wants the machine for itself.",
        epilog="Parts: " + " ".join(PARTS),
    )
    parser.add_argument("--quick", action="store_true", help="to see that all of it works")
    parser.add_argument(
        "--write-docs", action="store_true", help="write docs/performance.md and docs/images"
    )
    parser.add_argument("--json", type=Path, metavar="FOLDER", help="write all figures there")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
