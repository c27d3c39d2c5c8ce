"""Draws a conversation in the terminal: one line per message, its waiting and its runs along one axis of time."""

import time
from collections.abc import Iterator
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from tinyagi.api.traces import AttemptSpan, Span, Trace
from tinyagi.cli.screen import duration
from tinyagi.domain.ids import AgentId
from tinyagi.domain.tags import render_for_people
from tinyagi.domain.texts import one_line

WIDTH: Final = 40
_STYLES: Final = {"done": "green", "dead": "red", "open": "yellow"}


def waterfall(trace: Trace, *, now: int | None = None) -> Group:
    """The whole conversation, newest work at the right."""
    now = time.time_ns() // 1_000_000 if now is None else now
    end = now if trace.status == "open" else trace.updated_at
    axis = _Axis(trace.started_at, max(end, trace.started_at + 1))
    spans = list(_walk(trace.spans))
    # Only the last column gives way when the terminal is narrow: the picture is worth more than the words.
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", expand=True)
    table.add_column("who", no_wrap=True, min_width=max(_who(depth, span).cell_len for depth, span in spans))
    table.add_column(duration(axis.end - axis.start), no_wrap=True, min_width=WIDTH)
    table.add_column("ran", justify="right", no_wrap=True, min_width=8)
    table.add_column("tokens", justify="right", no_wrap=True, min_width=6)
    table.add_column("what", no_wrap=True, overflow="ellipsis", ratio=1)
    for depth, span in spans:
        table.add_row(_who(depth, span), axis.bar(span, now), _ran(span, now), f"{span.tokens:,}", _what(span))
    return Group(_head(trace), table)


class _Axis:
    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def bar(self, span: Span, now: int) -> Text:
        cells: list[tuple[str, str]] = [(" ", "")] * WIDTH
        last = max(
            (_end(run, now) for run in span.attempts), default=now if span.status == "pending" else span.updated_at
        )
        self._fill(cells, span.created_at, last, ("·", "dim"))
        for run in span.attempts:
            self._fill(cells, run.started_at, _end(run, now), ("█", _run_style(run)))
        bar = Text(no_wrap=True)
        for mark, style in cells:
            bar.append(mark, style=style)
        return bar

    def _fill(self, cells: list[tuple[str, str]], start: int, end: int, cell: tuple[str, str]) -> None:
        """Whatever happened is at least one cell wide."""
        first = min(self._place(start), WIDTH - 1)
        for place in range(first, max(first + 1, self._place(end))):
            cells[place] = cell

    def _place(self, instant: int) -> int:
        share = (instant - self.start) / (self.end - self.start)
        return min(WIDTH, max(0, round(share * WIDTH)))


def _walk(spans: tuple[Span, ...], depth: int = 0) -> Iterator[tuple[int, Span]]:
    for span in spans:
        yield depth, span
        yield from _walk(span.children, depth + 1)


def _head(trace: Trace) -> Text:
    head = Text(f"{one_line(trace.conversation_id)}  ", style="bold")
    head.append(trace.status, style=_STYLES[trace.status])
    counts = (_count(trace.messages, "message"), _count(trace.hops, "hop"), _count(trace.tokens, "token"))
    head.append(f"  {', '.join(counts)}", style="dim")
    if trace.cost:
        head.append(f", ${trace.cost:.4f}", style="dim")
    return head


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _who(depth: int, span: Span) -> Text:
    sender = f"@{span.from_agent}" if span.from_agent else one_line(span.sender, 20)
    indent = "  " * depth + ("└ " if depth else "")
    return Text.assemble((indent, "dim"), f"{sender} → ", (f"@{one_line(span.agent, 30)}", "bold"))


def _what(span: Span) -> Text:
    if span.status == "dead":
        return Text(one_line(span.last_error or "dead"), style="red")
    if span.answer is not None:
        return Text(one_line(render_for_people(span.answer, AgentId(span.agent))), style="green")
    return Text(one_line(span.text), style="dim")


def _ran(span: Span, now: int) -> str:
    spent = sum(_end(run, now) - run.started_at for run in span.attempts)
    runs = f" ({len(span.attempts)}×)" if len(span.attempts) > 1 else ""
    return f"{duration(spent)}{runs}" if span.attempts else ""


def _end(run: AttemptSpan, now: int) -> int:
    return now if run.ended_at is None else run.ended_at


def _run_style(run: AttemptSpan) -> str:
    if run.outcome == "chain_step_done":
        return "green"
    return "cyan" if run.outcome == "running" else "red"
