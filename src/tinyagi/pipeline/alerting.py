"""Tells the owner about new alerts, each once: what was told is itself in the log, and from there in the lake.

So there is nothing to remember: a process that is killed after it has told something finds that it has.
"""

import asyncio
import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import pyarrow.compute as pc

from tinyagi.domain.responses import NewResponse
from tinyagi.pipeline.lake import Lake, between
from tinyagi.pipeline.tables.gold import ALERTS
from tinyagi.pipeline.tables.silver import RESPONSES
from tinyagi.settings.pipeline import AlertSettings
from tinyagi.store.base import EventLog, Store

MARK: Final = "alerts"
"""The key in a response's metadata under which stands what it tells: keys of alerts, with blanks between them."""
MOST_LINES: Final = 20
HOUR: Final = 3_600_000
YOUNG: Final = 24 * HOUR
"""Older ones are history: who archives three months at once does not want three months of alerts."""

_READY: Final = "response_ready"
_PAGE: Final = 1_000


class Alert(NamedTuple):
    rule: str
    agent: str
    hour: int
    text: str

    @property
    def key(self) -> str:
        return f"{self.rule}:{self.agent}:{self.hour}"


Series: TypeAlias = list[Alert]
"""The same alert of the same agent in hours that follow one another."""


async def deliver(lake: Lake, store: Store, wanted: AlertSettings, *, now: int) -> int:
    """Send what is new as one message to the person in the settings and return how many matters it tells.

    Call it after the manifest is written and while the lake's writer lock is held, so that nobody else tells the same.
    """
    if not wanted.enabled:
        return 0
    young = await asyncio.to_thread(_young, lake, now)
    if not young:
        return 0
    told = await asyncio.to_thread(_told_before, lake, now) | await _told_since(store.events, _through(lake))
    fresh = untold(young, told)
    if fresh:
        await store.responses.send(
            NewResponse(
                channel=wanted.channel,
                sender=wanted.sender,
                sender_id=wanted.sender_id,
                message=message(fresh),
                metadata={MARK: " ".join(alert.key for series in fresh for alert in series)},
            )
        )
    return len(fresh)


def untold(young: Iterable[Alert], told: frozenset[str]) -> list[Series]:
    """What to tell, newest first.

    Hours in a row with the same alert are one matter, which is told once; and again when it still lasts a day later,
    and nothing of it that was told is young any more.
    """
    fresh = [series for series in _series(sorted(young)) if told.isdisjoint(alert.key for alert in series)]
    return sorted(fresh, key=lambda series: (-series[-1].hour, series[-1]))


def message(fresh: Sequence[Series]) -> str:
    """What the owner reads: a line per matter, its last hour, and one line for all that would be too much."""
    lines = [series[-1].text for series in fresh[:MOST_LINES]]
    if len(fresh) > MOST_LINES:
        lines.append(f"{len(fresh) - MOST_LINES} more are in gold.alerts: run `tinyagi pipeline report`.")
    return "\n".join(lines)


def _series(ordered: Iterable[Alert]) -> list[Series]:
    series: list[Series] = []
    for alert in ordered:
        last = series[-1][-1] if series else None
        if last is not None and (last.rule, last.agent, last.hour + HOUR) == alert[:3]:
            series[-1].append(alert)
        else:
            series.append([alert])
    return series


def _young(lake: Lake, now: int) -> list[Alert]:
    if not _is_there(lake, ALERTS.name):
        return []
    oldest = now - YOUNG
    where = between(_day(oldest - HOUR), dt.date.max) & (pc.field("hour") + HOUR > oldest)
    rows = lake.rows(ALERTS.name, columns=Alert._fields, where=where).to_pylist()
    return [Alert(**row) for row in rows]


def _told_before(lake: Lake, now: int) -> frozenset[str]:
    """Keys that responses in the lake tell; what tells a young alert is young itself."""
    if not _is_there(lake, RESPONSES.name):
        return frozenset()
    where = between(_day(now - 2 * YOUNG), dt.date.max) & pc.field("metadata").is_valid()
    rows = lake.rows(RESPONSES.name, columns=["metadata"], where=where)
    return frozenset(key for text in rows["metadata"].to_pylist() for key in _keys(text))


async def _told_since(events: EventLog, cursor: int) -> frozenset[str]:
    """Keys that responses tell which the lake does not have yet."""
    told: set[str] = set()
    while page := await events.read_after(cursor, event_type=_READY, limit=_PAGE):
        cursor = page[-1].id
        for event in page:
            told.update(_keys(event.payload["response"].get("metadata")))
    return frozenset(told)


def _keys(metadata: str | None) -> list[str]:
    """None where other programs have written something else there."""
    try:
        said = json.loads(metadata or "{}")
    except ValueError:
        return []
    marked = said.get(MARK) if isinstance(said, Mapping) else None
    return marked.split() if isinstance(marked, str) else []


def _through(lake: Lake) -> int:
    manifest = lake.manifest()
    pin = manifest.tables.get(RESPONSES.name) if manifest else None
    return pin.through_id if pin else 0


def _is_there(lake: Lake, name: str) -> bool:
    manifest = lake.manifest()
    return manifest is not None and name in manifest.tables


def _day(instant: int) -> dt.date:
    return dt.datetime.fromtimestamp(instant / 1000, dt.UTC).date()
