"""A campaign for people: one page without scripts, and nothing that it would have to fetch.

From the top: what came out; the table of boards and scenarios; every failure with the command that
repeats it; for each board its firmware, and how long readings took and what they cost; what took
effect in each run, and its seed.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from pathlib import Path

from hil.boards.inventory import Listed
from hil.report.plots import costs
from hil.rig.campaign import Campaign, repeat_command
from hil.rig.run import Outcome, Result

STYLE = Path(__file__).with_name("style.css")
MARKS = {
    Outcome.PASSED: ("passed", "✓"),
    Outcome.FAILED: ("failed", "✗"),
    Outcome.NOT_RUN: ("absent", "not run"),
    Outcome.NOT_FOR: ("other", "–"),
}


def as_html(campaign: Campaign, results: Sequence[Result], seconds: float) -> str:
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Boards under test: {_verdict(results)}</title>",
        f"<style>{STYLE.read_text(encoding='utf-8')}</style><main>",
        _head(campaign, results, seconds),
        *_failures(campaign, results),
        _table(campaign, results),
        *(_board(campaign, board, results) for board in campaign.boards),
        *_runs(campaign, results),
        "</main></html>\n",
    ]
    return "\n".join(parts)


def _verdict(results: Sequence[Result]) -> str:
    failed = _count(results, Outcome.FAILED)
    if failed:
        return f"{failed} failed"
    return "all passed" if _count(results, Outcome.PASSED) else "nothing was run"


def _count(results: Sequence[Result], outcome: Outcome) -> int:
    return sum(result.outcome is outcome for result in results)


def _head(campaign: Campaign, results: Sequence[Result], seconds: float) -> str:
    tone = "failed" if _count(results, Outcome.FAILED) else "passed"
    readings = sum(int(result.numbers.get("readings", 0)) for result in results)
    summary = [
        f"<b>{_count(results, Outcome.PASSED)}</b> passed",
        f"<b>{_count(results, Outcome.FAILED)}</b> failed",
        f"<b>{_count(results, Outcome.NOT_RUN)}</b> not run",
        f"<b>{readings}</b> readings",
        f"<b>{seconds:.0f}</b> s",
        f"seed <b>{campaign.seed}</b>",
    ]
    cells = "".join(f"<li>{each}</li>" for each in summary)
    verdict = f'<span class="{tone}">{_verdict(results)}</span>'
    return f'<h1>Boards under test {verdict}</h1><ul class="sums">{cells}</ul>'


def _failures(campaign: Campaign, results: Sequence[Result]) -> Iterator[str]:
    failed = [result for result in results if result.outcome is Outcome.FAILED]
    if failed:
        yield "<h2>Failures</h2>"
    for result in failed:
        name = f"{result.scenario}-{result.board}"
        whys = "".join(f"<pre>{html.escape(why)}</pre>" for why in result.failures)
        left = f"<p>logs: <code>{html.escape(result.folder)}</code></p>" if result.folder else ""
        yield (
            f'<section class="failure" id="{name}"><h3>{html.escape(result.scenario)} on '
            f"{html.escape(result.board)}</h3>{whys}"
            f"<p>again: <code>{html.escape(repeat_command(campaign, result))}</code></p>{left}"
            "</section>"
        )


def _table(campaign: Campaign, results: Sequence[Result]) -> str:
    heads = "".join(f"<th>{html.escape(board.spec.id)}</th>" for board in campaign.boards)
    found = {(result.scenario, result.board): result for result in results}
    rows = []
    for scenario in campaign.scenarios:
        cells = "".join(
            _cell(found.get((scenario.name, board.spec.id))) for board in campaign.boards
        )
        name, title = html.escape(scenario.name), html.escape(scenario.title)
        rows.append(f"<tr><th><b>{name}</b> {title}</th>{cells}</tr>")
    return (
        f'<h2>Scenarios</h2><div class="wide"><table><thead><tr><th></th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(result: Result | None) -> str:
    if result is None:
        return "<td></td>"
    tone, mark = MARKS[result.outcome]
    hint = html.escape("; ".join(result.failures) or result.why or _in_short(result), quote=True)
    if result.outcome is Outcome.FAILED:
        mark = f'<a href="#{result.scenario}-{result.board}">{mark}</a>'
    seconds = f" <small>{result.seconds:.1f} s</small>" if result.seconds else ""
    return f'<td class="{tone}" title="{hint}">{mark}{seconds}</td>'


def _in_short(result: Result) -> str:
    numbers = result.numbers
    effects = _effects(result)
    median_ms = numbers.get("latency_p50_ms", 0)
    summary = f"{numbers.get('readings', 0):.0f} readings, median {median_ms:.1f} ms"
    return f"{summary}; {effects}" if effects else summary


def _effects(result: Result) -> str:
    return ", ".join(f"{count} {name}" for name, count in result.effects.items())


def _board(campaign: Campaign, board: Listed, results: Sequence[Result]) -> str:
    mine = [result for result in results if result.board == board.spec.id and result.numbers]
    order = {scenario.name: at for at, scenario in enumerate(campaign.scenarios)}
    mine.sort(key=lambda result: order[result.scenario])
    title = f"<h2>{html.escape(board.spec.id)}</h2>"
    kind = f"{html.escape(board.kind.title)}, {board.spec.transport}"
    if not mine:
        why = board.why_not or "no scenario of this campaign was for it"
        return f"{title}<p>{kind}. Not run: {html.escape(why)}</p>"
    heap_used = max(result.numbers["heap_used"] for result in mine)
    heap_size = max(result.numbers["heap_size"] for result in mine)
    heap = f", at most {heap_used:,.0f} of {heap_size:,.0f} bytes of heap" if heap_used else ""
    firmware = next((result.firmware for result in mine if result.firmware), "")
    named = f", firmware <code>{firmware}</code>" if firmware else ""
    return f'{title}<p>{kind}{named}{heap}.</p><div class="wide">{costs(mine)}</div>'


def _runs(campaign: Campaign, results: Sequence[Result]) -> Iterator[str]:
    yield (
        "<h2>Runs</h2><p>How often each fault took effect, and the seed of the run's dice, made of "
        "the campaign's.</p>"
    )
    order = {scenario.name: at for at, scenario in enumerate(campaign.scenarios)}
    runs = [result for result in results if result.seconds]
    runs.sort(key=lambda result: (order[result.scenario], result.board))
    rows = "".join(
        f"<tr><th>{html.escape(result.scenario)}</th><td>{html.escape(result.board)}</td>"
        f'<td class="long">{_effects(result)}</td><td>{result.seed}</td></tr>'
        for result in runs
    )
    heads = "<tr><th>scenario</th><th>board</th><th>took effect</th><th>seed</th></tr>"
    table = f"<table><thead>{heads}</thead><tbody>{rows}</tbody></table>"
    yield f'<details><summary>{len(runs)} runs</summary><div class="wide">{table}</div></details>'
