"""Which messages share a run: limits, order, and what runs alone."""

from collections.abc import Iterable
from itertools import groupby, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import a_message
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Message, coalesce, joins_thread


def ids(messages: Iterable[Message]) -> list[int]:
    return [message.id for message in messages]


def by_thread(messages: Iterable[Message]) -> dict[str, list[int]]:
    ordered = sorted(messages, key=lambda message: (message.thread, message.id))
    return {thread: ids(group) for thread, group in groupby(ordered, key=lambda message: message.thread)}


@st.composite
def lanes(draw: st.DrawFn) -> tuple[Message, list[Message]]:
    """A primary and its candidates in any order; the candidates may include the primary."""
    numbers = draw(st.lists(st.integers(min_value=1, max_value=200), unique=True, min_size=1, max_size=40))
    messages = [
        a_message(
            id=number,
            thread=draw(st.sampled_from(["web:Ada", "#dev", "room:ops"])),
            message="x" * draw(st.sampled_from([0, 1, 500, 8_000, 16_001, 32_001])),
            retry_count=draw(st.sampled_from([0, 0, 0, 1])),
        )
        for number in numbers
    ]
    return messages[0], messages[draw(st.integers(min_value=0, max_value=1)) :]


@pytest.mark.parametrize("channel", ["discord", "telegram", "whatsapp", "web"])
def test_messages_of_a_chat_join(channel: str) -> None:
    assert joins_thread(a_message(channel=channel))


@pytest.mark.parametrize("channel", ["api", "cli", "schedule", "heartbeat", "chatroom"])
def test_messages_of_other_channels_do_not_join(channel: str) -> None:
    assert not joins_thread(a_message(channel=channel))


@pytest.mark.parametrize("channel", ["discord", "telegram", "whatsapp", "web"])
def test_a_handoff_does_not_join_although_it_inherits_the_chat(channel: str) -> None:
    assert not joins_thread(a_message(channel=channel, from_agent=AgentId("tester")))


def test_a_message_that_failed_before_does_not_join() -> None:
    assert not joins_thread(a_message(retry_count=1))
    assert not joins_thread(a_message(last_error="exit code 1"))


def test_a_message_that_failed_before_runs_alone() -> None:
    primary = a_message(id=1, retry_count=1)
    assert coalesce(primary, [a_message(id=2)]) == (primary,)


def test_a_message_without_candidates_runs_alone() -> None:
    assert coalesce(a_message(), []) == (a_message(),)


def test_the_candidates_follow_the_primary_in_the_order_of_their_ids() -> None:
    primary = a_message(id=5)
    assert ids(coalesce(primary, [a_message(id=9), a_message(id=2), a_message(id=7)])) == [5, 2, 7, 9]


def test_a_primary_among_its_candidates_runs_once() -> None:
    primary = a_message(id=5)
    assert ids(coalesce(primary, [primary, a_message(id=6)])) == [5, 6]


def test_a_run_has_twenty_messages_at_most() -> None:
    primary, *candidates = [a_message(id=number) for number in range(1, 30)]
    assert ids(coalesce(primary, candidates)) == list(range(1, 21))


def test_a_run_has_32000_characters_at_most() -> None:
    primary = a_message(id=1, message="x" * 20_000)
    second, last = a_message(id=2, message="x" * 7_000), a_message(id=3, message="x" * 5_000)
    assert ids(coalesce(primary, [second, last])) == [1, 2, 3]
    assert ids(coalesce(primary, [second, last._replace(message="x" * 5_001)])) == [1, 2]


def test_a_primary_over_the_limit_still_runs() -> None:
    primary = a_message(id=1, message="x" * 32_001)
    assert coalesce(primary, [a_message(id=2, message="")]) == (primary,)


def test_later_messages_do_not_overtake_a_message_that_does_not_fit() -> None:
    candidates = [a_message(id=2, message="x" * 32_000), a_message(id=3, message="short")]
    assert ids(coalesce(a_message(id=1), candidates)) == [1]


def test_a_message_that_does_not_fit_holds_back_only_its_thread() -> None:
    candidates = [a_message(id=2, message="x" * 32_000), a_message(id=3, thread="#dev"), a_message(id=4)]
    assert ids(coalesce(a_message(id=1), candidates)) == [1, 3]


@pytest.mark.parametrize("failed", [a_message(id=3, retry_count=2), a_message(id=3, last_error="exit code 1")])
def test_a_candidate_that_failed_before_holds_back_only_its_thread(failed: Message) -> None:
    candidates = [a_message(id=2), failed, a_message(id=4), a_message(id=5, thread="#dev")]
    assert ids(coalesce(a_message(id=1), candidates)) == [1, 2, 5]


@given(lanes())
def test_a_run_starts_with_its_primary_and_has_no_message_twice(lane: tuple[Message, list[Message]]) -> None:
    primary, candidates = lane
    chosen = coalesce(primary, candidates)
    assert chosen[0] == primary
    assert ids(chosen[1:]) == sorted(set(ids(chosen)) - {primary.id})
    assert set(chosen[1:]) <= set(candidates)


@given(lanes())
def test_a_run_keeps_its_limits(lane: tuple[Message, list[Message]]) -> None:
    chosen = coalesce(*lane)
    assert len(chosen) <= 20
    assert len(chosen) == 1 or sum(len(message.message) for message in chosen) <= 32_000
    assert len(chosen) == 1 or not any(message.failed_before for message in chosen)


@given(lanes())
def test_messages_of_a_thread_are_chosen_in_order_without_gaps(lane: tuple[Message, list[Message]]) -> None:
    primary, candidates = lane
    chosen = set(ids(coalesce(primary, candidates)))
    others = [candidate for candidate in candidates if candidate.id != primary.id]
    for waiting in by_thread(others).values():
        assert chosen.intersection(waiting) == set(takewhile(chosen.__contains__, waiting))


@given(st.lists(st.integers(min_value=2, max_value=200), unique=True, max_size=19))
def test_every_message_that_fits_is_chosen(numbers: list[int]) -> None:
    candidates = [a_message(id=number, thread=f"room:{number % 3}", message="x" * 1_500) for number in numbers]
    assert ids(coalesce(a_message(id=1), candidates)) == [1, *sorted(numbers)]
