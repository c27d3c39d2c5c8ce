import datetime as dt
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.clock import FakeClock
from tests.support.lakes import write_lake
from tinyagi.domain.errors import OutcomeUnknown
from tinyagi.domain.limits import Retention
from tinyagi.domain.responses import NewResponse, Response
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manage.alert_delivery import MOST_LINES, deliver_alerts
from tinyagi.settings.model import AlertSettings
from tinyagi.store.responses import ResponseStore
from tinyagi.store.store import Store

HOUR = 3_600_000
MONDAY = dt.date(2026, 1, 5)
NOON = int(dt.datetime(2026, 1, 5, 12, tzinfo=dt.UTC).timestamp() * 1000)
TELEGRAM = AlertSettings(channel="telegram", sender="Ada", sender_id="4711")

Rows = Sequence[Mapping[str, Any]]


def day_of(instant: int) -> dt.date:
    return dt.datetime.fromtimestamp(instant / 1000, dt.UTC).date()


def alert(hours_before: int = 0, agent: str = "coder", rule: str = "backlog") -> dict[str, Any]:
    """An alert about the hour that ended `hours_before` hours before now."""
    begin = NOON - (hours_before + 1) * HOUR
    return {"rule": rule, "agent": agent, "hour": begin, "text": f"{rule} {agent} {begin}", "date": day_of(begin)}


def make_lake(folder: Path, *found: Mapping[str, Any], responses: Rows = (), through_id: int = 0) -> Lake:
    return write_lake(folder / "lake", {"gold.alerts": found, "silver.responses": responses}, through_id=through_id)


@pytest.fixture
def clock() -> FakeClock:
    clock = FakeClock()
    clock.now = NOON
    return clock


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with await Store.open(tmp_path / "tinyagi.db", clock=clock) as opened:
        yield opened


async def sent(store: Store) -> list[Response]:
    return list(await store.responses.pending("telegram", limit=1000))


async def test_a_new_alert_becomes_a_message_to_the_owner(tmp_path: Path, store: Store) -> None:
    assert await deliver_alerts(make_lake(tmp_path, alert()), store, TELEGRAM, now=NOON) == 1

    (response,) = await sent(store)
    assert (response.sender, response.sender_id, response.agent) == ("Ada", "4711", None)
    assert response.message == alert()["text"]


async def test_an_alert_is_sent_once_before_and_after_it_is_archived(
    tmp_path: Path, store: Store, clock: FakeClock
) -> None:
    lake = make_lake(tmp_path, alert())
    await deliver_alerts(lake, store, TELEGRAM, now=NOON)

    assert await deliver_alerts(lake, store, TELEGRAM, now=NOON) == 0

    (response,) = await sent(store)
    rows = [{"id": response.id, "metadata": response.metadata, "date": MONDAY}]
    lake = make_lake(tmp_path, alert(), responses=rows, through_id=response.last_event_id)
    await store.responses.ack(response.id)
    clock.advance(dt.timedelta(days=30))
    await store.queue.prune(Retention())
    assert await store.events.read_after(0) == ()
    assert await deliver_alerts(lake, store, TELEGRAM, now=NOON) == 0


class Dying:
    """Sends the response, and dies before it reports success."""

    def __init__(self, responses: ResponseStore) -> None:
        self._responses = responses

    async def send(self, response: NewResponse) -> Response:
        await self._responses.send(response)
        raise OutcomeUnknown("The power went.")


async def test_a_crash_after_sending_does_not_send_an_alert_again(tmp_path: Path, store: Store) -> None:
    dying = cast("Store", SimpleNamespace(responses=Dying(store.responses), events=store.events))
    lake = make_lake(tmp_path, alert())
    with pytest.raises(OutcomeUnknown):
        await deliver_alerts(lake, dying, TELEGRAM, now=NOON)

    assert await deliver_alerts(lake, store, TELEGRAM, now=NOON) == 0
    assert len(await sent(store)) == 1


async def test_alerts_older_than_a_day_are_not_sent(tmp_path: Path, store: Store) -> None:
    lake = make_lake(tmp_path, alert(24), *(alert(hours, "writer") for hours in range(25, 2000, 7)))

    assert await deliver_alerts(lake, store, TELEGRAM, now=NOON) == 0
    assert await deliver_alerts(lake, store, TELEGRAM, now=NOON - 1) == 1


async def test_consecutive_hours_are_one_alert_and_repeated_after_a_day(tmp_path: Path, store: Store) -> None:
    lake = make_lake(tmp_path, alert(2), alert(1), alert(5))

    assert await deliver_alerts(lake, store, TELEGRAM, now=NOON) == 2
    assert (await sent(store))[0].message.splitlines() == [alert(1)["text"], alert(5)["text"]]

    lasting = [alert(hours) for hours in range(2, -24, -1)]
    assert await deliver_alerts(make_lake(tmp_path, *lasting), store, TELEGRAM, now=NOON + 22 * HOUR) == 0
    assert await deliver_alerts(make_lake(tmp_path, *lasting), store, TELEGRAM, now=NOON + 24 * HOUR) == 1
    assert (await sent(store))[1].message == alert(-23)["text"]


async def test_many_alerts_are_one_short_message(tmp_path: Path, store: Store) -> None:
    lake = make_lake(tmp_path, *(alert(agent=f"agent{number}") for number in range(30)))

    assert await deliver_alerts(lake, store, TELEGRAM, now=NOON) == 30

    (response,) = await sent(store)
    lines = response.message.splitlines()
    assert len(lines) == MOST_LINES + 1
    assert lines[-1] == "10 more are in gold.alerts: run `tinyagi pipeline report`."
    assert await deliver_alerts(lake, store, TELEGRAM, now=NOON) == 0


async def test_no_alert_is_sent_when_alerts_are_off_or_without_a_lake(tmp_path: Path, store: Store) -> None:
    assert await deliver_alerts(Lake(tmp_path / "none"), store, TELEGRAM, now=NOON) == 0
    off = AlertSettings(enabled=False)
    assert await deliver_alerts(make_lake(tmp_path, alert()), store, off, now=NOON) == 0
    assert await sent(store) == []


async def test_foreign_metadata_of_responses_is_ignored(tmp_path: Path, store: Store) -> None:
    odd = [{"id": number, "metadata": text, "date": MONDAY} for number, text in enumerate(("[", "[]", '{"alerts": 1}'))]
    await store.responses.send(NewResponse("web", "Ada", "hello", metadata={"parseMode": "Markdown"}))

    assert await deliver_alerts(make_lake(tmp_path, alert(), responses=odd), store, TELEGRAM, now=NOON) == 1
