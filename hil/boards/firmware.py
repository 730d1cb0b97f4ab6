"""What lies on boards: made by the firmware's own builds, run as programs, with a sensor that
counts in the place of one that measures.

So every reading shows which it is and whether it is whole: of `node` by the sequence number of its
store, and a number with its check; of `tiny` by a counter and its check in one number.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hil.boards.board import Node
from hil.boards.errors import BoardError

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD_S_MAX = 120.0
NODE, TINY = "node", "tiny"
TINY_CHECKS = 8

# For MicroPython, in /drivers of the board. `heap` is what is in use, in all of the application's
# modules, at the moment of measuring.
COUNTED = """\
from gc import collect, mem_alloc, mem_free
from random import getrandbits


class Sensor:
    def __init__(self, spec, board):
        collect()
        print("heap", mem_alloc(), mem_free())

    def start(self):
        return 0

    def read(self):
        x = getrandbits(20)
        return [("x", "", x, 0), ("check", "", x * 7919 % 10007, 0)]
"""

# In the place of the function of the same name in tiny.py. The file keeps the count over a reset.
TINY_MEASURE = f"""
def measure() -> int:
    count = 0
    try:
        file = open("n")
        count = int(file.read())
        file.close()
    except (OSError, ValueError):
        pass
    file = open("n", "w")
    file.write(str(count + 1))
    file.close()
    return (count + 1) * {TINY_CHECKS} + (count + 1) * 5 % {TINY_CHECKS}
"""

_building = threading.Lock()


def node_files(shelf: Path, node: Node, others: Mapping[str, Any]) -> dict[str, bytes]:
    """By name on the board. `others`: settings beside those that a scenario knows."""
    files = _built_node(shelf)
    settings = {
        "id": node.id,
        "topic": node.topic,
        "interval_s": 5,
        "listen_every": 1,
        "retry_ms": node.retry_ms,
        "budget_s": node.budget_s,
        "log_level": 7,
        "sensors": [{"kind": "drivers.counted", "name": "counted"}],
        **others,
    }
    files["settings.json"] = json.dumps(settings).encode()
    files["drivers/counted.py"] = COUNTED.encode()
    return files


def node_command(number: int) -> tuple[str, bytes]:
    """Settings that change nothing, each time others: where, behind the topic, and what."""
    return "/set/settings", json.dumps({"report_s": number}).encode()


def tiny_command(number: int) -> tuple[str, bytes]:
    """No number of seconds, so that nothing follows from it."""
    return "/set", b"hil %d" % number


def firmware_hash(files: Mapping[str, bytes]) -> str:
    """Of what is the same on all boards of its kind."""
    common = hashlib.sha256()
    for name in sorted(files):
        if not name.endswith(".json"):
            common.update(f"{name} {hashlib.sha256(files[name]).hexdigest()}\n".encode())
    return common.hexdigest()[:16]


def _built_node(shelf: Path) -> dict[str, bytes]:
    """Once for a campaign."""
    folder = shelf / "node-firmware"
    with _building:
        if not folder.exists():
            made = shelf / "node-made"
            _run("firmware.image", REPOSITORY, "--into", made)
            (made / "node").rename(folder)
    return _files_in(folder)


def tiny_files(shelf: Path, folder: Path, node: Node) -> dict[str, bytes]:
    """`main.py` and `tiny` for a board's file system, `script.bin` for its flash."""
    sources = _counting_sources(shelf)
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "CLIENT_ID": node.id,
        "TOPIC": node.topic,
        "COMMANDS": f"{node.topic}/set",
        "INTERVAL_S": 0,
        "RETRY_MS": node.retry_ms,
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    made = folder / "made"
    _run("firmware.tiny.build", sources, "--into", made, "--settings", folder / "settings.json")
    return _files_in(made)


def tiny_hash(shelf: Path) -> str:
    source = _counting_sources(shelf) / "firmware" / "tiny" / "tiny.py"
    return hashlib.sha256(source.read_bytes()).hexdigest()[:16]


def _counting_sources(shelf: Path) -> Path:
    copied = shelf / "tiny-sources"
    with _building:
        if not copied.exists():
            half = shelf / "tiny-copied"
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPOSITORY / "firmware", half / "firmware", ignore=ignored)
            source = half / "firmware" / "tiny" / "tiny.py"
            source.write_text(counting(source.read_text(encoding="utf-8")), encoding="utf-8")
            half.rename(copied)
    return copied


def counting(source: str) -> str:
    """The text of tiny.py with another `measure`."""
    tree = ast.parse(source)
    (measure,) = ast.parse(TINY_MEASURE).body
    found = [
        at
        for at, node in enumerate(tree.body)
        if isinstance(node, ast.FunctionDef) and node.name == "measure"
    ]
    if len(found) != 1:
        raise BoardError("firmware/tiny/tiny.py has no function `measure` to put a counter into")
    tree.body[found[0]] = measure
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _run(module: str, folder: Path, *arguments: object) -> None:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    path = {"PYTHONPATH": str(folder)}
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **path},
        capture_output=True,
        text=True,
        timeout=BUILD_S_MAX,
        check=False,
    )
    if ended.returncode != 0:
        raise BoardError(f"python -m {module} failed: {(ended.stderr or ended.stdout).strip()}")


def _files_in(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
