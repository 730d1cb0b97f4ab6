"""Compiles with mypyc what every message goes through, for `tidegate run`; gateway/host/compiled.py
finds it.

    .venv/bin/python .ci/compile.py [--if-needed] [--jobs N]
    .venv/bin/python .ci/compile.py --headers FOLDER --into FOLDER

With --headers for another Python or machine than this one, for the Debian package: the folder has
what Debian's libpython3.X-dev and libpython3.X-minimal of that machine have, and the compiler is
the one that these name (.ci/setup-cross.sh brings all of it).

Rules
- What is compiled are the very sources, prepared as for_mypyc.py says.
- All of it is put in place at once, when it is whole: interrupted anywhere, what was there stays.
- A file for each module, so that a small board has the memory, and so that processors share them.
- For another Python the C is the one of this Python, compiled with that one's headers: mypyc's own
  library has what differs, and older C uses nothing that newer Pythons lack (tests/fresh runs it).
"""

from __future__ import annotations

import argparse
import os
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
from typing import Any, NamedTuple

# sysconfig, and with it mypyc, says of another Python what this module of its build says.
BUILD_VARIABLES = "_PYTHON_SYSCONFIGDATA_NAME"

try:
    # Before mypyc, which takes distutils otherwise; Python 3.12 has none.
    import setuptools  # noqa: F401 # isort: skip
    import mypy.version
    from mypyc.build import mypycify
except ImportError as error:
    sys.exit(f"compile: {error}; it comes with `make setup`, on 64-bit machines alone")

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER)]

from for_mypyc import ACYCLIC, CompileError, prepared, without_trashcan  # noqa: E402

from gateway.host.compiled import (  # noqa: E402
    LIST,
    PACKAGE,
    VARIABLE,
    Form,
    digest,
    folder_name,
    folder_of,
    found,
    list_text,
)

RECIPE = ("compile.py", "for_mypyc.py")
MADE_BY = "made-by"
# What each message goes through, and the base classes of that: a compiled class has compiled bases.
# The rest is no faster for it, and larger in memory.
MODULES = {
    "app": ("shell",),
    "core": (
        "acceptor",
        "addresses",
        "dispatch",
        "durability_gate",
        "effects",
        "engine",
        "events",
        "message_expiry",
        "process_pauses",
        "state_records",
        "topic_options",
        "topic_trie",
        "values",
    ),
    "core.access": ("gate", "parts", "rules"),
    "core.clients": (
        "admission",
        "client_table",
        "contests",
        "former_topics",
        "half_open",
        "host_quota",
        "message_id_starts",
    ),
    "core.downlink": (
        "downlink",
        "pending_subscriptions",
        "subscriptions",
        "write_behind",
    ),
    "core.mqtt": (
        "backlog",
        "caution",
        "inflight",
        "options",
        "own_filters",
        "publish_encoder",
        "publisher",
        "qos_order",
        "receiver",
        "session",
        "stale",
        "subscriber",
    ),
    "core.protection": (
        "channel",
        "envelope",
        "freshness",
        "protection",
        "replay_window",
        "schemes",
    ),
    "core.session": (
        "dedup",
        "client_queue",
        "egress_budget",
        "inbound",
        "lifecycle",
        "options",
        "outbound",
        "outbox",
        "qos_table",
        "session",
        "states",
        "subscribing",
        "topic_names",
        "topic_registry",
    ),
    "core.uplink": (
        "aside",
        "indeterminate_writes",
        "pending_wills",
        "qos0_order",
        "spill",
        "uplink",
    ),
    "frames": (
        "codec",
        "fields",
        "layout",
        "messages",
        "shapes",
    ),
    "packets": (
        "codec",
        "repair",
    ),
    "presence": (
        "availability",
        "standing",
    ),
    "storage.journal": (
        "backlog",
        "commit_group",
        "committer",
        "completions",
        "journal",
        "numbers",
        "reading",
        "records",
        "segment",
        "segment_choice",
        "segment_files",
        "segment_index",
        "space",
    ),
    "transports": ("outflow",),
    "transports.broker": ("socket",),
    "transports.udp": (
        "datagrams",
        "link",
        "socket",
        "sources",
        "tick",
    ),
}
OPTIMISE = "1"  # no slower here than 2, and compiled in two thirds of the time
# Python alone finds something of it by name, and nothing throws: a tenth smaller without the rest.
FLAGS = ("-g0", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables")
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


class Target(NamedTuple):
    """The Python that it is compiled for, and where it goes."""

    includes: tuple[Path, ...]
    place: Path

    @property
    def suffix(self) -> str:
        """Of files that this Python loads."""
        return str(sysconfig.get_config_var("EXT_SUFFIX"))


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile what every message goes through.")
    parser.add_argument("--if-needed", action="store_true", help="only if it was not, or is stale")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at once")
    parser.add_argument("--headers", type=Path, help="of another Python (with --into)")
    parser.add_argument("--into", type=Path, help="the folder that gets its own inside")
    arguments = parser.parse_args()
    if (arguments.headers is None) != (arguments.into is None):
        parser.error("--headers and --into go together")
    if arguments.headers is not None and BUILD_VARIABLES not in os.environ:
        return again_as(arguments.headers)
    if arguments.headers is not None:
        target = other_target(arguments.headers, arguments.into)
    else:
        target = Target((Path(sysconfig.get_path("include")),), folder_of(PACKAGE))
    if arguments.if_needed and found({})[0] is Form.COMPILED and was_made_this_way():
        print("compile: what is compiled is of these very sources")
        return 0
    began = time.monotonic()
    try:
        count = compile_all(arguments.jobs, target)
    except (CompileError, OSError) as error:
        print(f"compile: {error}", file=sys.stderr)
        if arguments.headers is None and (
            shutil.which("gcc") is None
            or not Path(sysconfig.get_path("include"), "Python.h").exists()
        ):
            print(
                "It wants gcc and Python's headers: apt-get install gcc python3-dev",
                file=sys.stderr,
            )
        return 1
    took = time.monotonic() - began
    print(f"compile: {count} modules in {took:.0f} s; {VARIABLE}=no runs the sources")
    return 0


# Another Python


def again_as(headers: Path) -> int:
    """The same command, in which sysconfig speaks of the Python that the headers are of."""
    (said,) = headers.glob("usr/lib/python3.*/_sysconfigdata__[!l]*.py")
    with TemporaryDirectory(prefix="tidegate-target-") as temporary:
        shutil.copy(said, Path(temporary, "tidegate_target.py"))
        return subprocess.run(
            [sys.executable, *sys.argv],
            env={**os.environ, BUILD_VARIABLES: "tidegate_target", "PYTHONPATH": temporary},
            check=False,
        ).returncode


def other_target(headers: Path, into: Path) -> Target:
    (python,) = headers.resolve().glob("usr/include/python3.*")
    place = into.resolve() / folder_name(str(sysconfig.get_config_var("EXT_SUFFIX")))
    return Target((python, python.parent), place)


# This one


def recipe() -> str:
    """What besides the sources decides what comes out."""
    return " ".join([mypy.version.__version__, *map(digest, (FOLDER / name for name in RECIPE))])


def was_made_this_way() -> bool:
    try:
        return (folder_of(PACKAGE) / MADE_BY).read_text() == recipe()
    except OSError:
        return False


def modules() -> dict[str, Path]:
    """Names and sources of all that is compiled."""
    names = (
        ".".join(filter(None, (folder, name))) for folder in MODULES for name in MODULES[folder]
    )
    return {f"{PACKAGE.name}.{name}": PACKAGE / (name.replace(".", "/") + ".py") for name in names}


def compile_all(jobs: int, target: Target) -> int:
    """How many modules were compiled, into their place."""
    sources = modules()
    # As they are now: what is edited meanwhile is not what is compiled.
    digests = {path: digest(PACKAGE.parent / path) for path in imported(sources)}
    with TemporaryDirectory(prefix="tidegate-compile-") as temporary:
        work = Path(temporary)
        paths = copied(sources, work)
        with chdir(work):
            extensions = translated(paths)
            correct(extensions)
            build(extensions, jobs, target)
        put(work, extensions, sources, digests, target)
    return len(sources)


def imported(names: Iterable[str]) -> list[str]:
    """The sources of these and of all of ours that they import, from the folder of the package."""
    said = run([sys.executable, "-c", IMPORTED, PACKAGE.name, *names], cwd=PACKAGE.parent)
    return [str(Path(path).relative_to(PACKAGE.parent)) for path in said.splitlines()]


def copied(sources: dict[str, Path], work: Path) -> list[str]:
    """The whole package, for mypy; returns the paths of what is compiled, prepared there."""
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


def correct(extensions: list[Any]) -> None:
    """What mypyc has written, in the current folder. Raises CompileError for C of another form."""
    count = 0
    for source in {Path(source) for each in extensions for source in each.sources}:
        code, found = without_trashcan(source.read_text())
        source.write_text(code)
        count += found
    if count < len(ACYCLIC):
        raise CompileError(f"{count} of {len(ACYCLIC)} classes without cycles were found in the C")


def build(extensions: list[Any], jobs: int, target: Target) -> None:
    """Compile and link, `jobs` files at once."""
    todo = [(each, source) for each in extensions for source in each.sources]
    with ThreadPoolExecutor(jobs) as pool:
        for done, _ in enumerate(pool.map(lambda one: compiled(*one, target), todo), 1):
            progress(done, len(todo))
        list(pool.map(lambda each: link(each, target), extensions))


def progress(done: int, all_of_them: int) -> None:
    if sys.stdout.isatty():
        end = "\n" if done == all_of_them else "\r"
        print(f"compile: {done} of {all_of_them} files", end=end, flush=True)


def compiled(extension: Any, source: str, target: Target) -> None:
    folders = [*extension.include_dirs, *target.includes]
    command = [
        *shlex.split(sysconfig.get_config_var("CC")),
        *shlex.split(sysconfig.get_config_var("CFLAGS")),
        *shlex.split(sysconfig.get_config_var("CCSHARED") or ""),
        *(f"-I{folder}" for folder in folders),
        *extension.extra_compile_args,
        *FLAGS,
        "-c",
        source,
        "-o",
        object_of(source),
    ]
    run(command)


def link(extension: Any, target: Target) -> None:
    command = shlex.split(sysconfig.get_config_var("LDSHARED"))
    objects = map(object_of, extension.sources)
    run([*command, "-s", *objects, "-o", extension.name + target.suffix])


def object_of(source: str) -> str:
    return source.removesuffix(".c") + ".o"


def run(command: list[str], cwd: Path | None = None) -> str:
    """What it says, on its standard output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    except FileNotFoundError as error:
        raise CompileError(f"{command[0]} is missing") from error
    if done.returncode:
        raise CompileError(f"{command[0]} failed:\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def put(
    work: Path,
    extensions: list[Any],
    sources: dict[str, Path],
    digests: dict[str, str],
    target: Target,
) -> None:
    """In place of what was there, at once."""
    place = target.place
    place.parent.mkdir(parents=True, exist_ok=True)
    new, old = place.with_name(f"{place.name}.new"), place.with_name(f"{place.name}.old")
    for folder in (new, old):
        shutil.rmtree(folder, ignore_errors=True)
    new.mkdir()
    for each in extensions:
        shutil.copy(work / (each.name + target.suffix), new)
    library = next(each.name for each in extensions if each.name not in sources)
    (new / LIST).write_text(list_text([library, *sources], digests))
    (new / MADE_BY).write_text(recipe())
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
