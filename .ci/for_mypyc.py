"""Sources as mypyc is given them: line by line as they are, but for what is slow or large there.

- The `__init__` of a dataclass: the one that @dataclass makes is not compiled.
- Class variables of a dataclass, which mypyc takes for fields.
- Constants, which it would look up by name.
- Classes that can be in no cycle.

And C as the compiler is given it, with a fault of mypyc's corrected.

What cannot be done is a `CompileError`, never a module that means something else.
"""

from __future__ import annotations

import ast
import re

# Of these there are very many, or one for every message, and none refers to what may refer to it:
# the collector of garbage need not know of them, and each is 16 bytes smaller.
ACYCLIC = (
    # The sessions' and what they hold
    "ClientQueue",
    "Egress",
    "Outbound",
    "Inbound",
    "QosTable",
    "Subscribing",
    "Topic",
    "TopicRegistry",
    "_Filter",
    "_Leaf",
    "RecentReading",
    "RecentReadings",
    "_Published",
    # Effects, and what they carry
    "Publication",
    "Finish",
    "Reading",
    "DeliveryComplete",
    "Message",
    "Peer",
    "Send",
    "ReadingsAcknowledged",
    "Store",
    "Transmit",
    "Outstanding",
)
CLASS = re.compile(r"\n\n((?:@.*\n)*class (\w+))")
FUTURE = "from __future__ import annotations\n\n"
FUTURE_AND_MARK = (
    "from __future__ import annotations; from typing import TYPE_CHECKING, Final\n"
    "if TYPE_CHECKING: from mypy_extensions import mypyc_attr\n"
)
# In C: the function that lets go of an object, and what is in it.
DEALLOC = re.compile(r"^static void\n\w+_dealloc\(.*\)\n\{\n(?:.*\n)*?\}\n", re.MULTILINE)
TRASHCAN = re.compile(r"^ *CPy_TRASHCAN_.*\n", re.MULTILINE)
CONSTANT = re.compile(r"^(?!OVERFLOW |[A-Z][A-Z0-9_]*_MAX )(_?[A-Z][A-Z0-9_]+|_?[a-z]\w*)( = |: )")
# What @dataclass may be told as well, without another `__init__` following from it.
WORDS = {"eq=False", "frozen=True", "slots=True", "unsafe_hash=True"}


class CompileError(Exception):
    """What went wrong, in a sentence."""


def prepared(text: str) -> str:
    """A source as mypyc is given it, each line where it was."""
    if FUTURE not in text:
        raise CompileError(f"no line and an empty one behind it: {FUTURE!r}")
    changed = marked(rewritten(with_constants(text)))
    return changed.replace(FUTURE, FUTURE_AND_MARK, 1)


def rewritten(text: str) -> str:
    """The same lines, but what of a @dataclass mypyc makes slow or does not understand.

    - The `__init__` that @dataclass makes is not compiled and costs several times as much: it is
      written out.
    - A `ClassVar` counts as a field: it is set behind the class.
    """
    lines = [*text.split("\n"), ""]  # one more, for a class at the end
    dataclasses = set()
    for node in ast.parse(text).body:
        if not isinstance(node, ast.ClassDef) or not (decorator := dataclass_decorator(node)):
            continue
        dataclasses.add(node.name)
        if any(ast.unparse(base) in dataclasses for base in node.bases):
            raise CompileError(f"class {node.name} has the fields of another one as well")
        behind = node.end_lineno or 0
        if any(lines[behind : behind + 2]):
            raise CompileError(f"no two empty lines behind class {node.name}")
        given = init_of(node)
        lines[behind : behind + 2] = [given or "", class_variables_out(lines, node)]
        if given is not None:
            at = node.decorator_list[0].lineno - 1
            lines[at] = with_word(lines[at], decorator, "init=False")
    return "\n".join(lines)


def dataclass_decorator(node: ast.ClassDef) -> str | None:
    """As it is written without its @; None for a class without it."""
    written = [ast.unparse(each) for each in node.decorator_list]
    if not any(re.match(r"dataclass\b", each) for each in written):
        return None
    _, _, words = written[0].removesuffix(")").partition("(")
    if len(written) > 1 or set(filter(None, words.split(", "))) - WORDS:
        raise CompileError(f"class {node.name} is more than a plain dataclass: {written}")
    return written[0]


def with_word(line: str, decorator: str, word: str) -> str:
    wanted = f"{decorator[:-1]}, {word})" if decorator.endswith(")") else f"{decorator}({word})"
    changed = line.replace(decorator, wanted)
    if changed == line:
        raise CompileError(f"`{line}` is not written as {decorator}")
    return changed


def class_variables_out(lines: list[str], node: ast.ClassDef) -> str:
    """What sets them, in a line; where they were set, nothing is any more."""
    sets = []
    for field in node.body:
        if (
            isinstance(field, ast.AnnAssign)
            and field.value is not None
            and is_class_variable(field)
        ):
            sets.append(f"{node.name}.{ast.unparse(field.target)} = {ast.unparse(field.value)}")
            lines[field.lineno - 1] = "    pass"
            for at in range(field.lineno, field.end_lineno or 0):
                lines[at] = ""
    return "; ".join(sets)


def init_of(node: ast.ClassDef) -> str | None:
    """In a line; None for a class that has one, or what makes a new value for each object."""
    parameters, sets = ["self"], []
    for field in node.body:
        if isinstance(field, ast.FunctionDef) and field.name in ("__init__", "__post_init__"):
            return None
        if not isinstance(field, ast.AnnAssign) or is_class_variable(field):
            continue
        default = field.value
        if isinstance(default, ast.Call) and ast.unparse(default.func) == "field":
            words = {word.arg: word.value for word in default.keywords}
            if "default_factory" in words:
                return None
            default = words.get("default")
        name = ast.unparse(field.target)
        given = "" if default is None else f" = {ast.unparse(default)}"
        parameters.append(f"{name}: {ast.unparse(field.annotation)}{given}")
        sets.append(f"self.{name} = {name}")
    if not sets:
        return None
    # Compiled, it may set what is frozen; only mypy has to be told.
    return f"    def __init__({', '.join(parameters)}) -> None: {'; '.join(sets)}  # type: ignore"


def is_class_variable(field: ast.AnnAssign) -> bool:
    return ast.unparse(field.annotation).startswith("ClassVar")


def marked(text: str) -> str:
    """The same lines, with the `ACYCLIC` classes marked as such."""

    def mark(found: re.Match[str]) -> str:
        return f"\n@mypyc_attr(acyclic=True)\n{found[1]}" if found[2] in ACYCLIC else found[0]

    return CLASS.sub(mark, text)


def without_trashcan(code: str) -> tuple[str, int]:
    """The same C, and of how many classes it was another one.

    Objects that are let go of within each other, fifty deep, are put aside in a list that goes
    through the collector's part of each. mypyc (2.4) does so with `ACYCLIC` ones as well, which
    have no such part: what lies before them in memory was written to.
    """
    count = 0

    def corrected(found: re.Match[str]) -> str:
        nonlocal count
        if "PyObject_GC_UnTrack(self);" in found[0]:
            return found[0]
        changed = TRASHCAN.sub("", found[0])
        count += changed != found[0]
        return changed

    return DEALLOC.sub(corrected, code), count


def with_constants(text: str) -> str:
    """The same lines, with constants of the module as such: else each use looks for them by name.

    Types, which have CapitalWords, are none. One that may be None is left alone, as mypyc makes C
    of it that is refused, and so are limits, which tests make smaller.
    """
    lines = text.split("\n")
    for node in ast.parse(text).body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            annotation = f": Final[{ast.unparse(node.annotation)}] = "
        elif isinstance(node, ast.Assign):
            annotation = ": Final = "
        else:
            continue
        at = node.lineno - 1
        found = CONSTANT.match(lines[at])
        if found and not annotation.endswith("| None] = "):
            _, _, value = lines[at].partition(" = ")
            lines[at] = f"{found[1]}{annotation}{value}"
    return "\n".join(lines)
