"""Types of what boards load, checked by pyright against the stubs of three ports of MicroPython.

    python -m tests.firmware.board_types [--stubs FOLDER]

The sources also run on CPython, by imports that a board never takes; those are left out first, so
that what is checked is what a board sees. Needs pyright (npm or pip) on the search path; the stubs
are installed by pip into the folder when they are not there. mypy checks the rest, strictly.
"""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "firmware"
PACKAGES = ("app", "loader", "mqttsn")
FOR_CPYTHON = "cpython.py"
PORTS = ("esp32", "rp2", "unix")
STUBS_VERSION = "1.29.0.post1"
# What a port has not, and its boards do not load: the file is left out there.
NOT_ON = {"unix": {"app/board.py", "app/start.py", "loader/start.py"}}
EXIT_UNAVAILABLE = 69


class OnBoard(ast.NodeTransformer):
    """Of `try: ... except ImportError: ...` at the top the first half."""

    def visit_Try(self, node: ast.Try) -> ast.AST | list[ast.stmt]:
        kinds = [ast.unparse(each.type) for each in node.handlers if each.type]
        return node.body if "ImportError" in kinds else node


def as_on_board(text: str) -> str:
    return ast.unparse(ast.fix_missing_locations(OnBoard().visit(ast.parse(text))))


def write_sources(into: Path, port: str) -> None:
    for package in PACKAGES:
        for path in (SOURCES / package).rglob("*.py"):
            name = path.relative_to(SOURCES).as_posix()
            if path.name == FOR_CPYTHON or name in NOT_ON.get(port, set()):
                continue
            target = into / "slot" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(as_on_board(path.read_text(encoding="utf-8")), encoding="utf-8")


def stubs_of(port: str, folder: Path) -> Path:
    """Installed apart: they have modules named as those of the standard library."""
    found = folder / port
    if not found.exists():
        package = f"micropython-{port}-stubs=={STUBS_VERSION}"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(found)]
        subprocess.run([*command, package], check=True)
    return found.resolve()


def findings(pyright: str, port: str, stubs: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        write_sources(Path(folder), port)
        config = {
            "include": ["slot"],
            "stubPath": str(stubs),
            "typeshedPath": str(stubs),
            "pythonVersion": "3.11",
            "reportMissingModuleSource": False,
        }
        Path(folder, "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
        command = [pyright, "--outputjson", "-p", folder]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        found = json.loads(ended.stdout)["generalDiagnostics"]
    return [
        f"{each['file'].partition('/slot/')[2]}: {each['message']}"
        for each in found
        if each["severity"] == "error" and "/slot/" in each["file"]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.firmware.board_types")
    parser.add_argument("--stubs", type=Path, default=REPOSITORY / "build" / "stubs")
    asked = parser.parse_args()
    pyright = shutil.which("pyright")
    if pyright is None:
        sys.stderr.write(
            "types not checked: no pyright (npm install pyright, pip install pyright)\n"
        )
        return EXIT_UNAVAILABLE
    errors = 0
    for port in PORTS:
        found = findings(pyright, port, stubs_of(port, asked.stubs))
        errors += len(found)
        sys.stdout.write(
            f"{port}: {len(found)} errors\n" + "".join(f"  {each}\n" for each in found)
        )
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
