"""No modules import each other, neither directly nor by way of others.

All imports count: those of a module, those inside `if TYPE_CHECKING`, which say that one module
knows the other's types, and those inside functions, which postpone a circle and do not remove it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.house.imports import imports_of

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("gateway", "firmware", "hil", "spark_ingest", "tests")

# Circles that are there for now, each with the reason. One that is gone must be removed here.
ALLOWED: dict[frozenset[str], str] = {}

Graph = Mapping[str, set[str]]


def import_graph(root: Path, packages: Iterable[str]) -> dict[str, set[str]]:
    """By module those that it imports, of these packages.

    A package stands for its __init__.py. To import a module is to import the packages above it as
    well, but for those that the importing module is in itself.
    """
    paths = {}
    for path in (path for package in packages for path in sorted((root / package).rglob("*.py"))):
        parts = path.relative_to(root).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        imported = {_module_of(each.module, paths) for each in imports_of(path, root)} - {""}
        above = {package for each in imported for package in _packages_of(each)}
        entered = {package for package in above if not module.startswith(f"{package}.")}
        graph[module] = (imported | (entered & paths.keys())) - {module}
    return graph


def _module_of(name: str, modules: Iterable[str]) -> str:
    """`gateway.frames.Publish` is of the module `gateway.frames`; what is not ours is of none."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def _packages_of(module: str) -> Iterator[str]:
    while module := module.rpartition(".")[0]:
        yield module


def circles(graph: Graph) -> Iterator[frozenset[str]]:
    """Tarjan's strongly connected components, of two modules or more."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> Iterator[frozenset[str]]:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                yield from visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            found = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(found) > 1:
                yield frozenset(found)

    for module in graph:
        if module not in order:
            yield from visit(module)


def shown(found: Iterable[frozenset[str]]) -> list[str]:
    return sorted(" <-> ".join(sorted(circle)) for circle in found)


def test_no_modules_import_each_other() -> None:
    found = set(circles(import_graph(REPOSITORY, PACKAGES)))
    assert shown(found - ALLOWED.keys()) == []
    assert shown(ALLOWED.keys() - found) == [], "gone: remove them from ALLOWED"


def test_every_module_is_in_the_graph_with_its_imports() -> None:
    graph = import_graph(REPOSITORY, PACKAGES)
    assert "gateway.core.effects" in graph["gateway.core.engine"]
    assert "firmware.app.talk" in graph["firmware.app.node"]  # a relative import
    assert "gateway.core.session.session" in graph["gateway.presence.standing"]
    assert "gateway.presence.catalogue" in graph["gateway.presence.documents"]  # for types alone
    assert "gateway.cli.asking" in graph["gateway.cli.flash.contact"]  # inside a function
    assert len(graph) > 1000


LAYERS = {
    "gateway/__init__.py": "",
    "gateway/shell.py": "from gateway.core import engine\n",
    "gateway/core/__init__.py": "",
    "gateway/core/engine.py": "from gateway.core.effects import Effect\nimport asyncio\n",
    "gateway/core/effects.py": "class Effect: ...\n",
}


def plant(root: Path, files: Mapping[str, str]) -> None:
    for name, source in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)


@pytest.mark.parametrize(
    ("path", "text", "circle"),
    [
        ("gateway/core/effects.py", "import gateway.shell\n", "core.effects core.engine shell"),
        ("gateway/core/effects.py", "from . import engine\n", "core.effects core.engine"),
        (
            "gateway/core/effects.py",
            "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    from gateway.core.engine import Engine\n",
            "core.effects core.engine",
        ),
        (
            "gateway/core/engine.py",
            "def late() -> None:\n    from gateway.shell import run\n",
            "core.engine shell",
        ),
        ("gateway/core/__init__.py", "from gateway.shell import run\n", "core shell"),
    ],
)
def test_a_planted_circle_is_found(tmp_path: Path, path: str, text: str, circle: str) -> None:
    plant(tmp_path, LAYERS | {path: LAYERS[path] + text})
    found = list(circles(import_graph(tmp_path, ["gateway"])))
    assert found == [{f"gateway.{name}" for name in circle.split()}]


def test_what_has_no_circle_is_not_found(tmp_path: Path) -> None:
    within = {"gateway/core/__init__.py": "from gateway.core.engine import Engine\n"}
    plant(tmp_path, LAYERS | within)
    assert list(circles(import_graph(tmp_path, ["gateway"]))) == []


def test_two_circles_are_two_and_what_leads_from_one_to_the_other_is_none() -> None:
    graph = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert shown(circles(graph)) == ["a <-> b", "d <-> e"]
