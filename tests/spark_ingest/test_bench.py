"""The table of the measurements: a goal that is missed is seen, in the table and by the caller."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from tests.bench.document import with_section
from tests.spark_ingest.bench import __main__ as bench
from tests.spark_ingest.bench.figures import DOCUMENT, SECTION, Figure


@pytest.mark.parametrize(
    ("figure", "line"),
    [
        (Figure("rate", 25_300.4, "{:,.0f}/s"), "| rate | 25,300/s |  |"),
        (Figure("ratio", 0.5, least=0.5), "| ratio | 0.50 | ≥ 0.5 |"),
        (Figure("ratio", 0.49, least=0.5), "| ratio | 0.49 | ≥ 0.5, **missed** |"),
        (Figure("cost", 5.0, "{:.1f} %", most=5, unit=" %"), "| cost | 5.0 % | ≤ 5 % |"),
        (Figure("lag", 5.1, "{:.1f} s", most=5, unit=" s"), "| lag | 5.1 s | ≤ 5 s, **missed** |"),
    ],
)  # fmt: skip
def test_a_figure_stands_beside_its_goal(figure: Figure, line: str) -> None:
    assert figure.as_line() == line


@pytest.mark.parametrize(("value", "code"), [(2.0, 0), (1.9, 1)])
def test_it_ends_with_1_if_a_goal_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: float, code: int
) -> None:
    def measured(_asked: argparse.Namespace) -> Iterator[Figure]:
        yield Figure("ratio", value, least=2)

    monkeypatch.setitem(bench.MEASURES, "scan", measured)
    assert bench.main(["scan"]) == code
    assert f"| ratio | {value:.2f} | ≥ 2" in capsys.readouterr().out


def test_the_document_has_a_place_for_the_table() -> None:
    assert "\n| a | b | c |\n" in with_section(
        DOCUMENT.read_text(encoding="utf-8"), "| a | b | c |", SECTION
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scans"], "no part is called scans; there are backlog, scan, freshness"),
        (["scan", "--write-docs"], "--write-docs writes the whole table; name no parts with it"),
    ],
)
def test_what_cannot_be_measured_is_told(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    with pytest.raises(SystemExit):
        bench.main(arguments)
    assert said in capsys.readouterr().err
