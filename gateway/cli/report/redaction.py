"""What of a configuration, and of any text, goes into a report that others will read.

A value is shown if its key takes nothing that could be a secret (a number, a word out of a list, an
address) and takes this value, or if its key is one of SHOWN_TEXTS. All others are hidden, those of
unknown keys too, and nothing that was hidden stays anywhere else in the report. So a new key whose
value is a text is hidden until somebody has put it here.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.config.addresses import BrokerUrl, Group, Listen, NetworkInterface, Networks
from gateway.config.assignments import PREFIX, SEPARATOR
from gateway.config.credential import CredentialPath
from gateway.config.keys import ROOT
from gateway.config.kinds import Boolean, Choice, FilePath, Integer, MismatchError, Number, Size
from gateway.config.positions import key_parts
from gateway.config.schema import Key, Named, Node, Repeated, Table, known_keys
from gateway.config.serial_ports import SerialPort
from gateway.config.spelling import KEY_LENGTH_MAX, SHOWN_LENGTH_MAX, dotted, printable, quoted

REMOVED = "(removed)"
HIDDEN_LENGTH_MIN = 4  # what is shorter is in any text by chance
PLAIN_KINDS = (
    *(Boolean, Choice, Integer, Number, Size),
    *(BrokerUrl, Group, Listen, NetworkInterface, Networks, SerialPort),
)
# Names and places, by table and key.
SHOWN_TEXTS = frozenset(
    {
        *("gateway.name", "gateway.state_dir", "topic.filter", "upstream.topic_prefix"),
        *("home_assistant.discovery_prefix", "home_assistant.birth_topic"),
        *("presence_client.client", "home_assistant_device.client"),
        *("home_assistant_value.name", "home_assistant_value.client"),
        *("home_assistant_value.label", "home_assistant_value.unit"),
        *("admin.hosts", "admission.listed", "dtls.allow"),
        *("binding.identities", "binding.clients"),
        *("access.clients", "access.identities", "access.topics"),
    }
)

_WORDS = "passw(?:or)?d|passphrase|psk|secret|token|api_?key|private_?key|credential"
_ASSIGNED = re.compile(
    rf"(?i)((?:[\w.-]*(?:{_WORDS})[\w.-]*)(?<!_file)[\"']?\s*[=:]\s*)(\"[^\"\n]*\"|'[^'\n]*'|[^\s,;]+)"
)
_USER_INFO = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@\"']*@")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_PAYLOAD = re.compile(r"(\bpayload=)(b?'[^'\n]*'|b?\"[^\"\n]*\"|\S+)")
_PRINTED = re.compile(r"( prints: ).*")  # a board's console, at the level debug
# Words that are in any report, and so tell nothing; without them it could not be read.
_VOCABULARY = frozenset(
    word for path in known_keys(ROOT) for part in path for word in re.split("[._]", str(part))
) | {"mqtt", "mqtts", "tidegate", "python", "root", "test"}
_LITERAL = re.compile(r"\"([^\"\n]*)\"|'([^'\n]*)'|[=:][ \t]*([^\s\"'#\[\]{},]+)")


@dataclass(slots=True)
class Redaction:
    """`shown`: values that are in the report anyway, and are left in other places too."""

    hidden: set[str] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)

    def clean(self, text: str) -> str:
        for pieces in sorted(self._pieces(), key=len, reverse=True):
            text = text.replace(pieces, REMOVED)
        text = _PRIVATE_KEY.sub(REMOVED, text)
        text = _USER_INFO.sub(rf"\1{REMOVED}@", text)
        text = _ASSIGNED.sub(_without_value, text)
        text = _PAYLOAD.sub(rf"\1{REMOVED}", text)
        return _PRINTED.sub(rf"\1{REMOVED}", text)

    def _pieces(self) -> Iterator[str]:
        """As messages and documents would write what is hidden: escaped, or cut."""
        for value in self.hidden:
            if value in self.shown or value.lower() in _VOCABULARY:
                continue
            for part in {value, *value.splitlines()}:
                part = part.strip()
                if len(part) < HIDDEN_LENGTH_MIN:
                    continue
                for form in (part, printable(part), *_as_json(part), quoted(part)[1:-1]):
                    yield form
                    if len(form) > SHOWN_LENGTH_MAX:
                        yield form[:SHOWN_LENGTH_MAX]
                    if len(form) > KEY_LENGTH_MAX:
                        yield form[:KEY_LENGTH_MAX]

    def hide(self, value: object) -> None:
        """With all texts in it."""
        match value:
            case Mapping():
                for one in value.values():
                    self.hide(one)
            case list() | tuple():
                for one in value:
                    self.hide(one)
            case str():
                self.hidden.add(value)
            case bool():
                pass
            case _:
                self.hidden.add(str(value))

    # A configuration

    def configuration(self, text: str) -> str:
        """A file as TOML again, key by key; without its comments, which may say anything."""
        try:
            document = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            self._hide_all(text)
            where = re.search(r"\(at (line \d+, column \d+|end of document)\)", str(error))
            return f"# It is not TOML, and so left out{': ' + where[1] if where else ''}.\n"
        return "".join(f"{line}\n" for line in self._table(ROOT, (), document))

    def _hide_all(self, text: str) -> None:
        """Of a file that cannot be read: every value in it."""
        for match in _LITERAL.finditer(text):
            value = next(each for each in match.groups() if each is not None)
            if not value.replace(".", "").isdigit() and value not in ("true", "false"):
                self.hidden.add(value)

    def _table(
        self, node: Table | Named | None, path: tuple[str | int, ...], table: Mapping[str, object]
    ) -> Iterator[str]:
        below: list[tuple[str, Any]] = []
        for name, value in table.items():
            inner = _below(node, name)
            if isinstance(value, Mapping) or _is_tables(value):
                below.append((name, value))
            else:
                yield f"{dotted((name,))} = {self._shown(inner, path, value)}"
        for name, value in below:
            inner = _below(node, name)
            entries = value if isinstance(value, list) else [value]
            for entry in entries:
                brackets = "[[{}]]" if isinstance(value, list) else "[{}]"
                yield ""
                yield brackets.format(dotted((*path, name)))
                kept = inner.entry if isinstance(inner, Repeated) else inner
                kept = kept if isinstance(kept, Table | Named) else None
                yield from self._table(kept, (*path, name), entry)

    def _shown(self, node: Node | None, path: tuple[str | int, ...], value: object) -> str:
        if isinstance(node, Key) and self._may_be_shown(node, path, value):
            self._show(value)
            return json.dumps(value, ensure_ascii=True, default=str)
        self.hide(value)
        return f'"{REMOVED}"'

    def _may_be_shown(self, key: Key, path: tuple[str | int, ...], value: object) -> bool:
        table = ".".join(str(part) for part in path if not isinstance(part, int))
        if not isinstance(key.kind, PLAIN_KINDS) and f"{table}.{key.name}" not in SHOWN_TEXTS:
            return False
        try:
            # Paths begin at a folder that does not matter here.
            if not isinstance(key.kind, FilePath):
                key.kind.read(value)
        except MismatchError:
            return False
        return True

    def _show(self, value: object) -> None:
        for one in value if isinstance(value, list) else [value]:
            self.shown.add(str(one))

    # Beside the file

    def assigned(self, environment: Mapping[str, str], overrides: Iterable[str]) -> Iterator[str]:
        """Names of what was given by variables and --set; the values are hidden where they would be
        in a file.
        """
        for name, value in sorted(environment.items()):
            if name.startswith(PREFIX):
                parts = tuple(name.removeprefix(PREFIX).lower().split(SEPARATOR))
                yield f"{name} = {self._assigned(parts, value)}"
        for override in overrides:
            found = key_parts(override)
            if found is None or not found[1].startswith("="):
                self.hide(override)
                yield f"--set {REMOVED}"
            else:
                value = found[1].removeprefix("=").strip()
                yield f"--set {dotted(tuple(found[0]))} = {self._assigned(tuple(found[0]), value)}"

    def _assigned(self, parts: tuple[str, ...], value: str) -> str:
        node: Node | None = ROOT
        for part in parts:
            if isinstance(node, Repeated):
                node = node.entry if part.isdigit() else None
            else:
                node = _below(node, part) if isinstance(node, Table | Named) else None
        read = node.kind.from_text(value) if isinstance(node, Key) else value
        path = tuple(part for part in parts[:-1] if not part.isdigit())
        return self._shown(node, path, read)


def _below(node: Table | Named | None, name: str) -> Node | None:
    match node:
        case Table():
            return node.part(name)
        case Named():
            return node.entry
    return None


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(e, Mapping) for e in value)


def _as_json(text: str) -> tuple[str, str]:
    return json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]


def _without_value(match: re.Match[str]) -> str:
    value = match[2]
    return match[0] if REMOVED in value else f"{match[1]}{REMOVED}"


def secret_files(node: Node = ROOT, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Keys that name a file with a secret in it, all that may."""
    match node:
        case Key():
            if isinstance(node.kind, CredentialPath):
                yield ".".join((*path, node.name))
        case Table():
            for part in node.parts:
                inner = part.entry if isinstance(part, Repeated) else part
                name = () if isinstance(part, Key) else (part.name,)
                yield from secret_files(inner, (*path, *name))
        case Named():
            yield from secret_files(node.entry, path)
