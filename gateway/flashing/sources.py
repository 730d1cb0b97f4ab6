"""Where the firmware lies: below this folder in an installed Tidegate, else in the repository."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent
PLACES = (_HERE / "nodes" / "firmware", _HERE.parents[1] / "firmware")


def firmware_folder() -> Path:
    return next((place for place in PLACES if (place / "boards").is_dir()), PLACES[0])
