"""What the tests of the configuration share: a folder of their own, and files named as in it."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, so that messages begin with a plain `c.toml`."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
