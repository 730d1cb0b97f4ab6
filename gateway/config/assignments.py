"""Single values from outside the file: `TIDEGATE_UPSTREAM__URL=...` and `--set upstream.url=...`.

Both give text, which each kind of value reads in its own way. Only the name of a variable or a key
appears in messages, because what stands behind it may be a password in the wrong place.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gateway.config.gathering import Gathering
from gateway.config.keys import ROOT
from gateway.config.kinds import MismatchError
from gateway.config.positions import key_parts
from gateway.config.problems import COMMAND_LINE, Origin
from gateway.config.schema import Key, Named, Node, Repeated, Table, known_keys
from gateway.config.spelling import KeyPath, shown

PREFIX = "TIDEGATE_"
SEPARATOR = "__"

_INDEX = re.compile(r"[0-9]{1,3}")


def gather_environment(environment: Mapping[str, str], gathering: Gathering) -> None:
    """Variables without a double underscore are left alone: Kubernetes makes TIDEGATE_PORT."""
    ours = {name: name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX)}
    split = {name: rest.lower().split(SEPARATOR) for name, rest in ours.items()}
    for name, parts in sorted(split.items(), key=lambda item: _order(item[1])):
        origin = Origin(f"environment {name}")
        if len(parts) == 1:
            _refuse_single_underscore(name, origin, gathering)
        elif isinstance(ROOT.part(parts[0]), Named):
            message = "expected in the file or by --set, as variables cannot spell every name"
            gathering.add_problem(origin, (parts[0],), message)
        else:
            _assign(parts, environment[name], origin, gathering)


def _refuse_single_underscore(name: str, origin: Origin, gathering: Gathering) -> None:
    for path in known_keys(ROOT):
        known = variable(path)
        if name == known.replace(SEPARATOR, "_"):
            gathering.add_problem(origin, path, f"did you mean {known}, with two underscores?")
            gathering.unclear.add(path)


def variable(path: KeyPath) -> str:
    return PREFIX + SEPARATOR.join(map(str, path)).upper()


def gather_overrides(overrides: Sequence[str], gathering: Gathering) -> None:
    assignments = []
    for override in overrides:
        key = key_parts(override)
        if key is None or not key[1].startswith("="):
            # Up to the equals sign only, as the value may be a secret.
            got = shown(override.partition("=")[0])
            message = f"expected KEY=VALUE, such as upstream.keep_alive_s=60, got {got}"
            gathering.add_problem(COMMAND_LINE, None, message)
        else:
            assignments.append((key[0], key[1].removeprefix("=")))
    for parts, text in sorted(assignments, key=lambda item: _order(item[0])):
        _assign(parts, text.strip(), COMMAND_LINE, gathering)


def _order(parts: Iterable[str]) -> list[tuple[int, str]]:
    """Entries of a list by number, because each must find the one before it; else as given."""
    return [(int(part), "") if _INDEX.fullmatch(part) else (0, part) for part in parts]


def _assign(parts: Sequence[str], text: str, origin: Origin, gathering: Gathering) -> None:
    node: Node = ROOT
    path: KeyPath = ()
    for part in parts:
        step = _step(node, path, part, origin, gathering)
        if step is None:
            return
        node, path = step
    match node:
        case Key():
            gathering.put(node, path, node.kind.from_text(text), origin, Path())
        case _:
            gathering.add_problem(origin, path, "expected the key of a single value below it")


def _step(
    node: Node, path: KeyPath, part: str, origin: Origin, gathering: Gathering
) -> tuple[Node, KeyPath] | None:
    """One part further down, or a problem and nothing."""
    match node:
        case Table():
            inner = node.part(part)
            if inner is not None:
                return inner, (*path, part)
            gathering.add_unknown_key(origin, node, (*path, part))
        case Named():
            try:
                node.names.read(part)
            except MismatchError as mismatch:
                gathering.add_problem(origin, (*path, part), f"{mismatch} as its name")
            else:
                return node.entry, (*path, part)
        case Repeated():
            index = int(part) if _INDEX.fullmatch(part) else None
            if index is not None and gathering.open_entry(node, path, index, origin):
                return node.entry, (*path, index)
            highest = gathering.highest_index(node, path)
            expected = f"expected a number up to {highest} after {node.name}"
            gathering.add_problem(origin, path, f"{expected}, got {shown(part)}")
        case Key():
            gathering.add_problem(
                origin, (*path, part), f"unknown key, {path[-1]} is a single value"
            )
    return None
