"""What a Python file imports, read from its syntax tree: nothing is executed."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Import:
    module: str  # absolute, dotted
    line: int


def from_import(node: ast.ImportFrom, package: list[str]) -> Iterator[Import]:
    """`from x import y` names y as well: it may be a module of x."""
    above = package[: len(package) - node.level + 1] if node.level else []
    module = ".".join([*above, *([node.module] if node.module else [])])
    for alias in node.names:
        yield Import(f"{module}.{alias.name}", node.lineno)


def by_name_at_run_time(node: ast.Call) -> Iterator[Import]:
    called = getattr(node.func, "attr", getattr(node.func, "id", None))
    if called in ("import_module", "__import__") and node.args:
        name = node.args[0]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield Import(name.value, node.lineno)


def imports_of(path: Path, root: Path) -> tuple[Import, ...]:
    """Several rules ask for all of them: a file is read once, unless it changes."""
    return _imports_of(path, root, path.stat().st_mtime_ns)


@cache
def _imports_of(path: Path, root: Path, _changed_at: int) -> tuple[Import, ...]:
    return tuple(_read(path, root))


def _read(path: Path, root: Path) -> Iterator[Import]:
    package = list(path.relative_to(root).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        match node:
            case ast.Import():
                for alias in node.names:
                    yield Import(alias.name, node.lineno)
            case ast.ImportFrom():
                yield from from_import(node, package)
            case ast.Call():
                yield from by_name_at_run_time(node)
