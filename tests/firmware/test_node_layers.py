"""What the node's library may import: what every MicroPython has, and its engine less than that.

The application's parts know `machine` and its like in one file only, and what is tested by itself
knows no clock. The engine and the framing touch no clock, socket, task or random source, so that
the simulator runs the very same files. Imports of types alone, and of `cpython.py`, are for other
machines.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
LIBRARY = REPOSITORY / "firmware" / "mqttsn"
PURE = {"engine.py", "framing.py"}
PURE_MODULES = {"struct", "micropython"}
MODULES = PURE_MODULES | {
    "asyncio",
    "binascii",
    "errno",
    "random",
    "select",
    "socket",
    "time",
}
WITH_KEYS = {"ccm.py", "protect.py"}
FOR_TYPES = {"typing", "collections.abc"}


APPLICATION = REPOSITORY / "firmware"
TIMELESS = {
    "clock.py",
    "given.py",
    "kept.py",
    "log.py",
    "ota.py",
    "senml.py",
    "settings.py",
    "store.py",
    "unpacking.py",
    "adc.py",
    "bme280.py",
    "ds18b20.py",
    "internal.py",
    "kinds.py",
    "simulated.py",
    "slots.py",
    "version.py",
}
TIMELESS_MODULES = PURE_MODULES | {"binascii", "cryptolib", "hashlib", "json", "random"}
OF_THE_BOARD = {"board.py": {"machine", "network", "onewire", "sys"}, "files.py": {"os"}}
# What calls the application, and the loader which is called by nobody.
STARTING = {"gc", "machine", "sys"}


def allowed_in(path: Path) -> set[str]:
    if path.name in TIMELESS:
        return TIMELESS_MODULES
    if path.name == "start.py":
        return STARTING
    return TIMELESS_MODULES | {"errno", "time"} | OF_THE_BOARD.get(path.name, set())


def breaches(name: str, source: str, allowed: set[str] | None = None) -> Iterator[str]:
    if allowed is None:
        allowed = PURE_MODULES if name in PURE else MODULES
        if name in WITH_KEYS:
            allowed = allowed | {"cryptolib", "hashlib", "os"}
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
                line = getattr(node, "lineno", 0)
                yield f"{name}:{line}: no node has {module}, or this part may not use it"


def test_the_library_imports_only_what_it_may() -> None:
    sources = [path for path in LIBRARY.glob("*.py") if path.name != "cpython.py"]
    assert len(sources) >= 10
    assert [each for path in sources for each in breaches(path.name, path.read_text())] == []


def test_the_application_imports_only_what_it_may() -> None:
    sources = [*APPLICATION.glob("app/**/*.py"), *APPLICATION.glob("loader/*.py")]
    assert len(sources) >= 20
    found = [breaches(path.name, path.read_text(), allowed_in(path)) for path in sources]
    assert [each for every in found for each in every] == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("store.py", "from time import ticks_ms"),
        ("bme280.py", "import machine"),
        ("node.py", "from machine import reset"),
        ("talk.py", "import network"),
        ("start.py", "import time"),
    ],
)
def test_a_planted_breach_in_the_application_is_found(name: str, source: str) -> None:
    (found,) = breaches(name, source, allowed_in(Path(name)))
    assert found.startswith(f"{name}:")


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
