"""The file of keys: its rights, and one whole file at any moment."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from gateway.storage.keys import file as key_file
from gateway.storage.keys.errors import KeyRefusedError, KeysError
from gateway.storage.keys.file import change_keys, read_keys, write_private
from gateway.storage.keys.records import KeyRecords, NewKey

SECRET = b"a canary of keys"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user: only root can")


def add(path: Path, name: str = "tank", secret: bytes = SECRET) -> KeyRecords:
    new = NewKey(name=name, secret=secret)
    return change_keys(path, lambda before: before.added([new], 1.0))


def test_it_is_made_private_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "device.keys"
    assert read_keys(path)[1] == b""
    before = os.umask(0)
    try:
        add(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    records, digest = read_keys(path)
    assert [each.secret for each in records] == [SECRET]
    add(path, "door", b"another key here")
    assert read_keys(path)[1] != digest
    assert [each.name for each in tmp_path.iterdir()] == ["device.keys"]


@pytest.mark.parametrize("call", ["rename", "fsync"])
def test_a_disk_that_fails_leaves_the_file_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "device.keys"
    add(path)

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(f"gateway.storage.keys.file.os.{call}", fails)
        with pytest.raises(OSError, match="Input/output"):
            add(path, "door", b"another key here")
    assert [each.name for each in read_keys(path)[0]] == ["tank"]
    assert [each.name for each in tmp_path.iterdir()] == ["device.keys"]


def test_what_a_killed_one_left_is_in_no_way(tmp_path: Path) -> None:
    (tmp_path / ".device.keys.new").write_bytes(b"half")
    add(tmp_path / "device.keys")
    assert not (tmp_path / ".device.keys.new").exists()


def test_a_damaged_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "device.keys"
    add(path)
    damaged = path.read_bytes()[:-20]
    path.write_bytes(damaged)
    with pytest.raises(KeysError, match=r"device\.keys is damaged: .*It is left as it is"):
        add(path, "door", b"another key here")
    assert path.read_bytes() == damaged


def test_a_refused_change_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "device.keys"
    add(path)
    before = path.stat()
    with pytest.raises(KeyRefusedError):
        add(path)
    assert path.stat() == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused_with_the_cure(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "device.keys"
    add(path)
    path.chmod(mode)
    with pytest.raises(
        KeysError, match=rf"open to others \(mode {mode:04o}\):.*chmod 600"
    ) as error:
        read_keys(path)
    assert SECRET.hex() not in str(error.value)


@AS_ROOT
def test_a_file_of_another_user_is_refused_and_a_new_one_is_the_folders(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    path = folder / "device.keys"
    add(path)
    assert path.stat().st_uid == 65534
    os.chown(path, 1234, 1234)
    with pytest.raises(KeysError, match=r"belongs to user 1234:.*chown --reference="):
        read_keys(path)


def test_no_link_is_followed_and_no_pipe_opened(tmp_path: Path) -> None:
    add(tmp_path / "other")
    path = tmp_path / "device.keys"
    path.symlink_to("other")
    with pytest.raises(KeysError, match="is a link: name the file itself"):
        read_keys(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(KeysError, match="is no regular file"):
        read_keys(path)


def test_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_file, "PATIENCE_S", 0.0)
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        with pytest.raises(KeysError, match="another program is changing it"):
            add(tmp_path / "device.keys")
    finally:
        os.close(folder)
    add(tmp_path / "device.keys")


def test_a_credential_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tidegate.keys"
    add(path)
    path.chmod(0o444)  # as systemd may have it for its one reader
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert len(read_keys(path)[0]) == 1
    with pytest.raises(KeysError, match="a credential of systemd, which is only read"):
        add(path, "door")
    with pytest.raises(KeysError, match="systemd was not asked for it"):
        read_keys(tmp_path / "none")


def test_a_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state" / "device.keys"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(KeysError, match="start the gateway once"):
        add(path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() or 1)
    monkeypatch.setattr(os, "fchown", lambda *_: None)
    add(path)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_private_file_is_new(tmp_path: Path) -> None:
    write_private(tmp_path / "export.csv", b"x")
    assert stat.S_IMODE((tmp_path / "export.csv").stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_private(tmp_path / "export.csv", b"y")
