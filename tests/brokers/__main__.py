"""`python -m tests.brokers install [NAME ...]` installs brokers; `run [NAME ...]` installs them,
runs the suite on them, and writes docs/brokers.md; `document` writes it of the last run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from tests.brokers import document, results
from tests.brokers.adapters import BROKERS
from tests.brokers.install import install_all

SUITE = Path(__file__).parent / "test_brokers.py"


def run(names: list[str]) -> int:
    """pytest's exit code."""
    install_all(names)
    recorder = results.Recorder()
    wanted = ["-k", " or ".join(f"[{name}]" for name in names)] if names else []
    options = ["-m", "brokers or not brokers", "-p", "no:cacheprovider", *wanted]
    code = pytest.main([str(SUITE), *options], plugins=[recorder])
    results.save(recorder.cells)
    document.write(results.load())
    sys.stderr.write(f"{document.DOCUMENT} is written\n")
    return int(code)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.brokers", description=__doc__)
    parser.add_argument("verb", choices=("install", "run", "document"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="only this broker")
    given = parser.parse_args(arguments)
    unknown = set(given.names) - {each.name for each in BROKERS}
    if unknown:
        parser.error(f"no such broker: {', '.join(sorted(unknown))}")
    if given.verb == "run":
        return run(given.names)
    if given.verb == "install":
        install_all(given.names)
    else:
        document.write(results.load())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
