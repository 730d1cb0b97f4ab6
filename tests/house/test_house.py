"""The rules of the house hold here, and each would notice a breach."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import LONG, MEASURED, MEASURED_BY_OTHERS, QUICK
from tests.house import house_rules

REPOSITORY = Path(__file__).resolve().parents[2]


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_what_conftest_names_is_there() -> None:
    """Files and folders, and tests of a file."""

    def is_there(name: str) -> bool:
        path, _, test = name.partition("::")
        file = REPOSITORY / "tests" / path
        return file.exists() and (not test or f"def {test}(" in file.read_text(encoding="utf-8"))

    named = (*LONG, *MEASURED, *MEASURED_BY_OTHERS, *QUICK)
    assert [name for name in named if not is_there(name)] == []


def test_no_file_is_too_long() -> None:
    assert list(house_rules.long_files(REPOSITORY)) == []


@pytest.mark.parametrize("name", ["gateway/core/engine.py", ".ci/setup.sh", "tests/bench/load.c"])
def test_a_file_one_line_too_long_is_found(tmp_path: Path, name: str) -> None:
    lines = house_rules.FILE_LINES_MAX
    plant(tmp_path, {name: "\n" * (lines + 1), "gateway/whole.py": "\n" * lines})
    (found,) = house_rules.long_files(tmp_path)
    assert found.startswith(f"{name}: {lines + 1} lines")


def test_nothing_else_lies_at_the_top() -> None:
    assert list(house_rules.strangers_at_the_top(REPOSITORY)) == []


def test_a_file_that_was_left_at_the_top_is_found(tmp_path: Path) -> None:
    plant(tmp_path, {"c.toml": "", "gateway/core/engine.py": "", "notes/day.md": ""})
    found = list(house_rules.strangers_at_the_top(tmp_path))
    assert [line.split(":")[0] for line in found] == ["c.toml", "notes"]


def test_no_file_speaks_of_one_machine_a_registry_or_unfinished_work() -> None:
    assert list(house_rules.forbidden_text(REPOSITORY)) == []


@pytest.mark.parametrize(
    ("pieces", "what"),
    [
        (("# TO", "DO: retry"), "unfinished work"),
        (("FIX", "ME"), "unfinished work"),
        (("cd /wo", "rk/tree"), "a path of one machine"),
        (("path = '/ro", "ot/.cache'"), "a path of one machine"),
        (("see /home", "/pi/notes"), "a path of one machine"),
        (("open('/tm", "p/log')"), "a path of one machine"),
        (("https://py", "pi.org/simple"), "a package registry's host"),
        (("files.python", "hosted.org"), "a package registry's host"),
        (("deb http://deb.", "debian.org/debian"), "a package registry's host"),
    ],
)
def test_forbidden_text_is_found(tmp_path: Path, pieces: tuple[str, str], what: str) -> None:
    plant(tmp_path, {"docs/note.md": "first\n" + "".join(pieces) + "\n"})
    (found,) = house_rules.forbidden_text(tmp_path)
    assert found.startswith("docs/note.md:2: ")
    assert what in found


def test_ordinary_text_is_not_found(tmp_path: Path) -> None:
    lines = ["/var/lib/tidegate", "/usr/sbin/mosquitto", "~/work/x", "/etc/tidegate", "framework/"]
    files = {"docs/note.md": "\n".join([*lines, "mktemp -t XXXXXX"])}
    assert list(house_rules.forbidden_text(plant(tmp_path, files))) == []


def test_caches_and_the_environment_are_not_searched(tmp_path: Path) -> None:
    word = "FIX" + "ME"
    left_behind = (".venv/lib/part.py", "gateway/__pycache__/part.py", "build/part.py")
    planted = plant(tmp_path, dict.fromkeys((*left_behind, ".ci/run"), word))
    assert [path.name for path in house_rules.tracked(planted)] == ["run"]


def test_in_a_repository_only_its_own_files_are_searched(tmp_path: Path) -> None:
    plant(tmp_path, {"added.py": "", "tidegate.toml": "# somebody's own"})
    for command in (["init", "-q"], ["add", "added.py"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    assert [path.name for path in house_rules.tracked(tmp_path)] == ["added.py"]


def test_every_file_of_the_gateway_is_used() -> None:
    assert list(house_rules.dead_files(REPOSITORY)) == []


LIVE = {
    "gateway/__init__.py": '"""The gateway."""\n',
    "gateway/__main__.py": "from importlib import import_module\n"
    "VERBS = {'run': 'Run it'}\n"
    "def main(verb: str) -> None:\n"
    "    import_module(f'gateway.cli.{verb}')\n",
    "gateway/cli/__init__.py": "",
    "gateway/cli/run.py": "from gateway.app import daemon\n",
    "gateway/app/daemon.py": "from ..storage.state import store\nCHILD = ['-m', 'gateway.child']\n",
    "gateway/child.py": "",
    "gateway/storage/state/__init__.py": "",
    "gateway/storage/state/store.py": "SCHEMA = 'schema.sql'\n",
    "gateway/storage/state/schema.sql": "CREATE TABLE session (id TEXT);\n",
    "gateway/config/reference.py": "",
    "gateway/tool.py": "",
    "gateway/py.typed": "",
    "docs/tools.md": "`python -m gateway.tool` does it.\n",
}


def test_what_is_imported_started_looked_up_or_documented_is_alive(tmp_path: Path) -> None:
    assert list(house_rules.dead_files(plant(tmp_path, LIVE))) == []


@pytest.mark.parametrize(
    "name",
    [
        "gateway/orphan.py",
        "gateway/cli/orphan.py",
        "gateway/orphans/__init__.py",
        "gateway/storage/state/old.sql",
    ],
)
def test_a_file_that_nothing_uses_is_found(tmp_path: Path, name: str) -> None:
    (found,) = house_rules.dead_files(plant(tmp_path, LIVE | {name: "x = 1\n"}))
    assert found.startswith(f"{name}: ")


def test_a_module_is_dead_when_only_dead_modules_import_it(tmp_path: Path) -> None:
    ring = {
        "gateway/one.py": "from gateway import two\n",
        "gateway/two.py": "import gateway.one\n",
    }
    found = list(house_rules.dead_files(plant(tmp_path, LIVE | ring)))
    assert [line.split(":")[0] for line in found] == list(ring)


@pytest.mark.parametrize("tree", ["firmware", "hil"])
def test_every_file_beside_the_gateway_is_used(tree: str) -> None:
    found = list(house_rules.unused_parts(REPOSITORY, tree))
    assert [line for line in found if not re.search(r"/boards/(wasi|unix)/modules/", line)] == []


PARTS = {
    "hil/__init__.py": '"""Boards."""\n',
    "hil/board.py": "RUNS = ['-m', 'hil.life']\n".replace("'", '"'),
    "hil/life/__main__.py": "from . import services\n",
    "hil/life/services.py": "",
    "hil/tool.py": "",
    "hil/listed.py": "",
    "hil/package.json": '["listed.py"]',
    "docs/hil.md": "Type `python -m hil.tool`.\n",
    "tests/test_board.py": "from hil.board import RUNS\n",
}


def test_a_part_that_nothing_uses_is_found(tmp_path: Path) -> None:
    assert list(house_rules.unused_parts(plant(tmp_path, PARTS), "hil")) == []
    (found,) = house_rules.unused_parts(plant(tmp_path, {"hil/orphan.py": "x = 1\n"}), "hil")
    assert found.startswith("hil/orphan.py: ")


def test_every_document_is_linked() -> None:
    assert list(house_rules.unlinked_docs(REPOSITORY)) == []


def test_a_document_that_nothing_links_is_found(tmp_path: Path) -> None:
    files = {
        "README.md": 'See [the design](docs/design.md) and <a href="docs/table.md">the table</a>.',
        "docs/design.md": "After [decisions](spec_decisions.md#sleep).",
        "docs/spec_decisions.md": "And [this](lost.md).",
        "docs/table.md": "",
        "docs/lost.md": "",
    }
    (found,) = house_rules.unlinked_docs(plant(tmp_path, files))
    assert found.startswith("docs/lost.md: ")


def test_every_generated_document_is_as_its_module_prints_it() -> None:
    assert list(house_rules.stale_docs(REPOSITORY, house_rules.GENERATED)) == []


TABLE = {"docs/table.md": "table"}
PRINTS = {"table.py": "print('one row')\n"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (PRINTS | {"docs/table.md": "another row\n"}, "stale"),
        (PRINTS, "stale"),
        ({"docs/table.md": "one row\n"}, "failed"),
        ({"table.py": "raise SystemExit('no table')", "docs/table.md": ""}, "no table"),
        ({"docs/new.md": "<!-- Made by `python -m gateway.other`. -->\n"}, "add gateway.other"),
    ],
)
def test_a_stale_generated_document_is_found(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    (found,) = house_rules.stale_docs(plant(tmp_path, files), TABLE)
    assert message in found


@pytest.mark.parametrize("files", [{}, PRINTS | {"docs/table.md": "one row\n"}])
def test_a_fresh_generated_document_is_not_found(tmp_path: Path, files: dict[str, str]) -> None:
    assert list(house_rules.stale_docs(plant(tmp_path, files), TABLE)) == []


def test_the_lock_has_a_fitting_version_of_every_dependency() -> None:
    assert list(house_rules.unlocked(REPOSITORY)) == []


@pytest.mark.parametrize("lock", ["cbor2==5.3\n", "# cbor2==6.0\nmqtt5==0.8.0\n"])
def test_a_lock_that_does_not_fit_is_found(tmp_path: Path, lock: str) -> None:
    project = '[project]\ndependencies = ["cbor2>=5.4,<7"]\n'
    locks = dict.fromkeys((house_rules.LOCK, house_rules.GATEWAY_LOCK), lock)
    plant(tmp_path, {"pyproject.toml": project, house_rules.BUILD_LOCK: "", **locks})
    found = list(house_rules.unlocked(tmp_path))
    assert [line.partition(" cbor2")[0] for line in found] == [
        f"{each}: nothing fits" for each in locks
    ]


def test_a_lock_with_a_version_of_its_own_is_found(tmp_path: Path) -> None:
    locks = {house_rules.LOCK: "cbor2==6.1\n", house_rules.GATEWAY_LOCK: "cbor2==6.2\n"}
    project = '[project]\ndependencies = ["cbor2>=5.4,<7"]\n'
    plant(tmp_path, {"pyproject.toml": project, house_rules.BUILD_LOCK: "", **locks})
    (found,) = house_rules.unlocked(tmp_path)
    assert found.startswith(".ci/requirements-gateway.lock: cbor2 is not that of")


def test_each_pin_of_each_lock_has_the_hashes_of_its_files() -> None:
    assert list(house_rules.unhashed(REPOSITORY)) == []
    assert len(list((REPOSITORY / ".ci").glob("*.lock"))) == 7


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("cbor2==6.1\n", "no sha256"),
        ("cbor2==6.1 ; platform_machine == 'x86_64' \\\n    # via tidegate\n", "no sha256"),
        ("cbor2==6.1 \\\n    --hash=md5:0123\n", "no sha256"),
        ("cbor2==6.1 \\\n    --hash=sha256:0123\n", "no sha256"),
        (f"cbor2>=6.1 \\\n    --hash=sha256:{'0' * 64}\n", "not of one version"),
    ],
)
def test_a_pin_without_a_hash_is_found(tmp_path: Path, line: str, fault: str) -> None:
    whole = f"mqtt5==0.8 \\\n    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{'f' * 64}\n"
    (found,) = house_rules.unhashed(plant(tmp_path, {".ci/any.lock": whole + line}))
    assert found.startswith(".ci/any.lock: cbor2")
    assert fault in found


def test_the_wheel_holds_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as contents:
        packed = {Path(name).name for name in contents.namelist() if "/admin/web/" in name}
    assert packed == {each.name for each in (REPOSITORY / "gateway/admin/web").iterdir()}
