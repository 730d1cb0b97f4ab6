"""What each block of the documents is, and so how it is tried.

The tag of a block decides, and for tables of TOML and programs of Python their first words; a
comment before the block overrules both (blocks.py). What is none of these is a fault.
"""

from __future__ import annotations

from enum import StrEnum

from tests.docs.blocks import Block


class Kind(StrEnum):
    # Run in the page's root (root.py), as they stand there.
    SHELL = "sh"
    CONSOLE = "console"
    PYTHON = "python"
    MICROPYTHON = "micropython"
    CRON = "cron"
    # Given to the program that reads such a file.
    GATEWAY = "toml"
    INGEST = "ingest"
    BENCH = "bench"
    SCENARIO = "scenario"
    BOARD = "board"
    SETTINGS = "settings"
    SECRETS = "secrets"
    MOSQUITTO = "conf"
    ACL = "acl"
    UNIT = "unit"
    PROMETHEUS = "prometheus"
    COMPOSE = "compose"
    # Read, and no more.
    JSON = "json"
    YAML = "yaml"
    SQL = "sql"
    DIFF = "diff"
    MISTAKES = "mistakes"
    # In form alone, with a reason; SAID: lines that the sources print; HELD by the test
    # that its comment names.
    SHAPE = "shape"
    SAID = "said"
    HELD = "held"
    DRAWING = "drawing"
    WORDS = "words"


NEEDS_REASON = {Kind.SHAPE, Kind.HELD, Kind.YAML, Kind.SQL, Kind.WORDS}
IN_ROOT = {Kind.SHELL, Kind.CONSOLE, Kind.PYTHON, Kind.MICROPYTHON, Kind.CRON}
_TAGS = {
    "sh": Kind.SHELL,
    "console": Kind.CONSOLE,
    "json": Kind.JSON,
    "conf": Kind.MOSQUITTO,
    "ini": Kind.UNIT,
    "sql": Kind.SQL,
    "diff": Kind.DIFF,
}


class UnknownBlockError(Exception):
    """There is no way to try it; the text says what its writer can do."""


def kind_of(block: Block) -> Kind:
    """Raises UnknownBlockError."""
    if block.kind:
        try:
            kind = Kind(block.kind)
        except ValueError:
            known = ", ".join(Kind)
            raise UnknownBlockError(f"{block.where}: {block.kind!r} is none of {known}") from None
        if kind in NEEDS_REASON and not block.reason:
            raise UnknownBlockError(f"{block.where}: {kind} without a reason behind a comma")
        return kind
    kind_by_tag = _TAGS.get(block.tag) or _by_words(block)
    if kind_by_tag is None:
        raise UnknownBlockError(
            f"{block.where}: the tag {block.tag!r} says not how to try it: "
            "take another, or <!-- block: KIND, REASON --> before it"
        )
    return kind_by_tag


def _by_words(block: Block) -> Kind | None:
    if block.tag == "python":
        on_board = ("import machine", "from machine", "from mqttsn", "import mqttsn")
        return Kind.MICROPYTHON if block.text.startswith(on_board) else Kind.PYTHON
    if block.tag == "toml":
        return Kind.INGEST if block.page == "docs/spark.md" else Kind.GATEWAY
    if block.tag == "yaml":
        heads = {line.split(":")[0] for line in block.text.splitlines() if line[:1].isalpha()}
        if heads & {"scrape_configs", "groups"}:
            return Kind.PROMETHEUS
        return Kind.COMPOSE if "services" in heads else None
    return None
