"""The drawing of the structure shows what is imported, and refuses what its layers do not allow."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.house import structure_drawing
from tests.house.structure_drawing import BEGIN, END, Structure, StructureError, structure_of

REPOSITORY = Path(__file__).resolve().parents[2]
COMMAND = ".venv/bin/python -m tests.house.structure_drawing --write"

PYPROJECT = """
[tool.importlinter]
root_packages = ["gateway", "firmware"]

[[tool.importlinter.contracts]]
type = "layers"
containers = ["gateway"]
layers = ["__main__", "app", "storage | transports", "core"]

[[tool.importlinter.contracts]]
type = "forbidden"
source_modules = ["gateway.core", "gateway.transports.framing"]
forbidden_modules = ["socket"]

[[tool.importlinter.contracts]]
type = "independence"
modules = ["gateway", "firmware"]
ignore_imports = ["firmware.node -> gateway.core.*"]
"""
SMALL = {
    "pyproject.toml": PYPROJECT,
    "gateway/__init__.py": "",
    "gateway/__main__.py": "from gateway.app import daemon\n",
    "gateway/app/__init__.py": "",
    "gateway/app/daemon.py": "from gateway.core.engine import Engine, State\n"
    "from gateway.storage import journal\n"
    "import gateway.core.effects\n",
    "gateway/storage/__init__.py": "",
    "gateway/storage/journal.py": "from ..core import engine\n",
    "gateway/transports/__init__.py": "import asyncio\n",
    "gateway/core/__init__.py": "",
    "gateway/core/engine.py": "from gateway.core import effects\n",
    "gateway/core/effects.py": "",
    "firmware/__init__.py": "",
    "firmware/node.py": "from firmware import radio\n",
    "firmware/radio.py": "",
}


def planted(root: Path, files: dict[str, str]) -> Path:
    for name, text in {**SMALL, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture(scope="module")
def ours() -> Structure:
    return structure_of(REPOSITORY)


def test_the_table_in_the_design_is_as_it_is_made(ours: Structure) -> None:
    text = (REPOSITORY / structure_drawing.DOCUMENT).read_text()
    assert text == structure_drawing.with_table(text, ours), f"stale; type  {COMMAND}"


def test_each_pair_of_modules_is_counted_once_between_their_packages(tmp_path: Path) -> None:
    found = structure_of(planted(tmp_path, {}))
    assert found.layers == (("app",), ("storage", "transports"), ("core",))
    assert found.imports == {("app", "core"): 2, ("app", "storage"): 1, ("storage", "core"): 1}
    assert found.pure == {"core"}
    assert found.beside == ("firmware",)
    assert (found.files["app"], found.files["gateway"], found.files["firmware"]) == (2, 10, 3)
    assert (found.lines["app"], found.lines["gateway"]) == (3, 7)


@pytest.mark.parametrize(
    ("path", "text", "finding"),
    [
        (
            "gateway/core/effects.py",
            "from __future__ import annotations\nfrom gateway.app.daemon import main\n",
            "gateway/core/effects.py:2: imports gateway.app.daemon.main, but app is not below core",
        ),
        (
            "gateway/storage/journal.py",
            "def job() -> None:\n    from gateway import transports\n",
            "gateway/storage/journal.py:2: imports gateway.transports, "
            "but transports is not below storage",
        ),
        (
            "gateway/app/daemon.py",
            "import gateway.__main__\n",
            "gateway/app/daemon.py:1: imports gateway.__main__, but __main__ is not below app",
        ),
        (
            "firmware/radio.py",
            "from gateway.core import engine\n",
            "firmware/radio.py:1: imports gateway.core.engine, which is another program",
        ),
        (
            "gateway/app/daemon.py",
            "import firmware\n",
            "gateway/app/daemon.py:1: imports firmware, which is another program",
        ),
        ("gateway/new/part.py", "", "gateway/new/part.py: new is in no layer of pyproject.toml"),
    ],
)
def test_an_import_that_the_layers_do_not_allow_is_an_error_with_its_place(
    tmp_path: Path, path: str, text: str, finding: str
) -> None:
    with pytest.raises(StructureError) as raised:
        structure_of(planted(tmp_path, {path: text}))
    assert str(raised.value).splitlines() == [finding]


def test_what_the_contract_lets_through_between_two_programs_is_no_fault(tmp_path: Path) -> None:
    found = structure_of(planted(tmp_path, {"firmware/node.py": "import gateway.core.effects\n"}))
    assert found.shared == (("firmware.node", "gateway.core.*"),)
    drawn = structure_drawing.drawing(found)
    assert "3 files, imports core" in drawn


def test_the_command_fails_and_draws_nothing_when_an_import_points_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(tmp_path, {"gateway/core/engine.py": "import gateway.app\n"})
    monkeypatch.setattr(structure_drawing, "REPOSITORY", tmp_path)
    assert structure_drawing.main([]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "gateway/core/engine.py:1: imports gateway.app" in printed.err


def test_the_command_writes_both_the_drawing_and_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(tmp_path, {"docs/design.md": f"# Design\n\n{BEGIN}old\n{END}\nMore.\n"})
    monkeypatch.setattr(structure_drawing, "REPOSITORY", tmp_path)
    assert structure_drawing.main(["--write"]) == 0
    document = (tmp_path / "docs/design.md").read_text()
    assert document.startswith(f"# Design\n\n{BEGIN}| | rooms: packages |")
    assert "| `gateway/` | 4 | 3 | 3 | 4 | 10 | 0 |\n" in document
    assert document.endswith(f"{END}\nMore.\n")
    ElementTree.parse(tmp_path / "docs/structure.svg")


def test_a_document_without_the_markers_is_an_error(ours: Structure) -> None:
    with pytest.raises(StructureError, match="markers"):
        structure_drawing.with_table(f"# Design\n{BEGIN}", ours)


def test_every_package_has_a_box_and_every_pair_its_count_where_the_two_lines_meet(
    ours: Structure,
) -> None:
    svg = ElementTree.fromstring(structure_drawing.drawing(ours))
    boxes: dict[str, tuple[int, int]] = {}
    counts: dict[tuple[int, int], int] = {}
    for text in svg.iter("{http://www.w3.org/2000/svg}text"):
        place = int(text.attrib["x"]), int(text.attrib["y"])
        if text.get("class") == "name":
            boxes[str(text.text)] = place
        elif text.get("class") == "number":
            counts[place[0], place[1] - 4] = int(str(text.text))
    assert set(boxes) == {*ours.packages, *ours.beside}
    expected = {
        (boxes[imported][0], boxes[importer][1]): count
        for (importer, imported), count in ours.imports.items()
    }
    assert counts == expected
    assert len(expected) == len(ours.imports)


def test_the_arrows_of_the_drawing_lead_right_and_down_only(ours: Structure) -> None:
    svg = ElementTree.fromstring(structure_drawing.drawing(ours))
    ways = 0
    for way in svg.iter("{http://www.w3.org/2000/svg}path"):
        if (way.get("class") or "").startswith("way"):
            start, turn = way.attrib["d"][1:].split(" ")
            y, axis, end = turn.partition("H") if "H" in turn else turn.partition("V")
            assert int(end) > (int(start) if axis == "H" else int(y)), way.attrib["d"]
            ways += 1
    importing, imported = zip(*ours.imports, strict=True)
    assert ways == len(set(importing)) + len(set(imported))
