"""What a provider without sessions is told again: the newest earlier turns that fit a budget, then the prompt."""

from collections.abc import Iterable, Sequence

from tinyagi.domain.responses import Role
from tinyagi.domain.sessions import Turn
from tinyagi.domain.texts import clean
from tinyagi.providers.base import RunRequest


def estimated_tokens(text: str) -> int:
    """A token is taken for four characters: right enough for a budget, and the same for every model."""
    return len(text) // 4 + 1


def newest_within(turns: Sequence[Turn], tokens: int) -> tuple[Turn, ...]:
    """Return the newest whole turns that fit together, oldest first, never beginning with the agent's own words."""
    start = len(turns)
    while start > 0 and (tokens := tokens - estimated_tokens(turns[start - 1].content)) >= 0:
        start -= 1
    while start < len(turns) and turns[start].role is Role.ASSISTANT:
        start += 1
    return tuple(turns[start:])


def alternating(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """Return the turns with neighbours of one role joined, as strict endpoints demand."""
    joined: list[Turn] = []
    for turn in turns:
        if joined and joined[-1].role is turn.role:
            joined[-1] = Turn(turn.role, f"{joined[-1].content}\n\n{turn.content}")
        else:
            joined.append(turn)
    return tuple(joined)


def conversation(request: RunRequest) -> tuple[Turn, ...]:
    """Return all that is said to the endpoint, oldest first; the last turn is the user's."""
    # Endpoints refuse empty turns; they go before the cut, which looks at the role of the first one left.
    earlier = newest_within([turn for turn in request.turns if turn.content.strip()], request.limits.history_tokens)
    said = alternating((*earlier, Turn(Role.USER, request.prompt)))
    return tuple(Turn(turn.role, clean(turn.content)) for turn in said)
