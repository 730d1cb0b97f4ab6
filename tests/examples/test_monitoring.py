"""docs/examples/monitoring: what the rules and the dashboard ask for is there, and a gateway that
is well sets off no alert.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.admin.metrics.alerts import ALERTS
from gateway.admin.metrics.reference import reference
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.docs import files
from tests.examples import EXAMPLES
from tests.support.starting import PAGE, scraped

FOLDER = EXAMPLES / "monitoring"
RULES, DASHBOARD = FOLDER / "alerts.yaml", json.loads((FOLDER / "grafana.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
OF_PROMETHEUS = {"job", "instance", "up"}
COMPARED = {"==": operator.eq, ">": operator.gt}


def documented() -> tuple[set[str], dict[str, set[str]]]:
    """Metrics, and the values of each label whose values are all known."""
    names = set(re.findall(r"^\| `((?:tidegate|process)_\w+)` \|", reference(), re.MULTILINE))
    rows = re.findall(r"^\| `(\w+)` \| (`.*`) \|$", reference().split("## Labels")[1], re.MULTILINE)
    return names, {label: set(re.findall(r"`([^`]+)`", values)) for label, values in rows}


def expressions() -> list[str]:
    rules = re.findall(r"^ +expr: '(.*)'$", RULES.read_text(), re.MULTILINE)
    assert len(rules) == len(ALERTS) + 1
    return [*rules, *(target["expr"] for panel in PANELS for target in panel["targets"])]


def test_each_metric_and_label_is_in_the_document() -> None:
    names, labels = documented()
    for expression in expressions():
        bare = re.sub(r'"[^"]*"', '""', expression)
        assert set(re.findall(r"\b(?:tidegate|process)_\w+", bare)) <= names, expression
        selected = re.findall(r'(\w+)(=~|!=|=)"([^"]*)"', expression)
        for label, how, value in selected:
            if label in OF_PROMETHEUS:
                continue
            matches = re.compile(value if how == "=~" else re.escape(value)).fullmatch
            assert any(map(matches, labels[label])), f"{expression}: {label} has no {value}"


def test_each_part_of_a_pattern_is_an_alarm() -> None:
    _, labels = documented()
    [pattern] = (each.expression for each in ALERTS if each.name == "StandsStill")
    for part in pattern.split('"')[1].split("|"):
        assert any(re.fullmatch(part, name) for name in labels["alarm"]), part


def test_panels_have_a_place_of_their_own_and_a_legend() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for one, other in combinations([panel["gridPos"] for panel in PANELS], 2):
        assert (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
    for panel in PANELS:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        for target in panel["targets"]:
            assert "{{instance}}" in target["legendFormat"]
            assert 'instance=~"$instance"' in target["expr"]
            assert target["datasource"] == panel["datasource"]
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert set(variables) == {"datasource", "instance"}


def compared(expression: str, scrape: str) -> Iterator[bool]:
    """A comparison of a gauge, for each of its series."""
    asked = re.fullmatch(r"(\w+)(?:\{(.*)\})? (==|>) ([\d.]+)", expression)
    assert asked is not None, expression
    selectors = re.findall(r'(\w+)(=~|=)"([^"]*)"', asked[2] or "")
    for family in text_string_to_metric_families(scrape):
        for sample in family.samples:
            fits = sample.name == asked[1] and all(
                re.fullmatch(value if how == "=~" else re.escape(value), sample.labels[label])
                for label, how, value in selectors
            )
            if fits:
                yield COMPARED[asked[3]](sample.value, float(asked[4]))


def test_a_gateway_that_is_well_sets_off_no_alert_and_one_without_its_broker_does(
    tmp_path: Path,
) -> None:
    gauges = {
        each.name: each.expression
        for each in ALERTS
        if "(" not in each.expression and "job=" not in each.expression
    }
    with Mosquitto() as broker, GatewayProcess(tmp_path, broker.url, PAGE) as gateway:
        page = gateway.wait_for_log(r"status page on (http://\S+:\d+)").group(1)
        gateway.wait_until_connected()
        scrape = scraped(page)
        assert [name for name, each in gauges.items() if any(compared(each, scrape))] == []
        assert any(True for each in gauges.values() for _ in compared(each, scrape))
        broker.kill()
        gateway.wait_for_log(" unreachable: ")
        assert list(compared(gauges["BrokerAway"], scraped(page))) == [True]


def test_prometheus_takes_the_rules_and_what_the_panels_ask() -> None:
    try:
        assert files.run("promtool", "check", "rules", str(RULES)) is None
        asked = [re.sub(r"\$__rate_interval\b", "5m", each) for each in expressions()]
        faults = {each: files.expression_fault(each) for each in asked}
    except files.SkippedError as reason:
        pytest.skip(str(reason))
    assert {each: fault for each, fault in faults.items() if fault is not None} == {}
