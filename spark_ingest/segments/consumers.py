"""How far each query has read the lake, so that what all have read may be removed.

    <lake>/consumers/<name>.json        {"next": {"collector": number}}

A query's own truth is its checkpoint; this is a copy that is never ahead of it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

FOLDER = "consumers"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class ConsumerError(Exception):
    """A name that cannot be a file's, or a file that is not ours."""


class Consumers:
    def __init__(self, lake: Path) -> None:
        self._folder = lake / FOLDER

    def note(self, name: str, following: Mapping[str, int]) -> None:
        if not _NAME.fullmatch(name):
            raise ConsumerError(
                f"consumer {name!r}: letters, digits, dots, dashes and underscores, at most 64"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        # Two processes of one query are no danger: the next batch writes it again.
        temporary = self._folder / f".{name}.{os.getpid()}.tmp"
        temporary.write_text(json.dumps({"next": dict(following)}), encoding="utf-8")
        temporary.rename(self._folder / f"{name}.json")

    def names(self) -> list[str]:
        return sorted(path.stem for path in self._folder.glob("*.json"))

    def read_by_all(self) -> dict[str, int]:
        """The first segment of each collector that somebody has yet to read. What any consumer
        does not know, it has not read.
        """
        positions = [self._read(name) for name in self.names()]
        if not positions:
            return {}
        common = set.intersection(*(set(each) for each in positions))
        return {name: min(each[name] for each in positions) for name in common}

    def _read(self, name: str) -> dict[str, int]:
        path = self._folder / f"{name}.json"
        try:
            given = json.loads(path.read_text(encoding="utf-8"))["next"]
            return {str(collector): int(number) for collector, number in given.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConsumerError(
                f"{path} is damaged: {error!r}; remove it, its query writes it again"
            ) from None
