"""The compiled form of the modules that every message goes through, where one was made.

`make setup` and `make compile` make one with mypyc from the very sources (.ci/compile.py), into
the folder `compiled_modules` beside this file: a library, a stub for each module, and a list of the
sources as they were. `tidegate run` takes it; all else runs the sources.

Rules
- Compiled modules call each other directly, so all are taken, or none.
- If one source is another one than was compiled, none is: what was edited is what runs. Those that
  compiled ones import count too, as what is compiled relies on their types. Nor is any taken if one
  was imported already.
- The sources always do. `TIDEGATE_COMPILED=no` asks for them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from pathlib import Path
from types import ModuleType
from zlib import crc32

VARIABLE = "TIDEGATE_COMPILED"
PACKAGE = Path(__file__).resolve().parents[1]
LIST = "sources"
SUFFIX = EXTENSION_SUFFIXES[0]  # .cpython-311-x86_64-linux-gnu.so


class Form(Enum):
    """Which one runs, and why."""

    COMPILED = "compiled"
    UNWANTED = f"not compiled: {VARIABLE}=no"
    ABSENT = "not compiled"
    LATE = "not compiled: its sources run already"
    STALE = "not compiled: the sources have changed since (make compile)"
    BROKEN = "not compiled: its files cannot be loaded (make compile)"


class _Finder:
    """Finds compiled modules before those that would be found otherwise."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self._files.get(name)
        if file is None:
            return None
        loader = ExtensionFileLoader(name, str(file))
        spec = ModuleSpec(name, loader, origin=str(file))
        spec.has_location = True
        return spec


def folder_of(package: Path) -> Path:
    """Where compiled modules for this Python on this machine are."""
    return package / "host" / "compiled_modules" / folder_name(SUFFIX)


def folder_name(suffix: str) -> str:
    return suffix.removesuffix(".so").strip(".")


def digest(source: Path) -> str:
    """Of a file's contents: its bytes and their CRC-32, for a change that nobody means to hide."""
    octets = source.read_bytes()
    return f"{len(octets)}-{crc32(octets):08x}"


def list_text(names: Iterable[str], digests: Mapping[str, str]) -> str:
    """What the list says: the library and the compiled modules, then sources, each with its digest.

    `digests`: by paths from the folder of the package, which count whether compiled or not.
    """
    return "\n".join([" ".join(names), *(f"{path} {said}" for path, said in digests.items()), ""])


def found(
    environment: Mapping[str, str], package: Path = PACKAGE
) -> tuple[Form, Mapping[str, Path]]:
    """What would run, and for COMPILED the files by their modules' names; nothing is loaded."""
    if environment.get(VARIABLE) == "no":
        return Form.UNWANTED, {}
    folder = folder_of(package)
    try:
        names, *lines = (folder / LIST).read_text().splitlines()
        sources = dict(line.split(" ") for line in lines)
    except FileNotFoundError:
        return Form.ABSENT, {}
    except (OSError, ValueError):
        return Form.BROKEN, {}
    if not all(_is(package.parent / path, wanted) for path, wanted in sources.items()):
        return Form.STALE, {}
    files = {name: folder / (name + SUFFIX) for name in names.split(" ")}
    whole = all(file.exists() for file in files.values())
    return (Form.COMPILED, files) if whole else (Form.BROKEN, {})


def use(environment: Mapping[str, str], package: Path = PACKAGE) -> Form:
    """Let what is imported from now on be compiled, if it was, from these sources.

    To be called before the first of them is imported.
    """
    form, files = found(environment, package)
    if form is not Form.COMPILED:
        return form
    if not sys.modules.keys().isdisjoint(files):
        return Form.LATE
    finder = _Finder(files)
    sys.meta_path.insert(0, finder)
    try:
        import_module(next(iter(files)))  # the library: what can fail fails before any is in use
    except ImportError:
        sys.meta_path.remove(finder)
        return Form.BROKEN
    return Form.COMPILED


def _is(source: Path, wanted: str) -> bool:
    try:
        return digest(source) == wanted
    except OSError:
        return False
