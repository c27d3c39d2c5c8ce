"""Draws a conversation in the terminal: one line per message, with its waiting and its runs on a time axis."""

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from tinyagi.api.conversations import AttemptSpan, Span, Trace
from tinyagi.cli.terminal import duration
from tinyagi.domain.ids import AgentId
from tinyagi.domain.tags import render_for_people
from tinyagi.domain.texts import counted, one_line

RUN: Final = "█"
WAIT: Final = "·"
MAX_BAR: Final = 40
_MIN_BAR: Final = 10
_MIN_TEXT: Final = 12
_GAP: Final = 2
_STYLES: Final = {"done": "green", "dead": "red", "open": "yellow"}


def waterfall(trace: Trace, width: int, *, now: int | None = None) -> Group:
    """Draw the whole conversation within this width, in columns; time runs to the right."""
    now = time.time_ns() // 1_000_000 if now is None else now
    end = now if trace.status == "open" else trace.updated_at
    rows = [(_who(depth, span, sender), span) for depth, span, sender in _walk(trace.spans)]
    layout = _Layout.fitting(width, [who for who, _ in rows], [_ran(span, now) for _, span in rows])
    axis = _Axis(trace.started_at, max(end, trace.started_at + 1), layout.bar)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("who", no_wrap=True, overflow="ellipsis", width=layout.who)
    table.add_column(duration(axis.end - axis.start), no_wrap=True, width=layout.bar)
    table.add_column("ran", justify="right", no_wrap=True, width=layout.ran)
    if layout.tokens:
        table.add_column("tokens", justify="right", no_wrap=True, width=layout.tokens)
    if layout.what:
        table.add_column("what", no_wrap=True, overflow="ellipsis", width=layout.what)
    for who, span in rows:
        cells = [who, axis.bar(span, now), Text(_ran(span, now))]
        if layout.tokens:
            cells.append(Text(f"{span.tokens:,}"))
        if layout.what:
            cells.append(_what(span))
        table.add_row(*cells)
    return Group(_head(trace), table)


def answers(trace: Trace) -> Iterator[tuple[Text, str]]:
    """Each answer in full, or the last error of a dead message, with a heading; the waterfall shortens them."""
    for _, span, sender in _walk(trace.spans):
        who = _who(0, span, sender or f"@{span.from_agent}")
        if span.status == "dead":
            yield Text.assemble(who, (" is dead", "red")), span.last_error or ""
        elif span.answer is not None:
            yield who, render_for_people(span.answer, AgentId(span.agent))


class _Layout(NamedTuple):
    """Column widths. A narrow terminal drops the text first, then the tokens."""

    who: int
    bar: int
    ran: int
    tokens: int = 0
    what: int = 0

    @classmethod
    def fitting(cls, width: int, names: list[Text], times: list[str]) -> "_Layout":
        ran = max(3, *map(len, times))
        # The table's margin takes one column.
        room = width - 1 - ran - _GAP
        who = min(max(3, *(name.cell_len for name in names)), max(8, room - _MIN_BAR - _GAP))
        room -= who + _GAP
        tokens = 7
        if room - tokens - _GAP < _MIN_BAR:
            return cls(who, max(1, room), ran)
        room -= tokens + _GAP
        bar = min(MAX_BAR, max(_MIN_BAR, room // 2))
        what = room - bar - _GAP
        return cls(who, bar, ran, tokens, what) if what >= _MIN_TEXT else cls(who, min(MAX_BAR, room), ran, tokens)


class _Axis:
    def __init__(self, start: int, end: int, width: int) -> None:
        self.start = start
        self.end = end
        self._width = width

    def bar(self, span: Span, now: int) -> Text:
        cells: list[tuple[str, str]] = [(" ", "")] * self._width
        last = max(
            (_end(run, now) for run in span.attempts), default=now if span.status == "pending" else span.updated_at
        )
        self._fill(cells, span.created_at, last, (WAIT, "dim"))
        for run in span.attempts:
            self._fill(cells, run.started_at, _end(run, now), (RUN, _run_style(run)))
        bar = Text(no_wrap=True)
        for mark, style in cells:
            bar.append(mark, style=style)
        return bar

    def _fill(self, cells: list[tuple[str, str]], start: int, end: int, cell: tuple[str, str]) -> None:
        """Fill the cells from start to end, at least one."""
        first = min(self._place(start), self._width - 1)
        for place in range(first, max(first + 1, self._place(end))):
            cells[place] = cell

    def _place(self, instant: int) -> int:
        share = (instant - self.start) / (self.end - self.start)
        return min(self._width, max(0, round(share * self._width)))


def _walk(spans: tuple[Span, ...], depth: int = 0, parent: str | None = None) -> Iterator[tuple[int, Span, str | None]]:
    """Yield each span with its depth and its sender; no sender when it is the parent's agent."""
    for span in spans:
        sender = f"@{span.from_agent}" if span.from_agent else one_line(span.sender, 20)
        yield depth, span, None if span.from_agent and span.from_agent == parent else sender
        yield from _walk(span.children, depth + 1, span.agent)


def _head(trace: Trace) -> Text:
    head = Text(f"{one_line(trace.conversation_id)}  ", style="bold")
    head.append(trace.status, style=_STYLES[trace.status])
    counts = (counted(trace.messages, "message"), counted(trace.hops, "hop"), counted(trace.tokens, "token"))
    head.append(f"  {', '.join(counts)}", style="dim")
    if trace.cost:
        head.append(f", ${trace.cost:.4f}", style="dim")
    return head


def _who(depth: int, span: Span, sender: str | None) -> Text:
    indent = "  " * (depth - 1) + ("└ " if depth else "")
    arrow = "" if sender is None else f"{sender} → "
    return Text.assemble((indent, "dim"), arrow, (f"@{one_line(span.agent, 64)}", "bold"))


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
