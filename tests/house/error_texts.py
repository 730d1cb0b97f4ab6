"""The sentences of the gateway that a person may get to see, gathered from its code.

They are what is logged as a warning or an error, printed as an error on the command line, and
what is raised with a sentence. Of each the longest piece between two values is taken: by that a
person would search for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.literals import text_of

LOGGED = {"warning", "error", "exception", "critical"}
# Raised with a sentence that somebody reads. MalformedFrame and the like are a peer's, and counted.
RAISED = {
    "AdminError",
    "BrokerFailure",
    "CannotError",
    "DemoError",
    "JournalError",
    "LimitError",
    "LinkError",
    "NoAnswerError",
    "RefusedError",
    "SignInError",
    "StateError",
}
# Whose functions return them.
SENTENCES = {
    "admin/conditions.py",
    "admin/http/hosts.py",
    "config/warnings.py",
    "transports/broker/failures.py",
    "host/causes.py",
    "host/limits.py",
    "transports/serial/faults.py",
    "core/mqtt/session.py",
    "packets/codec.py",
}
# `tidegate flash` speaks to whoever sits before it, and docs/flashing.md has what it says.
LEFT_OUT = ("cli/flash/", "flashing/")
PIECE_LENGTH_MIN = 10
_VALUES = re.compile(r"%[-0-9.]*[a-z]|\{\}")


@dataclass(frozen=True, slots=True)
class Said:
    where: str
    piece: str


def said_in(root: Path, folder: Path) -> Iterator[Said]:
    """In the order of the files; what is too short to be searched for is left out."""
    for path in sorted(folder.rglob("*.py")):
        name = str(path.relative_to(folder))
        if name.startswith(LEFT_OUT):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            for text in _sentences_of(node, returns=name in SENTENCES):
                piece = max(_VALUES.split(text), key=len).strip(" :;,.()'")
                if len(piece) >= PIECE_LENGTH_MIN:
                    yield Said(f"{path.relative_to(root)}:{getattr(node, 'lineno', 0)}", piece)


def _sentences_of(node: ast.AST, *, returns: bool) -> Iterator[str]:
    if isinstance(node, ast.Call) and (_is_logged(node) or _is_raised(node)):
        yield from _texts(node.args)
    elif returns and isinstance(node, ast.Return | ast.Tuple) and node is not None:
        parts = node.elts if isinstance(node, ast.Tuple) else [node.value]
        yield from (text for text in _texts(parts) if " " in text)
    elif returns and isinstance(node, ast.Call) and _is_drop(node):
        yield from _texts(node.args)


def _is_logged(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in ("print_error", "add_problem")
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return False
    return function.value.id in ("log", "_log") and function.attr in LOGGED


def _is_raised(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in RAISED


def _is_drop(call: ast.Call) -> bool:
    """Why the upstream session gives a connection up."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "_drop"


def _texts(nodes: Iterable[ast.AST | None]) -> Iterator[str]:
    yield from (text for node in nodes if (text := text_of(node, "{}")) is not None)
