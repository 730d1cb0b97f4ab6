"""Types of what boards load, checked by pyright against the stubs of three ports of MicroPython.

    python -m tests.firmware.board_types

The sources also run on CPython, by imports that a board never takes; those are left out first, so
that what is checked is what a board sees. pyright and the stubs are brought by .ci/setup-types.sh,
which `make test` runs. mypy checks the rest, strictly.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "firmware"
PACKAGES = ("app", "loader", "mqttsn")
FOR_CPYTHON = "cpython.py"
PORTS = ("esp32", "rp2", "unix")
PYRIGHT = Path(sys.executable).with_name("pyright")
STUBS = Path(sys.prefix) / "board-stubs"
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


def why_not() -> str | None:
    """Why they cannot be checked here; None when they can."""
    absent = [path for path in (PYRIGHT, *(STUBS / port for port in PORTS)) if not path.exists()]
    if absent:
        return f"{absent[0]} is not there; `bash .ci/setup-types.sh` brings it, or says why not"
    asked = subprocess.run(
        [PYRIGHT, "--version"], capture_output=True, text=True, env=environment()
    )
    return None if asked.returncode == 0 else f"pyright does not run: {asked.stderr.strip()[-200:]}"


def environment() -> dict[str, str]:
    """It is the version of the lock file that is wanted, and nothing from the network."""
    return {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "PYRIGHT_PYTHON_GLOBAL_NODE": "0"}


def findings(port: str, sources: Path) -> list[str]:
    """Errors in what `write_sources` has written."""
    config = {
        "include": ["slot"],
        "stubPath": str(STUBS / port),
        "typeshedPath": str(STUBS / port),
        "pythonVersion": "3.11",
        "reportMissingModuleSource": False,
    }
    (sources / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    command = [str(PYRIGHT), "--outputjson", "-p", str(sources)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    told = json.loads(ended.stdout)
    assert told["summary"]["filesAnalyzed"] > 0, ended.stderr
    return [
        f"{each['file'].partition('/slot/')[2]}:{each['range']['start']['line'] + 1}: "
        f"{each['message']}"
        for each in told["generalDiagnostics"]
        if each["severity"] == "error" and "/slot/" in each["file"]
    ]


def main() -> int:
    reason = why_not()
    if reason is not None:
        sys.stderr.write(f"types not checked: {reason}\n")
        return EXIT_UNAVAILABLE
    errors = 0
    for port in PORTS:
        with tempfile.TemporaryDirectory() as folder:
            write_sources(Path(folder), port)
            found = findings(port, Path(folder))
        errors += len(found)
        lines = "".join(f"  {each}\n" for each in found)
        sys.stdout.write(f"{port}: {len(found)} errors\n{lines}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
