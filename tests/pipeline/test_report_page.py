"""The page of a report is self-contained and shows foreign texts as text."""

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import Any

import pytest

from tinyagi.pipeline.report.charts import charts
from tinyagi.pipeline.report.handoff_graph import handoff_graph
from tinyagi.pipeline.report.model import (
    AgentFigures,
    AgentHour,
    Alert,
    Cause,
    ChannelFigures,
    DayCost,
    Edge,
    Freshness,
    OpenConversation,
    Percentiles,
    QuarantineReason,
    Report,
    Slot,
    SlowConversation,
    Totals,
)
from tinyagi.pipeline.report.page import render_page

DAY = 86_400_000
HOSTILE = """</script><script>alert(1)</script><img src=x onerror=alert(2)>"' onload='alert(3) [bold]<!--"""
LOADING = {"link", "iframe", "img", "base", "object", "embed", "audio", "video", "source", "form", "a", "image", "use"}


@dataclass
class Page:
    """A parsed page."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    scripts: list[tuple[dict[str, str | None], str]] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(next(text for of, text in self.scripts if of.get("id") == "charts"))
        return found


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self._open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.page.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.page.scripts.append((dict(attrs), ""))
        self._open = tag if tag in {"script", "style"} else ""

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open == "script":
            attributes, before = self.page.scripts[-1]
            self.page.scripts[-1] = (attributes, before + data)
        elif self._open == "style":
            self.page.styles.append(data)
        else:
            self.page.texts.append(data)


def parsed(text: str) -> Page:
    parser = _Parser()
    parser.feed(text)
    parser.close()
    return parser.page


def full(text: str = "harmless") -> Report:
    """A report with every section, with this text as every foreign text."""
    times = Percentiles(10.0, 2_000.0, 90_000.0)
    agent = AgentFigures(text, 12, 9, 3, 0, 2, 1, times, replace(times, is_exact=True), 4_500, 1.25)
    slots = tuple(Slot(at * DAY, 7, 4, 2, 10, 0.5) for at in (20_000, 20_001))
    return Report(
        days=2,
        start=20_000 * DAY,
        now=20_001 * DAY + 7,
        freshness=Freshness(20_001 * DAY, 4_711),
        totals=Totals(messages=8, people=3, conversations=5, handoffs=2, runs=12, completed=9, failures=3, dead=1),
        agents=(agent, replace(agent, agent="coder", runs=1)),
        hourly=slots,
        daily=slots,
        costs=(DayCost(20_000 * DAY, text, 0.75), DayCost(20_001 * DAY, "coder", 0.5)),
        slowest_hours=(AgentHour(text, 20_000 * DAY, 3, times, times),),
        edges=(Edge(text, "coder", 5, 4, 1, 900.0), Edge("coder", text, 2, 2, 0, None)),
        causes=(Cause("f", text, text, (text,), 4, 1, 1, 20_000 * DAY, 17),),
        slowest=(SlowConversation(text, 20_000 * DAY, text, text, text, 4, 2, 3, 95_000, 40_000, 0.2),),
        open=(OpenConversation(text, 20_000 * DAY, text, text, text, 4, 2),),
        channels=(ChannelFigures(text, 8, 3, 7, 1, 9, 8, 1, 1_500.0),),
        alerts=(Alert(text, text, 20_000 * DAY, text),),
        quarantined=2,
        quarantine=(QuarantineReason(text, 2),),
    )


@pytest.fixture(scope="module")
def hostile() -> Page:
    return parsed(render_page(full(HOSTILE)))


def test_the_page_loads_nothing_from_outside(hostile: Page) -> None:
    for tag, attributes in hostile.elements:
        assert tag not in LOADING
        assert {"src", "href", "xlink:href", "action", "srcset", "data"}.isdisjoint(attributes), (tag, attributes)
    assert hostile.styles
    assert not any("url(" in style or "@import" in style for style in hostile.styles)


def test_hostile_texts_stay_text(hostile: Page) -> None:
    assert [of.get("type") for of, _ in hostile.scripts] == ["application/json", None, None]
    assert not any(name.startswith("on") for _, attributes in hostile.elements for name in attributes)
    assert sum(tag == "script" for tag, _ in hostile.elements) == 3
    # Data cannot close its script element.
    assert "<" not in hostile.scripts[0][1]
    # They are shown in every table and list.
    assert hostile.text.count("<script>alert(1)</script>") >= 8
    assert "[bold]" in hostile.text


def test_charts_get_hostile_texts_without_tags(hostile: Page) -> None:
    """plotly.js interprets tags in labels, so only tags of the page may remain."""
    ours = re.compile(r"</?b>|<br>")

    def texts(value: object) -> list[str]:
        if isinstance(value, str):
            return [value]
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return [text for part in parts for text in texts(part)]

    found = texts(hostile.data)
    assert any("&lt;" in text for text in found)
    assert [text for text in found if "<" in ours.sub("", text)] == []


def test_the_policy_allows_only_the_scripts_of_the_page_and_no_requests(hostile: Page) -> None:
    policies = [
        of["content"] or "" for tag, of in hostile.elements if of.get("http-equiv") == "Content-Security-Policy"
    ]
    (policy,) = policies
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()}'"
        for of, program in hostile.scripts
        if not of
    ]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"].split() == hashes
    assert set(directives) == {"default-src", "script-src", "style-src", "img-src", "base-uri", "form-action"}


def test_plotly_is_in_the_page_once(hostile: Page) -> None:
    assert sum("plotly.js v" in program for _, program in hostile.scripts) == 1


def test_every_chart_has_an_element(hostile: Page) -> None:
    places = [(of.get("id") or "").removeprefix("chart-") for tag, of in hostile.elements if of.get("class") == "chart"]

    assert sorted(places) == sorted(hostile.data)
    assert set(places) == {"throughput", "wait", "run", "cost", "dead", "slowest"}


def test_stacked_bars_add_up_to_the_runs() -> None:
    data: Any = charts(full())["throughput"]["data"]

    assert {bar["name"]: bar["y"] for bar in data} == {"completed": [4, 4], "failures": [2, 2], "interrupted": [1, 1]}


def test_costs_of_agents_without_a_colour_are_summed() -> None:
    one = full().agents[0]
    agents = tuple(replace(one, agent=f"a{number}", runs=99 - number) for number in range(12))
    costs = tuple(DayCost(20_000 * DAY, agent.agent, 1.0) for agent in agents)

    data: Any = charts(replace(full(), agents=agents, costs=costs))["cost"]["data"]

    assert [bar["name"] for bar in data] == [*(f"@a{number}" for number in range(8)), "others"]
    assert data[-1]["y"] == [4.0, 0.0]


def test_headlines_show_the_totals() -> None:
    text = parsed(render_page(full())).text

    for expected in (
        "12",
        "75 %",
        "3 failures, 0 interrupted",
        "Messages from people",
        "3 people",
        "up to event 4,711",
        "≈ 10 ms",
        "1 min 30 s",
    ):
        assert expected in text


def test_arrows_are_wider_for_more_hand_offs() -> None:
    edges = (Edge("a", "b", 90, 90, 0, None), Edge("b", "c", 10, 10, 0, None), Edge("c", "c", 7, 7, 0, None))

    drawing = parsed(handoff_graph(edges, {"a": "#123456"}))

    paths = [of for tag, of in drawing.elements if tag == "path"]
    widths = [float(of["stroke-width"] or 0) for of in paths]
    # The busiest is drawn last, above the others; a hand-off to the same agent has no arrow.
    assert len(widths) == 2
    assert widths[0] < widths[1]
    assert paths[1]["stroke"] == "#123456"
    assert [text for text in drawing.texts if text.startswith("@") and ":" not in text] == [
        "@b",
        "@b",
        "@a",
        "@a",
        "@c",
        "@c",
    ]


def test_names_in_the_graph_stay_text() -> None:
    drawing = parsed(handoff_graph((Edge("<b>x</b>", "y", 1, 1, 0, None),), {}))

    assert {tag for tag, _ in drawing.elements} == {"svg", "g", "title", "path", "polygon", "text", "rect"}
    assert "@<b>x</b>" in drawing.texts


def test_a_page_without_runs_names_the_remedy_and_has_no_scripts() -> None:
    note = "The lake is empty. Fill it with `tinyagi <pipeline> run`."
    page = parsed(render_page(Report(days=7, start=0, now=DAY, freshness=None, notes=(note,))))

    assert page.scripts == []
    assert "tinyagi <pipeline> run" in page.texts
    assert not any("headline" in (of.get("class") or "") for _, of in page.elements)
