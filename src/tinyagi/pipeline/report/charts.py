"""The charts of a report's page as plotly.js input. The page sets the theme's colours."""

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tinyagi.domain.instants import DAY_MS, utc_day
from tinyagi.domain.texts import one_line
from tinyagi.pipeline.report.model import AgentFigures, Percentiles, Report, Slot
from tinyagi.pipeline.report.units import count, dollars, duration, nearly, stamp

Chart = Mapping[str, object]
"""`data` and `layout` of plotly.js."""

OK: Final = "#3ecf8e"
WARN: Final = "#f5b84b"
BAD: Final = "#f2647c"
ACCENT: Final = "#7c8cff"
PALETTE: Final = (ACCENT, "#3ecfcf", "#f5a35b", "#c68bff", "#3ecf8e", "#f58fb8", "#5aa9f7", "#b8c25a")
OTHERS: Final = "#98a0b3"
CHART_ROWS: Final = 10
"""The most bars of a chart."""

_REST: Final = "others"
_TICKS: Final = tuple(one * 1_000 for one in (0.001, 0.01, 0.1, 0.3, 1, 3, 10, 30, 120, 600, 1_800, 7_200, 28_800))
"""Round durations, about evenly spaced on a logarithmic axis."""


def charts(report: Report) -> dict[str, Chart]:
    """Charts by element id; only those with data."""
    found: dict[str, Chart] = {}
    if report.totals.runs:
        found["throughput"] = _throughput(report)
        found["wait"] = _latency(report.agents, [one.wait for one in report.agents])
        found["run"] = _latency(report.agents, [one.run for one in report.agents])
    if report.costs:
        found["cost"] = _cost(report)
    if report.causes:
        found["dead"] = _dead(report)
    if report.slowest:
        found["slowest"] = _slowest(report)
    return found


def agent_colours(report: Report) -> dict[str, str]:
    """A colour for each of the busiest agents, the same in all charts."""
    return {one.agent: colour for one, colour in zip(report.agents, PALETTE, strict=False)}


def label(text: str, longest: int = 44) -> str:
    """Escape an external text: plotly.js interprets tags in texts."""
    return html.escape(one_line(text, longest), quote=False)


def _throughput(report: Report) -> Chart:
    slots = report.hourly or report.daily
    parts = (("completed", OK), ("failures", BAD), ("interrupted", WARN))
    bars = [
        {
            "type": "bar",
            "name": name,
            "x": [_moment(slot.start) for slot in slots],
            "y": [getattr(slot, name) for slot in slots],
            "hovertext": [_slot_hover(slot, is_hour=bool(report.hourly)) for slot in slots],
            "hoverinfo": "text",
            "marker": {"color": colour},
        }
        for name, colour in parts
    ]
    return _chart(bars, 260, barmode="stack", bargap=0.15, yaxis={"rangemode": "tozero"}, xaxis={"type": "date"})


def _slot_hover(slot: Slot, *, is_hour: bool) -> str:
    when = f"{stamp(slot.start)} UTC" if is_hour else str(utc_day(slot.start))
    return (
        f"<b>{when}</b><br>{count(slot.completed)} completed<br>{count(slot.failures)} failures"
        f"<br>{count(slot.interrupted)} interrupted<br>{dollars(slot.cost)}"
    )


def _latency(agents: Sequence[AgentFigures], measured: Sequence[Percentiles]) -> Chart:
    """One line per agent, busiest on top, from the median to the 99th percentile."""
    known = [(one, of) for one, of in zip(agents, measured, strict=True) if of.p50 is not None][:CHART_ROWS]
    places = list(range(len(known)))
    spans = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [_on_log(of.p50), _on_log(of.p99)],
            "y": [place, place],
            "line": {"width": 5, "color": OTHERS},
            "opacity": 0.28,
            "hoverinfo": "skip",
            "showlegend": False,
        }
        for place, (_, of) in zip(places, known, strict=True)
    ]
    marks = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [_on_log(getattr(of, name)) for _, of in known],
            "y": places,
            "hovertext": [
                f"<b>{_agent(one)}</b><br>{name} {nearly(getattr(of, name), is_exact=of.is_exact)}" for one, of in known
            ],
            "hoverinfo": "text",
            "marker": {"size": 11, "color": colour},
        }
        for name, colour in (("p50", "#3ecfcf"), ("p95", ACCENT), ("p99", "#f5a35b"))
    ]
    return _chart(
        [*spans, *marks],
        90 + 34 * len(known),
        xaxis={"type": "log", "tickvals": _TICKS, "ticktext": [duration(tick) for tick in _TICKS]},
        yaxis=_rows(places, [_agent(one) for one, _ in known]),
    )


def _cost(report: Report) -> Chart:
    colours = agent_colours(report)
    days = [slot.start for slot in report.daily]
    by_name: dict[str, dict[int, float]] = {}
    for one in report.costs:
        spent = by_name.setdefault(label(f"@{one.agent}", 24) if one.agent in colours else _REST, {})
        spent[one.day] = spent.get(one.day, 0.0) + one.cost
    colour_of = {label(f"@{agent}", 24): colour for agent, colour in colours.items()} | {_REST: OTHERS}
    bars = [
        {
            "type": "bar",
            "name": name,
            "x": [str(utc_day(at)) for at in days],
            "y": [by_name[name].get(at, 0.0) for at in days],
            "hovertext": [f"<b>{name}</b><br>{utc_day(at)}<br>{dollars(by_name[name].get(at, 0.0))}" for at in days],
            "hoverinfo": "text",
            "marker": {"color": colour},
        }
        for name, colour in colour_of.items()
        if name in by_name
    ]
    axes = {"xaxis": {"type": "date", "dtick": _day_ticks(len(days))}, "yaxis": {"tickprefix": "$"}}
    return _chart(bars, 260, barmode="stack", bargap=0.35, **axes)


def _dead(report: Report) -> Chart:
    causes = report.causes[:CHART_ROWS]
    places = list(range(len(causes)))
    hover = [
        f"<b>{label(one.error_kind or 'unknown')}</b><br>{label(one.error, 90)}<br>"
        f"{count(one.messages)} died, {count(one.still_dead)} still dead<br>"
        f"{label(', '.join(f'@{agent}' for agent in one.agents), 90)}"
        for one in causes
    ]
    parts = (
        ("still dead", BAD, [one.still_dead for one in causes]),
        ("sent again or deleted", OTHERS, [one.messages - one.still_dead for one in causes]),
    )
    bars = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "x": numbers,
            "y": places,
            "hovertext": hover,
            "hoverinfo": "text",
            "marker": {"color": colour},
        }
        for name, colour, numbers in parts
    ]
    names = [label(f"{one.error_kind or 'unknown'} · {one.error}", 46) for one in causes]
    return _chart(bars, 90 + 30 * len(causes), barmode="stack", bargap=0.4, yaxis=_rows(places, names))


def _slowest(report: Report) -> Chart:
    places = list(range(len(report.slowest)))
    longest = max(one.critical_path_ms for one in report.slowest)
    ticks = _time_ticks(longest)
    bar = {
        "type": "bar",
        "orientation": "h",
        "x": [one.critical_path_ms for one in report.slowest],
        "y": places,
        "text": [duration(one.critical_path_ms) for one in report.slowest],
        "textposition": "auto",
        "hovertext": [
            f"<b>{label(one.conversation_id)}</b><br>{label(one.message, 90)}<br>"
            f"{count(one.messages)} messages, {one.depth} hand-offs deep, {count(one.agents)} agents<br>"
            f"{duration(one.critical_path_ms)}, {dollars(one.cost)}"
            for one in report.slowest
        ],
        "hoverinfo": "text",
        "marker": {"color": ACCENT},
    }
    names = [label(one.message or one.conversation_id, 40) for one in report.slowest]
    axes = {
        "xaxis": {"tickvals": ticks, "ticktext": [duration(at) if at else "0" for at in ticks]},
        "yaxis": _rows(places, names),
    }
    return _chart([bar], 60 + 30 * len(places), showlegend=False, bargap=0.4, **axes)


def _chart(data: Iterable[object], height: int, **layout: object) -> Chart:
    return {"data": list(data), "layout": {"height": height, **layout}}


def _rows(places: Sequence[int], names: Sequence[str]) -> dict[str, object]:
    """An axis of names, first on top. Positions are numbers, because two names may be equal."""
    return {
        "range": [len(places) - 0.5, -0.5],
        "tickvals": places,
        "ticktext": names,
        "showgrid": False,
        "zeroline": False,
        "automargin": True,
    }


def _agent(one: AgentFigures) -> str:
    return label(f"@{one.agent}", 24)


def _moment(instant: int) -> str:
    return stamp(instant).replace(" ", "T")


def _on_log(milliseconds: float | None) -> float | None:
    """A logarithmic axis has no 0."""
    return None if milliseconds is None else max(milliseconds, 0.5)


def _day_ticks(days: int) -> int:
    """Milliseconds between two labels, for about ten labels."""
    return DAY_MS * max(1, -(-days // 10))


def _time_ticks(longest: int) -> list[int]:
    """Four or five round durations up to the longest."""
    steps = (1, 10, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000, 21_600_000)
    step = next((one for one in steps if longest / one <= 5), DAY_MS)
    return list(range(0, longest + 1, step * max(1, round(longest / step / 5))))
