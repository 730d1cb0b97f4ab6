"""A real Prometheus on 127.0.0.1: Debian's, installed or as .ci/setup-docs.sh unpacks it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from hil.rig.logged_process import LoggedProcess
from hil.rig.mosquitto import free_tcp_port
from tests.docs.files import DOCS_PROGRAMS

START_S_MAX = 60


class Prometheus(LoggedProcess):
    """`config` is the text of its configuration, with rules by their full paths."""

    def __init__(self, folder: Path, config: str) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder / "prometheus.log")
        program = shutil.which("prometheus") or shutil.which("prometheus", path=DOCS_PROGRAMS)
        if program is None:
            pytest.skip("not run: prometheus is missing (make test brings it, .ci/setup-docs.sh)")
        self._program, self._folder = program, folder
        self._port = free_tcp_port()
        (folder / "prometheus.yml").write_text(config, encoding="utf-8")

    def start(self) -> None:
        self.launch(
            [
                self._program,
                f"--config.file={self._folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
        )
        self.wait_for_log("Server is ready to receive web requests", START_S_MAX)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now."""
        found = self._asked("query", query=expression)["result"]
        assert isinstance(found, list)
        return found

    def targets(self) -> dict[str, str]:
        """What there is to scrape, by its job: up, down, or unknown."""
        return {
            each["labels"]["job"]: each["health"]
            for each in self._asked("targets")["activeTargets"]
        }

    def rules(self) -> dict[str, dict[str, Any]]:
        """Each alert by its name, with its state and what it last failed by."""
        return {
            rule["name"]: rule
            for group in self._asked("rules")["groups"]
            for rule in group["rules"]
        }

    def _asked(self, path: str, **parameters: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urlencode(parameters)}"
        with urlopen(url, timeout=200) as answer:
            said = json.load(answer)
        assert said["status"] == "success", said
        found: dict[str, Any] = said["data"]
        return found
