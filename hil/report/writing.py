"""What a campaign leaves behind: report.json, junit.xml and report.html, from the same results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hil.report.as_html import as_html
from hil.report.as_json import as_json
from hil.report.as_junit import as_junit
from hil.rig.campaign import Campaign
from hil.rig.run import Result


def write(folder: Path, campaign: Campaign, results: Sequence[Result], seconds: float) -> Path:
    """Returns the page."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(as_json(campaign, results, seconds), encoding="utf-8")
    (folder / "junit.xml").write_text(as_junit(campaign, results, seconds), encoding="utf-8")
    page = folder / "report.html"
    page.write_text(as_html(campaign, results, seconds), encoding="utf-8")
    return page
