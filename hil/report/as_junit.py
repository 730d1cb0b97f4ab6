"""A campaign for what shows test results: JUnit's XML, a suite for each board."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from hil.rig.campaign import Campaign, repeat_command
from hil.rig.run import Outcome, Result

# XML 1.0 has no place for other control characters, and boards print them.
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")


def as_junit(campaign: Campaign, results: Sequence[Result], seconds: float) -> str:
    root = ET.Element("testsuites", {"name": "hil", "time": f"{seconds:.3f}", **_counts(results)})
    for board in campaign.boards:
        mine = [result for result in results if result.board == board.spec.id]
        spent = f"{sum(result.seconds for result in mine):.3f}"
        suite = ET.SubElement(
            root, "testsuite", {"name": board.spec.id, "time": spent, **_counts(mine)}
        )
        properties = ET.SubElement(suite, "properties")
        firmware = next((result.firmware for result in mine if result.firmware), "")
        for name, value in (("seed", campaign.seed), ("firmware", firmware)):
            ET.SubElement(properties, "property", name=name, value=str(value))
        for result in mine:
            suite.append(_case(campaign, result))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _counts(results: Sequence[Result]) -> dict[str, str]:
    return {
        "tests": str(len(results)),
        "failures": str(sum(result.outcome is Outcome.FAILED for result in results)),
        "errors": "0",
        "skipped": str(sum(_is_skipped(result) for result in results)),
    }


def _case(campaign: Campaign, result: Result) -> ET.Element:
    case = ET.Element(
        "testcase",
        classname=f"hil.{result.board}",
        name=result.scenario,
        time=f"{result.seconds:.3f}",
    )
    if result.outcome is Outcome.FAILED:
        text = "\n".join([*result.failures, "", f"again: {repeat_command(campaign, result)}"])
        failure = ET.SubElement(case, "failure", message=_plain(result.failures[0]))
        failure.text = _plain(text)
    elif _is_skipped(result):
        ET.SubElement(case, "skipped", message=_plain(f"{result.outcome}: {result.why}"))
    return case


def _is_skipped(result: Result) -> bool:
    return result.outcome in (Outcome.NOT_RUN, Outcome.NOT_FOR)


def _plain(text: str) -> str:
    return _NOT_IN_XML.sub("?", text)
