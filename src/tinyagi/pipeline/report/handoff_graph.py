"""An SVG of hand-offs: agents on an ellipse, one arrow per pair, wider for more hand-offs."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tinyagi.domain.texts import one_line
from tinyagi.pipeline.report.charts import OTHERS
from tinyagi.pipeline.report.model import Edge
from tinyagi.pipeline.report.units import count, duration, escaped

_WIDTH: Final = 760
_HEIGHT: Final = 400
_MOST_EDGES: Final = 30
"""The most arrows; the table has the rest."""

_NAME: Final = 18
_BOX: Final = 34
_GAP: Final = 5
_BEND: Final = 0.16


@dataclass(frozen=True, slots=True)
class _Node:
    agent: str
    x: float
    y: float

    @property
    def name(self) -> str:
        return one_line(f"@{self.agent}", _NAME)

    @property
    def width(self) -> float:
        return 26 + 7.6 * len(self.name)

    def border_towards(self, x: float, y: float) -> tuple[float, float]:
        """The point where a line from its centre to (x, y) leaves the box."""
        dx, dy = x - self.x, y - self.y
        reach = min(
            (self.width / 2 + _GAP) / abs(dx) if dx else math.inf, (_BOX / 2 + _GAP) / abs(dy) if dy else math.inf
        )
        return self.x + dx * min(1, reach), self.y + dy * min(1, reach)


def handoff_graph(edges: Sequence[Edge], colours: dict[str, str]) -> str:
    """An SVG of the most frequent hand-offs; empty without hand-offs between two agents."""
    drawn = [edge for edge in edges if edge.from_agent != edge.to_agent][:_MOST_EDGES]
    if not drawn:
        return ""
    nodes = _placed(drawn)
    most = max(edge.handoffs for edge in drawn)
    arrows = "".join(_arrow(edge, nodes, most, colours.get(edge.from_agent, OTHERS)) for edge in reversed(drawn))
    boxes = "".join(_box(node, colours.get(node.agent, OTHERS)) for node in nodes.values())
    return (
        f'<svg class="graph" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Who hands work to whom">'
        f"{arrows}{boxes}</svg>"
    )


def _placed(edges: Iterable[Edge]) -> dict[str, _Node]:
    """Place agents with the most hand-offs between them next to each other, so that few arrows cross."""
    traffic: Counter[frozenset[str]] = Counter()
    share: Counter[str] = Counter()
    for edge in edges:
        traffic[frozenset((edge.from_agent, edge.to_agent))] += edge.handoffs
        share.update({edge.from_agent: edge.handoffs, edge.to_agent: edge.handoffs})
    order = [min(share, key=lambda agent: (-share[agent], agent))]
    while len(order) < len(share):
        last = order[-1]
        rest = [agent for agent in share if agent not in order]
        order.append(min(rest, key=lambda agent: (-traffic[frozenset((last, agent))], -share[agent], agent)))
    turn = 2 * math.pi / len(order)
    first = math.pi if len(order) == 2 else -math.pi / 2
    return {
        agent: _Node(
            agent,
            _WIDTH / 2 + (_WIDTH / 2 - 100) * math.cos(first + at * turn),
            _HEIGHT / 2 + (_HEIGHT / 2 - 34) * math.sin(first + at * turn),
        )
        for at, agent in enumerate(order)
    }


def _arrow(edge: Edge, nodes: dict[str, _Node], most: int, colour: str) -> str:
    start, end = nodes[edge.from_agent], nodes[edge.to_agent]
    dx, dy = end.x - start.x, end.y - start.y
    # Bend to the right, so that the arrow back is a separate line.
    bend_x, bend_y = (start.x + end.x) / 2 - dy * _BEND, (start.y + end.y) / 2 + dx * _BEND
    (x1, y1), (x2, y2) = start.border_towards(bend_x, bend_y), end.border_towards(bend_x, bend_y)
    width = 1.2 + 5.8 * math.sqrt(edge.handoffs / most)
    size = 6 + 1.3 * width
    length = math.hypot(x2 - bend_x, y2 - bend_y) or 1
    ux, uy = (x2 - bend_x) / length, (y2 - bend_y) / length
    neck_x, neck_y = x2 - ux * size, y2 - uy * size
    head = " ".join(
        f"{x:.1f},{y:.1f}"
        for x, y in (
            (x2, y2),
            (neck_x - uy * size * 0.48, neck_y + ux * size * 0.48),
            (neck_x + uy * size * 0.48, neck_y - ux * size * 0.48),
        )
    )
    label_x, label_y = (x1 + 2 * bend_x + x2) / 4, (y1 + 2 * bend_y + y2) / 4
    title = f"@{edge.from_agent} → @{edge.to_agent}: {count(edge.handoffs)}, {count(edge.dead)} dead"
    slow = "" if edge.worst_p95 is None else f", p95 {duration(edge.worst_p95)} on the worst day"
    return (
        f"<g><title>{escaped(title + slow)}</title>"
        f'<path d="M{x1:.1f},{y1:.1f} Q{bend_x:.1f},{bend_y:.1f} {neck_x:.1f},{neck_y:.1f}" fill="none" '
        f'stroke="{colour}" stroke-width="{width:.1f}" opacity=".62"/>'
        f'<polygon points="{head}" fill="{colour}" opacity=".9"/>'
        f'<text class="weight" x="{label_x:.1f}" y="{label_y + 4:.1f}">{count(edge.handoffs)}</text></g>'
    )


def _box(node: _Node, colour: str) -> str:
    return (
        f"<g><title>{escaped(f'@{node.agent}')}</title>"
        f'<rect x="{node.x - node.width / 2:.1f}" y="{node.y - _BOX / 2:.1f}" width="{node.width:.1f}" '
        f'height="{_BOX}" rx="9" stroke="{colour}"/>'
        f'<text class="name" x="{node.x:.1f}" y="{node.y + 4.5:.1f}">{escaped(node.name)}</text></g>'
    )
