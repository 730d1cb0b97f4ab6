"""`tidegate init`: writes a file that `check` accepts, and never harms one that is there."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.config.template import template
from tests.cli.tidegate import environment_with, tidegate_here

NOBODY = 65534


def test_the_file_it_writes_passes_check_unchanged(tmp_path: Path) -> None:
    assert tidegate_here("init", "c.toml", folder=tmp_path).returncode == 0
    assert (tmp_path / "c.toml").read_text() == template()
    done = tidegate_here("check", "c.toml", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_without_a_file_it_writes_to_stdout(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = tidegate_here("init", *arguments, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, template(), "")
    assert list(tmp_path.iterdir()) == []


def test_it_replaces_nothing_unless_forced(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("mine")
    done = tidegate_here("init", "c.toml", folder=tmp_path)
    assert done.returncode == 73
    assert done.stderr == "tidegate init: c.toml is there already; --force replaces it\n"
    assert file.read_text() == "mine"
    assert tidegate_here("init", "c.toml", "--force", folder=tmp_path).returncode == 0
    assert file.read_text() == template()


def test_a_folder_that_is_missing_is_named_with_what_makes_it(tmp_path: Path) -> None:
    done = tidegate_here("init", "a/b/c.toml", folder=tmp_path)
    assert done.returncode == 73
    assert done.stderr == "tidegate init: the folder a/b does not exist; mkdir -p a/b makes it\n"


@pytest.mark.parametrize("arguments", [(), ("--force",)])
def test_a_folder_in_its_place_is_refused(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = tidegate_here("init", tmp_path, *arguments, folder=tmp_path)
    assert done.returncode == 73
    assert done.stderr == f"tidegate init: {tmp_path} is a folder\n"


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    done = tidegate_here("init", "a/c.toml", folder=tmp_path)
    assert done.returncode == 73
    assert done.stderr == "tidegate init: cannot write a/c.toml: Not a directory\n"


@contextmanager
def nobody_in_particular() -> Iterator[None]:
    """To root every folder is open, so root steps back for a moment."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_a_folder_of_somebody_else_is_a_matter_of_permission(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    import_module("gateway.cli.init")  # nobody may not read a clone below root's home
    with nobody_in_particular():
        code = main(["init", str(locked / "c.toml")])
    assert capsys.readouterr().err == f"tidegate init: no permission to write {locked}/c.toml\n"
    assert code == 77


def test_a_full_disk_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    """A limit on the size of files stops the writing as a full disk would."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "from gateway.__main__ import main; import gateway.cli.init;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100));"
        "sys.exit(main(['init', 'c.toml']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment_with({"PYTHONDONTWRITEBYTECODE": "1"}),
        capture_output=True,
        text=True,
        check=False,
    )
    said = "tidegate init: cannot write c.toml: no file may become larger than 100 bytes"
    assert done.stderr.startswith(said)
    assert done.returncode == 73
    assert list(tmp_path.iterdir()) == []
