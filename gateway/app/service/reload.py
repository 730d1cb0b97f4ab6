"""What a new configuration changes of a running gateway: some of it at once, the rest by a restart.

A restart is cheap, as sensors and readings survive it. So at once is only what is changed often on
a gateway that must not be touched otherwise: the log, the list of sensors that may come in, and
names, passwords and certificates. What is built into other parts waits. The table of keys has a
mark on those that count at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.config import Configuration
from gateway.config.keys import ROOT
from gateway.config.listing import Entry, entries
from gateway.config.schema import Repeated, Table
from gateway.config.settings import Settings
from gateway.config.spelling import KeyPath, dotted, shortened

AT_ONCE: frozenset[tuple[str, str]] = frozenset(
    (table.name, key.name)
    for table in ROOT.parts
    if isinstance(table, Table)
    for key in table.keys
    if key.at_once
)
# Lists of tables, each as a whole.
LISTS_AT_ONCE = frozenset(
    part.name
    for part in ROOT.parts
    if isinstance(part, Repeated) and all(key.at_once for key in part.entry.keys)
)


@dataclass(frozen=True, slots=True)
class Change:
    """A key with another value; `before` and `after` as they are written in TOML, None if not set.
    Of a table that is gone, or new, each key is a change.
    """

    path: KeyPath
    before: str | None
    after: str | None
    origin: str

    def __str__(self) -> str:
        after = "not set" if self.after is None else shortened(self.after)
        before = "not set" if self.before is None else shortened(self.before)
        return f"{dotted(self.path)} = {after}, was {before} ({self.origin})"


def changes(before: Configuration, after: Configuration) -> list[Change]:
    old, new = _by_path(before), _by_path(after)
    found = []
    for path in dict.fromkeys([*old, *new]):
        was, will_be = old.get(path), new.get(path)
        literal_before = None if was is None else was.literal
        literal_after = None if will_be is None else will_be.literal
        if literal_before != literal_after:
            origin = "no longer given" if will_be is None else will_be.origin
            found.append(
                Change(
                    path=path,
                    before=None if was is None else was.public,
                    after=None if will_be is None else will_be.public,
                    origin=origin,
                )
            )
    return found


def _by_path(configuration: Configuration) -> dict[KeyPath, Entry]:
    return {entry.path: entry for entry in entries(configuration)}


def is_at_once(path: KeyPath, before: Settings, after: Settings) -> bool:
    """A password is never sent to another broker than the one that it was meant for."""
    if path[0] in LISTS_AT_ONCE:
        return True
    return path in AT_ONCE and (path[0] != "upstream" or _is_same_broker(before, after))


def in_force(before: Configuration, after: Configuration) -> Configuration:
    """The one before, with what of the new one can be had at once."""
    old, new = before.settings, after.settings
    settings = old
    paths = [path for path in AT_ONCE if is_at_once(path, old, new)]
    for table, key in paths:
        value = getattr(getattr(new, table), key)
        changed = replace(getattr(settings, table), **{key: value})
        settings = replace(settings, **{table: changed})
    for name in LISTS_AT_ONCE:
        settings = replace(settings, **{name: getattr(new, name)})
    at_once = {dotted(path) for path in paths}

    def is_new(key: str) -> bool:
        return key in at_once or key.partition(".")[0] in LISTS_AT_ONCE

    origins = {key: origin for key, origin in before.origins.items() if not is_new(key)}
    origins |= {key: origin for key, origin in after.origins.items() if is_new(key)}
    return Configuration(settings, after.warnings, origins)


def _is_same_broker(old: Settings, new: Settings) -> bool:
    def identity(settings: Settings) -> tuple[str, int, bool, str]:
        upstream = settings.upstream
        return upstream.host, upstream.port, upstream.tls, upstream.client_id

    return identity(old) == identity(new)
