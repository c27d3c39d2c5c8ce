"""The cards of a report's page, each only when it has something to say."""

from collections.abc import Iterator
from typing import Final

from tinyagi.pipeline.report.charts import ACCENT, BAD, OK, SHOWN, WARN, agent_colours
from tinyagi.pipeline.report.graph import handoff_graph
from tinyagi.pipeline.report.model import Percentiles, Report
from tinyagi.pipeline.report.parts import card, chart, headline, table
from tinyagi.pipeline.report.units import count, dollars, duration, nearly, share, short, stamp

NEARLY: Final = "≈ read off a histogram, exact within its bucket"
_PERCENTILES: Final = ("p50", "p95", "p99")


def headlines(report: Report) -> str:
    totals, slots = report.totals, report.hourly or report.daily
    ended = totals.completed + totals.failures
    cards = (
        headline("Runs", count(totals.runs), f"{count(totals.completed)} completed", [s.runs for s in slots], ACCENT),
        headline(
            "Completed",
            share(totals.completed, ended),
            f"{count(totals.failures)} failures, {count(totals.retries)} retries",
            [slot.completed for slot in slots],
            OK,
        ),
        headline("Dead", count(totals.dead), "failed for the last time", [slot.dead for slot in slots], BAD),
        headline("Cost", dollars(totals.cost), _each(totals.cost, totals.runs), [slot.cost for slot in slots], WARN),
        headline("Messages", count(totals.messages), f"from {count(totals.people)} people"),
        headline("Conversations", count(totals.conversations), "begun in these days"),
        headline("Hand-offs", count(totals.handoffs), f"between {_pairs(len(report.edges))}"),
        headline(
            "Tokens",
            short(totals.tokens),
            f"{short(totals.input_tokens)} in, {short(totals.output_tokens)} out, {short(totals.cache_tokens)} cached",
        ),
    )
    return f'<div class="headlines">{"".join(cards)}</div>'


def sections(report: Report) -> Iterator[str]:
    """In the order of the page."""
    yield from _work(report)
    yield from _traffic(report)
    yield from _troubles(report)


def _work(report: Report) -> Iterator[str]:
    if report.alerts:
        yield card("Alerts", _alerts(report), hint="hours far from what was usual", is_wide=True)
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
        yield card("Channels", _channels(report), hint="p95 of the worst day")
    if report.edges:
        graph = handoff_graph(report.edges, agent_colours(report))
        if graph:
            yield card("Hand-offs", graph, hint="who hands work to whom")
        yield card("Hand-offs in figures", _edges(report), hint="p95 of the worst day")


def _troubles(report: Report) -> Iterator[str]:
    if report.causes:
        body = chart("dead", "Dead letters by cause") + _causes(report)
        yield card("Dead letters", body, hint="by cause", is_wide=True)
    if report.slowest:
        body = chart("slowest", "The slowest conversations") + _slowest(report)
        yield card("Slowest conversations", body, hint="slowest chain of messages, latencies added", is_wide=True)
    if report.slowest_hours:
        yield card("Slowest hours", _slowest_hours(report), hint="by p95 of the runs; exact, UTC")
    if report.quarantine:
        rows = [(one.reason, count(one.events)) for one in report.quarantine]
        yield card("Quarantine", table(("reason", "events#"), rows), hint="events that could not be believed")


def _each(cost: float, runs: int) -> str:
    return f"{dollars(cost / runs)} per run" if runs else "no runs"


def _pairs(number: int) -> str:
    return "1 pair of agents" if number == 1 else f"{count(number)} pairs of agents"


def _three(of: Percentiles) -> list[str]:
    return [nearly(getattr(of, name), is_exact=of.is_exact) for name in _PERCENTILES]


def _alerts(report: Report) -> str:
    rows = [(stamp(one.hour), one.rule.replace("_", " "), one.text) for one in report.alerts]
    return table(("hour (UTC)", "what", "alert"), rows)


def _agents(report: Report) -> str:
    columns = ("agent", "runs#", "completed#", "failures#", "retries#", "dead#")
    waits, runs = (tuple(f"{of} {name}#" for name in _PERCENTILES) for of in ("wait", "run"))
    rows = [
        (
            f"@{one.agent}",
            *map(count, (one.runs, one.completed, one.failures, one.retries, one.dead)),
            *_three(one.wait),
            *_three(one.run),
            short(one.tokens),
            dollars(one.cost),
        )
        for one in report.agents
    ]
    return table((*columns, *waits, *runs, "tokens#", "cost#"), rows)


def _edges(report: Report) -> str:
    rows = [
        (
            f"@{one.from_agent} → @{one.to_agent}",
            count(one.handoffs),
            count(one.completed),
            count(one.dead),
            duration(one.worst_p95),
        )
        for one in report.edges[: 2 * SHOWN]
    ]
    return table(("from → to", "hand-offs#", "completed#", "dead#", "p95#"), rows)


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
    return table(("channel", "messages#", "people#", "completed#", "dead#", "p95#", "delivered#"), rows)


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
        for one in report.causes[:SHOWN]
    ]
    return table(("error", "latest", "agents", "died#", "still dead#", "last (UTC)", "message#"), rows)


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
    return table(columns, rows)


def _slowest_hours(report: Report) -> str:
    rows = [
        (stamp(one.hour), f"@{one.agent}", count(one.runs), duration(one.wait.p95), *_three(one.run))
        for one in report.slowest_hours
    ]
    return table(("hour", "agent", "runs#", "wait p95#", "run p50#", "p95#", "p99#"), rows)
