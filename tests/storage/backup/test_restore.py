"""Restoring: all or nothing, what was there is kept, and no delivery tag comes twice."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.cli.buffer.on_disk import waiting
from gateway.core.state_records import ClientId
from gateway.presence.documents import LedgerEntry
from gateway.presence.records_file import FILE as VALUES_FILE
from gateway.presence.records_file import RecordsFile
from gateway.presence.retained_ledger import FILE, RetainedLedgerFile
from gateway.storage.backup.archive import FORMAT, BackupHeader, Writer
from gateway.storage.backup.restore import look
from gateway.storage.state.errors import StateError
from gateway.storage.state.folder import RESTORE_MARK, open_state
from tests.cli.test_init import nobody_in_particular
from tests.cli.tidegate import environment_with, tidegate
from tests.storage.backup.support import exported, gateway_folder

KILLED = 9
# Ends the process at the Nth change of a name, as a power cut would.
CUT_SHORT = """
import os, sys
left = int(sys.argv.pop(1))
def hook(event, _):
    global left
    if event in ("os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir"):
        left -= 1
        if left < 0:
            os._exit(9)
from gateway.__main__ import main
sys.addaudithook(hook)
sys.exit(main(sys.argv[1:]))
"""


def backup_of(config: Path, *more: str) -> Path:
    path = config.parent / "backup"
    done = tidegate("backup", path, "--config", config, *more, folder=config.parent)
    assert done.returncode == 0, done.stderr
    return path


def epoch_in(state: Path) -> int:
    folder = open_state(state)
    folder.release()
    return folder.epoch


def test_a_gateway_comes_back_in_an_empty_folder(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path / "old")
    epoch = epoch_in(tmp_path / "old" / "state")
    backup = backup_of(config)
    new = tmp_path / "new" / "config.toml"
    done = tidegate("restore", backup, "--config", new, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["schema"] == "tidegate.restore/1"
    assert (answer["gateway"], answer["segments"]) == ("gh", 1)
    assert (answer["missing"], answer["kept"]) == ({}, {})
    assert new.read_bytes() == config.read_bytes()
    assert exported(new) == exported(config)
    assert epoch_in(tmp_path / "new" / "state") > epoch
    assert sorted(path.name for path in (tmp_path / "new" / "state").iterdir()) == [
        "before-restore",
        "journal",
        "lock",
        "state.db",
        "state.db-wal",
    ]


def test_the_next_epoch_is_above_all_that_were_used_since(tmp_path: Path) -> None:
    """Also where the clock has stood still since the backup."""
    config = gateway_folder(tmp_path)
    backup = backup_of(config)
    state = tmp_path / "state"
    (state / "epoch").write_text(f"{int(time.time()) + 5_000_000}\n")
    used = epoch_in(state)
    assert (
        tidegate("restore", backup, "--config", config, "--force", folder=tmp_path).returncode == 0
    )
    assert epoch_in(state) > used


def test_a_state_that_is_there_is_replaced_only_by_force_and_kept(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path)
    backup = backup_of(config)
    gateway_folder(tmp_path, readings=0)
    (tmp_path / "state" / "journal" / "witness").touch()
    done = tidegate("restore", backup, "--config", config, folder=tmp_path)
    assert done.returncode == 1
    assert "holds a gateway's state already: --force moves it to" in done.stderr
    done = tidegate("restore", backup, "--config", config, "--force", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "state" / "journal" / "witness").exists()
    assert (tmp_path / "state" / "before-restore" / "journal" / "witness").exists()


def said(state: Path, *topics: str) -> None:
    """The gateway notes what the broker has; a topic with - was cleared there."""
    ledger = RetainedLedgerFile(state)
    for topic in topics:
        if topic.startswith("-"):
            ledger.cleared(topic[1:])
        else:
            ledger.published(topic, LedgerEntry(ClientId(topic)))
    ledger.flush()


def test_what_the_broker_may_have_retained_is_known_from_both(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path)
    state = tmp_path / "state"
    said(state, "a", "b")
    backup = backup_of(config)
    new = tmp_path / "new" / "config.toml"
    assert tidegate("restore", backup, "--config", new, folder=tmp_path).returncode == 0
    assert set(RetainedLedgerFile(tmp_path / "new" / "state").load()) == {"a", "b"}
    said(state, "-a", "c")
    (state / FILE).write_text((state / FILE).read_text() + '["torn')
    for _ in range(2):
        done = tidegate("restore", backup, "--config", config, "--force", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert set(RetainedLedgerFile(state).load()) == {"b", "c"}


def test_last_values_of_devices_come_back_and_newer_ones_stay(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path)
    values = RecordsFile(tmp_path / "state")
    remember(values, 'v"a"', "1")
    remember(values, 'v"b"', "1")
    backup = backup_of(config)
    new = tmp_path / "new" / "config.toml"
    assert tidegate("restore", backup, "--config", new, folder=tmp_path).returncode == 0
    restored = tmp_path / "new" / "state"
    assert RecordsFile(restored).load() == {'v"a"': "1", 'v"b"': "1"}
    assert stat.S_IMODE((restored / VALUES_FILE).stat().st_mode) == 0o600
    remember(values, 'v"b"', "2")
    done = tidegate("restore", backup, "--config", config, "--force", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert RecordsFile(tmp_path / "state").load() == {'v"a"': "1", 'v"b"': "2"}


def remember(values: RecordsFile, key: str, row: str) -> None:
    values.put(key, row)
    values.flush(is_end=True)


def test_without_last_values_it_is_of_the_format_that_older_releases_read(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path)
    assert look(backup_of(config)).head.format == 1
    (tmp_path / "state" / VALUES_FILE).touch()
    assert look(backup_of(config, "--force")).head.format == 2


def test_readings_can_be_left_out(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path)
    backup = backup_of(config)
    done = tidegate(
        "restore", backup, "--config", config, "--force", "--without-readings", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert exported(config) == []


def test_the_configuration_can_be_left_as_it_is(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path / "old")
    backup = backup_of(config)
    other = gateway_folder(tmp_path / "new", "keep_alive_s = 7\n", readings=0)
    before = other.read_text()
    done = tidegate("restore", backup, "--config", other, "--without-config", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert other.read_text() == before
    assert len(exported(other)) == 5


def test_a_configuration_that_is_there_is_kept_beside(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path)
    backup = backup_of(config)
    before = config.read_text()
    config.write_text(before + "# changed since\n")
    tidegate("restore", backup, "--config", config, "--force", folder=tmp_path)
    assert config.read_text() == before
    assert (tmp_path / "config.toml.before-restore").read_text().endswith("# changed since\n")


def test_a_configuration_that_is_not_right_here_changes_nothing(tmp_path: Path) -> None:
    writer = Writer(
        tmp_path / "b", BackupHeader(FORMAT, "9", "gh", int(time.time()), has_secrets=False)
    )
    writer.add("config.toml", b"[gateway]\nidd = 1\n")
    writer.close()
    done = tidegate("restore", "b", "--config", "c.toml", folder=tmp_path)
    assert done.returncode == 1
    assert "config.toml:2:1: gateway.idd: unknown key, did you mean gateway.id?" in done.stderr
    assert "--without-config restores all but the configuration" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_damaged_backup_changes_nothing(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path)
    backup = backup_of(config)
    octets = backup.read_bytes()
    backup.write_bytes(octets[:-200])
    before = sorted(tmp_path.rglob("*"))
    done = tidegate("restore", backup, "--config", config, "--force", folder=tmp_path)
    assert done.returncode == 1
    assert "is damaged" in done.stderr
    assert sorted(tmp_path.rglob("*")) == before
    assert len(exported(config)) == 5


def test_a_clock_before_the_backup_is_refused(tmp_path: Path) -> None:
    writer = Writer(
        tmp_path / "b", BackupHeader(FORMAT, "1", "gh", int(time.time()) + 9000, has_secrets=False)
    )
    writer.add("config.toml", b'[gateway]\nstate_dir = "s"\n')
    writer.close()
    done = tidegate("restore", "b", "--config", "c.toml", folder=tmp_path)
    assert done.returncode == 1
    assert "the clock of this machine is before the backup was taken" in done.stderr
    assert not (tmp_path / "c.toml").exists()
    done = tidegate("restore", "b", "--config", "c.toml", "--force", folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_folder_that_a_gateway_has_is_refused(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path)
    backup = backup_of(config)
    folder = open_state(tmp_path / "state")
    try:
        done = tidegate("restore", backup, "--config", config, "--force", folder=tmp_path)
    finally:
        folder.release()
    assert done.returncode == 69
    assert f"is in use by another tidegate (process {os.getpid()}): stop it" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can be another user")
def test_where_nobody_may_write_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gateway.__main__ import main
    from gateway.cli import restore

    assert restore.SCHEMA  # imported while we may read it
    config = gateway_folder(tmp_path)
    backup = backup_of(config)
    backup.chmod(0o644)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() != "root" or folder == Path("/"):
            break
        folder.chmod(folder.stat().st_mode | 0o055)
    with nobody_in_particular():
        code = main(["restore", str(backup), "--config", str(tmp_path / "new.toml")])
    assert code == 77
    assert "no permission; run this with sudo" in capsys.readouterr().err


def test_secrets_come_back_with_their_rights(tmp_path: Path) -> None:
    more = 'username = "g"\npassword_file = "secret"\n'
    config = gateway_folder(tmp_path / "old", more)
    secret = tmp_path / "old" / "secret"
    secret.write_text("tide")
    secret.chmod(0o640)
    without = tidegate("backup", "b", "--config", config, folder=tmp_path)
    assert "not in it: upstream.password_file; --with-secrets adds them" in without.stderr
    new = tmp_path / "new" / "config.toml"
    done = tidegate("restore", "b", "--config", new, folder=tmp_path)
    assert f"upstream.password_file {tmp_path}/new/secret is not in the backup" in done.stderr
    backup = backup_of(config, "--with-secrets")
    listed = tidegate("restore", "--list", backup, folder=tmp_path).stdout
    assert "upstream.password_file, with secrets" in listed
    done = tidegate("restore", backup, "--config", new, "--force", folder=tmp_path)
    assert (done.returncode, "not in the backup" in done.stderr) == (0, False)
    restored = tmp_path / "new" / "secret"
    assert (restored.read_text(), restored.stat().st_mode & 0o777) == ("tide", 0o640)


def test_files_elsewhere_are_never_replaced_unasked(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "secret"
    elsewhere.parent.mkdir()
    elsewhere.write_text("then")
    more = f'username = "g"\npassword_file = "{elsewhere}"\n'
    config = gateway_folder(tmp_path / "old", more)
    backup = backup_of(config, "--with-secrets")
    elsewhere.write_text("now")
    new = tmp_path / "new" / "config.toml"
    done = tidegate("restore", backup, "--config", new, folder=tmp_path)
    assert f"{elsewhere} is another file here and stays; --force replaces it" in done.stderr
    assert elsewhere.read_text() == "now"
    tidegate("restore", backup, "--config", new, "--force", folder=tmp_path)
    assert elsewhere.read_text() == "then"
    assert (elsewhere.parent / "secret.before-restore").read_text() == "now"


def test_a_restore_that_was_cut_short_anywhere_is_finished_by_the_next_one(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path / "old", readings=3)
    backup = backup_of(config)
    refused = 0
    for step in range(60):
        folder = tmp_path / f"cut-{step}"
        here = gateway_folder(folder, readings=7)
        epoch_in(folder / "state")
        command = [sys.executable, "-c", CUT_SHORT, str(step), "restore", str(backup)]
        done = subprocess.run(
            [*command, "--config", str(here), "--force"],
            cwd=folder,
            env=environment_with({}),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == KILLED:
            is_refused = _is_refused(here)
            refused += is_refused
            if not is_refused and len(list(waiting(folder / "state" / "journal"))) == 3:
                continue  # all was done but for what is of no use any more
            again = tidegate("restore", backup, "--config", here, "--force", folder=folder)
            assert again.returncode == 0, again.stderr
        assert not (folder / "state" / RESTORE_MARK).exists()
        assert len(list(waiting(folder / "state" / "journal"))) == 3
        kept = folder / "state" / "before-restore"
        assert (kept / "journal").is_dir(), f"after {step} changes"
        assert (kept / "state.db").exists()
        if done.returncode == 0:
            break
    else:
        raise AssertionError("it never came to its end")
    assert refused >= 5


def _is_refused(config: Path) -> bool:
    """By the gateway; else it has to be the one before or the new one, and whole."""
    state = config.parent / "state"
    if not (state / RESTORE_MARK).exists():
        return False
    with pytest.raises(StateError, match="a restore was interrupted and only half of it is there"):
        open_state(state)
    return True


def test_the_gateway_says_that_a_restore_was_interrupted(tmp_path: Path) -> None:
    config = gateway_folder(tmp_path)
    (tmp_path / "state" / RESTORE_MARK).touch()
    done = tidegate("run", "--config", config, folder=tmp_path)
    assert done.returncode == 73
    assert "type  tidegate restore FILE  again" in done.stderr
