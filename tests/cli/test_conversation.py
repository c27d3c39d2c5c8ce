"""Following a conversation whose stream is later than its store."""

from types import SimpleNamespace
from typing import Any, cast

from tinyagi.cli.conversation import Conversation, _Following
from tinyagi.cli.live import Silent
from tinyagi.client.client import Client
from tinyagi.client.stream import StreamEvent


class Finished:
    """A client of a daemon for which the conversation, a message and what it was handed on as, is over already."""

    def __init__(self) -> None:
        self.conversations = self
        self.asked = 0

    async def trace(self, _: str) -> SimpleNamespace:
        self.asked += 1
        handed_on = SimpleNamespace(message_id="second", children=())
        return SimpleNamespace(status="done", spans=(SimpleNamespace(message_id="first", children=(handed_on,)),))


def following(client: Finished) -> tuple[_Following, Conversation]:
    conversation = Conversation(id="first", message_ids=("first",))
    return _Following(cast("Client", client), conversation, Silent()), conversation


def event(kind: str, message_id: str | None = None, **data: Any) -> StreamEvent:
    told = {"messageId": message_id, "conversationId": "first", "agentId": "coder", **data}
    return StreamEvent(None, kind, told)


def answer(message_id: str) -> StreamEvent:
    return event("chain_step_done", message_id, responseText="done", responseLength=4)


async def test_answers_that_are_on_their_way_when_all_is_over_are_waited_for() -> None:
    follower, conversation = following(Finished())

    over = [
        await follower.take(one) for one in (answer("first"), event("message_received", "second"), answer("second"))
    ]

    assert over == [False, False, True]
    assert [one.message_id for one in conversation.answers] == ["first", "second"]
    assert conversation.status == "done"


async def test_what_was_missed_is_not_waited_for() -> None:
    client = Finished()
    follower, conversation = following(client)

    assert await follower.take(event("reset"))
    assert (conversation.answers, conversation.status, client.asked) == ([], "done", 1)
