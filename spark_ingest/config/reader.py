"""From a file and `--set` to Settings, or to one ConfigError with everything that is wrong.

Precedence: command line, file, default. Read once, at the start.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field as DataField
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from spark_ingest.config import cross_checks
from spark_ingest.config.kinds import MismatchError
from spark_ingest.config.problems import ConfigError, KeyPath, Problem, dotted, shown, spoken
from spark_ingest.config.settings import TABLES, Settings

FILE_BYTES_MAX = 1 << 20
COMMAND_LINE = "--set"


def load(path: Path | None, overrides: Sequence[str] = (), *, collects: bool = True) -> Settings:
    """`overrides` are KEY=VALUE; without a path there are the defaults. Who does not collect need
    not say what.
    """
    text = "" if path is None else _text(path)
    file = str(path)
    reading = _Reading(file, Path() if path is None else path.parent)
    values = _parsed(text, file)
    for override in overrides:
        reading.override(values, override)
    settings = reading.settings(values)
    for key, message in cross_checks.contradictions(settings, collects=collects):
        if key not in reading.unclear:
            reading.add_problem(key, message)
    if reading.problems:
        raise spoken(reading.problems, file, text)
    return settings


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            octets = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror or error}"]) from None
    if len(octets) > FILE_BYTES_MAX:
        raise ConfigError([f"{path}: expected a file of at most {FILE_BYTES_MAX} bytes"])
    try:
        return octets.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ConfigError([f"{path}: expected UTF-8 text"]) from None


def _parsed(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        hint = "; text needs quotes" if "Invalid value" in str(error) else ""
        raise ConfigError([f"{file}: not valid TOML: {error}{hint}"]) from None


class _Reading:
    """The values of all sources beside the settings classes."""

    def __init__(self, file: str, folder: Path) -> None:
        self.problems: list[Problem] = []
        self.unclear: set[KeyPath] = set()  # what a cross check would only report again
        self._file = file
        self._folder = folder
        self._overridden: set[KeyPath] = set()

    def settings(self, values: Mapping[str, Any]) -> Settings:
        given = self._fields(Settings, values, ())
        return Settings(**given)

    def override(self, values: dict[str, Any], text: str) -> None:
        """Text is what TOML would take, or else text without quotes."""
        name, equals, raw = text.partition("=")
        path = tuple(name.strip().split("."))
        if not equals or len(path) != 2 or path[0] not in TABLES:
            known = ", ".join(TABLES)
            message = f"expected TABLE.KEY=VALUE with a table of {known}, got {shown(name)}"
            self.problems.append(Problem((), message, COMMAND_LINE))
            return
        table = values.setdefault(path[0], {})
        if isinstance(table, dict):
            table[path[1]] = _as_toml(raw.strip())
            self._overridden.add(path)

    def add_problem(self, path: KeyPath, message: str) -> None:
        self.unclear.add(path)
        source = COMMAND_LINE if path in self._overridden else self._file
        self.problems.append(Problem(path, message, source))

    def _fields(self, owner: type, values: object, path: KeyPath) -> dict[str, Any]:
        """What was given for a settings class, as its constructor takes it."""
        if not isinstance(values, Mapping):
            self.add_problem(path, f"expected a table, got {shown(values)}")
            return {}
        known = {each.name: each for each in fields(owner)}
        given = {}
        for name, raw in values.items():
            if name not in known:
                self._add_unknown_key((*path, name), known)
            elif (value := self._value(known[name], raw, (*path, name))) is not None:
                given[name] = None if value == "" else value
        return given

    def _value(self, field: DataField[Any], raw: object, path: KeyPath) -> object:
        """None, with a complaint, for what does not fit."""
        metadata = field.metadata
        if "kind" in metadata:
            return self._single(metadata["kind"], raw, path)
        if "named" in metadata:
            return self._named(metadata, raw, path)
        if "repeated" in metadata:
            return self._repeated(metadata, raw, path)
        table = TABLES[field.name]
        return table(**self._fields(table, raw, path))

    def _single(self, kind: Any, raw: object, path: KeyPath) -> object:
        try:
            value = kind.read(raw)
        except MismatchError as mismatch:
            self.add_problem(path, str(mismatch))
            return None
        in_file = path not in self._overridden
        return self._folder / value if isinstance(value, Path) and in_file else value

    def _named(self, metadata: Mapping[str, Any], raw: object, path: KeyPath) -> object:
        if not isinstance(raw, Mapping) or len(raw) > metadata["count_max"]:
            expected = f"a table of at most {metadata['count_max']} tables"
            self.add_problem(path, f"expected {expected}, got {shown(raw)}")
            return None
        entry = metadata["named"]
        return {name: entry(**self._fields(entry, raw[name], (*path, name))) for name in raw}

    def _repeated(self, metadata: Mapping[str, Any], raw: object, path: KeyPath) -> object:
        if not isinstance(raw, list) or len(raw) > metadata["count_max"]:
            expected = f"at most {metadata['count_max']} tables, each below [[{path[-1]}]]"
            self.add_problem(path, f"expected {expected}, got {shown(raw)}")
            return None
        entry = metadata["repeated"]
        return tuple(
            entry(**self._fields(entry, each, (*path, index))) for index, each in enumerate(raw)
        )

    def _add_unknown_key(self, path: KeyPath, known: Iterable[str]) -> None:
        name, names = str(path[-1]), list(known)
        near = get_close_matches(name[:60].lower(), names, n=1, cutoff=0.6)
        elsewhere = [table for table in TABLES if name in _names(TABLES[table])]
        if near:
            meant = dotted((*path[:-1], near[0]))
            self.unclear.add((*path[:-1], near[0]))
            self.add_problem(path, f"unknown key, did you mean {meant}?")
        elif elsewhere:
            self.add_problem(path, f"unknown key, did you mean {elsewhere[0]}.{name}?")
        else:
            where = f"[{dotted(path[:-1])}]" if path[1:] else "the file"
            self.add_problem(path, f"unknown key, {where} knows {', '.join(names)}")


def _names(owner: type) -> set[str]:
    return {each.name for each in fields(owner)}


def _as_toml(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
