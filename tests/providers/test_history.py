"""The history that is sent with a prompt."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.runs import a_request
from tinyagi.domain.responses import Role
from tinyagi.domain.runs import RunLimits, Turn
from tinyagi.providers.api_formats import conversation, estimated_tokens, newest_within


def user(text: str) -> Turn:
    return Turn(Role.USER, text)


def agent(text: str) -> Turn:
    return Turn(Role.ASSISTANT, text)


TURNS = st.lists(st.builds(Turn, st.sampled_from(Role), st.text(max_size=60)), max_size=12)


def test_the_newest_whole_turns_are_kept() -> None:
    turns = (user("a" * 400), agent("b" * 40), user("c" * 40), agent("d" * 40))
    assert newest_within(turns, 25) == (user("c" * 40), agent("d" * 40))


def test_a_turn_that_does_not_fit_ends_the_history() -> None:
    turns = (user("small"), agent("small"), user("x" * 4000), agent("ok"))
    assert newest_within(turns, 100) == ()


def test_a_budget_of_zero_sends_no_history() -> None:
    assert newest_within((user("a"), agent("b")), 0) == ()


def test_a_prompt_over_the_budget_is_sent() -> None:
    request = a_request(prompt="p" * 9000, turns=(user("a"), agent("b")), limits=RunLimits(history_tokens=1))
    assert conversation(request) == (user("p" * 9000),)


def test_a_question_without_an_answer_is_joined_to_the_prompt() -> None:
    request = a_request(prompt="now", turns=(user("one"), agent("two"), user("three")))
    assert conversation(request) == (user("one"), agent("two"), user("three\n\nnow"))


def test_empty_turns_are_left_out_before_the_cut() -> None:
    request = a_request(prompt="now", turns=(user(" "), agent("two"), user("three"), agent(""), user("four")))
    assert conversation(request) == (user("three\n\nfour\n\nnow"),)


@given(TURNS, st.integers(0, 60), st.text(max_size=20))
def test_turns_alternate_from_user_to_user_within_the_budget(turns: list[Turn], tokens: int, prompt: str) -> None:
    request = a_request(prompt=prompt, turns=tuple(turns), limits=RunLimits(history_tokens=tokens))
    said = conversation(request)
    assert [turn.role for turn in said] == [(Role.USER, Role.ASSISTANT)[place % 2] for place in range(len(said))]
    assert said[-1].role is Role.USER
    assert sum(estimated_tokens(turn.content) for turn in newest_within(turns, tokens)) <= tokens
    "".join(turn.content for turn in said).encode()
