"""Draws docs/structure.svg: the packages of gateway/ in their layers, and who imports whom.

    python -m tests.house.structure_drawing            # prints the drawing
    python -m tests.house.structure_drawing --write    # writes it, and the table of docs/design.md

The layers are those of the first contract of import-linter in pyproject.toml; the arrows are the
imports that stand in the sources, those for types alone too. An import that points up, or to
another package of the same layer, is an error and not an arrow. So is one between two programs,
but for what the contract of independence lets through.

The packages stand on the diagonal of a grid, in the order of their layers. An arrow leaves a
package to the right, and enters what it imports from above; the number where it turns is its count.
Whatever is imported, no two numbers or boxes lie on each other, so nothing is laid out by hand.

Limits: a name must fit its box, and below the diagonal there must be room for the other programs.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.house.imports import imports_of

REPOSITORY = Path(__file__).resolve().parents[2]
DRAWING = Path("docs/structure.svg")
DOCUMENT = Path("docs/design.md")
BEGIN, END = "<!-- structure -->\n", "<!-- end of structure -->\n"
PROGRAM = "gateway"
# What starts the program is a module and no package: its imports are checked, and not drawn.
START = "__main__"

# All lengths in pixels.
COLUMN_WIDTH = 88
ROW_HEIGHT = 52
BOX_WIDTH, BOX_HEIGHT = 80, 32
COUNT_WIDTH, COUNT_HEIGHT = 28, 16
MARGIN = 10
FLOOR_WIDTH = 26
BESIDE_WIDTH, BESIDE_HEIGHT = 480, 184

STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #222; }
.name { font-weight: 600; text-anchor: middle; }
.files { font-size: 9px; text-anchor: middle; fill: #555; }
.floor { font-size: 10px; text-anchor: middle; fill: #777; }
.number { font-size: 10px; text-anchor: middle; }
.box { fill: #e7f0ee; stroke: #2b6b5f; }
.pure { fill: #fdf3d8; stroke: #8a6a12; }
.beside { fill: #f3f3f3; stroke: #777; }
.frame { fill: #fff; stroke: #999; stroke-dasharray: 4 4; }
.band { fill: #2b6b5f; fill-opacity: 0.06; }
.way { fill: none; stroke: #2b6b5f; stroke-width: 1.2; }
.arrow { marker-end: url(#head); }
.count { fill: #fff; stroke: #2b6b5f; }
.head { fill: #2b6b5f; }
.paper { fill: #fff; }
"""


class StructureError(Exception):
    """What is imported does not fit the layers. One line for each finding, with its place."""


@dataclass(frozen=True, slots=True)
class Structure:
    layers: tuple[tuple[str, ...], ...]
    pure: frozenset[str]  # packages that may touch no clock, socket, disk or thread
    beside: tuple[str, ...]  # the other programs of the repository
    shared: tuple[tuple[str, str], ...]  # modules that may import modules of another program
    imports: Counter[tuple[str, str]]  # by importing and imported package: pairs of modules
    files: Counter[str]  # by package, and by program
    lines: Counter[str]

    @property
    def packages(self) -> list[str]:
        return [package for layer in self.layers for package in layer]

    def floor(self, package: str) -> int:
        return next(number for number, layer in enumerate(self.layers) if package in layer)


def structure_of(root: Path) -> Structure:
    """What stands in the sources. Raises StructureError where they do not fit the layers."""
    linter = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    programs: list[str] = linter["root_packages"]
    layers = layers_in(linter["contracts"])
    modules = {program: modules_of(root, program) for program in programs}
    shared = shared_in(linter["contracts"])
    imports = imports_between(root, modules, layers, shared)
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for module, path in (each for program in programs for each in modules[program].items()):
        length = len(path.read_text().splitlines())
        for place in {module.split(".")[0], package_of(module)}:
            files[place] += 1
            lines[place] += length
    return Structure(
        layers=tuple(layer for layer in layers if layer != (START,)),
        pure=pure_packages(linter["contracts"]),
        beside=tuple(program for program in programs if program != PROGRAM),
        shared=shared,
        imports=Counter({pair: count for pair, count in imports.items() if pair[0] != START}),
        files=files,
        lines=lines,
    )


def layers_in(contracts: list[dict[str, Any]]) -> tuple[tuple[str, ...], ...]:
    """Top to bottom, with that of the start."""
    for contract in contracts:
        if contract["type"] == "layers" and contract["containers"] == [PROGRAM]:
            return tuple(tuple(layer.split(" | ")) for layer in contract["layers"])
    raise StructureError(f"pyproject.toml: no contract has the layers of {PROGRAM}")


def pure_packages(contracts: list[dict[str, Any]]) -> frozenset[str]:
    """Those that a contract keeps away from sockets as a whole."""
    return frozenset(
        module.removeprefix(f"{PROGRAM}.")
        for contract in contracts
        if contract["type"] == "forbidden" and "socket" in contract["forbidden_modules"]
        for module in contract["source_modules"]
        if module.startswith(f"{PROGRAM}.") and module.count(".") == 1
    )


def shared_in(contracts: list[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Patterns of importing and imported modules, of two programs."""
    ways = [
        way.split(" -> ")
        for contract in contracts
        if contract["type"] == "independence"
        for way in contract.get("ignore_imports", ())
    ]
    return tuple((importer, imported) for importer, imported in ways)


def modules_of(root: Path, program: str) -> dict[str, Path]:
    """By dotted name; a package stands for its __init__.py."""
    modules = {}
    for path in sorted((root / program).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if "compiled_modules" not in parts:
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def package_of(module: str) -> str:
    """Of the gateway; of another program, and of the gateway's own __init__.py, its name."""
    parts = module.split(".")
    return parts[1] if parts[0] == PROGRAM and len(parts) > 1 else parts[0]


def module_named(name: str, modules: Mapping[str, Path]) -> str:
    """The module in which an imported name is: `gateway.frames.Publish` is in `gateway.frames`."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def imports_between(
    root: Path,
    modules: Mapping[str, Mapping[str, Path]],
    layers: tuple[tuple[str, ...], ...],
    shared: tuple[tuple[str, str], ...],
) -> Counter[tuple[str, str]]:
    """By importing and imported package of the gateway, the pairs of modules."""
    floors = {package: floor for floor, layer in enumerate(layers) for package in layer}
    faults = []
    pairs = set()
    for module, path in (each for program in modules.values() for each in program.items()):
        source, program = package_of(module), module.split(".")[0]
        if source not in {*floors, *modules}:
            faults.append(f"{path.relative_to(root)}: {source} is in no layer of pyproject.toml")
            continue
        for used in imports_of(path, root):
            where = f"{path.relative_to(root)}:{used.line}: imports {used.module}"
            if (other := used.module.split(".")[0]) not in modules:
                continue
            target = module_named(used.module, modules[other])
            if other != program and not is_shared(module, target, shared):
                faults.append(f"{where}, which is another program")
            elif {source, below := package_of(target)} <= floors.keys() and below != source:
                pairs.add((module, target))
                if floors[below] <= floors[source]:
                    faults.append(f"{where}, but {below} is not below {source}")
    if faults:
        raise StructureError("\n".join(sorted(faults)))
    return Counter((package_of(source), package_of(target)) for source, target in pairs)


def is_shared(importer: str, imported: str, shared: tuple[tuple[str, str], ...]) -> bool:
    return any(fnmatchcase(importer, one) and fnmatchcase(imported, other) for one, other in shared)


def drawing(structure: Structure) -> str:
    return "\n".join(_elements(structure)) + "\n"


def _elements(structure: Structure) -> Iterator[str]:
    packages = structure.packages
    width = 2 * MARGIN + FLOOR_WIDTH + COLUMN_WIDTH * len(packages)
    height = 2 * MARGIN + ROW_HEIGHT * len(packages)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    yield "<title>The packages of the gateway in their layers, and who imports whom</title>"
    yield "<!-- Drawn by `python -m tests.house.structure_drawing`. -->"
    yield f"<style>\n{STYLE}</style>"
    yield '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
    yield ' orient="auto" markerUnits="userSpaceOnUse">'
    yield '<path class="head" d="M0 0L8 4L0 8z"/></marker>'
    yield f'<rect class="paper" width="{width}" height="{height}"/>'
    yield from _bands(structure, width)
    for package in packages:
        yield from _ways(structure, package)
    for package in packages:
        yield from _box(structure, package)
    for (importer, imported), count in sorted(structure.imports.items()):
        yield from _count(_x(structure, imported), _y(structure, importer), count)
    yield from _beside(structure, height)
    yield "</svg>"


def _x(structure: Structure, package: str) -> int:
    column = structure.packages.index(package)
    return MARGIN + FLOOR_WIDTH + COLUMN_WIDTH * column + COLUMN_WIDTH // 2


def _y(structure: Structure, package: str) -> int:
    return MARGIN + ROW_HEIGHT * structure.packages.index(package) + ROW_HEIGHT // 2


def _bands(structure: Structure, width: int) -> Iterator[str]:
    """One for each layer: packages that share one do not import each other."""
    for number, layer in enumerate(structure.layers):
        y = _y(structure, layer[0]) - ROW_HEIGHT // 2
        height = ROW_HEIGHT * len(layer)
        if number % 2 == 0:
            yield f'<rect class="band" y="{y}" width="{width}" height="{height}"/>'
        middle = y + height // 2 + 4
        x = MARGIN + FLOOR_WIDTH // 2
        yield f'<text class="floor" x="{x}" y="{middle}">{number + 1}</text>'


def _ways(structure: Structure, package: str) -> Iterator[str]:
    """One line to the right for all that it imports, and one down to it for all that import it."""
    x, y = _x(structure, package), _y(structure, package)
    imported = [target for source, target in structure.imports if source == package]
    importing = [source for source, target in structure.imports if target == package]
    if imported:
        end = max(_x(structure, each) for each in imported)
        yield f'<path class="way" d="M{x + BOX_WIDTH // 2} {y}H{end}"/>'
    if importing:
        start = min(_y(structure, each) for each in importing)
        yield f'<path class="way arrow" d="M{x} {start}V{y - BOX_HEIGHT // 2 - 1}"/>'


def _box(structure: Structure, package: str) -> Iterator[str]:
    x, y = _x(structure, package), _y(structure, package)
    kind = "box pure" if package in structure.pure else "box"
    yield from _rectangle(x, y, (BOX_WIDTH, BOX_HEIGHT), f'class="{kind}" rx="5"')
    yield f'<text class="name" x="{x}" y="{y}">{package}</text>'
    yield f'<text class="files" x="{x}" y="{y + 11}">{structure.files[package]} files</text>'


def _count(x: int, y: int, count: int) -> Iterator[str]:
    yield from _rectangle(x, y, (COUNT_WIDTH, COUNT_HEIGHT), 'class="count" rx="8"')
    yield f'<text class="number" x="{x}" y="{y + 4}">{count}</text>'


def _rectangle(x: int, y: int, size: tuple[int, int], attributes: str) -> Iterator[str]:
    width, height = size
    place = f'x="{x - width // 2}" y="{y - height // 2}" width="{width}" height="{height}"'
    yield f"<rect {attributes} {place}/>"


def _beside(structure: Structure, height: int) -> Iterator[str]:
    """How to read it, and the other programs, in the empty half of the grid."""
    x, y = MARGIN + FLOOR_WIDTH + MARGIN, height - MARGIN - BESIDE_HEIGHT
    size = f'width="{BESIDE_WIDTH}" height="{BESIDE_HEIGHT}"'
    yield f'<rect class="frame" x="{x}" y="{y}" {size} rx="5"/>'
    texts = (
        "From a package to the right, then down, to what it imports. The number",
        "counts imports, file by file. Where lines cross without one, there is none.",
        "A band is a layer, and imports only from the bands below it.",
    )
    for number, text in enumerate(texts, start=1):
        yield f'<text x="{x + 12}" y="{y + 6 + 16 * number}">{text}</text>'
    yield from _rectangle(x + 22, y + 72, (20, 12), 'class="box pure" rx="3"')
    yield f'<text x="{x + 40}" y="{y + 76}">no clock, socket, disk, thread or random source</text>'
    heading = "Programs beside the gateway, and what they import of it:"
    yield f'<text x="{x + 12}" y="{y + 112}">{heading}</text>'
    step = BESIDE_WIDTH // len(structure.beside)
    for number, program in enumerate(structure.beside):
        middle = x + step // 2 + step * number
        yield from _rectangle(middle, y + 150, (120, 40), 'class="beside" rx="5"')
        yield f'<text class="name" x="{middle}" y="{y + 148}">{program}</text>'
        files = f"{structure.files[program]} files, imports {_imported_by(program, structure)}"
        yield f'<text class="files" x="{middle}" y="{y + 161}">{files}</text>'


def _imported_by(program: str, structure: Structure) -> str:
    found = {package_of(other) for one, other in structure.shared if one.startswith(f"{program}.")}
    return ", ".join(sorted(found)) or "nothing"


def table(structure: Structure) -> str:
    """Lines in thousands, or each change of one would make the table stale."""
    heads = (
        "rooms: packages",
        "floors: layers",
        "arrows: package to package",
        "imports: file to file",
        "files",
        "lines",
    )
    figures = (
        len(structure.packages),
        len(structure.layers),
        len(structure.imports),
        structure.imports.total(),
        structure.files[PROGRAM],
        f"{round(structure.lines[PROGRAM], -3):,}",
    )
    rows = (
        f"| | {' | '.join(heads)} |",
        f"| --- |{' --: |' * len(heads)}",
        f"| `{PROGRAM}/` | {' | '.join(map(str, figures))} |",
    )
    return "\n".join(rows) + "\n"


def with_table(document: str, structure: Structure) -> str:
    before, _, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise StructureError(f"{DOCUMENT}: the markers of the table are missing")
    return f"{before}{BEGIN}{table(structure)}{END}{after}"


def main(arguments: list[str]) -> int:
    try:
        structure = structure_of(REPOSITORY)
        if arguments == ["--write"]:
            document = REPOSITORY / DOCUMENT
            document.write_text(with_table(document.read_text(), structure))
            (REPOSITORY / DRAWING).write_text(drawing(structure))
        else:
            sys.stdout.write(drawing(structure))
    except StructureError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
