"""One part of the examination: what was seen, for people and for programs, and what it means."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.cli.doctor.findings import Finding
from gateway.cli.sources import USUAL_PATH
from gateway.config import Configuration

SERVICE = "tidegate"


@dataclass(slots=True)
class Section:
    """`facts` are for --json; `lines` what and how it is."""

    name: str
    lines: list[tuple[str, str]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Examined:
    """The gateway that is examined. `config_file` is None if there is none."""

    configuration: Configuration
    config_file: Path | None

    def edit(self, key: str) -> str:
        """The command that opens the place where a key is, or could be, set."""
        origin = self.configuration.origins.get(key)
        if origin is not None and origin.line is not None:
            return edit_command(Path(origin.source), origin.line, origin.column or 1)
        return edit_command(self.config_file or USUAL_PATH)


def edit_command(path: Path, line: int | None = None, column: int = 1) -> str:
    """By the editor that Debian and Raspberry Pi OS bring."""
    place = "" if line is None else f"+{line},{column} "
    return f"sudo nano {place}{shlex.quote(str(path))}"
