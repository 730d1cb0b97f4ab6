"""Which kinds of boards there are: a TOML file for each, whose name is the board's.

An unknown key is a mistake, as in the gateway's configuration: who adds a board learns of it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.config.spelling import nearest
from gateway.flashing.errors import Failure, FlashError

METHODS = ("esptool", "uf2", "hex")
PROGRAMS = ("node", "tiny")
_USB_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
_VERSION = re.compile(r"\d+\.\d+")

# Of pins: that there are; that can measure a voltage; that are for input alone.
PINS = ("all", "analog", "input_only")
PIN_MAX = 255
_RANGE = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")
_TEXTS = ("title", "chip", "program", "machine", "download", "micropython_min")
_KEYS = {*_TEXTS, "files", "places", "wifi", "uarts", "pins", "usb", "install"}
_INSTALL_KEYS = {"method", "offset", "baud", "drive", "family", "hint"}
_USB_KEYS = {"sure", "maybe"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """How MicroPython gets there. `drive`: Board-ID or label; `family`: of UF2 blocks."""

    method: str
    offset: int = 0
    baud: int = 460_800
    drive: str = ""
    family: int = 0
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`sure` USB ids are this kind's alone; `maybe` others have as well. What is None of `has_wifi`
    and `uarts`, and absent of `pins`, is not known, and nothing is refused for it.
    """

    name: str
    title: str
    chip: str
    program: str
    machine: re.Pattern[str]
    files: tuple[str, ...]
    places: tuple[Path, ...]
    download: str
    micropython_min: tuple[int, ...]
    has_wifi: bool | None
    uarts: int | None
    pins: Mapping[str, Sequence[int]]
    sure: frozenset[str]
    maybe: frozenset[str]
    install: Install


def read_kinds(folder: Path) -> dict[str, Kind]:
    """By name. Raises FlashError."""
    try:
        paths = sorted(folder.glob("*.toml"))
        kinds = {path.stem: _kind(path) for path in paths}
    except OSError as error:
        raise FlashError(Failure.ABSENT, f"{error.filename}: {error.strerror}") from None
    if not kinds:
        raise FlashError(Failure.ABSENT, f"{folder} has no descriptions of boards (*.toml)")
    return kinds


def kind_named(kinds: Mapping[str, Kind], name: str) -> Kind:
    """Raises FlashError that names the nearest."""
    if name in kinds:
        return kinds[name]
    close = nearest(name, kinds)
    meant = f"did you mean {close}?" if close else f"there are {', '.join(kinds)}"
    raise FlashError(Failure.WRONG, f"no board {name!r}; {meant}")


def _kind(path: Path) -> Kind:
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        return _checked(path.stem, given)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, _Mistake) as mistake:
        raise FlashError(Failure.WRONG, f"{path}: {mistake}") from None


class _Mistake(Exception):  # noqa: N818
    pass


def _checked(name: str, given: dict[str, Any]) -> Kind:
    _refuse_unknown(given, _KEYS, "")
    usb, install = _table(given, "usb", _USB_KEYS), _table(given, "install", _INSTALL_KEYS)
    pins = _table(given, "pins", set(PINS))
    texts = {key: _of_type(given, key, str) for key in _TEXTS}
    _one_of("program", texts["program"], PROGRAMS)
    _one_of("install.method", install.get("method", ""), METHODS)
    if not _VERSION.fullmatch(texts["micropython_min"]):
        raise _Mistake(f'micropython_min: expected "1.23", got {texts["micropython_min"]!r}')
    try:
        machine = re.compile(texts["machine"])
    except re.error as error:
        raise _Mistake(f"machine: no regular expression: {error}") from None
    return Kind(
        name=name,
        title=texts["title"],
        chip=texts["chip"],
        program=texts["program"],
        machine=machine,
        files=tuple(_texts(given, "files")),
        places=tuple(Path(place) for place in _texts(given, "places")),
        download=texts["download"],
        micropython_min=tuple(map(int, texts["micropython_min"].split("."))),
        has_wifi=_of_type(given, "wifi", bool) if "wifi" in given else None,
        uarts=_of_type(given, "uarts", int) if "uarts" in given else None,
        pins={key: tuple(_numbers(f"pins.{key}", pins[key])) for key in pins},
        sure=frozenset(_usb_ids(usb, "sure")),
        maybe=frozenset(_usb_ids(usb, "maybe")),
        install=_install(install),
    )


def _install(given: dict[str, Any]) -> Install:
    types = {"method": str, "drive": str, "hint": str, "offset": int, "baud": int, "family": int}
    for key in given:
        _of_type(given, key, types[key])
    return Install(**given)


def _table(given: dict[str, Any], key: str, known: set[str]) -> dict[str, Any]:
    table = given.get(key, {})
    if not isinstance(table, dict):
        raise _Mistake(f"{key}: expected a table")
    _refuse_unknown(table, known, f"{key}.")
    return table


def _refuse_unknown(given: Mapping[str, object], known: set[str], before: str) -> None:
    for key in given:
        if key not in known:
            close = nearest(key, known)
            meant = f", did you mean {before}{close}?" if close else ""
            raise _Mistake(f"{before}{key}: unknown key{meant}")


def _of_type(given: Mapping[str, Any], key: str, kind: type) -> Any:
    if type(given.get(key)) is not kind:
        words = {str: "a text", int: "a whole number", bool: "true or false"}
        raise _Mistake(f"{key}: expected {words[kind]}, got {given.get(key)!r}")
    return given[key]


def _texts(given: Mapping[str, Any], key: str) -> list[str]:
    value = given.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _Mistake(f"{key}: expected a list of texts")
    return value


def _numbers(key: str, value: object) -> Iterator[int]:
    """Of "0-22, 26": whole numbers and ranges of them."""
    for part in value.split(",") if isinstance(value, str) else [""]:
        found = _RANGE.fullmatch(part.strip())
        first, last = (0, -1) if found is None else (int(found[1]), int(found[2] or found[1]))
        if not first <= last <= PIN_MAX:
            raise _Mistake(f'{key}: expected numbers to {PIN_MAX}, as "0-22, 26", got {value!r}')
        yield from range(first, last + 1)


def _usb_ids(given: Mapping[str, Any], key: str) -> list[str]:
    for each in _texts(given, key):
        if not _USB_ID.fullmatch(each):
            raise _Mistake(f'usb.{key}: expected "10c4:ea60", got {each!r}')
    return _texts(given, key)


def _one_of(key: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise _Mistake(f"{key}: expected one of {', '.join(known)}, got {value!r}")
