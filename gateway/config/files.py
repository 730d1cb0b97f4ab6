"""The configuration file: from bytes to values, each with its line and column.

A file that is not TOML has one problem, the first. tomllib stops where it stumbles, and what it
did not see must not be guessed: an unclosed bracket would make every line after it look wrong.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from gateway.config.gathering import Gathering
from gateway.config.keys import ROOT
from gateway.config.kinds import MismatchError
from gateway.config.positions import Place, last_key, places
from gateway.config.problems import Origin
from gateway.config.regular_file import read_regular
from gateway.config.schema import Key, Named, Node, Repeated, Table
from gateway.config.spelling import KEY_LENGTH_MAX, KeyPath, printable, shortened, shown, shown_key

# Room for 65,534 predefined topics of 100 bytes, and then some.
FILE_BYTES_MAX = 8 * 1024 * 1024

_SYNTAX_ERROR = re.compile(
    r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)",
    re.DOTALL,
)
_LONG_NUMBER = re.compile(r"[0-9_]{4000,}")
_TWICE = ("Cannot overwrite", "Cannot declare", "Duplicate inline")
_QUOTES = 'text needs quotes, as in level = "debug"'
_ADVICE = {
    "Invalid value": f"expected a value; {_QUOTES}",
    "Invalid statement": "expected key = value, a [table] or a comment",
    "Expected '=' after a key in a key/value pair": "expected key = value",
    "Expected newline or end of document after a statement": (
        f"expected the end of the line; {_QUOTES}"
    ),
    "Illegal character '\\n'": "expected a quote at the end of the text",
    "Unescaped '\\' in a string": "expected \\\\ for each backslash in text of double quotes",
}


class _NotReadableError(Exception):
    def __init__(self, origin: Origin, message: str) -> None:
        super().__init__(origin, message)
        self.origin = origin
        self.message = message


def gather_file(path: Path, gathering: Gathering, content: bytes | None = None) -> None:
    """`content`: what is to be in the file, if it is not read."""
    try:
        text = _text(path, _content(path) if content is None else content)
        values, where = _parsed(text, str(path))
    except _NotReadableError as error:
        gathering.unclear.add(None)
        gathering.add_problem(error.origin, None, error.message)
    else:
        _Walk(path, where, gathering).node(ROOT, (), values)


def gather_table(path: Path, name: str, gathering: Gathering) -> None:
    """Of a file that is no TOML as a whole, one table, if it is; else nothing."""
    try:
        text = _text(path, _content(path))
        found = re.search(rf"(?m)^[ \t]*\[{name}\][^\n]*\n(?:(?![ \t]*\[).*\n?)*", text)
        values, where = _parsed(found[0] if found else "", str(path))
    except _NotReadableError:
        return
    _Walk(path, where, gathering).node(ROOT, (), values)


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, FILE_BYTES_MAX + 1)
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise _NotReadableError(Origin(str(path)), message) from None


def _text(path: Path, content: bytes) -> str:
    """With line ends as tomllib has them, and without the byte order mark that Windows writes."""
    if len(content) > FILE_BYTES_MAX:
        raise _NotReadableError(
            Origin(str(path)), f"expected a file of at most {FILE_BYTES_MAX} bytes"
        )
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        message = f"expected UTF-8 text, got the byte 0x{error.object[error.start]:02X}"
        raise _NotReadableError(_end_of(before, str(path)), message) from None


def _parsed(text: str, source: str) -> tuple[dict[str, object], dict[KeyPath, Place]]:
    try:
        return tomllib.loads(text), places(text)
    except RecursionError:
        raise _NotReadableError(Origin(source), "expected values nested less deeply") from None
    except ValueError as error:
        raise _not_toml(str(error), text, source) from None


def _not_toml(error: str, text: str, source: str) -> _NotReadableError:
    parts = _SYNTAX_ERROR.fullmatch(error)
    if parts is None:  # the only ValueError that is not tomllib's: int() refuses long numbers
        before = text[: match.start()] if (match := _LONG_NUMBER.search(text)) else text
        return _NotReadableError(_end_of(before, source), "expected a number of fewer digits")
    before = text
    if parts["line"]:
        lines = text.split("\n")[: int(parts["line"])]
        before = "\n".join([*lines[:-1], lines[-1][: int(parts["column"]) - 1]])
    if parts["what"].startswith(_TWICE):
        return _given_twice(before, source)
    what = _ADVICE.get(parts["what"], f"not valid TOML: {shortened(parts['what'], KEY_LENGTH_MAX)}")
    return _NotReadableError(_end_of(before, source), printable(what))


def _given_twice(text: str, source: str) -> _NotReadableError:
    path, position, before = last_key(text)
    message = f"expected {shown_key(path)} only once"
    if before is not None:
        message += f", line {before.key.line} has it already"
    if len(path) == 1 and isinstance(ROOT.part(str(path[0])), Repeated):
        message += f"; several are written [[{path[0]}]]"
    elif before is not None and isinstance(ROOT.part(str(path[0])), Table) and len(path) == 1:
        message += ": its keys belong there"
    return _NotReadableError(Origin(source, *position), message)


def _end_of(text: str, source: str) -> Origin:
    return Origin(source, text.count("\n") + 1, len(text) - text.rfind("\n"))


class _Walk:
    """The values of a file beside the table of keys."""

    def __init__(self, path: Path, where: Mapping[KeyPath, Place], gathering: Gathering) -> None:
        self._source = str(path)
        self._folder = path.parent
        self._where = where
        self._gathering = gathering

    def node(self, node: Node, path: KeyPath, value: object) -> None:
        match node:
            case Key():
                self._gathering.put(node, path, value, self._value_at(path), self._folder)
            case Repeated():
                self._repeated(node, path, value)
            case Table() | Named():
                if isinstance(value, Mapping):
                    self._table(node, path, value)
                else:
                    self._expected("a table", path, value)

    def _table(self, node: Table | Named, path: KeyPath, table: Mapping[str, object]) -> None:
        for name, value in table.items():
            inside = (*path, name)
            if isinstance(node, Named):
                self._named(node, inside, name, value)
            elif (part := node.part(name)) is not None:
                self.node(part, inside, value)
            else:
                self._gathering.add_unknown_key(self._key_at(inside), node, inside)

    def _named(self, node: Named, path: KeyPath, name: str, value: object) -> None:
        try:
            node.names.read(name)
        except MismatchError as mismatch:
            self._gathering.add_problem(self._key_at(path), path, f"{mismatch} as its name")
        else:
            self.node(node.entry, path, value)

    def _repeated(self, node: Repeated, path: KeyPath, value: object) -> None:
        if not isinstance(value, list) or not value:
            self._expected(f"one or more tables, each below [[{node.name}]]", path, value)
            return
        if len(value) > node.entries_max:
            origin = self._key_at((*path, node.entries_max))
            self._gathering.add_problem(
                origin, path, f"expected at most {node.entries_max} of them"
            )
        self._gathering.entries[path] = [self._key_at((*path, 0))]
        for index, entry in enumerate(value):
            self._gathering.open_entry(node, path, index, self._key_at((*path, index)))
            self.node(node.entry, (*path, index), entry)

    def _expected(self, what: str, path: KeyPath, value: object) -> None:
        self._gathering.unclear.add(path)
        message = f"expected {what}, got {shown(value)}"
        self._gathering.add_problem(self._value_at(path), path, message)

    def _key_at(self, path: KeyPath) -> Origin:
        place = self._where.get(path)
        return Origin(self._source) if place is None else Origin(self._source, *place.key)

    def _value_at(self, path: KeyPath) -> Origin:
        place = self._where.get(path)
        return Origin(self._source) if place is None else Origin(self._source, *place.value)
