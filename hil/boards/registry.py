"""The kinds of boards by name: what is in the folder `kinds` is found, and needs no other place.

A file there has `KIND`, of hil.boards.board.Kind; its name is what `kind` in bench.toml says.
"""

from __future__ import annotations

import importlib
import pkgutil

from hil.boards import kinds as package
from hil.boards.board import Kind


def kinds() -> dict[str, Kind]:
    """By name."""
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    found = [importlib.import_module(f"{package.__name__}.{name}").KIND for name in names]
    return {kind.name: kind for kind in found}
