"""The settings in force, each with who gave it: for `tidegate check --show` and for other eyes.

Secrets are in no setting, only the paths of the files that hold them, and hashes of passwords and
tokens, which are for the operator alone: `Entry.public` is for all other eyes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from gateway.config.keys import ROOT, TOPIC_ID
from gateway.config.kinds import HashedSecret
from gateway.config.reader import Configuration
from gateway.config.schema import Key, Repeated, Table, joined
from gateway.config.spelling import KeyPath, dotted

_ORIGIN_COLUMN = 44


@dataclass(frozen=True, slots=True)
class Entry:
    """One key, set or not; without a value, `literal` (TOML) is nothing as well."""

    path: KeyPath
    value: bool | int | float | str | None
    literal: str | None
    origin: str
    is_hash: bool = False

    @property
    def public(self) -> str | None:
        """`literal` where a log or a page may show it."""
        return '"(hidden)"' if self.is_hash and self.literal is not None else self.literal


def entries(configuration: Configuration) -> Iterator[Entry]:
    """Every key of fixed name, and every predefined topic, table by table."""
    settings = configuration.settings
    for part in ROOT.parts:
        if isinstance(part, Table):
            yield from _keys(part, (part.name,), getattr(settings, part.name), configuration)
        elif isinstance(part, Repeated):
            for index, section in enumerate(getattr(settings, part.name)):
                yield from _keys(part.entry, (part.name, index), section, configuration)
    yield from _topics(("predefined_topics",), settings.predefined_topics, configuration)
    for client_id, client in settings.clients.items():
        path = ("clients", client_id, "predefined_topics")
        yield from _topics(path, client.predefined_topics, configuration)


def _keys(
    table: Table, path: KeyPath, section: object, configuration: Configuration
) -> Iterator[Entry]:
    for key in table.keys:
        value = joined(key, [getattr(section, name) for name in key.filled])
        yield _entry(key, (*path, key.name), value, configuration)


def _topics(
    path: KeyPath, topics: Mapping[str, int], configuration: Configuration
) -> Iterator[Entry]:
    for topic, topic_id in topics.items():
        yield _entry(TOPIC_ID, (*path, topic), topic_id, configuration)


def _entry(key: Key, path: KeyPath, value: object, configuration: Configuration) -> Entry:
    origin = configuration.origin_of(dotted(path))
    plain = value if value is None or isinstance(value, bool | int | float) else str(value)
    is_hash = isinstance(key.kind, HashedSecret)
    literal = key.kind.written(value)
    return Entry(path=path, value=plain, literal=literal, origin=origin, is_hash=is_hash)


def as_json(configuration: Configuration) -> list[dict[str, object]]:
    """For the page. `is_given`: by somebody, not by default."""
    return [
        {
            "key": dotted(entry.path),
            "value": "(hidden)" if entry.is_hash else entry.value,
            "toml": entry.public,
            "origin": entry.origin,
            "is_given": dotted(entry.path) in configuration.origins,
        }
        for entry in entries(configuration)
    ]


def as_toml(listed: Iterable[Entry]) -> Iterator[str]:
    """The lines of a file that says all of it, with the origins as comments."""
    for table, group in groupby(listed, key=lambda entry: entry.path[:-1]):
        yield f"[[{table[0]}]]" if isinstance(table[-1], int) else f"[{dotted(table)}]"
        for entry in group:
            name = dotted(entry.path[-1:])
            if entry.literal is None:
                yield f"# {name} is not set"
            else:
                yield f"{name} = {entry.literal}".ljust(_ORIGIN_COLUMN) + f"# {entry.origin}"
        yield ""
