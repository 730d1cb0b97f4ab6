"""What is made for boards: which names stay, which files there are, and what is refused."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from firmware import build as made

REPOSITORY = Path(made.__file__).resolve().parent.parent
NAMES_OF_USERS = (
    "Client transport client_id size on_message subscriptions connect publish topic payload qos "
    "retain again subscribe wait ms sleep duration_s wake limit_ms engine state keep_alive_s "
    "retry_ms retries flags Udp local_port index close Uart stream AioClient serve leave Will "
    "message join update client find group more_ms take put_back kept"
)


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return made.pressed()


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def test_the_names_that_users_write_stay_as_they_are(texts: dict[str, str]) -> None:
    assert set(NAMES_OF_USERS.split()) - words("\n".join(texts.values())) == set()


def test_others_become_names_that_every_micropython_has(texts: dict[str, str]) -> None:
    trees = {name: made.parsed(name) for name in (*made.BUNDLE, *made.ALONE)}
    short = made.replacements(trees)
    assert {"_awaited", "_settle", "Engine", "answer_size"} <= short.keys()
    assert not words("\n".join(texts.values())) & (short.keys() - {"name", "line", "end", "octet"})
    assert len(set(short.values())) == len(short)


def test_no_replacement_is_a_name_that_the_library_uses_otherwise() -> None:
    trees = {name: made.parsed(name) for name in (*made.BUNDLE, *made.ALONE)}
    used = {name for tree in trees.values() for name in made.written_in(tree)}
    assert not used & set(made.replacements(trees).values())


def test_nothing_of_cpython_or_of_types_is_left(texts: dict[str, str]) -> None:
    for text in texts.values():
        assert not words(text) & {"cpython", "TYPE_CHECKING", "typing", "assert"}
        assert not any(isinstance(node, ast.AnnAssign) for node in ast.walk(ast.parse(text)))


def test_what_is_made_is_the_same_wherever_it_is_made(library: Path, tmp_path: Path) -> None:
    for path in made.build(tmp_path / "elsewhere"):
        content = path.read_bytes()
        assert content == (library / path.relative_to(tmp_path / "elsewhere")).read_bytes()
        assert not [place for place in (tmp_path, library, REPOSITORY) if bytes(place) in content]


def test_parts_that_are_alone_find_the_bundle_by_its_package(texts: dict[str, str]) -> None:
    assert "from . import " in texts["aio"]
    assert "from .framing import " in texts["uart"]
    assert not re.search(r"from \.(engine|client|udp)\b", "\n".join(texts.values()))


def test_a_constant_may_be_written_twice_but_not_with_two_values() -> None:
    same = [ast.parse("_A = const(1)"), ast.parse("_A = const(1)\n_B = const(2)")]
    assert ast.unparse(made.bundled(same)).splitlines() == ["_A = const(1)", "_B = const(2)"]
    with pytest.raises(made.BuildError, match="_A is const"):
        made.bundled([*same, ast.parse("_A = const(3)")])


def test_the_build_makes_a_package_for_mip(library: Path) -> None:
    index = json.loads((library / "package.json").read_text())
    files = {str(path.relative_to(library)) for path in library.rglob("*.mpy")}
    assert {url for url, _ in index["urls"]} == {name for _, name in index["urls"]} == files
    assert files == {f"mqttsn/{name}.mpy" for name in ("__init__", *made.ALONE)}


def test_bytecode_is_of_the_version_that_micropython_loads_since_1_23(library: Path) -> None:
    for path in library.rglob("*.mpy"):
        assert path.read_bytes()[:2] == b"M\x06", path


def test_the_sources_package_has_every_file_that_a_board_needs() -> None:
    index = json.loads((REPOSITORY / "firmware" / "package.json").read_text())
    named = {name for name, _ in index["urls"]}
    sources = {f"mqttsn/{path.name}" for path in made.SOURCES.glob("*.py")}
    assert named == sources - {"mqttsn/cpython.py"}
    assert index["version"] == made.VERSION


def test_the_command_says_what_it_made_and_where(tmp_path: Path, library: Path) -> None:
    command = [sys.executable, "-m", "firmware.build", "--into", str(tmp_path / "out")]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert "mqttsn/__init__.mpy" in ended.stdout
    assert (tmp_path / "out" / "package.json").exists()


def test_a_folder_that_cannot_be_made_is_a_message(tmp_path: Path, library: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "firmware.build", "--into", str(tmp_path / "file" / "out")]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("not built: ")
    assert "Traceback" not in ended.stderr
