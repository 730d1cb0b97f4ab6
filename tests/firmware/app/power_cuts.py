"""A board whose power goes at any instruction, again and again."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from hil.boards.reset_causes import CAUSES, POWER_ON
from tests.firmware.app.conftest import HEAP

REPOSITORY = Path(__file__).resolve().parents[3]
# wasmtime keeps a few open folders of each interpreter that did not come to its end.
LIVES_OF_A_PROCESS = 150
IMPORTS_ONLY = "import loader.start, a.app.start, a.app.given"


@dataclass(frozen=True, slots=True)
class BoardRun:
    how: str
    fuel: int  # instructions
    output: str


class Lives:
    """Reset cause and RTC memory are carried from life to life."""

    def __init__(self, flash: Path) -> None:
        self._flash = flash
        self._cause, self._rtc_memory = POWER_ON, ""
        self._lived = 0
        self._process = self._started()

    def run_program(self, fuel: int = 0, program: str = "import main") -> BoardRun:
        """`fuel`: instructions until the power goes; 0: it stays."""
        if self._lived >= LIVES_OF_A_PROCESS:
            self._end()
            self._process, self._lived = self._started(), 0
        self._lived += 1
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"fuel": fuel, "program": program}
        asked |= {"cause": self._cause, "rtc_memory": self._rtc_memory}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        self._rtc_memory = told.pop("rtc_memory")
        self._cause = CAUSES.get(told["how"], POWER_ON)
        return BoardRun(**told)

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.firmware.app.many_lives", str(self._flash), HEAP],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()
