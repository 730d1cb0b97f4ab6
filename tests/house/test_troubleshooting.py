"""docs/troubleshooting.md explains what the gateway warns of, docs/messages.md has all the rest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.core.drop_reasons import Reason
from tests.house import messages
from tests.house.error_texts import said_in

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENT = REPOSITORY / "docs" / "troubleshooting.md"


def plain(text: str) -> str:
    return " ".join(re.sub(r"[`\\]", "", text).split())


def test_everything_that_the_gateway_says_is_in_the_document() -> None:
    document = plain(DOCUMENT.read_text())
    said = list(said_in(REPOSITORY, REPOSITORY / "gateway"))
    assert len(said) > 100
    missing = [f"{each.where}: {each.piece}" for each in said if plain(each.piece) not in document]
    assert missing == [], "docs/troubleshooting.md lacks these"


def test_every_reason_for_a_drop_is_in_the_document() -> None:
    document = DOCUMENT.read_text()
    assert [each.value for each in Reason if f"`{each.value}`" not in document] == []


@pytest.mark.parametrize(
    ("source", "piece"),
    [
        ('log.warning("%s: the tide is out, wait", x)', "the tide is out, wait"),
        ('raise LinkError(f"{x}: the tide is out") from e', "the tide is out"),
        ('print_error(f"no tide is at {x}: wait")', "no tide is at"),
        ('_log.error("the tide is out")', "the tide is out"),
    ],
)
def test_what_is_said_is_found(tmp_path: Path, source: str, piece: str) -> None:
    (tmp_path / "gateway").mkdir()
    (tmp_path / "gateway" / "one.py").write_text(f"x = e = 1\n{source}\n")
    (found,) = said_in(tmp_path, tmp_path / "gateway")
    assert piece in found.piece or found.piece in piece
    assert found.where == "gateway/one.py:2"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('print_line(f"{x} is free for {y} minutes")', ["... is free for ... minutes"]),
        (
            'log.info("reload: %d keys have another value", 1)',
            ["reload: ... keys have another value"],
        ),
        ('WHY = {1: "the tide is out"}', ["the tide is out"]),
        ('raise AnyError("the tide " "is out")', ["the tide is out"]),
        ('def f():\n    "A word for readers of code."', []),
        ('parser.add_argument("--x", help="what the tide does")', []),
        ('cursor.execute("SELECT tide FROM all_tides")', []),
        ('x: "list[int] | None | str" = None', []),
    ],
)
def test_each_sentence_of_the_sources_is_taken(source: str, found: list[str]) -> None:
    assert list(messages.sentences_in(source)) == found
