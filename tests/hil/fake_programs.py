"""Fakes of programs that switch and press real things. They note how they were called, and do what
a test has them do by a shell command; nothing of what the real ones check is checked here.
"""

from __future__ import annotations

import shlex
from pathlib import Path

FAKE = """#!/bin/sh
# A fake of {name}.
printf '%s\\n' "{name} $*" >> {notes}
{does}
"""


class FakePrograms:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._notes = folder / "calls"
        folder.mkdir(parents=True)
        self._notes.touch()

    def add(self, name: str, does: str = "true") -> str:
        """Its path."""
        path = self.folder / name
        path.write_text(FAKE.format(name=name, notes=shlex.quote(str(self._notes)), does=does))
        path.chmod(0o755)
        return str(path)

    @property
    def calls(self) -> list[str]:
        return self._notes.read_text().splitlines()
