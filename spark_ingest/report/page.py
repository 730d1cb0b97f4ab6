"""A day as one HTML page that needs nothing else: no script, no font, no other file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from datetime import datetime
from html import escape
from importlib.resources import files
from pathlib import Path

from spark_ingest.report import drawing
from spark_ingest.report.day import Day, Gap, Metric, Silence

SILENCES_MAX = 20
GAPS_MAX = 20
UNITS = {"Cel": "°C", "%RH": "% RH"}  # SenML has its own words

HOURS = (
    ("full", "all of it"),
    ("most", "90 %"),
    ("half", "50 %"),
    ("some", "less"),
    ("none", "none"),
)


def page_of(day: Day, lake: Path, title: str = "") -> str:
    """Complete; whatever comes from messages is escaped."""
    heading = title or f"{day.day:%A, %d %B %Y}"
    body = "".join(
        [
            f"<header><h1>{escape(heading)}</h1><p>{_subtitle(day)}</p></header>",
            f'<div class="tiles">{"".join(_tiles(day))}</div>',
            *map(_metric, day.metrics),
            _completeness(day),
            _gaps(day),
            _silences(day),
            _query(day, lake),
        ]
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Tidegate: {day.day}</title><style>{_style()}</style><main>{body}</main></html>\n"
    )


def _style() -> str:
    return (files(__package__) / "page.css").read_text(encoding="utf-8")


def _subtitle(day: Day) -> str:
    gateways = ", ".join(day.gateways) or "publishers without a gateway"
    left_out = f" Not shown: {', '.join(day.left_out)}." if day.left_out else ""
    return escape(f"{day.day}, times are UTC. Gateways: {gateways}.{left_out}")


def _tiles(day: Day) -> Iterator[str]:
    complete = "–" if day.complete is None else f"{_floored(day.complete)} %"
    quarantined = sum(day.quarantined.values())
    faults = ", ".join(sorted(day.quarantined)) or "in quarantine"
    for number, what, is_bad in (
        (f"{day.values:,}", "good values", False),
        (f"{len(day.devices)}", "devices", False),
        (complete, "of what is expected, by hour", False),
        (f"{day.missing:,}", f"readings missing, in {_counted(day.gaps, 'gap')}", day.missing > 0),
        (
            f"{len(day.silences)}",
            "silence" if len(day.silences) == 1 else "silences",
            bool(day.silences),
        ),
        (f"{quarantined:,}", f"values in quarantine: {faults}" if quarantined else faults, False),
    ):
        kind = "tile bad" if is_bad else "tile"
        yield f'<div class="{kind}"><b>{number}</b><span>{escape(what)}</span></div>'


def _metric(metric: Metric) -> str:
    steps = range(len(metric.lines[0].mean)) if metric.lines else ()
    least = [_extreme(min, [line.least[step] for line in metric.lines]) for step in steps]
    most = [_extreme(max, [line.most[step] for line in metric.lines]) for step in steps]
    if not metric.lines:
        return ""
    shown = UNITS.get(metric.unit, metric.unit)
    unit = f" in {shown}" if shown else ""
    series = [(line.device, line.mean) for line in metric.lines]
    keys = "".join(
        f'<span><i class="{drawing.style(number)}"></i>{escape(name)}</span>'
        for number, (name, _) in enumerate(series)
    )
    return _section(
        f"{metric.name}{unit}",
        drawing.lines(series, least, most, shown) + f'<div class="keys">{keys}</div>'
        f'<p class="note">{metric.values:,} values. Lines are means of ten minutes; the band goes '
        "from the least value to the most.</p>",
    )


def _completeness(day: Day) -> str:
    rows = [(name, day.percent[name]) for name in day.devices if name in day.percent]
    if not rows:
        return ""
    keys = "".join(f'<span><i class="box {kind}"></i>{text}</span>' for kind, text in HOURS)
    return _section(
        "What came of each device, by hour",
        drawing.field(rows) + f'<div class="keys">{keys}</div>',
    )


def _gaps(day: Day) -> str:
    marks: dict[str, list[tuple[float, float, str]]] = {name: [] for name in day.gateways}
    for gap in day.gaps:
        mark = _share(day, gap.after or gap.before), _share(day, gap.before), _times_of(gap)
        marks.setdefault(gap.gateway, []).append(mark)
    if not marks:
        return ""
    rows = "".join(
        f"<tr><td>{escape(gap.gateway)}</td><td class=n>{gap.first:,} to {gap.last:,}</td>"
        f"<td class=n>{gap.missing:,}</td><td class=n>{_between(gap)}</td></tr>"
        for gap in day.gaps[:GAPS_MAX]
    )
    table = (
        _table("<tr><th>gateway<th>numbers<th>missing<th>measured between</tr>" + rows)
        if rows
        else '<p class="note">Every reading that a gateway numbered is here.</p>'
    )
    return _section("Gaps in the gateways' numbering", drawing.strip(marks.items()) + table)


def _silences(day: Day) -> str:
    if not day.silences:
        return ""
    rows = "".join(_silence(each) for each in day.silences[:SILENCES_MAX])
    head = "<tr><th>device<th>since<th>until<th>for<th>speaks every</tr>"
    return _section("Silences", _table(head + rows))


def _silence(silence: Silence) -> str:
    until = "midnight" if silence.until is None else _clock(silence.until)
    return (
        f"<tr><td>{escape(silence.device)}</td><td class=n>{_clock(silence.since)}</td>"
        f"<td class=n>{until}</td><td class=n>{_duration(silence.seconds)}</td>"
        f"<td class=n>{_duration(silence.period_s)}</td></tr>"
    )


def _query(day: Day, lake: Path) -> str:
    text = query_of(day, lake)
    return _section(
        "The same tables elsewhere",
        "<p class=note>Any reader of Delta has them; with pandas, without Spark:</p>"
        f"<pre>{escape(text)}</pre>",
    )


def query_of(day: Day, lake: Path) -> str:
    """What pandas needs for the means of each hour; it runs as it is."""
    return (
        "import datetime\n\nfrom deltalake import DeltaTable\n\n"
        f"day = datetime.date({day.day:%Y, %-m, %-d})\n"
        f'table = DeltaTable("{lake}/tables/rollup_1h")\n'
        'parts = table.to_pandas(filters=[("day", "=", day)])\n'
        'hours = parts.groupby(["start", "device", "metric"])[["n", "sum"]].sum()\n'
        'print(hours["sum"] / hours["n"])'
    )


def _counted(things: Sized, word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"


def _table(rows: str) -> str:
    return f'<div class="wide"><table>{rows}</table></div>'


def _section(heading: str, inner: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>{inner}</section>"


def _extreme(choose: Callable[[list[float]], float], values: list[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return choose(there) if there else None


def _share(day: Day, moment: datetime) -> float:
    return min(1.0, max(0.0, (moment - day.begins).total_seconds() / 86_400))


def _times_of(gap: Gap) -> str:
    return f"{gap.gateway}: {gap.missing} missing, {gap.first} to {gap.last}, {_between(gap)}"


def _between(gap: Gap) -> str:
    after = "the beginning" if gap.after is None else _clock(gap.after)
    return f"{after} and {_clock(gap.before)}"


def _clock(moment: datetime) -> str:
    return f"{moment:%H:%M:%S}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"


def _floored(percent: float) -> str:
    """100 is said of nothing that lacks something."""
    return f"{int(percent * 100) / 100:g}"
