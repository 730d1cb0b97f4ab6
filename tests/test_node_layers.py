"""What the node's library may import: what every MicroPython has, and its engine less than that.

The engine and the framing touch no clock, socket, task or random source, so that the simulator runs
the very same files. Imports of types alone, and of `cpython.py`, are for other machines.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
LIBRARY = REPOSITORY / "firmware" / "mqttsn"
PURE = {"engine.py", "framing.py"}
PURE_MODULES = {"struct", "micropython"}
MODULES = PURE_MODULES | {
    *("asyncio", "binascii", "errno", "random", "select", "socket", "time"),
}
FOR_TYPES = {"typing", "collections.abc"}


def breaches(name: str, source: str) -> Iterator[str]:
    allowed = PURE_MODULES if name in PURE else MODULES
    tree = ast.parse(source)
    typed = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""] if node.level == 0 else []
            if name in PURE and node.level and node.module != "cpython":
                yield f"{name}:{node.lineno}: pure, and imports .{node.module}"
        for module in modules:
            if module not in allowed and not (module in FOR_TYPES and id(node) in typed):
                yield f"{name}:{node.lineno}: no node has {module}, or this part may not use it"


def test_the_library_imports_only_what_it_may() -> None:
    sources = [path for path in LIBRARY.glob("*.py") if path.name != "cpython.py"]
    assert len(sources) >= 10
    assert [each for path in sources for each in breaches(path.name, path.read_text())] == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("engine.py", "import time"),
        ("engine.py", "from .client import Client"),
        ("framing.py", "def late():\n    import random"),
        ("client.py", "import dataclasses"),
        ("client.py", "import typing"),
        ("udp.py", "from gateway import frames"),
    ],
)
def test_a_planted_breach_is_found(name: str, source: str) -> None:
    (found,) = breaches(name, source)
    assert found.startswith(f"{name}:")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("engine.py", "from struct import pack_into\nfrom .cpython import const"),
        ("engine.py", "if TYPE_CHECKING:\n    from typing import Any"),
        ("udp.py", "from select import poll\nfrom .cpython import const"),
    ],
)
def test_what_nodes_have_is_free(name: str, source: str) -> None:
    assert list(breaches(name, source)) == []
