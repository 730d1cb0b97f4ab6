"""Files of secrets that cannot be read, and whose sentence it is then."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.app.credentials import read_credentials
from gateway.config import load
from gateway.transports.errors import LinkError, NotAllowedError


def test_a_folder_that_lets_us_not_in_is_refused_as_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lstat = Path.lstat

    def refused(self: Path) -> object:
        if self.name == "device.keys":
            raise PermissionError(13, "Permission denied")
        return lstat(self)

    monkeypatch.setattr(Path, "lstat", refused)
    state = [f"gateway.state_dir={tmp_path}"]
    usual = load(None, environment={}, overrides=state).settings
    with pytest.raises(NotAllowedError, match=f"^gateway.state_dir {tmp_path} may not be written"):
        read_credentials(usual)
    path = tmp_path / "elsewhere/device.keys"
    named = load(None, environment={}, overrides=[*state, f"security.keys_file={path}"]).settings
    with pytest.raises(LinkError, match=f"^security.keys_file {path} cannot be read") as said:
        read_credentials(named)
    assert not isinstance(said.value, NotAllowedError)
