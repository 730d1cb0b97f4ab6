"""A gateway's folder with readings in it, and what two of them have in common."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.cli.stored import new_reading, store
from tests.cli.tidegate import tidegate_here


def gateway_folder(folder: Path, more: str = "", readings: int = 5) -> Path:
    """With a configuration; a journal of so many readings; a state of one epoch."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.toml"
    config.write_text(
        f'[gateway]\nname = "gh"\nstate_dir = "state"\n[admin]\nlisten = ""\n'
        f'[[udp]]\nlisten = "127.0.0.1:0"\n[upstream]\nurl = "mqtt://127.0.0.1:1"\n{more}'
    )
    if readings:
        waiting = [new_reading(b"%d" % number, sequence=number) for number in range(readings)]
        store(folder / "state" / "journal", waiting)
    return config


def exported(config: Path) -> list[dict[str, Any]]:
    """What waits for the broker, without what a clock makes of it."""
    done = tidegate_here("buffer", "--config", config, "export", folder=config.parent)
    assert done.returncode == 0, done.stderr
    assert "damaged" not in done.stderr, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows(database: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All that is in a database, but for the epoch."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        names = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr)
            for name in names
            if name not in ("meta", "room")
        }
