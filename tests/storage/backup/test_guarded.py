"""The state folder belongs to another user: no link in it leads root elsewhere."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.storage.backup.guarded import Folder, Moves
from tests.cli.tidegate import tidegate_here
from tests.storage.backup.support import gateway_folder
from tests.storage.backup.test_restore import backup_of, epoch_in

SECRET = b"root:$6$secret:1::::::\n"
OTHER_USER = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user: only root can")


def a_link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def a_hard_link(path: Path, secret: Path) -> None:
    path.hardlink_to(secret)


def a_pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path, _: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


def a_folder(path: Path, _: Path) -> None:
    path.mkdir()


Trap = Callable[[Path, Path], None]
TRAPS = pytest.mark.parametrize("trap", [a_link, a_hard_link, a_pipe, a_socket, a_folder])
SEGMENT = "journal/00000000000000000000-0000000009-28bca452.segment"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "shadow"
    path.write_bytes(SECRET)
    path.chmod(0o640)
    return path


def spring(trap: Trap, place: Path, secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    monkeypatch.chdir(place.parent)
    trap(place, secret)


def is_untouched(secret: Path) -> bool:
    status = secret.stat()
    return (secret.read_bytes(), stat.S_IMODE(status.st_mode), status.st_uid) == (
        SECRET,
        0o640,
        os.geteuid(),
    )


@TRAPS
@pytest.mark.parametrize("name", ["state.db", "announced.jsonl", "announced.values.jsonl", SEGMENT])
def test_a_backup_takes_only_files_of_the_folders_own(
    tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch, trap: Trap, name: str
) -> None:
    config = gateway_folder(tmp_path)
    epoch_in(tmp_path / "state")
    spring(trap, tmp_path / "state" / name, secret, monkeypatch)
    done = tidegate_here("backup", "b", "--config", config, folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"{tmp_path}/state/{name} is a" in done.stderr
    assert "no link is followed" in done.stderr
    assert not list(tmp_path.glob("*b")), "nor is there a part of one"


@pytest.mark.parametrize("name", ["journal"])
def test_a_backup_enters_no_link(tmp_path: Path, name: str) -> None:
    config = gateway_folder(tmp_path)
    (tmp_path / "state" / name).rename(tmp_path / "elsewhere")
    (tmp_path / "state" / name).symlink_to(tmp_path / "elsewhere")
    done = tidegate_here("backup", "b", "--config", config, folder=tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path}/state/{name} is a link" in done.stderr


OF_RESTORE = [
    "state.db",
    "announced.jsonl",
    "announced.values.jsonl",
    "lock",
    "restore.unfinished",
    "epoch",
]
FOLDERS_OF_RESTORE = ["journal", "before-restore", "before-restore.former", ".restoring"]


@TRAPS
@pytest.mark.parametrize("name", [*OF_RESTORE, *FOLDERS_OF_RESTORE])
def test_a_restore_touches_nothing_that_is_not_the_folders_own(
    tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch, trap: Trap, name: str
) -> None:
    if trap is a_folder and name in FOLDERS_OF_RESTORE:
        pytest.skip("not a trap: a folder is what is expected there")
    config = gateway_folder(tmp_path)
    epoch_in(tmp_path / "state")
    (tmp_path / "state" / "announced.jsonl").write_text('["t", "c", []]\n')
    backup = backup_of(config)
    spring(trap, tmp_path / "state" / name, secret, monkeypatch)
    before = snapshot_of(tmp_path)
    done = tidegate_here("restore", backup, "--config", config, "--force", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"{tmp_path}/state/{name} is a" in done.stderr
    assert snapshot_of(tmp_path) == before
    assert is_untouched(secret)


def snapshot_of(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Every name, with what it is; the holder of the lock is not part of it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        is_content = stat.S_ISREG(status.st_mode) and path.name != "lock"
        content = path.read_bytes() if is_content else b""
        found[str(path.relative_to(folder))] = (
            status.st_mode,
            status.st_uid,
            status.st_ino,
            content,
        )
    return found


@AS_ROOT
@pytest.mark.parametrize("name", ["state.db", "announced.jsonl", "lock", "journal"])
def test_a_file_of_another_user_is_refused(tmp_path: Path, name: str) -> None:
    config = gateway_folder(tmp_path)
    epoch_in(tmp_path / "state")
    (tmp_path / "state" / "announced.jsonl").touch()
    backup = backup_of(config)
    os.chown(tmp_path / "state" / name, OTHER_USER, OTHER_USER)
    done = tidegate_here("restore", backup, "--config", config, "--force", folder=tmp_path)
    assert done.returncode == 1
    assert f"{name} is of user {OTHER_USER}, and the folder is of user 0" in done.stderr
    if name != "lock":
        done = tidegate_here("backup", "b", "--config", config, folder=tmp_path)
        assert f"{name} is of user {OTHER_USER}, and the folder is of user 0" in done.stderr


@AS_ROOT
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
@pytest.mark.parametrize("is_there", [False, True])
def test_all_of_it_is_the_folders_owners_alone(tmp_path: Path, umask: int, is_there: bool) -> None:
    old = gateway_folder(tmp_path / "old")
    (tmp_path / "old" / "state" / "announced.jsonl").touch()
    epoch_in(tmp_path / "old" / "state")
    backup = backup_of(old)
    config = gateway_folder(tmp_path / "new", readings=5 if is_there else 0)
    state = tmp_path / "new" / "state"
    state.mkdir(exist_ok=True)
    for path in (state, *state.rglob("*")):
        os.chown(path, OTHER_USER, OTHER_USER)
    before = os.umask(umask)
    try:
        done = tidegate_here("restore", backup, "--config", config, "--force", folder=tmp_path)
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    found = {path: path.stat() for path in (state, *state.rglob("*"))}
    assert {"state.db", "journal", "announced.jsonl", "lock"} <= {path.name for path in found}
    for path, status in found.items():
        mode = 0o700 if path.is_dir() else 0o600
        is_kept = "before-restore/" in str(path)
        assert is_kept or stat.S_IMODE(status.st_mode) == mode, path
        assert (status.st_uid, status.st_gid) == (OTHER_USER, OTHER_USER), path


# Folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with Folder.opened(tmp_path) as opened:
        yield opened


def test_a_file_is_made_only_where_none_is(folder: Folder, secret: Path) -> None:
    (folder.path / "link").symlink_to(secret)
    for name in ("link", "shadow"):
        with pytest.raises(FileExistsError):
            folder.write(name, (b"x",))
    assert is_untouched(secret)


def test_no_link_is_entered_and_no_folder_of_others_is_given_away(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (folder.path / "link").symlink_to(elsewhere)
    with pytest.raises(OSError, match="link"), folder.step("link"):
        pass
    with pytest.raises(OSError, match="Not a directory"):
        folder.give_folder("link", None, 0o777)
    folder.remove("link")
    assert elsewhere.is_dir()


@pytest.mark.parametrize("has_links", [True, False])
def test_moves_are_taken_back_in_reverse(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:

        def no_links(*_: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(Folder, "link", no_links)
    for name in "ab":
        (folder.path / name).write_text(name)
    moves = Moves()
    moves.make(folder, "made")
    moves.keep(folder, "a", folder, "a.kept")
    assert (folder.path / "a").exists() is has_links, "it is never missing where that can be"
    moves.rename(folder, "b", folder, "a")
    assert (folder.path / "a").read_text() == "b"
    moves.take_back()
    assert {path.name: path.read_text() for path in folder.path.iterdir()} == {"a": "a", "b": "b"}


# As an attacker in the name of the service's user: swaps names in the state folder all the time.
EXCHANGES = """
import os, sys
state, outside = sys.argv[1:]
os.chdir(state)
os.setgid(65534)
os.setuid(65534)
print("there", flush=True)
names = [".restoring", "before-restore", "journal", "lock", "state.db", "restore.unfinished"]
number = 0
while True:
    for name in names:
        number += 1
        try:
            os.rename(name, f"aside-{number}")
            os.symlink(outside, name)
            for _ in range(number % 60):
                os.lstat(name)
            os.unlink(name)
            os.rename(f"aside-{number}", name)
        except OSError:
            pass
"""


@AS_ROOT
def test_names_that_change_all_the_time_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "journal").mkdir()
    (outside / "witness").write_text("here")
    backup = backup_of(gateway_folder(tmp_path / "old"))
    config = gateway_folder(tmp_path / "new")
    state = tmp_path / "new" / "state"
    for path in (state, *state.rglob("*")):
        os.chown(path, OTHER_USER, OTHER_USER)
    before = snapshot_of(outside)
    command = [sys.executable, "-c", EXCHANGES, str(state), str(outside)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as attacker:
        try:
            assert attacker.stdout is not None
            assert attacker.stdout.readline() == b"there\n"
            for number in range(4):
                verbs = (
                    ("restore", backup, "--config", config, "--force"),
                    ("backup", f"b{number}", "--config", config),
                )
                for verb in verbs:
                    done = tidegate_here(*verb, folder=tmp_path)
                    assert "Traceback" not in done.stderr
                    assert done.returncode in (0, 1, 69, 73, 77), done.stderr
        finally:
            attacker.kill()
    assert snapshot_of(outside) == before
