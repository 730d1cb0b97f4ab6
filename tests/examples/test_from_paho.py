"""docs/from_paho.md names keys that there are."""

from __future__ import annotations

import re

from gateway.config.keys import ROOT
from gateway.config.schema import Repeated, Table
from tests.examples import REPOSITORY

TEXT = (REPOSITORY / "docs" / "from_paho.md").read_text()


def keys() -> set[str]:
    tables = [part.entry if isinstance(part, Repeated) else part for part in ROOT.parts]
    return {
        f"{table.name}.{key.name}"
        for table in tables
        if isinstance(table, Table)
        for key in table.keys
    }


def test_each_of_our_keys_is_one() -> None:
    named = set(re.findall(r"`([a-z_]+\.[a-z_]+)(?: = [^`]*)?`", TEXT)) - {
        "gateway.conf",
        "clients.conf",
    }
    assert len(named) >= 3
    assert named <= keys()
