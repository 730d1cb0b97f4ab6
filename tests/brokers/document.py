"""docs/brokers.md, of what a run has found."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.brokers.adapters import BROKERS, MODELS, NOT_HAD, REAL
from tests.brokers.broker import Broker
from tests.brokers.features import FEATURES
from tests.brokers.results import Cell, Cells, Outcome

DOCUMENT = Path(__file__).parents[2] / "docs" / "brokers.md"
WIDTH = 120
UNKNOWN = Cell(Outcome.NOT_RUN.value, "no run has it yet")
HEAD = """\
# Brokers

<!-- Made by `make brokers-test`; do not edit it by hand. -->

What works with which broker. Each cell is the result of a test: a real gateway, sensors of the
tests and an independent MQTT client at that broker, with a proxy between gateway and broker that
reads every packet and checks that the gateway keeps what the broker's CONNACK says.
`make brokers-test` installs the brokers, runs the tests (`tests/brokers/`) and writes this page.

- **yes**: it works. **no**: it does not; the reason is below the table.
- **refused**: the broker does not take it, the gateway copes, and nothing else is harmed.
- **not run**: the broker does not have it, or it is not installed.
"""
BROKERS_HEAD = "## Brokers that were run"
MODELS_HEAD = """\
## Models of brokers that are rented

A mosquitto behind a proxy that enforces the limits that their makers document. A model shows that
the gateway keeps the limits and goes on after it was disconnected. It does not show TLS, throttling
or limits that are not documented.
"""
MODELS_END = """\
A model ends a connection as a network may: packets behind the one that it ended for are lost, and
so are acknowledgements of those before it that are under way.
"""
KEYS_HEAD = """\
## Keys that a broker needs

In the gateway's [configuration](configuration.md). For all others the defaults do.
"""
NOT_HAD_HEAD = """\
## Looked for and not had

"""


def text_of(cells: Cells) -> str:
    parts = [
        HEAD,
        BROKERS_HEAD,
        *_section(REAL, cells),
        MODELS_HEAD.rstrip(),
        *_section(MODELS, cells),
        MODELS_END,
        KEYS_HEAD.rstrip(),
        "\n".join(_keys()),
        NOT_HAD_HEAD.rstrip(),
        "\n".join(_bullet(f"**{title}**: {why}.") for title, why in NOT_HAD.items()),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def write(cells: Cells) -> None:
    DOCUMENT.write_text(text_of(cells), encoding="utf-8")


def columns_in(text: str) -> list[str]:
    """The titles above the tables."""
    heads = re.findall(r"^\| feature \|(.*)\|$", text, re.MULTILINE)
    return [title.strip() for head in heads for title in head.split("|")]


def rows_in(text: str) -> list[list[str]]:
    """The features of each table, as they are described."""
    tables = re.split(r"^\| feature \|.*\n\|[-:| ]+\|\n", text, flags=re.MULTILINE)[1:]
    return [
        re.findall(r"^\| ([^|]+?) \|", table.split("\n\n")[0], re.MULTILINE) for table in tables
    ]


def _section(brokers: Sequence[type[Broker]], cells: Cells) -> Iterator[str]:
    yield "\n".join(_table(brokers, cells))
    yield "\n".join(_notes(brokers, cells))


def _table(brokers: Sequence[type[Broker]], cells: Cells) -> Iterator[str]:
    yield f"| feature | {' | '.join(each.title for each in brokers)} |"
    yield f"| --- |{' :-: |' * len(brokers)}"
    for feature, words in FEATURES.items():
        found = [cells.get(each.name, {}).get(feature, UNKNOWN).outcome for each in brokers]
        yield f"| {words} | {' | '.join(found)} |"


def _notes(brokers: Sequence[type[Broker]], cells: Cells) -> Iterator[str]:
    for each in brokers:
        row = cells.get(each.name, {})
        said: dict[str, list[str]] = {}
        for feature in FEATURES:
            cell = row.get(feature, UNKNOWN)
            if cell.words and cell.words != cell.outcome:
                said.setdefault(_plain(cell), []).append(feature)
        notes = "; ".join(f"*{_named(features)}*: {words}" for words, features in said.items())
        about = f"**{each.title}** {each.version} ({each.recipe})"
        yield _bullet(f"{about}: {notes}." if notes else f"{about}.")


def _plain(cell: Cell) -> str:
    return cell.words.removeprefix(f"{cell.outcome}: ").replace("|", "\\|")


def _named(features: list[str]) -> str:
    if len(features) > len(FEATURES) // 2:
        return "all else"
    return ", ".join(each.replace("_", " ") for each in features)


def _keys() -> Iterator[str]:
    yield "| broker | key | why |"
    yield "| --- | --- | --- |"
    for each in BROKERS:
        for key, why in each.keys.items():
            yield f"| {each.title} | `{key}` | {why} |"


def _bullet(text: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
    )
