"""docs/configuration.md, made from the table of keys: `python -m gateway.config.reference`."""

import sys
from collections.abc import Iterator

from gateway.config.credential import FILE_KEYS
from gateway.config.files import FILE_BYTES_MAX
from gateway.config.keys import LINES_MAX, LISTENERS_MAX, PREDEFINED_TOPICS, ROOT, TOPIC_FILTERS_MAX
from gateway.config.problems import PROBLEMS_MAX
from gateway.config.schema import Key, Named, Repeated, Table, default_of
from gateway.config.settings import MIB

_HEAD = f"""\
# Configuration

<!-- Made from gateway/config/keys.py by `python -m gateway.config.reference`; edit that. -->

Tidegate has one configuration file, in TOML: the one that `tidegate run --config FILE` names, or
`/etc/tidegate/config.toml`. `tidegate init FILE` writes one with every key as a comment.
`tidegate check FILE` checks a file; with `--show` it also lists each value in force and its
source.

The file is read at the start and at a [reload](service.md#systemd-integration) (SIGHUP).
Below, each key says whether a new value takes effect at a reload or needs a restart. New values of
`[upstream]` take effect at a reload unless `url` or `client_id` changes as well. Files of
passwords, certificates, keys and subjects are looked at every 10 s, and read again at a reload.

## Which value wins

| Priority | Source | Example |
| --- | --- | --- |
| 1 | command line | `--set upstream.url=mqtt://10.0.0.5 --set udp.0.listen=0.0.0.0:1884` |
| 2 | environment | `TIDEGATE_UPSTREAM__URL=mqtt://10.0.0.5 TIDEGATE_UDP__0__LISTEN=...` |
| 3 | file | `[upstream]` and `url = "mqtt://10.0.0.5"` |
| 4 | default | see [Keys](#keys) |

In a variable, two underscores separate the parts of a key. Entries of `[[udp]]`, `[[serial]]`,
`[[topic]]`, `[[home_assistant_value]]` and `[[home_assistant_command]]` are numbered from 0; the
next free number adds an entry. Quote names that contain anything but letters, digits, `_` and `-`:
`--set 'predefined_topics."sensors/boot"=1'`. Predefined topics cannot be set by variables.

## Values

- Sizes are bytes: `65536`, `"64KiB"`, `"16MiB"`, `"1GiB"`. Keys that end in `_bytes`, `_bytes_max`
  or `size_max` take either form, unless their range has no unit.
- Keys that end in `_s`, `_s_min` or `_s_max` are seconds; where the type is "number", fractions
  such as `0.5` are allowed. Keys that end in `_ms` or `_ms_max` are milliseconds.
- Relative paths start at the folder of the file; those from a variable or the command line start at
  the current folder.
- Secrets are kept in separate files, named by keys that end in `_file`. A URL that contains a
  password is refused, and no message shows a password. Instead of a path, `credential:NAME` names a
  secret that systemd passes to the service ([service.md](service.md)).

## When something is wrong

All mistakes are reported together and the exit code is 78. Unknown keys are mistakes, and so are
keys that contradict each other:

<!-- block: mistakes -->
```
config.toml:6:16: upstream.keep_alive_s: expected a whole number of seconds from 1 to 65535, got 0
config.toml:9:1: upstream.pasword_file: unknown key, did you mean upstream.password_file?
environment TIDEGATE_LOG__FORMAT: log.format: expected "text" or "json", got "xml"
```

For a file that is not valid TOML, the first error is reported. Limits: a file of
{FILE_BYTES_MAX // MIB} MiB, {LISTENERS_MAX} listeners, {LINES_MAX} serial lines,
{TOPIC_FILTERS_MAX} topic filters, the first {PROBLEMS_MAX} mistakes (the rest are counted).

## Keys
"""


def reference() -> str:
    lines = [_HEAD]
    for part in ROOT.parts:
        match part:
            case Table():
                lines += _table(f"[{part.name}]", part)
            case Repeated(entry=table):
                lines += _table(f"[[{table.name}]]", table)
            case Named():
                lines += _named(part)
            case Key():
                raise AssertionError("every key stands in a table")
    return "\n".join(lines).rstrip("\n") + "\n"


def _table(header: str, table: Table) -> Iterator[str]:
    yield f"### `{header}`"
    yield ""
    yield f"{table.meaning}."
    yield ""
    for key in table.keys:
        yield from _key(f"{table.name}.{key.name}", key, _default(table, key))


def _default(table: Table, key: Key) -> str:
    literal = key.kind.written(default_of(table, key))
    return key.default or ("not set" if literal is None else f"`{literal}`")


def _named(named: Named) -> Iterator[str]:
    topics, header = named, named.name
    if isinstance(named.entry, Table):
        topics = PREDEFINED_TOPICS
        header = f'{named.name}."client id".{topics.name}'
    assert isinstance(topics.entry, Key)
    yield f"### `[{header}]`"
    yield ""
    yield f"{named.meaning}. Names are topics: {topics.names.range}."
    yield ""
    yield from _key(f'{header}."topic"', topics.entry, "none")


def _key(name: str, key: Key, default: str) -> Iterator[str]:
    """A heading of its own, so that other pages can link to it."""
    limits = f", {key.kind.range}" if key.kind.range else ""
    why = f" ({key.why})" if key.why else ""
    yield f"#### `{name}`"
    yield ""
    yield f"{key.remark}."
    yield ""
    yield f"- Type: {key.kind.name}{limits}"
    yield f"- Default: {default}{why}"
    content = "; what is in the file within 10 s" if name in FILE_KEYS else ""
    yield f"- New value takes effect: {'at a reload' if key.at_once else 'at a restart'}{content}"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(reference())
