"""docs/configuration.md, made from the table of keys: `python -m gateway.config.reference`."""

import sys
from collections.abc import Iterator

from gateway.config.files import FILE_BYTES_MAX
from gateway.config.keys import LINES_MAX, LISTENERS_MAX, PREDEFINED_TOPICS, ROOT, TOPIC_FILTERS_MAX
from gateway.config.problems import PROBLEMS_MAX
from gateway.config.schema import Key, Named, Repeated, Table, default_of
from gateway.config.settings import MIB

_HEAD = f"""\
# Configuration

<!-- Made from gateway/config/keys.py by `python -m gateway.config.reference`; edit that. -->

One TOML file says everything: `tidegate run --config FILE`, or `/etc/tidegate/config.toml` without
`--config`. `tidegate init FILE` writes one with every key in it as a comment, and
`tidegate check FILE` says whether a file is right, `--show` also what is in force and who said so.
The file is read at the start, and again at a [reload](service.md#what-systemd-knows-of-it)
(SIGHUP), which suffices for the keys that say so in the column "Change by". Those of `[upstream]`
count then as long as `url` and `client_id` stay as they are.

## Who decides

| First | Source | Example |
|---|---|---|
| 1 | command line | `--set upstream.url=mqtt://10.0.0.5 --set udp.0.listen=0.0.0.0:1884` |
| 2 | environment | `TIDEGATE_UPSTREAM__URL=mqtt://10.0.0.5 TIDEGATE_UDP__0__LISTEN=...` |
| 3 | file | `[upstream]` and `url = "mqtt://10.0.0.5"` |
| 4 | default | the tables below |

Variables have two underscores between the parts of a key. Entries of `[[udp]]`, `[[serial]]`,
`[[topic]]` and `[[home_assistant_value]]` have numbers from 0; the next free number adds one. Names
with other signs than letters, digits, `_` and `-` are quoted:
`--set 'predefined_topics."sensors/boot"=1'`. Predefined topics cannot be variables.

## Values

- Sizes are octets: `65536`, `"64KiB"`, `"16MiB"`, `"1GiB"`. Keys that end in `_bytes`,
  `_bytes_max` or `size_max` take either form unless their range has no unit.
- Keys that end in `_s`, `_s_min` or `_s_max` are seconds, and `0.5` is one of them where the type
  is "number"; `_ms` and `_ms_max` are milliseconds.
- Relative paths begin at the folder of the file, or at the current folder when they come from a
  variable or from the command line.
- Secrets stand in files of their own, named by keys that end in `_file`. A URL with a password in
  it is refused, and no message shows one. In place of a path `credential:NAME` names a secret that
  systemd hands to the service ([service.md](service.md)).

## When something is wrong

Every mistake is reported at once and the exit code is 78. Unknown keys are mistakes, and so are
keys that contradict each other:

<!-- block: mistakes -->
```
config.toml:6:16: upstream.keep_alive_s: expected a whole number of seconds from 1 to 65535, got 0
config.toml:9:1: upstream.pasword_file: unknown key, did you mean upstream.password_file?
environment TIDEGATE_LOG__FORMAT: log.format: expected "text" or "json", got "xml"
```

A file that is not TOML is reported with the first place where it is not. Limits: a file of
{FILE_BYTES_MAX // MIB} MiB, {LISTENERS_MAX} listeners, {LINES_MAX} serial lines,
{TOPIC_FILTERS_MAX} topic filters, the first {PROBLEMS_MAX} mistakes (the rest are counted).

## Keys
"""


_COLUMNS = (
    "| Key | Type | Default | Range | Meaning | Why this default | Change by |",
    "|---|---|---|---|---|---|---|",
)


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
    yield from _COLUMNS
    for key in table.keys:
        yield _row(f"`{key.name}`", key, _default(table, key))
    yield ""


def _default(table: Table, key: Key) -> str:
    literal = key.kind.written(default_of(table, key))
    return key.default or ("not set" if literal is None else f"`{literal}`")


def _named(named: Named) -> Iterator[str]:
    topics, header = named, f"[{named.name}]"
    if isinstance(named.entry, Table):
        topics = PREDEFINED_TOPICS
        header = f'[{named.name}."client id".{topics.name}]'
    assert isinstance(topics.entry, Key)
    yield f"### `{header}`"
    yield ""
    yield f"{named.meaning}. Names are topics: {topics.names.range}."
    yield ""
    yield from _COLUMNS
    yield _row('`"topic"`', topics.entry, "none")
    yield ""


def _row(name: str, key: Key, default: str) -> str:
    change_by = "reload" if key.at_once else "restart"
    limits = key.kind.range or "any"
    cells = (name, key.kind.name, default, limits, f"{key.remark}.", key.why, change_by)
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
