"""The page at `/`: the state of broker, sensors and links at a glance, and where to read more.

Plain HTML that asks again every ten seconds. No script, nothing from other hosts; the style sheet
is allowed by its hash, so that injected markup could do nothing even if escaping failed.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape

from gateway.admin.durations import duration
from gateway.admin.numbers import Condition, JournalNumbers, Numbers
from gateway.effects import State

REFRESH_S = 10
MIB = 1024 * 1024

ENDPOINTS = (
    ("/healthz", "is it alive: 200 or 503, with reasons"),
    ("/readyz", "does it take readings: 200 or 503, with reasons"),
    ("/metrics", "for Prometheus"),
    ("/api/status", "everything on this page and more, as JSON"),
    ("/api/clients", "sensors: who sleeps until when, who is overdue, what waits; as JSON"),
    ("/api/topics", "topics: their ids, who has them, who hears them; as JSON"),
    ("/api/buffer", "the readings that wait for the broker on disk, as JSON"),
)

STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #18794e; --bad: #c62a2f; }
@media (prefers-color-scheme: dark) { :root { --good: #4cc38a; --bad: #ff6369; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; }
h2 { font-size: 1rem; margin: 2rem 0 .3rem; }
p { margin: .2rem 0; }
table { border-collapse: collapse; width: 100%; }
td, th { border-top: 1px solid var(--line); padding: .3rem .6rem .3rem 0; text-align: left; }
.numbers { font-variant-numeric: tabular-nums; }
.numbers :is(td, th):not(:first-child) { text-align: right; padding-right: 0; }
.quiet { opacity: .7; }
.good::before, .bad::before { content: "\\25CF  "; }
.good::before { color: var(--good); }
.bad::before { color: var(--bad); }
"""
STYLE_SOURCE = f"'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'"


def page(name: str, version: str, numbers: Numbers) -> str:
    health, journal = _good_if(numbers.upstream_connected), numbers.journal
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="{REFRESH_S}">
<title>{escape(name)} - Tidegate</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(name)}</h1>
<p class="quiet">Tidegate {escape(version)}, up for {duration(numbers.uptime_s)}</p>
<h2>Broker</h2>
<p class="{health}">{escape(numbers.upstream_state)}</p>
<p class="quiet">{numbers.upstream_in_flight} readings in flight,
{numbers.upstream_waiting} waiting, {numbers.outbox_messages} messages wait for sensors</p>
<h2>Journal</h2>
<p class="{_good_if(journal.condition is Condition.OK)}">{escape(_journal_state(journal))}</p>
<p class="quiet">{escape(_journal_flow(journal))}</p>
<h2>Sensors</h2>
{_table(("State", "Sensors"), _sensors(numbers))}
<h2>Listening on</h2>
{_table(("Link", "Address", "Received", "Sent"), _links(numbers))}
<h2>More</h2>
<table>
{_endpoints()}
</table>
</body>
</html>
"""


def _good_if(is_good: bool) -> str:
    return "good" if is_good else "bad"


def _journal_state(journal: JournalNumbers) -> str:
    error = "" if journal.error is None else f": {journal.error}"
    return (
        f"{journal.condition.value}{error}, {journal.depth} readings wait, "
        f"{100 * journal.fill:.0f} % of {journal.budget_bytes / MIB:.0f} MiB used"
    )


def _journal_flow(journal: JournalNumbers) -> str:
    """`the oldest for 3 min 2 s; 12.0 in and 30.5 out a second, drained in 5 min 7 s`"""
    said = []
    if journal.oldest_age_s is not None:
        said.append(f"the oldest for {duration(journal.oldest_age_s)}")
    if journal.in_per_s is not None and journal.out_per_s is not None:
        flow = f"{journal.in_per_s:.1f} in and {journal.out_per_s:.1f} out a second"
        if journal.drain_s:
            flow += f", drained in {duration(journal.drain_s)}"
        said.append(flow)
    return "; ".join(said)


def _sensors(numbers: Numbers) -> Iterable[tuple[str, ...]]:
    for state in State:
        yield state.value, str(numbers.clients_by_state.get(state, 0))
    yield "overdue, of these", str(numbers.clients_overdue)


def _links(numbers: Numbers) -> Iterable[tuple[str, ...]]:
    for link in numbers.links:
        counts = str(link.datagrams_received), str(link.datagrams_sent)
        problem = None if link.line is None else link.line.problem
        yield link.name, link.listening_on if problem is None else problem, *counts


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ['<table class="numbers">', _row("th", head), *(_row("td", row) for row in rows)]
    return "\n".join([*lines, "</table>"])


def _row(tag: str, cells: tuple[str, ...]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _endpoints() -> str:
    return "\n".join(
        f'<tr><td><a href="{path}">{path}</a></td><td>{what}</td></tr>' for path, what in ENDPOINTS
    )
