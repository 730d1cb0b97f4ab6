"""What root finds right, and the user of the service may not read."""

from __future__ import annotations

import grp
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gateway.__main__ import main
from gateway.cli import service_user
from gateway.cli.service_user import refusals
from gateway.config import Settings, load

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root asks for another user")
GROUP = grp.getgrgid(65534).gr_name


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The configuration of a service that runs as nobody. Not below pytest's own folder, which each
    start of pytest makes root's alone.
    """
    with TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        path = folder / "config.toml"
        path.write_text('[admin]\npassword_file = "secrets/admin"\n')
        path.chmod(0o644)
        (folder / "secrets").mkdir(mode=0o755)
        (folder / "secrets" / "admin").write_text("tide")
        (folder / "secrets" / "admin").chmod(0o600)
        monkeypatch.setattr(service_user, "USUAL_PATH", path)
        monkeypatch.setattr(service_user, "SERVICE_USER", "nobody")
        yield path


def test_check_refuses_what_the_service_may_not_read(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = config.parent / "secrets" / "admin"
    assert main(["check", str(config)]) == 78
    said = capsys.readouterr().err
    assert f"admin.password_file {secret} cannot be read by the service's user nobody:  " in said
    ((key, _, command),) = refusals(_settings(config), config)
    assert key == "admin.password_file"
    subprocess.run(_as_root(command), shell=True, check=True)
    assert main(["check", str(config)]) == 0
    assert secret.stat().st_mode & 0o7777 == 0o640


def test_a_folder_that_it_may_not_enter_is_named(config: Path) -> None:
    folder = config.parent / "secrets"
    (folder / "admin").chmod(0o644)
    folder.chmod(0o700)
    ((_, _, command),) = refusals(_settings(config), config)
    subprocess.run(_as_root(command), shell=True, check=True)
    assert list(refusals(_settings(config), config)) == []


def test_the_file_itself_counts(config: Path) -> None:
    (config.parent / "secrets" / "admin").chmod(0o644)
    settings = _settings(config)
    config.chmod(0o600)
    ((key, sentence, _),) = refusals(settings, config)
    assert (key, sentence) == ("", f"{config} cannot be read by the service's user nobody")


def test_another_file_is_another_user_s(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = _settings(config)
    assert list(refusals(settings, tmp_path / "other.toml")) == []
    monkeypatch.setattr(service_user, "SERVICE_USER", "there-is-no-such-user")
    assert list(refusals(settings, config)) == []


def _settings(config: Path) -> Settings:
    return load(config, environment={}, overrides=()).settings


def _as_root(command: str) -> str:
    return command.replace("sudo ", "").replace("chgrp nobody", f"chgrp {GROUP}")
