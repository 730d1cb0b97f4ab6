"""A board whose power goes at any instruction, again and again."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.firmware.app.conftest import HEAP

REPOSITORY = Path(__file__).resolve().parents[3]
IMPORTS_ONLY = "import loader.start, a.app.start"


@dataclass(frozen=True, slots=True)
class Life:
    how: str
    fuel: int  # instructions
    output: str


class Lives:
    def __init__(self, flash: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.firmware.app.many_lives", str(flash), HEAP],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def live(self, fuel: int = 0, program: str = "import main") -> Life:
        """`fuel`: instructions until the power goes; 0: it stays."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"fuel": fuel, "program": program}) + "\n")
        self._process.stdin.flush()
        return Life(**json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
