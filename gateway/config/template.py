"""The file that `tidegate init` writes: every key as a comment, with its default or an example.

A line that begins with "#" directly before a key is there to be uncommented; "# " is text. All of
them can be uncommented at once.
"""

from collections.abc import Iterator
from textwrap import wrap

from gateway.config.keys import ROOT
from gateway.config.schema import Key, Named, Repeated, Table, default_of
from gateway.config.spelling import KeyPath, dotted

_WIDTH = 98

_HEAD = """\
# Configuration of Tidegate, the MQTT-SN gateway.
#
# Every key is here, set to its default or to an example. Remove the "#" before a key to set it.
# Check this file with: tidegate check FILE
# Use it with:          tidegate run --config FILE
#
# Sizes are 65536, "64KiB" or "16MiB"; keys that end in _s are seconds, in _ms
# milliseconds. Relative paths begin at the folder of this file. A variable such as
# TIDEGATE_UPSTREAM__URL goes before the file, and --set upstream.url=... before both.
"""


def template() -> str:
    lines = [_HEAD]
    for part in ROOT.parts:
        match part:
            case Table():
                lines += [*_comment(part.meaning), f"[{part.name}]", *_keys(part), ""]
            case Repeated(entry=table, is_optional=is_optional):
                header = f"#[[{table.name}]]" if is_optional else f"[[{table.name}]]"
                lines += [*_comment(table.meaning), header, *_keys(table), ""]
            case Named():
                lines += [*_named(part, (part.name,)), ""]
            case _:
                pass
    return "\n".join(lines).rstrip("\n") + "\n"


def _keys(table: Table) -> Iterator[str]:
    for key in table.keys:
        yield from _comment(_explained(key))
        yield f"#{key.name} = {key.example or key.kind.written(default_of(table, key))}"


def _named(named: Named, path: KeyPath) -> Iterator[str]:
    match named.entry:
        case Key():
            yield from _comment(f"{named.meaning}. {_explained(named.entry)}")
            yield f"#[{dotted(path)}]"
            yield f"#{dotted((named.example,))} = {named.entry.example}"
        case Table():
            for part in named.entry.parts:
                assert isinstance(part, Named)
                yield from _named(part, (*path, named.example, part.name))


def _explained(key: Key) -> str:
    return f"{key.remark} ({key.kind.range})" if key.kind.range else key.remark


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in wrap(text, _WIDTH)]
