"""`make release`: what it refuses, the SBOM, and that one commit gives one file of each kind."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from firmware.build import VERSION as VERSION_OF_FIRMWARE
from gateway.host.version import version as installed
from tests.house.house_rules import pins_in, tracked
from tests.support.ci_scripts import ci_script
from tests.support.starting import REPOSITORY

VERSION: str = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
READY = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-11-27\n\n- new\n"
WHERE = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "one"), ("EMAIL", "one@localhost"), ("DATE", "1790000000 +0000"))
}
# How two machines may differ: rights of files, time zone, language, order of sets, and the folder.
MACHINES: Mapping[str, tuple[int, dict[str, str]]] = {
    "a": (0o022, {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1"}),
    "another/longer": (0o077, {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "2"}),
}


@pytest.fixture(scope="module")
def release() -> ModuleType:
    return ci_script("release")


def git(root: Path, *words: str) -> None:
    if shutil.which("git") is None:
        pytest.skip("not run: git is missing")
    command = ["git", "-C", str(root), *words]
    environment = {**os.environ, **WHERE, **WHO}
    subprocess.run(command, check=True, capture_output=True, env=environment)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository that can be released as 1.2.0."""
    (tmp_path / "CHANGELOG.md").write_text(READY)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    return tmp_path


def changelog(tree: Path, text: str) -> None:
    (tree / "CHANGELOG.md").write_text(text)
    git(tree, "commit", "-q", "-a", "-m", "two")


def test_nothing_is_against_a_tree_that_is_ready(release: ModuleType, tree: Path) -> None:
    assert list(release.objections(tree, "1.2.0")) == []


def test_a_changed_tree_is_refused(release: ModuleType, tree: Path) -> None:
    for name in ("a", "b", "c", "d"):
        (tree / name).touch()
    (found,) = release.objections(tree, "1.2.0")
    assert found == (
        "the tree is not as it was committed: a, b, c and 1 more; commit or remove them"
    )


def test_a_version_without_a_section_is_refused(release: ModuleType, tree: Path) -> None:
    (found,) = release.objections(tree, "1.3.0")
    assert found == "CHANGELOG.md has no section [1.3.0]; add it, or correct the version"


@pytest.mark.parametrize("behind", ["", " - soon", " - 2026-13-01", " 2026-11-27"])
def test_a_section_without_a_date_is_refused(release: ModuleType, tree: Path, behind: str) -> None:
    changelog(tree, READY.replace(" - 2026-11-27", behind))
    (found,) = release.objections(tree, "1.2.0")
    assert found == "CHANGELOG.md: [1.2.0] has no date; write  ## [1.2.0] - YYYY-MM-DD"


def test_entries_that_would_be_left_out_are_refused(release: ModuleType, tree: Path) -> None:
    changelog(tree, READY.replace("[Unreleased]\n", "[Unreleased]\n\n- later\n"))
    (found,) = release.objections(tree, "1.2.0")
    assert found == "CHANGELOG.md: [Unreleased] is not empty; move what it has to [1.2.0]"


def test_a_tag_that_is_there_is_refused(release: ModuleType, tree: Path) -> None:
    git(tree, "tag", "v1.2.0")
    (found,) = release.objections(tree, "1.2.0")
    assert found == "the tag v1.2.0 is there already; raise the version in pyproject.toml"


def test_a_folder_without_git_is_refused(release: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(release.BuildError, match="not a git repository"):
        list(release.objections(tmp_path, "1.2.0"))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("objections", lambda root, version: ["the tree is wrong"], "the tree is wrong"),
        ("stale_docs", lambda root, generated: ["docs/a.md: stale"], "docs/a.md: stale"),
        ("installed", lambda: "0.0.9", "the environment has Tidegate 0.0.9, not"),
    ],
)
def test_each_refusal_ends_it_before_anything_is_built(
    release: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: object,
    sentence: str,
) -> None:
    nothing = {
        "objections": lambda root, version: [],
        "stale_docs": lambda root, generated: [],
        "installed": lambda: VERSION,
    }
    for each, answer in (nothing | {name: value}).items():
        monkeypatch.setattr(release, each, answer)
    monkeypatch.setattr(release, "built", lambda *_, **__: pytest.fail("it was built"))
    monkeypatch.setattr(sys, "argv", ["release.py"])
    assert release.main() == 1
    assert capsys.readouterr().err.startswith(f"release: {sentence}")
    monkeypatch.setattr(release, name, nothing[name])
    monkeypatch.setattr(sys, "argv", ["release.py", "--dry-run"])
    assert release.main() == 0
    assert capsys.readouterr().out == f"Nothing is against {VERSION}:  make release\n"


# One version


def test_what_is_installed_and_what_nodes_get_have_the_version_of_the_project() -> None:
    assert installed() == VERSION, "make setup"
    assert VERSION_OF_FIRMWARE == VERSION


def test_documents_name_its_files() -> None:
    named = {
        name
        for path in (REPOSITORY / "docs").rglob("*.md")
        for name in re.findall(r"tidegate[-_](\d+\.\d+\.\d+)", path.read_text(encoding="utf-8"))
    }
    assert named == {VERSION}


def test_the_command_line_and_the_manual_say_it() -> None:
    command = [sys.executable, "-m", "gateway"]
    said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"tidegate {VERSION}\n"
    manual = subprocess.run([*command, "man"], capture_output=True, text=True, check=True)
    assert f'"Tidegate {VERSION}"' in manual.stdout


# What it is made of


def test_the_sbom_has_what_is_locked_and_fits_its_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    validation = pytest.importorskip("cyclonedx.validation.json", reason="make release brings it")
    schema = pytest.importorskip("cyclonedx.schema")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    text = ci_script("sbom").sbom()
    assert validation.JsonStrictValidator(schema.SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    ours = document["metadata"]["component"]
    assert (ours["name"], ours["version"]) == ("tidegate", VERSION)
    assert document["metadata"]["timestamp"].startswith("2026-09-21T")
    pins = list(pins_in(REPOSITORY / ".ci/requirements-gateway.lock"))
    assert len(pins) >= 7
    parts = {(each["name"], each["version"]): each for each in document["components"]}
    assert len(parts) == len(pins)
    for pin, hashes in pins:
        part = parts[pin.name, str(pin.specifier).removeprefix("==")]
        (files,) = part["externalReferences"]
        assert {f"sha256:{each['content']}" for each in files["hashes"]} == set(hashes)
        said = [each["value"] for each in part.get("properties", [])]
        assert said == ([str(pin.marker)] if pin.marker else [])
    (below,) = [each["dependsOn"] for each in document["dependencies"] if "dependsOn" in each]
    assert set(below) == {each["bom-ref"] for each in document["components"]}


# The same bytes


def on(machine: str, command: list[str], folder: Path, **more: str) -> None:
    """As that machine would run it."""
    umask, environment = MACHINES[machine]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment, **more},
        umask=umask,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def digests(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_wheel_and_a_source_archive_have_the_same_bytes_anywhere(tmp_path: Path) -> None:
    made = []
    for number, machine in enumerate(MACHINES):
        folder, into = tmp_path / machine, tmp_path / f"made{number}"
        for path in tracked(REPOSITORY):
            target = folder / path.relative_to(REPOSITORY)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target, follow_symlinks=False)
            if not target.is_symlink():
                target.chmod(0o666 & ~MACHINES[machine][0])
        command = [sys.executable, "-m", "hatchling", "build", "-d", str(into)]
        on(machine, command, folder, SOURCE_DATE_EPOCH="1790000000")
        made.append(digests(into))
    assert made[0].keys() == {f"tidegate-{VERSION}-py3-none-any.whl", f"tidegate-{VERSION}.tar.gz"}
    assert [name for name, of_one in made[0].items() if made[1][name] != of_one] == []


@pytest.mark.soak
def test_a_whole_release_has_the_same_bytes_anywhere(tmp_path: Path) -> None:
    """Built in two clones, as `make release` builds it; pip brings what the .deb has inside."""
    if platform.machine() not in ("x86_64", "aarch64") or shutil.which("dpkg-deb") is None:
        pytest.skip("not run: no SBOM or no .deb is built on this machine")
    pytest.importorskip("cyclonedx", reason="make release brings it")
    made = []
    for machine in MACHINES:
        folder = tmp_path / machine
        subprocess.run(["git", "clone", "-q", "--no-tags", REPOSITORY, folder], check=True)
        (folder / "CHANGELOG.md").write_text(READY.replace("1.2.0", VERSION))
        git(folder, "commit", "-q", "-a", "--allow-empty", "-m", "a release")
        on(machine, [sys.executable, ".ci/release.py"], folder)
        made.append(digests(folder / "dist"))
        subprocess.run(
            ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"],
            cwd=folder / "dist",
            check=True,
        )
    kinds = sorted(name.removeprefix("tidegate").lstrip("-_") for name in made[0])
    assert len(kinds) == 5, kinds
    assert [name for name, of_one in made[0].items() if made[1][name] != of_one] == []
