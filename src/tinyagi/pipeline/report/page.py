"""A report as one HTML page that needs nothing else: no network, no other file."""

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Final

from plotly.offline import get_plotlyjs

from tinyagi.pipeline.report.charts import charts
from tinyagi.pipeline.report.model import Report
from tinyagi.pipeline.report.sections import headlines, sections
from tinyagi.pipeline.report.units import count, day, duration, stamp

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>TinyAGI report</title>
<style>{style}</style>
</head>
<body>
<header><i class="logo"></i><div><h1>Report</h1><p>{range} · {freshness}</p></div></header>
<main>{body}</main>
<noscript><p class="card">Charts need JavaScript; the tables are complete without it.</p></noscript>
{scripts}
</body>
</html>
"""


def render_page(report: Report) -> str:
    """The whole page; texts from outside are shown and never interpreted."""
    drawn = charts(report)
    notes = "".join(f'<p class="card note">{_with_code(note)}</p>' for note in report.notes)
    shown = "" if report.is_empty else headlines(report)
    body = f'{notes}{shown}<div class="cards">{"".join(sections(report))}</div>'
    programs = (get_plotlyjs(), _own("page.js")) if drawn else ()
    data = f'<script type="application/json" id="charts">{_json(drawn)}</script>\n' if drawn else ""
    return _PAGE.format(
        policy=_policy(programs),
        style=_own("page.css"),
        range=_range(report),
        freshness=_freshness(report),
        body=body,
        scripts=data + "\n".join(f"<script>{program}</script>" for program in programs),
    )


def _policy(programs: tuple[str, ...]) -> str:
    """Only our own scripts run, known by their hashes, and nothing is fetched from anywhere."""
    hashes = [base64.b64encode(hashlib.sha256(program.encode()).digest()).decode() for program in programs]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _own(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _json(value: object) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _with_code(note: str) -> str:
    """A note of ours, its commands set as code."""
    parts = html.escape(note).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def _range(report: Report) -> str:
    first, last = day(report.start), day(report.now)
    return f"{last} (UTC)" if first == last else f"{report.days} days, {first} to {last} (UTC)"


def _freshness(report: Report) -> str:
    if report.freshness is None:
        return "no pipeline run has ended yet"
    age = duration(max(0, report.now - report.freshness.written_at))
    written = f"{stamp(report.freshness.written_at)} UTC"
    return f"as of {written}, {age} ago · up to event {count(report.freshness.through_id)}"
