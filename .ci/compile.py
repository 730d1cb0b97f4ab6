"""Compiles with mypyc what every message goes through, for `tidegate run` (gateway/compiled.py).

    .venv/bin/python .ci/compile.py [--if-needed] [--jobs N]

Rules
- What is compiled are the very sources, but for `slots=True`: a compiled class has slots, and a
  dataclass that makes itself anew for them cannot be one.
- All of it is put in place at once, when it is whole: interrupted anywhere, what was there stays.
- A file for each module, so that a small board has the memory, and so that processors share them.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

try:
    # Before mypyc, which takes distutils otherwise; Python 3.12 has none.
    import setuptools  # noqa: F401 # isort: skip
    from mypyc.build import mypycify
except ImportError as error:
    sys.exit(f"compile: {error}; it comes with `make setup`, on 64-bit machines alone")

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from gateway.compiled import (  # noqa: E402
    LIST,
    PACKAGE,
    SUFFIX,
    VARIABLE,
    Form,
    digest,
    folder_of,
    found,
    list_text,
)

# What each message goes through, and the base classes of that: a compiled class has compiled bases.
# The rest is no faster for it, and larger in memory.
MODULES = {
    "": (
        "bequests",
        "downlink",
        "effects",
        "engine",
        "intake",
        "saved",
        "shell",
        "spilling",
        "uplink",
    ),
    "frames": ("codec", "fields", "layout", "messages", "shapes"),
    "journal": (
        *("backlog", "committer", "group", "journal", "ledger", "marks", "numbers", "placing"),
        *("reading", "records", "room", "segment", "volume"),
    ),
    "links": ("broker_socket", "datagrams", "mmsg", "outflow", "tick", "udp", "udp_socket"),
    "notices": ("board", "standing"),
    "routing": (
        *("admission", "members", "not_saved", "reading_rules", "subscriptions", "topic_tree"),
    ),
    "session": (
        *("allowance", "delivering", "interrupted", "lasting", "outbox", "presence", "publishing"),
        *("qos_table", "rules", "sending", "session", "states", "subscribing", "topic_registry"),
        *("topic_rules", "whereabouts"),
    ),
    "upstream": (
        *("backlog", "in_flight", "packets", "readings", "receiving", "rules", "session"),
        *("subscribing", "turns"),
    ),
}
# Of these there are very many, or one for every message, and none refers to what may refer to it:
# the collector of garbage need not know of them, and each is 16 octets smaller.
ACYCLIC = (
    # The sessions' and what they hold
    *("Delivering", "Publishing", "QosTable", "Rationed", "Sending", "Subscribing", "Topic"),
    *("TopicRegistry", "_Filter", "_Leaf", "_Said"),
    # Effects, and what they carry
    *("Arrived", "Finish", "Forward", "InGoodHands", "Message", "Peer", "Send"),
    *("Settled", "Store", "Transmit", "UnderWay"),
)
OPTIMISE = "1"  # no slower here than 2, and compiled in two thirds of the time
# Python alone finds something of it by name, and nothing throws: a tenth smaller without the rest.
FLAGS = ("-g0", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables")
DATACLASS = re.compile(r"^@dataclass\(([^)\n]*)\)", re.MULTILINE)
CLASS = re.compile(r"\n\n((?:@.*\n)*class (\w+))")
FUTURE = "from __future__ import annotations\n\n"
FUTURE_AND_MARK = (
    "from __future__ import annotations; from typing import TYPE_CHECKING, Final\n"
    "if TYPE_CHECKING: from mypy_extensions import mypyc_attr\n"
)
CONSTANT = re.compile(r"^(?!OVERFLOW |[A-Z][A-Z0-9_]*_MAX )(_?[A-Z][A-Z0-9_]+|_?[a-z]\w*)( = |: )")
MYPY_INI = """[mypy]
strict = True
follow_imports = silent
ignore_missing_imports = True
warn_unused_ignores = False
"""


# Prints where the modules of a package are that come with those that are named.
IMPORTED = """
import importlib, sys
package, *names = sys.argv[1:]
for name in names:
    importlib.import_module(name)
ours = (name for name in sorted(sys.modules) if name.partition(".")[0] == package)
print(*(sys.modules[name].__file__ for name in ours), sep="\\n")
"""


class CompileError(Exception):
    """What went wrong, in a sentence."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile what every message goes through.")
    parser.add_argument("--if-needed", action="store_true", help="only if it was not, or is stale")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at once")
    arguments = parser.parse_args()
    if arguments.if_needed and found({})[0] is Form.COMPILED:
        print("compile: what is compiled is of these very sources")
        return 0
    began = time.monotonic()
    try:
        count = compile_all(arguments.jobs)
    except (CompileError, OSError) as error:
        print(f"compile: {error}", file=sys.stderr)
        print("It wants gcc and Python's headers: apt-get install gcc python3-dev", file=sys.stderr)
        return 1
    took = time.monotonic() - began
    print(f"compile: {count} modules in {took:.0f} s; {VARIABLE}=no runs the sources")
    return 0


def modules() -> dict[str, Path]:
    """Names and sources of all that is compiled."""
    names = (
        ".".join(filter(None, (folder, name))) for folder in MODULES for name in MODULES[folder]
    )
    return {f"{PACKAGE.name}.{name}": PACKAGE / (name.replace(".", "/") + ".py") for name in names}


def without_slots(text: str) -> str:
    """The same lines, without `slots=True` in any @dataclass."""

    def decorator(found: re.Match[str]) -> str:
        words = [word for word in found[1].split(", ") if word != "slots=True"]
        return f"@dataclass({', '.join(words)})" if words else "@dataclass"

    changed = DATACLASS.sub(decorator, text)
    if "slots=True" in changed:
        raise CompileError("`slots=True` stands where it cannot be taken away")
    return changed


def rewritten(text: str) -> str:
    """The same lines, but what of a @dataclass mypyc makes slow or does not understand.

    - The `__init__` that @dataclass makes is not compiled and costs three times as much, ten times
      if it is frozen: it is written out.
    - A `ClassVar` counts as a field: it is set behind the class.
    """
    lines = [*text.split("\n"), ""]  # one more, for a class at the end
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.decorator_list:
            decorator = ast.unparse(node.decorator_list[0])
            if re.match(r"dataclass\b", decorator):
                behind = node.end_lineno or 0
                if any(lines[behind : behind + 2]):
                    raise CompileError(f"no two empty lines behind class {node.name}")
                given = init_of(node)
                lines[behind : behind + 2] = [
                    "" if given is None else given,
                    class_variables_out(lines, node),
                ]
                if given is not None:
                    at = node.decorator_list[0].lineno - 1
                    lines[at] = with_word(lines[at], decorator, "init=False")
    return "\n".join(lines)


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


def prepared(text: str) -> str:
    """A source as mypyc is given it, each line where it was."""
    if FUTURE not in text:
        raise CompileError(f"no line and an empty one behind it: {FUTURE!r}")
    changed = marked(rewritten(with_constants(without_slots(text))))
    return changed.replace(FUTURE, FUTURE_AND_MARK, 1)


def compile_all(jobs: int) -> int:
    """How many modules were compiled, into their place."""
    sources = modules()
    # As they are now: what is edited meanwhile is not what is compiled.
    digests = {path: digest(PACKAGE.parent / path) for path in imported(sources)}
    with TemporaryDirectory(prefix="tidegate-compile-") as temporary:
        work = Path(temporary)
        paths = copied(sources, work)
        with chdir(work):
            extensions = translated(paths)
            build(extensions, jobs)
        put(work, extensions, sources, digests)
    return len(sources)


def imported(names: Iterable[str]) -> list[str]:
    """The sources of these and of all of ours that they import, from the folder of the package."""
    said = run([sys.executable, "-c", IMPORTED, PACKAGE.name, *names], cwd=PACKAGE.parent)
    return [str(Path(path).relative_to(PACKAGE.parent)) for path in said.splitlines()]


def copied(sources: dict[str, Path], work: Path) -> list[str]:
    """The whole package, for mypy; returns the paths of what is compiled, without slots there."""
    shutil.copytree(
        PACKAGE,
        work / PACKAGE.name,
        ignore=shutil.ignore_patterns("__pycache__", folder_of(PACKAGE).parent.name, "*.so"),
    )
    paths = []
    for source in sources.values():
        path = source.relative_to(PACKAGE.parent)
        (work / path).write_text(prepared(source.read_text()))
        paths.append(str(path))
    (work / "mypy.ini").write_text(MYPY_INI)
    return paths


def translated(paths: list[str]) -> list[Any]:
    """To C, in the current folder."""
    said = StringIO()  # remarks too, which help nobody
    try:
        with redirect_stdout(said):
            return mypycify(
                ["--config-file=mypy.ini", *paths],
                opt_level=OPTIMISE,
                debug_level="0",
                multi_file=True,
                target_dir="c",
            )
    except SystemExit as end:
        raise CompileError(f"mypyc refused the sources:\n{said.getvalue().strip()}") from end


def build(extensions: list[Any], jobs: int) -> None:
    """Compile and link, `jobs` files at once."""
    todo = [(each, source) for each in extensions for source in each.sources]
    with ThreadPoolExecutor(jobs) as pool:
        for done, _ in enumerate(pool.map(lambda one: compiled(*one), todo), 1):
            progress(done, len(todo))
        list(pool.map(link, extensions))


def progress(done: int, all_of_them: int) -> None:
    if sys.stdout.isatty():
        end = "\n" if done == all_of_them else "\r"
        print(f"compile: {done} of {all_of_them} files", end=end, flush=True)


def compiled(extension: Any, source: str) -> None:
    folders = [*extension.include_dirs, sysconfig.get_path("include")]
    command = [
        *shlex.split(sysconfig.get_config_var("CC")),
        *shlex.split(sysconfig.get_config_var("CFLAGS")),
        *shlex.split(sysconfig.get_config_var("CCSHARED") or ""),
        *(f"-I{folder}" for folder in folders),
        *extension.extra_compile_args,
        *(*FLAGS, "-c", source, "-o", object_of(source)),
    ]
    run(command)


def link(extension: Any) -> None:
    command = shlex.split(sysconfig.get_config_var("LDSHARED"))
    objects = map(object_of, extension.sources)
    run([*command, "-s", *objects, "-o", extension.name + SUFFIX])


def object_of(source: str) -> str:
    return source.removesuffix(".c") + ".o"


def run(command: list[str], cwd: Path | None = None) -> str:
    """What it says, on its standard output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode:
        raise CompileError(f"{command[0]} failed:\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def put(
    work: Path, extensions: list[Any], sources: dict[str, Path], digests: dict[str, str]
) -> None:
    """In place of what was there, at once."""
    place = folder_of(PACKAGE)
    place.parent.mkdir(exist_ok=True)
    new, old = place.with_name(f"{place.name}.new"), place.with_name(f"{place.name}.old")
    for folder in (new, old):
        shutil.rmtree(folder, ignore_errors=True)
    new.mkdir()
    for each in extensions:
        shutil.copy(work / (each.name + SUFFIX), new)
    library = next(each.name for each in extensions if each.name not in sources)
    (new / LIST).write_text(list_text([library, *sources], digests))
    sync(new)
    if place.exists():
        place.rename(old)
    new.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def sync(folder: Path) -> None:
    """A power cut leaves no half files under a whole name."""
    for path in (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


if __name__ == "__main__":
    sys.exit(main())
