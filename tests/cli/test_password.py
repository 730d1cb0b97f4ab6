"""`tidegate password` and `tidegate audit`, and the page that is refused without the first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.admin.http.passwords import is_password
from gateway.app.credentials import read_credentials
from gateway.app.service.reload import changes
from gateway.cli import audit
from gateway.config import ConfigError, load
from gateway.config.listing import as_json
from gateway.storage.audit_log import AUDIT_FILE, AuditEntry, append
from gateway.transports.errors import LinkError
from tests.cli.tidegate import tidegate

SECRET = "canary tide"


def test_what_it_prints_at_the_end_of_a_file_is_a_user(tmp_path: Path) -> None:
    asked = ("password", "--user", 'an"na', "--role", "operator")
    done = tidegate(*asked, folder=tmp_path, stdin=f"{SECRET}\n")
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    file = tmp_path / "config.toml"
    file.write_text('[admin]\nlisten = "0.0.0.0:8080"\n' + done.stdout)
    configuration = load(file, environment={}, overrides=[])
    (user,) = configuration.settings.admin_user
    assert (user.name, user.role) == ('an"na', "operator")
    assert is_password(SECRET, user.password)
    assert read_credentials(configuration.settings).admin_password is None
    # The hash is for the file alone.
    assert user.password not in json.dumps(as_json(configuration)) + repr(configuration.settings)
    before = load(None, environment={}, overrides=[])
    told = "".join(map(str, changes(before, configuration)))
    assert "admin_user.0.password" in told
    assert user.password not in told


def test_a_token_is_shown_once_and_stored_as_a_hash(tmp_path: Path) -> None:
    done = tidegate("password", "--token", "ci", folder=tmp_path)
    token = done.stderr.split()[-1]
    assert token.startswith("tg_")
    assert token not in done.stdout
    file = tmp_path / "config.toml"
    file.write_text(done.stdout)
    (found,) = load(file, environment={}, overrides=[]).settings.admin_token
    assert (found.name, found.role) == ("ci", "viewer")


def test_a_short_password_is_refused(tmp_path: Path) -> None:
    done = tidegate("password", folder=tmp_path, stdin="tide\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "8 to 1024 characters" in done.stderr


def test_a_password_in_the_place_of_its_hash_is_refused_and_not_shown() -> None:
    overrides = ["admin_user.0.name=a", f"admin_user.0.password={SECRET}"]
    with pytest.raises(ConfigError, match="expected a hash") as refused:
        load(None, environment={}, overrides=overrides)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("listen", ["0.0.0.0:8080", "[::]:8080", "192.0.2.7:8080"])
def test_a_page_for_other_machines_needs_somebody_who_can_sign_in(
    listen: str, tmp_path: Path
) -> None:
    file = tmp_path / "c.toml"
    file.write_text(f'[gateway]\nstate_dir = "state"\n[admin]\nlisten = "{listen}"\n')
    settings = load(file, environment={}, overrides=[]).settings
    with pytest.raises(LinkError, match="is reached by other machines") as refused:
        read_credentials(settings, file)
    cure = f"tidegate password --user admin --role operator | sudo tee -a {file}"
    assert str(refused.value).endswith(cure)
    for verb in (("check", str(file)), ("run", "--config", str(file), "--no-wait")):
        done = tidegate(*verb, folder=tmp_path)
        assert done.returncode == 78
        assert "is reached by other machines" in done.stderr
    for more in ("admin.anonymous=viewer", "admin.listen=127.0.0.1:8080", "admin.listen="):
        read_credentials(load(file, environment={}, overrides=[more]).settings)


def test_the_audit_log_is_listed_since_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    old = AuditEntry("user:anna", "operator", "page", "10.0.0.7", "pause", {}, "paused", True, 5.0)
    new = AuditEntry("uid:0", "operator", "cli", "unix pid 7", "forget", {"client": "x\x1b"}, "no")
    append(folder, [old.line(), new.line()])
    config = ("--set", f"gateway.state_dir={folder}")
    whole = tidegate("audit", *config, folder=tmp_path)
    assert "user:anna" in whole.stdout
    assert "root" in whole.stdout
    assert "\x1b" not in whole.stdout
    since = tidegate("audit", *config, "--since", "1h", "--json", folder=tmp_path)
    (line,) = since.stdout.splitlines()
    assert json.loads(line)["what"] == "forget"
    with (folder / AUDIT_FILE).open("ab") as file:
        file.write(b'{"torn')
    damaged = tidegate("audit", *config, folder=tmp_path)
    assert "1 lines are damaged" in damaged.stderr
    assert tidegate("audit", "--since", "yesterday", folder=tmp_path).returncode == 2
    assert audit._since("2026-11-28T12:00+00:00") == 1_795_867_200.0
