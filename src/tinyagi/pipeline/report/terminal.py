"""A report for a terminal of 100 columns. Cells are Text, so that markup in them is not interpreted."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tinyagi.domain.instants import utc_day
from tinyagi.domain.texts import one_line
from tinyagi.pipeline.report.model import Percentiles, Report, Slot
from tinyagi.pipeline.report.units import count, dollars, duration, nearly, share, short, stamp

_WIDEST_CELL: Final = 100
_MOST_ROWS: Final = 10
"""Rows of a list; the page and the JSON have more."""
_MOST_AGENTS: Final = 20
HOURS: Final = 5

_CURVE: Final = "▁▂▃▄▅▆▇█"
_CURVE_WIDTH: Final = 72
_BAR: Final = 24
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"

_Cell = str | Text


def drawn(report: Report) -> Iterator[RenderableType]:
    """The parts from top to bottom; empty parts are left out."""
    yield _head(report)
    for note in report.notes:
        yield Text(note, style="yellow")
    if not report.is_empty:
        yield from _work(report)
        yield from _traffic(report)
    yield from _troubles(report)


def _work(report: Report) -> Iterator[RenderableType]:
    yield _totals(report)
    if not report.totals.runs:
        return
    yield from _throughput(report)
    yield from _agents(report)
    if report.totals.cost:
        yield _title("Cost", "per day (UTC)")
        top = max(slot.cost for slot in report.daily)
        costs = [(str(utc_day(slot.start)), dollars(slot.cost), _bar(slot.cost, top, "cyan")) for slot in report.daily]
        yield _table(("day", "cost#", ""), costs[-2 * _MOST_ROWS :])


def _agents(report: Report) -> Iterator[RenderableType]:
    agents = report.agents[:_MOST_AGENTS]
    yield _title("Agents", _more(len(report.agents) - len(agents)))
    rows = [
        (
            f"@{one.agent}",
            count(one.runs),
            count(one.completed),
            _alarming(one.failures),
            count(one.interrupted),
            count(one.retries),
            _alarming(one.dead),
            short(one.tokens),
            dollars(one.cost),
        )
        for one in agents
    ]
    columns = ("agent", "runs#", "completed#", "failures#", "interrupted#", "retries#", "dead#", "tokens#", "cost#")
    yield _table(columns, rows, widths={"agent": 20})
    yield _title("Waits and runs", "percentiles; ≈ estimated from a histogram")
    times = [(f"@{one.agent}", *_three(one.wait), *_three(one.run)) for one in agents if one.runs]
    yield _table(("agent", "wait p50#", "p95#", "p99#", "run p50#", "p95#", "p99#"), times, widths={"agent": 20})
    if report.slowest_hours:
        yield _title("Slowest hours", "by p95 of the runs, exact (UTC)")
        hours = [
            (stamp(one.hour), f"@{one.agent}", count(one.runs), duration(one.wait.p95), *_three(one.run))
            for one in report.slowest_hours[:HOURS]
        ]
        names = ("hour", "agent", "runs#", "wait p95#", "run p50#", "p95#", "p99#")
        yield _table(names, hours, widths={"agent": 20})


def _traffic(report: Report) -> Iterator[RenderableType]:
    if report.channels:
        yield _title("Channels", "messages that no agent sent; p95 from message to completion, worst day")
        rows = [
            (
                one.channel,
                count(one.messages),
                count(one.people),
                count(one.completed),
                _alarming(one.dead),
                duration(one.worst_p95),
                f"{count(one.delivered)} of {count(one.responses)}",
                _alarming(one.undelivered),
            )
            for one in report.channels
        ]
        columns = ("channel", "messages#", "people#", "completed#", "dead#", "p95#", "delivered#", "given up#")
        yield _table(columns, rows, widths={"channel": 16})
    if report.edges:
        yield _title("Hand-offs", "p95 until the teammate completed it, worst day")
        top = max(one.handoffs for one in report.edges)
        handed = [
            (
                f"@{one.from_agent} → @{one.to_agent}",
                count(one.handoffs),
                _bar(one.handoffs, top, "cyan"),
                _alarming(one.dead),
                duration(one.worst_p95),
            )
            for one in report.edges[:_MOST_ROWS]
        ]
        yield _table(("from → to", "hand-offs#", "", "dead#", "p95#"), handed, widths={"from → to": 36})


def _troubles(report: Report) -> Iterator[RenderableType]:
    if report.alerts:
        yield _title("Alerts", "hours that differ much from the week before (UTC)")
        yield _table(
            ("hour", "alert"), [(stamp(one.hour), one.text) for one in report.alerts[:_MOST_ROWS]], widths={"alert": 78}
        )
    if report.causes:
        yield _title("Dead letters", "messages by cause; show them: tinyagi queue dead")
        causes = [
            (
                one.error_kind or "unknown",
                count(one.messages),
                _alarming(one.still_dead),
                ", ".join(f"@{agent}" for agent in one.agents),
                one.error,
            )
            for one in report.causes[:_MOST_ROWS]
        ]
        columns = ("error", "died#", "still dead#", "agents", "latest")
        yield _table(columns, causes, widths={"error": 20, "agents": 18, "latest": 34})
    if report.open:
        yield _title("Open conversations", "the oldest first; see one: tinyagi trace CONVERSATION")
        waiting = [
            (
                one.conversation_id,
                duration(max(0, report.now - one.started_at)),
                count(one.open),
                f"@{one.agent}",
                one.message,
            )
            for one in report.open
        ]
        columns = ("conversation", "open for#", "waiting#", "agent", "began with")
        yield _table(columns, waiting, widths={"conversation": 26, "agent": 14, "began with": 30})
    if report.slowest:
        yield _title("Slowest conversations", "ended ones; see one: tinyagi trace CONVERSATION")
        slow = [
            (one.conversation_id, duration(one.critical_path_ms), count(one.messages), f"@{one.agent}", one.message)
            for one in report.slowest
        ]
        columns = ("conversation", "took#", "messages#", "agent", "began with")
        yield _table(columns, slow, widths={"conversation": 26, "agent": 14, "began with": 30})
    if report.quarantine:
        yield _title("Quarantine", "invalid events")
        reasons = [(one.reason, count(one.events)) for one in report.quarantine[:_MOST_ROWS]]
        yield _table(("reason", "events#"), reasons, widths={"reason": 78})


def _head(report: Report) -> Text:
    first, last = utc_day(report.start), utc_day(report.now)
    days = f"{last}" if first == last else f"{first} to {last}, {report.days} days"
    head = Text.assemble(("Report  ", "bold"), f"{days} (UTC)")
    if report.freshness is not None:
        age = duration(max(0, report.now - report.freshness.written_at))
        head.append(f"  lake of {age} ago, up to event {count(report.freshness.through_id)}", style="dim")
    return head


def _totals(report: Report) -> RenderableType:
    totals = report.totals
    completed = f"{count(totals.completed)} ({share(totals.completed, totals.runs)})"
    conversations = f"{count(totals.conversations)} ({count(totals.open_conversations)} open)"
    fields = (
        ("runs", count(totals.runs), "messages from people", count(totals.messages)),
        ("completed", completed, "people", count(totals.people)),
        ("failures", _alarming(totals.failures), "conversations", conversations),
        ("interrupted", count(totals.interrupted), "hand-offs", count(totals.handoffs)),
        ("retries", count(totals.retries), "dead", _alarming(totals.dead)),
        ("tokens", short(totals.tokens), "dead from people", _alarming(totals.dead_from_people)),
        ("cost", dollars(totals.cost), "quarantined", _alarming(report.quarantined)),
    )
    grid = Table.grid(padding=(0, 3))
    for style in ("dim", "bold", "dim", "bold"):
        grid.add_column(style=style, justify="left" if style == "dim" else "right")
    for row in fields:
        grid.add_row(*row)
    return Padding(grid, (1, 0, 0, 0))


def _throughput(report: Report) -> Iterator[RenderableType]:
    slots, each = _slots_to_fit(report)
    rows = [
        (
            name,
            _curve([getattr(slot, name) for slot in slots], style),
            count(max(getattr(slot, name) for slot in slots)),
        )
        for name, style in (("completed", "green"), ("failures", "red"), ("interrupted", "yellow"))
        if any(getattr(slot, name) for slot in slots)
    ]
    yield _title("Throughput", f"each mark {each}, up to now")
    yield _table(("runs", "", "most#"), rows)


def _slots_to_fit(report: Report) -> tuple[list[Slot], str]:
    """Join neighbouring slots until they fit the width."""
    slots, unit = (report.hourly, "hour") if report.hourly else (report.daily, "day")
    size = -(-len(slots) // _CURVE_WIDTH)
    groups = [slots[at : at + size] for at in range(0, len(slots), size)]
    found = [
        Slot(
            start=group[0].start,
            runs=sum(slot.runs for slot in group),
            completed=sum(slot.completed for slot in group),
            failures=sum(slot.failures for slot in group),
        )
        for group in groups
    ]
    return found, f"an {unit}" if (size, unit) == (1, "hour") else f"a {unit}" if size == 1 else f"{size} {unit}s"


def _title(name: str, hint: str) -> Text:
    return Text.assemble("\n", (name, "bold"), (f"  {hint}", "dim"))


def _table(columns: Sequence[str], rows: Sequence[Sequence[_Cell]], widths: dict[str, int] | None = None) -> Table:
    """A column whose name ends in `#` holds numbers. Long texts are truncated."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    for column in columns:
        name = column.removesuffix("#")
        table.add_column(
            name,
            justify="right" if column.endswith("#") else "left",
            no_wrap=True,
            overflow="ellipsis",
            max_width=(widths or {}).get(name),
        )
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(one_line(cell, _WIDEST_CELL)) for cell in row))
    return table


def _three(of: Percentiles) -> list[str]:
    return [nearly(value, is_exact=of.is_exact) for value in (of.p50, of.p95, of.p99)]


def _more(left_off: int) -> str:
    return f"the busiest; --json has {count(left_off)} more" if left_off else "the busiest first"


def _alarming(number: int) -> Text:
    return Text(count(number), style="red" if number else "")


def _curve(values: Sequence[int], style: str) -> Text:
    """A sparkline in which any value above 0 is visible."""
    top = max(values) or 1
    marks = (" " if value == 0 else _CURVE[min(7, max(0, round(value / top * 8) - 1))] for value in values)
    return Text("".join(marks), style=style)


def _bar(value: float, top: float, style: str) -> Text:
    eighths = round(value / (top or 1) * _BAR * 8)
    whole, rest = divmod(max(eighths, 1 if value > 0 else 0), 8)
    return Text(f"{'█' * whole}{_EIGHTHS[rest] if rest else ''}", style=style)
