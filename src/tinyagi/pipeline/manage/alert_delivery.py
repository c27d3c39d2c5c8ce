"""Sends new alerts to the owner, each once.

The notice lists its alerts in its metadata, so the log and the lake record what was sent. No other state is needed, and
a kill after sending repeats nothing.
"""

import asyncio
import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import pyarrow.compute as pc

from tinyagi.domain.instants import DAY_MS, HOUR_MS, utc_day
from tinyagi.domain.responses import NewResponse
from tinyagi.pipeline.instants import During
from tinyagi.pipeline.lake import Lake, between
from tinyagi.pipeline.tables.gold import ALERTS
from tinyagi.pipeline.tables.silver import RESPONSES
from tinyagi.settings.model import AlertSettings
from tinyagi.store.event_log import EventLog
from tinyagi.store.store import Store

METADATA_KEY: Final = "alerts"
"""The metadata key of a notice that lists the keys of its alerts, separated by spaces."""
MOST_LINES: Final = 20
YOUNG: Final = DAY_MS
"""Older alerts are not sent: the first run over three months of events must not send three months of alerts."""

_READY: Final = "response_ready"
_PAGE: Final = 1_000


class AlertRow(NamedTuple):
    rule: str
    agent: str
    hour: int
    text: str

    @property
    def key(self) -> str:
        return f"{self.rule}:{self.agent}:{self.hour}"


Series: TypeAlias = list[AlertRow]
"""The same alert of the same agent in consecutive hours."""


async def deliver_alerts(lake: Lake, store: Store, settings: AlertSettings, *, now: int) -> int:
    """Send the new alerts as one message to the person in the settings; return the number of series in it.

    Call it after the manifest is written and under the lake's writer lock, so that no other process sends the same.
    """
    if not settings.enabled:
        return 0
    young = await asyncio.to_thread(_young, lake, now)
    if not young:
        return 0
    sent = await asyncio.to_thread(_sent_before, lake, now) | await _sent_since(store.events, _through(lake))
    fresh = unsent(young, sent)
    if fresh:
        await store.responses.send(
            NewResponse(
                channel=settings.channel,
                sender=settings.sender,
                sender_id=settings.sender_id,
                message=message(fresh),
                metadata={METADATA_KEY: " ".join(alert.key for series in fresh for alert in series)},
            )
        )
    return len(fresh)


def unsent(young: Iterable[AlertRow], sent: frozenset[str]) -> list[Series]:
    """The series to send, newest first.

    Each series is sent once, and again only when it lasts longer than a day: then none of its sent alerts is young.
    """
    fresh = [series for series in _series(sorted(young)) if sent.isdisjoint(alert.key for alert in series)]
    return sorted(fresh, key=lambda series: (-series[-1].hour, series[-1]))


def message(fresh: Sequence[Series]) -> str:
    """The text for the owner: one line per series, for its last hour, and one line for the rest."""
    lines = [series[-1].text for series in fresh[:MOST_LINES]]
    if len(fresh) > MOST_LINES:
        lines.append(f"{len(fresh) - MOST_LINES} more are in gold.alerts: run `tinyagi pipeline report`.")
    return "\n".join(lines)


def _series(ordered: Iterable[AlertRow]) -> list[Series]:
    series: list[Series] = []
    for alert in ordered:
        last = series[-1][-1] if series else None
        if last is not None and (last.rule, last.agent, last.hour + HOUR_MS) == alert[:3]:
            series[-1].append(alert)
        else:
            series.append([alert])
    return series


def _young(lake: Lake, now: int) -> list[AlertRow]:
    if not _exists(lake, ALERTS.name):
        return []
    oldest = now - YOUNG
    recent = between(utc_day(oldest - HOUR_MS), dt.date.max)
    hours = During("hour", first=oldest - HOUR_MS + 1)
    rows = lake.rows(ALERTS.name, columns=AlertRow._fields, where=recent, during=hours).to_pylist()
    return [AlertRow(**row) for row in rows]


def _sent_before(lake: Lake, now: int) -> frozenset[str]:
    """Alert keys in the lake's responses. The notice of a young alert is recent, so few days are enough."""
    if not _exists(lake, RESPONSES.name):
        return frozenset()
    where = between(utc_day(now - 2 * YOUNG), dt.date.max) & pc.field("metadata").is_valid()
    rows = lake.rows(RESPONSES.name, columns=["metadata"], where=where)
    return frozenset(key for text in rows["metadata"].to_pylist() for key in _keys(text))


async def _sent_since(events: EventLog, cursor: int) -> frozenset[str]:
    """Alert keys in responses that the lake does not have yet."""
    sent: set[str] = set()
    while page := await events.read_after(cursor, event_type=_READY, limit=_PAGE):
        cursor = page[-1].id
        for event in page:
            sent.update(_keys(event.payload["response"].get("metadata")))
    return frozenset(sent)


def _keys(metadata: str | None) -> list[str]:
    """The alert keys in a response's metadata; none for metadata of another shape."""
    try:
        fields = json.loads(metadata or "{}")
    except ValueError:
        return []
    keys = fields.get(METADATA_KEY) if isinstance(fields, Mapping) else None
    return keys.split() if isinstance(keys, str) else []


def _through(lake: Lake) -> int:
    manifest = lake.manifest()
    pin = manifest.tables.get(RESPONSES.name) if manifest else None
    return pin.through_id if pin else 0


def _exists(lake: Lake, name: str) -> bool:
    manifest = lake.manifest()
    return manifest is not None and name in manifest.tables
