"""`tidegate flash --key`: the node and the gateway have the same key, also after another flash."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.app.exit_codes import ExitCode
from gateway.storage.keys.file import read_keys
from tests.cli.tidegate import tidegate_here

NODE = ("--name", "n1", "--gateway", "10.0.0.5", "--no-wifi", "--sensor", "simulated")


def flash(folder: Path, *more: str, code: int = ExitCode.OK) -> str:
    source = ("--set", f"gateway.state_dir={folder / 'state'}")
    done = tidegate_here(
        "flash", *NODE, "--board", "pico-w", "--into", "node", *more, *source, folder=folder
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_a_node_has_its_key_and_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "node").mkdir()
    assert "device.keys" not in flash(tmp_path, "--key", "--dry-run")
    assert not (tmp_path / "state" / "device.keys").exists()
    shown = flash(tmp_path, "--key")
    (key,) = read_keys(tmp_path / "state" / "device.keys")[0]
    secrets = json.loads((tmp_path / "node" / "secrets.json").read_text())
    assert secrets == {
        "device_key": key.secret.hex(),
        "device_key_epoch": 1,
        "device_sender": key.sender_id.hex(),
    }
    shown += flash(tmp_path, "--key")
    assert json.loads((tmp_path / "node" / "secrets.json").read_text()) == secrets
    assert key.secret.hex() not in shown


def test_where_keys_cannot_be_kept_no_board_is_touched(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "node").mkdir()
    (tmp_path / "state" / "device.keys").write_text("x")
    (tmp_path / "state" / "device.keys").chmod(0o600)
    assert "--key: " in flash(tmp_path, "--key", code=ExitCode.FAILURE)
    assert list((tmp_path / "node").iterdir()) == []
