"""What starts the gateway of this machine, said where it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.host import supervisor
from gateway.host.supervisor import how_to


def test_systemd_is_named_where_it_is_the_init(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "SYSTEMD", tmp_path)
    assert how_to("restart") == "sudo systemctl restart tidegate"
    monkeypatch.setattr(supervisor, "SYSTEMD", tmp_path / "absent")
    assert how_to("restart") == "stop it, and start it as before"
    assert "systemctl" not in how_to("start") + how_to("reload")
