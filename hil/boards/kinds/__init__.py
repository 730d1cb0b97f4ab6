"""The kinds of boards, a file for each: what is here is found, and needs no other place.

A file has `KIND`, of hil.boards.board.Kind; its name there is what `kind` in bench.toml says.
"""

from __future__ import annotations

import importlib
import pkgutil

from hil.boards.board import Kind


def kinds() -> dict[str, Kind]:
    """By name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    found = [importlib.import_module(f"{__name__}.{name}").KIND for name in names]
    return {kind.name: kind for kind in found}
