"""A report as one self-contained HTML page: no network, no other file."""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Final

from plotly.offline import get_plotlyjs

from tinyagi.domain.instants import utc_day
from tinyagi.domain.texts import one_line
from tinyagi.pipeline.report.charts import ACCENT, CHART_ROWS, OK, WARN, agent_colours, charts
from tinyagi.pipeline.report.handoff_graph import handoff_graph
from tinyagi.pipeline.report.model import Percentiles, Report
from tinyagi.pipeline.report.units import count, dollars, duration, escaped, nearly, share, short, stamp

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

NEARLY: Final = "≈ estimated from a histogram, exact within its bucket"
_LONG_CELL: Final = 28
"""Characters; a longer cell wraps."""
_PERCENTILES: Final = ("p50", "p95", "p99")


def render_page(report: Report) -> str:
    """The whole page, with every external text escaped."""
    drawn = charts(report)
    notes = "".join(f'<p class="card note">{_with_code(note)}</p>' for note in report.notes)
    shown = "" if report.is_empty else headlines(report)
    body = f'{notes}{shown}<div class="cards">{"".join(sections(report))}</div>'
    programs = (get_plotlyjs(), _resource("page.js")) if drawn else ()
    data = f'<script type="application/json" id="charts">{_json(drawn)}</script>\n' if drawn else ""
    return _PAGE.format(
        policy=_policy(programs),
        style=_resource("page.css"),
        range=_range(report),
        freshness=_freshness(report),
        body=body,
        scripts=data + "\n".join(f"<script>{program}</script>" for program in programs),
    )


def _policy(programs: tuple[str, ...]) -> str:
    """Allow only these scripts, by hash, and no network requests."""
    hashes = [base64.b64encode(hashlib.sha256(program.encode()).digest()).decode() for program in programs]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _resource(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _json(value: object) -> str:
    """JSON that cannot close its script element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _with_code(note: str) -> str:
    """A note, with its commands as code elements."""
    parts = html.escape(note).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def _range(report: Report) -> str:
    first, last = utc_day(report.start), utc_day(report.now)
    return f"{last} (UTC)" if first == last else f"{report.days} days, {first} to {last} (UTC)"


def _freshness(report: Report) -> str:
    if report.freshness is None:
        return "no pipeline run has ended yet"
    age = duration(max(0, report.now - report.freshness.written_at))
    written = f"{stamp(report.freshness.written_at)} UTC"
    return f"as of {written}, {age} ago · up to event {count(report.freshness.through_id)}"


def card(title: str, body: str, *, hint: str = "", name: str = "", is_wide: bool = False) -> str:
    place = f' id="{html.escape(name)}"' if name else ""
    small = f" <small>{escaped(hint)}</small>" if hint else ""
    return f'<section class="card{" wide" if is_wide else ""}"{place}><h2>{escaped(title)}{small}</h2>{body}</section>'


def chart(name: str, description: str) -> str:
    """The element of a chart, with a description for screen readers."""
    return f'<div class="chart" id="chart-{html.escape(name)}" role="img" aria-label="{escaped(description)}"></div>'


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table. A column whose name ends in `#` holds numbers. Only long texts wrap."""
    marks = [' class="number"' if column.endswith("#") else "" for column in columns]
    head = "".join(
        f"<th{mark}>{escaped(column.removesuffix('#'))}</th>" for column, mark in zip(columns, marks, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(_cell(cell, mark) for cell, mark in zip(row, marks, strict=True))}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: object, mark: str) -> str:
    text = one_line(str(value), 160)
    kind = mark or (' class="text"' if len(text) > _LONG_CELL else "")
    return f"<td{kind}>{html.escape(text)}</td>"


def headline(name: str, value: str, beside: str, history: Sequence[float] = (), colour: str = "") -> str:
    curve = sparkline(history, colour) if any(history) else ""
    return (
        f'<section class="card headline"><h2>{escaped(name)}</h2><strong>{escaped(value)}</strong>'
        f"<small>{escaped(beside)}</small>{curve}</section>"
    )


def sparkline(values: Sequence[float], colour: str) -> str:
    top = max(values) or 1
    step = 100 / max(1, len(values) - 1)
    points = " ".join(f"{at * step:.1f},{38 - 32 * value / top:.1f}" for at, value in enumerate(values))
    return (
        '<svg class="sparkline" viewBox="0 0 100 40" preserveAspectRatio="none" aria-hidden="true">'
        f'<polygon points="0,40 {points} 100,40" fill="{colour}" opacity=".14"/>'
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5" '
        'vector-effect="non-scaling-stroke"/></svg>'
    )


def headlines(report: Report) -> str:
    totals, slots = report.totals, report.hourly or report.daily
    cards = (
        headline("Runs", count(totals.runs), f"{count(totals.completed)} completed", [s.runs for s in slots], ACCENT),
        headline(
            "Completed",
            share(totals.completed, totals.runs),
            f"{count(totals.failures)} failures, {count(totals.interrupted)} interrupted",
            [slot.completed for slot in slots],
            OK,
        ),
        headline("Dead", count(totals.dead), f"messages, {count(totals.dead_from_people)} of them from people"),
        headline("Cost", dollars(totals.cost), _each(totals.cost, totals.runs), [slot.cost for slot in slots], WARN),
        headline("Messages from people", count(totals.messages), _people(totals.people)),
        headline("Conversations", count(totals.conversations), f"{count(totals.open_conversations)} of them open"),
        headline("Hand-offs", count(totals.handoffs), f"between {_pairs(len(report.edges))}"),
        headline(
            "Tokens",
            short(totals.tokens),
            f"{short(totals.input_tokens)} in, {short(totals.output_tokens)} out, {short(totals.cache_tokens)} cached",
        ),
    )
    return f'<div class="headlines">{"".join(cards)}</div>'


def sections(report: Report) -> Iterator[str]:
    """The cards in the order of the page."""
    yield from _work(report)
    yield from _traffic(report)
    yield from _troubles(report)


def _work(report: Report) -> Iterator[str]:
    if report.alerts:
        yield card("Alerts", _alerts(report), hint="hours that differ much from the week before", is_wide=True)
    if report.totals.runs:
        hint = f"runs ended per {'hour' if report.hourly else 'day'}, UTC"
        yield card("Throughput", chart("throughput", "Runs over time"), hint=hint, is_wide=True)
        yield card("Waiting", chart("wait", "Wait before a run, by agent"), hint="before a run, by agent")
        yield card("Running", chart("run", "Length of a run, by agent"), hint="length of a run, by agent")
        yield card("Agents", _agents(report), hint=NEARLY, is_wide=True)


def _traffic(report: Report) -> Iterator[str]:
    if report.costs:
        yield card("Cost", chart("cost", "Cost per day and agent"), hint="per day and agent, UTC")
    if report.channels:
        yield card("Channels", _channels(report), hint="messages that no agent sent; p95 of the worst day")
    if report.edges:
        graph = handoff_graph(report.edges, agent_colours(report))
        if graph:
            yield card("Hand-offs", graph, hint="who hands work to whom")
        yield card("Hand-offs in figures", _edges(report), hint="p95 of the worst day")


def _troubles(report: Report) -> Iterator[str]:
    if report.causes:
        body = chart("dead", "Dead letters by cause") + _causes(report)
        yield card("Dead letters", body, hint="messages by cause", is_wide=True)
    if report.open:
        yield card("Open conversations", _open(report), hint="the oldest first", is_wide=True)
    if report.slowest:
        body = chart("slowest", "The slowest conversations") + _slowest(report)
        yield card("Slowest conversations", body, hint="ended ones, by their slowest chain of messages", is_wide=True)
    if report.slowest_hours:
        yield card("Slowest hours", _slowest_hours(report), hint="by p95 of the runs; exact, UTC")
    if report.quarantine:
        rows = [(one.reason, count(one.events)) for one in report.quarantine]
        yield card("Quarantine", html_table(("reason", "events#"), rows), hint="invalid events")


def _each(cost: float, runs: int) -> str:
    return f"{dollars(cost / runs)} per run" if runs else "no runs"


def _people(number: int) -> str:
    return "1 person" if number == 1 else f"{count(number)} people"


def _pairs(number: int) -> str:
    return "1 pair of agents" if number == 1 else f"{count(number)} pairs of agents"


def _three(of: Percentiles) -> list[str]:
    return [nearly(getattr(of, name), is_exact=of.is_exact) for name in _PERCENTILES]


def _alerts(report: Report) -> str:
    rows = [(stamp(one.hour), one.rule.replace("_", " "), one.text) for one in report.alerts]
    return html_table(("hour (UTC)", "what", "alert"), rows)


def _agents(report: Report) -> str:
    columns = ("agent", "runs#", "completed#", "failures#", "interrupted#", "retries#", "dead#")
    waits, runs = (tuple(f"{of} {name}#" for name in _PERCENTILES) for of in ("wait", "run"))
    rows = [
        (
            f"@{one.agent}",
            *map(count, (one.runs, one.completed, one.failures, one.interrupted, one.retries, one.dead)),
            *_three(one.wait),
            *_three(one.run),
            short(one.tokens),
            dollars(one.cost),
        )
        for one in report.agents
    ]
    return html_table((*columns, *waits, *runs, "tokens#", "cost#"), rows)


def _edges(report: Report) -> str:
    rows = [
        (
            f"@{one.from_agent} → @{one.to_agent}",
            count(one.handoffs),
            count(one.completed),
            count(one.dead),
            duration(one.worst_p95),
        )
        for one in report.edges[: 2 * CHART_ROWS]
    ]
    return html_table(("from → to", "hand-offs#", "completed#", "dead#", "p95#"), rows)


def _channels(report: Report) -> str:
    rows = [
        (
            one.channel,
            *map(count, (one.messages, one.people, one.completed, one.dead)),
            duration(one.worst_p95),
            f"{count(one.delivered)} of {count(one.responses)}",
        )
        for one in report.channels
    ]
    return html_table(("channel", "messages#", "people#", "completed#", "dead#", "p95#", "delivered#"), rows)


def _causes(report: Report) -> str:
    rows = [
        (
            one.error_kind or "unknown",
            one.error,
            ", ".join(f"@{agent}" for agent in one.agents),
            count(one.messages),
            count(one.still_dead),
            "" if one.last_at is None else stamp(one.last_at),
            "" if one.example_id is None else one.example_id,
        )
        for one in report.causes[:CHART_ROWS]
    ]
    return html_table(("error", "latest", "agents", "died#", "still dead#", "last (UTC)", "message#"), rows)


def _slowest(report: Report) -> str:
    rows = [
        (
            one.conversation_id,
            one.message,
            f"@{one.agent}",
            one.channel,
            stamp(one.started_at),
            count(one.messages),
            one.depth,
            duration(one.critical_path_ms),
            dollars(one.cost),
        )
        for one in report.slowest
    ]
    columns = ("conversation", "began with", "agent", "channel", "began (UTC)", "messages#", "deep#", "took#", "cost#")
    return html_table(columns, rows)


def _open(report: Report) -> str:
    rows = [
        (
            one.conversation_id,
            one.message,
            f"@{one.agent}",
            one.channel,
            stamp(one.started_at),
            f"{count(one.open)} of {count(one.messages)}",
            duration(max(0, report.now - one.started_at)),
        )
        for one in report.open
    ]
    columns = ("conversation", "began with", "agent", "channel", "began (UTC)", "open messages#", "open for#")
    return html_table(columns, rows)


def _slowest_hours(report: Report) -> str:
    rows = [
        (stamp(one.hour), f"@{one.agent}", count(one.runs), duration(one.wait.p95), *_three(one.run))
        for one in report.slowest_hours
    ]
    return html_table(("hour", "agent", "runs#", "wait p95#", "run p50#", "p95#", "p99#"), rows)
