"""Loop brakes: each limit fires when it is passed and not before, and the notice names agents and reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.domain.limits import Brake, Brakes, loop_notice

BRAKES = Brakes(hops=3, conversation=5, per_minute=2)


def refuse(hop: int = 1, total: int = 1, recent: int = 0) -> Brake | None:
    return BRAKES.refuse(to="tester", hop=hop, total=total, recent=recent)


def test_the_default_limits() -> None:
    assert Brakes() == Brakes(hops=10, conversation=50, per_minute=30)


@pytest.mark.parametrize(("hop", "stopped"), [(1, False), (3, False), (4, True)])
def test_the_hop_limit_allows_that_many_hand_offs_in_a_row(hop: int, stopped: bool) -> None:
    assert (refuse(hop=hop) is not None) is stopped


@pytest.mark.parametrize(("total", "stopped"), [(4, False), (5, True), (6, True)])
def test_a_conversation_takes_as_many_messages_as_its_limit(total: int, stopped: bool) -> None:
    assert (refuse(total=total) is not None) is stopped


@pytest.mark.parametrize(("recent", "stopped"), [(1, False), (2, True), (9, True)])
def test_a_lane_takes_as_many_messages_from_agents_as_its_limit(recent: int, stopped: bool) -> None:
    assert (refuse(recent=recent) is not None) is stopped


@pytest.mark.parametrize(
    ("facts", "limit", "words"),
    [
        ({"hop": 4}, 3, "3 hand-offs in a row"),
        ({"total": 5}, 5, "5 messages in one conversation"),
        ({"recent": 2}, 2, "2 messages from agents to @tester"),
    ],
)
def test_a_brake_names_its_limit(facts: dict[str, int], limit: int, words: str) -> None:
    brake = refuse(**facts)
    assert brake is not None
    assert brake.limit == limit
    assert words in brake.reason


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_a_message_is_refused_exactly_when_it_exceeds_a_limit(hop: int, total: int, recent: int) -> None:
    assert (refuse(hop, total, recent) is None) is (hop <= 3 and total < 5 and recent < 2)


def test_the_notice_names_the_sender_each_receiver_once_and_the_reason() -> None:
    text = loop_notice("coder", ("tester", "writer", "tester"), Brake("more than 3 hand-offs in a row", 3))

    assert text.startswith("@coder ")
    assert text.count("@tester") == text.count("@writer") == 1
    assert "more than 3 hand-offs in a row" in text
