"""`python -m tests.dtls_clients [NAME ...]` builds the clients, runs the suite with them and prints
the table of docs/security.md.
"""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import pytest

from tests.dtls_clients.building import build_all
from tests.dtls_clients.clients import CLIENTS

SUITE = Path(__file__).parent / "test_dtls_clients.py"


class Recorder:
    """A plugin of pytest's: the result of each client with each suite."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        case = report.nodeid.partition("[")[2].removesuffix("]")
        if report.when == "call" or report.outcome != "passed":
            words = {"passed": "yes", "failed": "**no**", "skipped": "not run"}
            self.results[case] = words[report.outcome]


def table(results: dict[str, str]) -> str:
    suites = list(dict.fromkeys(suite for client in CLIENTS for suite in client.suites))
    rows = [
        f"| {datetime.datetime.now(datetime.UTC).date()} | {' | '.join(suites)} |",
        f"| --- |{' :-: |' * len(suites)}",
    ]
    for client in CLIENTS:
        cells = [
            results.get(f"{client.name}-{suite}", "not run") if suite in client.suites else ""
            for suite in suites
        ]
        rows.append(f"| {client.title} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def main(names: list[str]) -> int:
    """pytest's exit code."""
    unknown = set(names) - {each.name for each in CLIENTS}
    if unknown:
        sys.stderr.write(f"no such client: {', '.join(sorted(unknown))}\n")
        return 2
    build_all(names)
    recorder = Recorder()
    wanted = ["-k", " or ".join(names)] if names else []
    code = pytest.main([str(SUITE), "-p", "no:cacheprovider", *wanted], plugins=[recorder])
    sys.stdout.write(table(recorder.results))
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
