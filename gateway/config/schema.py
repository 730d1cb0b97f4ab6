"""The shape of the table of keys that stands in `keys.py`, and how to ask it.

Every node has the name it has in the file. The reader, the suggestions for misspelled keys, the
checks of needed keys, `tidegate init` and docs/configuration.md are all made from that table.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from gateway.config.addresses import Broker
from gateway.config.kinds import Kind
from gateway.config.spelling import KeyPath


@dataclass(frozen=True, slots=True)
class Key:
    """One value. `fields` are the settings it fills; without any, the one of its own name."""

    name: str
    kind: Kind
    meaning: str
    why: str = ""  # where the default comes from
    fields: tuple[str, ...] = ()
    default: str = ""  # in words, where the machine or another key decides it
    example: str = ""  # TOML for `tidegate init`, where the default would not help
    needs: str = ""  # a key of the same table without which this one has no use
    needs_tls: bool = False
    at_once: bool = False  # another value counts with a reload; see app/service/reload.py

    @property
    def filled(self) -> tuple[str, ...]:
        return self.fields or (self.name,)

    @property
    def remark(self) -> str:
        """The meaning, and what else must be true for the key to have one."""
        parts = [self.meaning]
        if self.needs:
            parts.append(f"needs {self.needs}")
        if self.needs_tls:
            parts.append("needs mqtts://")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Table:
    """Fixed names. `settings` is the class that its keys fill, if they fill one."""

    name: str
    meaning: str
    parts: "tuple[Node, ...]"
    settings: type | None = None

    def part(self, name: str) -> "Node | None":
        return next((part for part in self.parts if part.name == name), None)

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(part for part in self.parts if isinstance(part, Key))


@dataclass(frozen=True, slots=True)
class Repeated:
    """An array of tables, as `[[udp]]`.

    A file without it has one entry, all defaults, unless `is_optional`: then it has none.
    """

    entry: Table
    entries_max: int
    is_optional: bool = False

    @property
    def name(self) -> str:
        return self.entry.name


@dataclass(frozen=True, slots=True)
class Named:
    """A table in which the operator chooses the names; what it grows with is the file."""

    name: str
    meaning: str
    names: Kind
    entry: Key | Table
    example: str  # a name


Node = Key | Table | Repeated | Named


def default_of(table: Table, key: Key) -> object:
    """What the settings class has for the key; nothing where `key.default` says it in words."""
    assert table.settings is not None
    if key.default:
        return None
    defaults = {setting.name: setting.default for setting in fields(table.settings)}
    return joined(key, [defaults[name] for name in key.filled])


def joined(key: Key, values: list[object]) -> object:
    """The key's value from those of the settings that it fills."""
    return values[0] if len(values) == 1 else Broker._make(values)


def separated(key: Key, value: object) -> dict[str, object]:
    """The settings that a key's value fills."""
    values = value if isinstance(value, Broker) else (value,)
    return dict(zip(key.filled, values, strict=True))


def known_keys(table: Table, prefix: KeyPath = ()) -> Iterator[KeyPath]:
    """All keys of fixed name below a table; of an array of tables those of the first entry."""
    for part in table.parts:
        match part:
            case Key():
                yield (*prefix, part.name)
            case Table():
                yield from known_keys(part, (*prefix, part.name))
            case Repeated():
                yield from known_keys(part.entry, (*prefix, part.name, 0))
            case Named():
                pass
