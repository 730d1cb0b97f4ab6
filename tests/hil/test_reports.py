"""Reports say what came out, to people and to programs, whatever boards print."""

from __future__ import annotations

import dataclasses
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

from hil.boards import inventory
from hil.report.as_json import histogram
from hil.report.writing import write
from hil.rig.campaign import Campaign
from hil.rig.run import Outcome, Result
from hil.rig.stage import Elsewhere
from hil.scenarios import scenario

BOARDS = inventory.read(inventory.DEFAULT)
SCENARIOS = [one for one in scenario.scenarios_in(scenario.FOLDER) if one.is_quick]
NUMBERS = {
    "readings": 12.0,
    "latency_p50_ms": 0.7,
    "latency_p95_ms": 2.0,
    "latency_max_ms": 1700.0,
    "awake_ms_per_reading": 40.0,
    "octets_up_per_reading": 86.6,
    "octets_down_per_reading": 13.8,
    "heap_used": 51_000.0,
    "heap_size": 64_000.0,
}
UGLY = "a board said: \x00\x1b[31m<b>&amp;</b> ]]> \ufffe\n"
VOID = {"meta", "line", "rect", "circle"}


def campaign(folder: Path) -> Campaign:
    return Campaign(BOARDS, SCENARIOS, seed=7, folder=folder)


def passed(board: str, name: str) -> Result:
    return Result(
        name,
        board,
        1,
        Outcome.PASSED,
        seconds=3.2,
        firmware="0123456789abcdef",
        numbers=dict(NUMBERS),
        latencies_ms=(0.2, 0.7, 3.0),
        effects={"lost": 3},
    )


def results() -> list[Result]:
    first, second, *_ = SCENARIOS
    failed = dataclasses.replace(
        passed("wasi-serial", second.name),
        outcome=Outcome.FAILED,
        failures=["2 lost: 3, 4", UGLY],
        folder="runs/x",
    )
    absent = Result(first.name, "microbit-qemu", 1, why="qemu-system-arm is not installed")
    return [passed("wasi-udp", first.name), failed, absent]


class Balanced(HTMLParser):
    """Every tag that is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def test_the_page_shows_each_run_each_failure_and_how_to_repeat_it(tmp_path: Path) -> None:
    page = write(tmp_path, campaign(tmp_path), results(), 61.0).read_text()
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    name = SCENARIOS[1].name
    assert f"python -m hil --board wasi-serial --scenario {name} --seed 7" in page
    assert "2 lost: 3, 4" in page
    assert "&lt;b&gt;&amp;amp;&lt;/b&gt;" in page
    assert "not run" in page
    assert "firmware <code>0123456789abcdef</code>" in page
    assert "1 failed" in page
    assert '<td class="long">3 lost</td>' in page
    assert page.count("<svg") == 2
    assert "http" not in page.replace("http-equiv", "")  # nothing to fetch


def test_a_board_that_is_not_there_says_why_in_all_reports(tmp_path: Path) -> None:
    write(tmp_path, campaign(tmp_path), results(), 61.0)
    for name in ("report.html", "report.json", "junit.xml"):
        assert "qemu-system-arm is not installed" in (tmp_path / name).read_text(), name


def test_junit_counts_failures_and_skips_and_survives_what_boards_print(tmp_path: Path) -> None:
    write(tmp_path, campaign(tmp_path), results(), 61.0)
    root = ET.parse(tmp_path / "junit.xml").getroot()
    counts = {
        suite.get("name"): (suite.get("tests"), suite.get("failures"), suite.get("skipped"))
        for suite in root
    }
    assert counts == {
        "wasi-udp": ("1", "0", "0"),
        "wasi-serial": ("1", "1", "0"),
        "microbit-qemu": ("1", "0", "1"),
    }
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("3", "1", "1")
    told = {each.get("name"): each.get("value") for each in root[0].iter("property")}
    assert told == {"seed": "7", "firmware": "0123456789abcdef"}
    text = root.findtext(".//failure") or ""
    assert "a board said: ??[31m<b>" in text
    assert "--seed 7" in text


def test_json_has_all_numbers_and_a_histogram(tmp_path: Path) -> None:
    write(tmp_path, campaign(tmp_path), results(), 61.0)
    told = json.loads((tmp_path / "report.json").read_text())
    assert told["seed"] == 7
    assert told["boards"][0]["firmware_hash"] == "0123456789abcdef"
    run = told["runs"][0]
    assert run["numbers"]["octets_up_per_reading"] == 86.6
    assert run["effects"] == {"lost": 3}
    assert run["latency_ms"] == {"0.25": 1, "1": 1, "4": 1}
    assert told["runs"][1]["failures"][0] == "2 lost: 3, 4"


def test_a_histogram_has_an_end() -> None:
    assert histogram([0.0, 1e9]) == {"0.25": 1, "more": 1}


def test_the_command_that_repeats_names_bench_and_gateway(tmp_path: Path) -> None:
    theirs = Elsewhere(("10.0.0.2", 1883), ("10.0.0.3", 1884))
    bench = Path("my bench.toml")
    given = dataclasses.replace(campaign(tmp_path), bench=bench, elsewhere=theirs)
    page = write(tmp_path, given, results(), 1.0).read_text()
    assert "--bench &#x27;my bench.toml&#x27;" in page
    assert re.search(r"--gateway 10\.0\.0\.2:1883 --broker 10\.0\.0\.3:1884", page)
