"""The unit for systemd and the user that it runs as, for an installation at a given place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

FILES = Path(__file__).parent / "files"
UNIT_FILE = FILES / "tidegate.service"
SYSUSERS_FILE = FILES / "tidegate.sysusers"
SERIAL_GROUPS = ("dialout", "plugdev", "uucp")  # the last is that of Arch
_GROUPS_LINE = "SupplementaryGroups=@GROUPS@\n"


def unit(command: Path, groups: Sequence[str]) -> str:
    """`command` starts Tidegate; a group that is not there would keep the unit from starting."""
    text = UNIT_FILE.read_text(encoding="utf-8").replace("@TIDEGATE@", _escaped(command))
    line = f"SupplementaryGroups={' '.join(groups)}\n" if groups else ""
    return text.replace(_GROUPS_LINE, line)


def sysusers(groups: Sequence[str]) -> str:
    lines = SYSUSERS_FILE.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("m ")]
    return "".join(kept) + "".join(f"m tidegate {group}\n" for group in groups)


def serial_groups(exists: Callable[[str], bool]) -> list[str]:
    return [name for name in SERIAL_GROUPS if exists(name)]


def _escaped(command: Path) -> str:
    """As a word of ExecStart=; see systemd.service(5)."""
    text = str(command).replace("\\", "\\\\").replace("%", "%%").replace("$", "$$")
    return f'"{text}"' if " " in text else text
