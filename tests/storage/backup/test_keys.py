"""Keys of devices: in a backup only if asked for, and at their place after a restore."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gateway.app.exit_codes import ExitCode
from gateway.storage.backup.archive import FORMAT, FORMAT_WITHOUT_KEYS, Reader
from gateway.storage.keys.file import change_keys, read_keys
from gateway.storage.keys.records import NewKey
from tests.cli.tidegate import tidegate_here
from tests.storage.backup.support import gateway_folder

CANARY = b"canary of a tank"


def with_keys(tmp_path: Path) -> Path:
    folder = gateway_folder(tmp_path / "from").parent
    new = NewKey(name="tank", secret=CANARY)
    change_keys(folder / "state" / "device.keys", lambda before: before.added([new], 1.0))
    return folder


def backup(folder: Path, *more: str) -> str:
    done = tidegate_here("backup", "g.backup", "--config", "config.toml", *more, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def restore(source: Path, folder: Path, *more: str, code: int = ExitCode.OK) -> str:
    folder.mkdir(exist_ok=True)
    done = tidegate_here(
        "restore", source / "g.backup", "--config", "config.toml", *more, folder=folder
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_they_are_left_out_and_the_restore_says_what_is_missing(tmp_path: Path) -> None:
    folder = with_keys(tmp_path)
    assert "not in it: security.keys_file; --with-secrets" in backup(folder)
    reader = Reader(folder / "g.backup")
    assert reader.head.format <= FORMAT_WITHOUT_KEYS
    assert all(CANARY.hex().encode() not in part.read() for part in reader.parts())
    reader.close()
    said = restore(folder, tmp_path / "to")
    assert "security.keys_file" in said
    assert "device.keys is not in the backup and not here" in said


def test_with_secrets_they_come_back_private(tmp_path: Path) -> None:
    folder = with_keys(tmp_path)
    backup(folder, "--with-secrets")
    reader = Reader(folder / "g.backup")
    assert reader.head.format == FORMAT
    reader.close()
    said = restore(folder, tmp_path / "to")
    assert "not in the backup" not in said
    path = tmp_path / "to" / "state" / "device.keys"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.secret for each in read_keys(path)[0]] == [CANARY]
    restore(folder, tmp_path / "to", "--force")
    path.write_bytes(b"others")
    restore(folder, tmp_path / "to", "--force")
    assert (path.parent / "device.keys.before-restore").read_bytes() == b"others"


def test_keys_that_are_there_stay_if_the_backup_has_none(tmp_path: Path) -> None:
    folder = with_keys(tmp_path)
    backup(folder)
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "state").mkdir()
    path = tmp_path / "to" / "state" / "device.keys"
    path.write_bytes(b"here")
    said = restore(folder, tmp_path / "to")
    assert "not in the backup" not in said
    assert path.read_bytes() == b"here"


def test_no_link_in_the_state_folder_leads_elsewhere(tmp_path: Path) -> None:
    folder = with_keys(tmp_path)
    path = folder / "state" / "device.keys"
    path.unlink()
    (tmp_path / "shadow").write_bytes(b"root")
    path.symlink_to(tmp_path / "shadow")
    done = tidegate_here(
        *("backup", "g.backup", "--config", "config.toml", "--with-secrets"), folder=folder
    )
    assert done.returncode == ExitCode.FAILURE
    assert "device.keys is a link" in done.stderr


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
