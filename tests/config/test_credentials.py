"""Secrets that systemd hands over, by name in place of a path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.app.credentials import read_credentials
from gateway.config import load
from gateway.config.credential import OF_THE_SERVICE, STORE, stored_at
from gateway.config.listing import as_toml, entries
from tests.config.reading import complaints, read

TEXT = '[upstream]\nusername = "me"\npassword_file = "credential:tidegate.upstream.password"\n'
NAME = "tidegate.upstream.password"


@pytest.fixture
def handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "credentials"
    folder.mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder))
    return folder


def test_a_credential_is_read_where_systemd_has_put_it(handed_over: Path) -> None:
    (handed_over / NAME).write_text("tide\n")
    settings = read(TEXT).settings
    assert settings.upstream.password_file == handed_over / NAME
    assert read_credentials(settings).password == b"tide"
    assert read(TEXT).warnings == ()


def test_elsewhere_the_usual_place_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    settings = read(TEXT).settings
    assert settings.upstream.password_file == OF_THE_SERVICE / NAME
    assert read(TEXT).warnings == (
        f"c.toml:3:17: upstream.password_file: {OF_THE_SERVICE}/{NAME} is not there, and neither "
        f"is {STORE}/{NAME}: put the secret there",
    )


def test_it_is_shown_as_it_was_written(handed_over: Path) -> None:
    shown = "\n".join(as_toml(entries(read(TEXT))))
    assert f'password_file = "credential:{NAME}"' in shown
    assert str(handed_over) not in shown


def test_where_an_operator_puts_it_is_known(handed_over: Path) -> None:
    assert stored_at(handed_over / NAME) == STORE / NAME
    assert stored_at(Path("/etc/secret")) == Path("/etc/secret")


@pytest.mark.parametrize("name", ["", "..", ".", "a/b", "../x", "a b", "a" * 101, "ö"])
def test_what_can_be_no_name_is_refused(name: str) -> None:
    text = f'[upstream]\nusername = "me"\npassword_file = "credential:{name}"\n'
    (line,) = complaints(text)
    expected = "expected credential: and a name of letters, digits, . _ @ and -"
    assert line.startswith(f"c.toml:3:17: upstream.password_file: {expected}, got ")


def test_a_folder_is_no_credential() -> None:
    settings = load(None, environment={}, overrides=["gateway.state_dir=credential:x"]).settings
    assert os.fspath(settings.gateway.state_dir).endswith("credential:x")
