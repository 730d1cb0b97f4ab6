"""Refuses to build Tidegate on a board that cannot run it; hatchling calls it (pyproject.toml).

pip, pipx and uv would else try to compile a package that has no build for it, and fail with what
that needs.
"""

import platform
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TOO_OLD = "armv6l"
SENTENCE = (
    "tidegate: this board (ARMv6: Raspberry Pi 1, Zero, Zero W) cannot run Tidegate: a package "
    "that it needs has no build for it. Any Raspberry Pi from 2 on, and the Zero 2 W, can."
)


class Board(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version, build_data
        if platform.machine() == TOO_OLD:
            raise SystemExit(SENTENCE)
