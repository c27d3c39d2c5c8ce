"""Due times of schedules: time zones, clock changes, and errors for invalid schedules."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import AgentId
from tinyagi.domain.schedules import NewSchedule
from tinyagi.engine.schedules import check_schedule, next_due

BERLIN = "Europe/Berlin"
DAILY = NewSchedule("daily", AgentId("coder"), "report", cron="0 9 * * *", timezone="UTC")


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def dues(schedule: NewSchedule, after: str) -> Iterator[str]:
    """The due times in order, in Berlin time."""
    instant: int | None = at(after)
    while instant is not None and (instant := next_due(schedule, instant)) is not None:
        yield datetime.fromtimestamp(instant / 1000, ZoneInfo(BERLIN)).isoformat()


def in_berlin(cron: str) -> NewSchedule:
    return replace(DAILY, cron=cron, timezone=BERLIN)


@pytest.fixture(params=[BERLIN, None])
def berlin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str | None]:
    """The zone by its name, and as the zone of the machine."""
    if request.param is None:
        monkeypatch.setenv("TZ", BERLIN)
        time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_a_cron_expression_uses_its_time_zone() -> None:
    schedule = replace(DAILY, timezone="America/New_York")
    assert next_due(schedule, at("2026-01-15T00:00:00+00:00")) == at("2026-01-15T14:00:00+00:00")
    assert next_due(schedule, at("2026-07-15T00:00:00+00:00")) == at("2026-07-15T13:00:00+00:00")


def test_the_next_due_time_is_after_the_last_to_the_millisecond() -> None:
    nine = at("2026-01-15T09:00:00+00:00")
    assert next_due(DAILY, nine - 1) == nine
    assert next_due(DAILY, nine) == nine + 86_400_000


def test_a_single_time_is_due_once() -> None:
    once = replace(DAILY, cron=None, run_at=1_000)
    assert next_due(once, 999) == 1_000
    assert next_due(once, 1_000) is None


def test_a_time_skipped_by_the_clock_change_is_due_right_after_it(berlin: str | None) -> None:
    nightly = replace(in_berlin("30 2 * * *"), timezone=berlin)
    assert list(islice(dues(nightly, "2026-03-28T12:00:00+01:00"), 2)) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_a_time_repeated_by_the_clock_change_is_due_once(berlin: str | None) -> None:
    nightly = replace(in_berlin("30 2 * * *"), timezone=berlin)
    expected = ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]
    assert list(islice(dues(nightly, "2026-10-24T12:00:00+02:00"), 2)) == expected
    # A search that starts between the two must not return the first.
    assert next(dues(nightly, "2026-10-25T02:10:00+01:00")) == expected[1]


def test_a_half_hourly_schedule_is_due_through_the_repeated_hour(berlin: str | None) -> None:
    steady = replace(in_berlin("*/30 * * * *"), timezone=berlin)
    assert list(islice(dues(steady, "2026-10-25T01:50:00+02:00"), 5)) == [
        "2026-10-25T02:00:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T02:30:00+01:00",
        "2026-10-25T03:00:00+01:00",
    ]


@given(
    cron=st.sampled_from(["30 2 * * *", "*/20 1-3 * * *", "15 * * * *", "0 2,3 * * 0", "59 23 L * *", "0 0 29 2 *"]),
    zone=st.sampled_from([BERLIN, "UTC", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu"]),
    after=st.integers(at("2026-01-01T00:00:00+00:00"), at("2027-12-31T00:00:00+00:00")),
)
def test_due_times_are_in_the_future_and_none_is_skipped(cron: str, zone: str, after: int) -> None:
    schedule = replace(DAILY, cron=cron, timezone=zone)
    due = next_due(schedule, after)
    assert due is not None
    assert due > after
    assert next_due(schedule, due - 1) == due
    assert due % 60_000 == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"label": " "}, "needs a label"),
        ({"label": "x" * 201}, "needs a label of 1 to 200"),
        ({"message": "\n"}, "needs a message"),
        ({"sender": ""}, "needs a sender"),
        ({"channel": "My Chat"}, "'My Chat' is not a channel name"),
        ({"message": "\ud800"}, "half of a character"),
        ({"cron": None}, "either cron, to repeat, or runAt"),
        ({"run_at": 5}, "either cron, to repeat, or runAt"),
        ({"cron": None, "run_at": -5}, "runAt is not an instant"),
        ({"cron": None, "run_at": 10**18}, "runAt is not an instant"),
        ({"cron": ""}, "five fields .* has 0"),
        ({"cron": "@daily"}, "five fields .* has 1"),
        ({"cron": "0 0 9 * * *"}, "five fields .* has 6"),
        ({"cron": f"{'1,' * 100}1 * * * *"}, "at most 200 characters"),
        ({"cron": "0 25 * * *"}, "'0 25 [*] [*] [*]' is wrong in its hour: it takes 0 to 23"),
        ({"cron": "x 9 * * *"}, "wrong in its minute"),
        ({"cron": "0 9 * * 8"}, "wrong in its day-of-week: it takes 0 to 7"),
        ({"cron": "0 9 31 2 *"}, "wrong in its day-of-month"),
        ({"timezone": "Mars/Base"}, "no time zone 'Mars/Base': use a name like Europe/Berlin"),
        ({"timezone": "../localtime"}, "no time zone"),
        ({"timezone": "Europe"}, "no time zone"),
        ({"timezone": ""}, "no time zone"),
    ],
)
def test_an_invalid_schedule_is_refused_with_a_reason(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        check_schedule(replace(DAILY, **change))  # type: ignore[arg-type]


def test_a_cron_expression_that_never_matches_is_refused() -> None:
    # A fifth Monday on the first of the month: every field is right, no day is.
    with pytest.raises(InvalidInput, match="never matches"):
        check_schedule(replace(DAILY, cron="0 0 */40 * MON#5"))


@pytest.mark.parametrize("cron", ["0 8 * * 1-5", "*/15 9-17 * * mon-fri", "0 0 L * *", "0 9 * * 5#1", "0 0 1 jan *"])
def test_common_cron_expressions_are_accepted(cron: str) -> None:
    check_schedule(replace(DAILY, cron=cron, timezone=None))
    assert next_due(replace(DAILY, cron=cron), int(datetime.now(UTC).timestamp() * 1000)) is not None


@pytest.mark.parametrize("schedule", [replace(DAILY, label="a\nb"), replace(DAILY, sender="a\nb")])
def test_a_control_character_in_label_or_sender_is_refused(schedule: NewSchedule) -> None:
    with pytest.raises(InvalidInput, match="control character"):
        check_schedule(schedule)
