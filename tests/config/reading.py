"""Shorthands for reading: the settings of a text, or the lines of complaint about it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gateway.config import ConfigError, Configuration, load

FILE = Path("c.toml")


def read(
    text: str | bytes = "",
    environment: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
) -> Configuration:
    FILE.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(FILE, environment=environment or {}, overrides=overrides)


def complaints(
    text: str | bytes = "",
    environment: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        read(text, environment, overrides)
    lines = str(refused.value).split("\n")
    shown = len(refused.value.problems) + bool(refused.value.left_out)
    assert len(lines) == shown, "a problem must be one line"
    return lines
