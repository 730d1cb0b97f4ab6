"""Whatever the gateway writes is for its user alone, whatever the umask of who starts it."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from tests.cli.tidegate import tidegate
from tests.support.waiting import until

NOWHERE = "mqtt://127.0.0.1:1"
UMASKED = "import os, sys; os.umask(int(sys.argv[1], 8)); os.execv(sys.argv[2], sys.argv[2:])"


def too_loose(folder: Path) -> dict[str, str]:
    """By name: what others may do with it."""
    found = {path: path.stat() for path in (folder, *folder.rglob("*"))}
    return {
        str(path.relative_to(folder)): stat.filemode(status.st_mode)
        for path, status in found.items()
        if status.st_mode & 0o077
    }


@pytest.mark.parametrize("umask", ["000", "022"])
@pytest.mark.parametrize("is_old", [False, True], ids=["new", "of a former version"])
def test_state_folder_and_all_in_it_are_private(tmp_path: Path, umask: str, is_old: bool) -> None:
    prefix = (sys.executable, "-c", UMASKED, umask)
    gateway = GatewayProcess(tmp_path, NOWHERE, "[presence]\nclients = true\n", prefix=prefix)
    state = tmp_path / "state"
    if is_old:
        state.chmod(0o755)
        (state / "announced.jsonl").touch()
        (state / "announced.jsonl").chmod(0o644)
    else:
        shutil.rmtree(state)
    gateway.start()
    assert gateway.port
    until(lambda: (state / "state.db").exists() and any((state / "journal").iterdir()))
    assert set(too_loose(state)) <= {"announced.jsonl"}, "written when it is next used"
    assert gateway.stop() == 0
    assert set(too_loose(state)) <= {"announced.jsonl"}
    before = os.umask(int(umask, 8))
    try:
        config = ("--config", str(gateway.config_path))
        for verb in (("backup", "b"), ("buffer", "export", "--output", "e")):
            done = tidegate(verb[0], *verb[1:], *config, folder=tmp_path)
            assert done.returncode == 0, done.stderr
            assert not (tmp_path / verb[-1]).stat().st_mode & 0o077
    finally:
        os.umask(before)


def test_a_folder_that_has_more_than_ours_stays_as_it_is(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path, NOWHERE)
    state = tmp_path / "state"
    (state / "notes").touch()
    state.chmod(0o775)
    gateway.start()
    assert gateway.port
    assert state.stat().st_mode & 0o777 == 0o775
    gateway.wait_for_log(f"{state} can be changed by other users of this machine: chmod 0700")
    assert gateway.stop() == 0
