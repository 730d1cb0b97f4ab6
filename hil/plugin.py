"""Scenarios as tests of pytest: each file of hil/scenarios on each board.

    pytest hil --bench hil/bench.toml
    pytest -p hil.plugin MY_SCENARIOS --bench MY_BENCH.toml -k wasi-udp

A board that is not there skips its tests with the reason, or fails them with `--require ID`.
`--hil-report FOLDER` writes the same report as `python -m hil`. Boards take turns: under xdist only
simulated ones may be shared out.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest._code.code import TerminalRepr

from hil.boards import inventory
from hil.boards.inventory import Listed
from hil.report.writing import write
from hil.rig.campaign import Campaign, absent, one_run, repeat_command
from hil.rig.run import Outcome, Result
from hil.scenarios import scenario
from hil.scenarios.mistakes import MistakesError
from hil.scenarios.scenario import Scenario

_campaign = pytest.StashKey[Campaign]()
_results = pytest.StashKey[list[Result]]()
_began_at = pytest.StashKey[float]()
_folder = pytest.StashKey["tempfile.TemporaryDirectory[str]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hil", "boards under test")
    group.addoption("--bench", type=Path, default=inventory.DEFAULT, help="which boards there are")
    group.addoption("--require", action="append", default=[], metavar="ID", help="must be there")
    group.addoption("--hil-seed", type=int, help="of all dice; default: another one each time")
    group.addoption("--hil-report", type=Path, metavar="FOLDER", help="a page, JUnit and JSON")


def pytest_configure(config: pytest.Config) -> None:
    try:
        boards = inventory.read(config.getoption("--bench"))
    except MistakesError as mistakes:
        raise pytest.UsageError(str(mistakes)) from None
    known = [board.spec.id for board in boards]
    for name in config.getoption("--require"):
        if name not in known:
            raise pytest.UsageError(f"--require: no board {name!r}; there are {', '.join(known)}")
    seed = config.getoption("--hil-seed")
    config.stash[_folder] = tempfile.TemporaryDirectory(prefix="hil-")
    folder = Path(config.stash[_folder].name)
    (folder / "shelf").mkdir()
    config.stash[_campaign] = Campaign(
        boards=boards,
        scenarios=[],
        seed=secrets.randbelow(10**9) if seed is None else seed,
        folder=folder,
        bench=config.getoption("--bench"),
        required=frozenset(config.getoption("--require")),
        keeps_all=False,
    )
    config.stash[_results] = []
    config.stash[_began_at] = time.monotonic()


def pytest_report_header(config: pytest.Config) -> str:
    return f"hil: seed {config.stash[_campaign].seed}"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    if file_path.suffix == ".toml" and file_path.parent.name.endswith("scenarios"):
        file: ScenarioFile = ScenarioFile.from_parent(parent, path=file_path)
        return file
    return None


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    folder, results = config.getoption("--hil-report"), config.stash[_results]
    if folder is None or not results:
        return
    files = {item.parent for item in session.items if isinstance(item, ScenarioItem)}
    scenarios = [file.scenario for file in files if isinstance(file, ScenarioFile)]
    given = config.stash[_campaign]
    campaign = Campaign(
        boards=given.boards,
        scenarios=sorted(scenarios, key=lambda one: one.name),
        seed=given.seed,
        folder=given.folder,
        bench=given.bench,
    )
    write(folder, campaign, results, time.monotonic() - config.stash[_began_at])


def pytest_unconfigure(config: pytest.Config) -> None:
    if _folder in config.stash:
        config.stash[_folder].cleanup()


class ScenarioFile(pytest.File):
    scenario: Scenario

    def collect(self) -> Iterator[ScenarioItem]:
        try:
            self.scenario = scenario.read(self.path)
        except MistakesError as mistakes:
            raise self.CollectError(str(mistakes)) from None
        for board in self.config.stash[_campaign].boards:
            item: ScenarioItem = ScenarioItem.from_parent(self, name=board.spec.id)
            item.board = board
            item.scenario = self.scenario
            yield item


class FailedError(Exception):
    """What the run did wrong."""


class ScenarioItem(pytest.Item):
    board: Listed
    scenario: Scenario

    def runtest(self) -> None:
        campaign = self.config.stash[_campaign]
        result = absent(campaign, self.board, self.scenario)
        if result is None:
            result = asyncio.run(one_run(campaign, self.board, self.scenario))
        self.config.stash[_results].append(result)
        if result.outcome is Outcome.FAILED:
            again = f"again: {repeat_command(campaign, result)}"
            raise FailedError("\n".join([*result.failures, again]))
        if result.outcome is not Outcome.PASSED:
            pytest.skip(f"{result.outcome}: {result.why}")

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> str | TerminalRepr:
        if isinstance(excinfo.value, FailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.scenario.name} on {self.board.spec.id}"
