"""The job as its user runs it: a process of its own, with Java and workers below it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from hil.rig.logged_process import LoggedProcess


def spark_home() -> str:
    (home,) = find_spec("pyspark").submodule_search_locations  # type: ignore[union-attr,misc]
    return home


class JobProcess(LoggedProcess):
    """`python -m spark_ingest run`."""

    def __init__(
        self,
        lake: Path,
        *arguments: str,
        master: str = "local[2,4]",
        trigger_s: float = 0.2,
        extra_config: str = "",
    ) -> None:
        super().__init__(lake.parent / "job.log")
        self.config_path = lake.parent / "job.toml"
        self.config_path.write_text(
            f'[lake]\npath = "{lake}"\n[spark]\nmaster = "{master}"\ntrigger_s = {trigger_s}\n'
            + extra_config,
            encoding="utf-8",
        )
        self._arguments: Sequence[str] = arguments

    def start(self) -> None:
        command = [sys.executable, "-m", "spark_ingest", "run", "--config", str(self.config_path)]
        # Executors of a `local-cluster` are started from there.
        self.launch([*command, *self._arguments], environment={"SPARK_HOME": spark_home()})

    def below(self, word: str) -> list[int]:
        """Processes that it has started, or they, with this word in their command."""
        parents: dict[int, int] = {}
        named: set[int] = set()
        for folder in Path("/proc").iterdir():
            if not folder.name.isdecimal():
                continue
            try:
                stat = (folder / "stat").read_text()
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, UnicodeDecodeError):
                continue
            parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
            if word in command:
                named.add(int(folder.name))
        return sorted(pid for pid in named if self._is_below(pid, parents))

    def kill_below(self, word: str) -> int:
        """How many were killed."""
        killed = 0
        for pid in self.below(word):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed += 1
        return killed

    def _is_below(self, pid: int, parents: dict[int, int]) -> bool:
        while pid in parents and pid != self.pid:
            pid = parents[pid]
        return pid == self.pid and pid != 0
