"""Following a conversation whose stream lags behind its store."""

from types import SimpleNamespace
from typing import Any, cast

from tinyagi.api.daemon import LoggedEvent
from tinyagi.cli.live import QuietView
from tinyagi.client.client import AsyncClient
from tinyagi.client.conversation import ConversationResult, _Follower
from tinyagi.client.event_stream import StreamEvent


class Finished:
    """A client of a daemon in which the conversation, a message and its hand-off, is already done."""

    def __init__(self) -> None:
        self.conversations = self.queue = self
        self.asked = 0

    async def lanes(self) -> list[object]:
        return []

    async def trace(self, _: str) -> SimpleNamespace:
        self.asked += 1
        handed_on = SimpleNamespace(message_id="second", children=())
        return SimpleNamespace(status="done", spans=(SimpleNamespace(message_id="first", children=(handed_on,)),))

    async def event_log(self, **_: int) -> list[LoggedEvent]:
        return []


def following(client: Finished) -> tuple[_Follower, ConversationResult]:
    conversation = ConversationResult(id="first", message_ids=("first",))
    return _Follower(cast("AsyncClient", client), conversation, QuietView()), conversation


def event(kind: str, message_id: str | None = None, **data: Any) -> StreamEvent:
    fields = {"messageId": message_id, "conversationId": "first", "agentId": "coder", **data}
    return StreamEvent(None, kind, fields)


def done(message_id: str) -> StreamEvent:
    return event("chain_step_done", message_id, responseText="done", responseLength=4)


def response(message_id: str) -> StreamEvent:
    return event("response_ready", message_id, responseText="done", responseLength=4)


async def test_a_notice_is_not_counted_as_an_answer() -> None:
    follower, conversation = following(Finished())

    for one in (response("first"), done("first"), response("first"), response("first")):
        await follower.handle(one)

    assert [one.message_id for one in conversation.answers] == ["first"]


async def test_answers_still_in_the_stream_are_waited_for() -> None:
    follower, conversation = following(Finished())

    events = (
        *(done("first"), response("first"), event("message_received", "second")),
        *(done("second"), response("second")),
    )

    assert [await follower.handle(one) for one in events] == [False, False, False, False, True]
    assert [one.message_id for one in conversation.answers] == ["first", "second"]
    assert conversation.status == "done"


async def test_answers_lost_in_a_reset_are_not_waited_for() -> None:
    client = Finished()
    follower, conversation = following(client)

    assert await follower.handle(event("reset"))
    assert (conversation.answers, conversation.status, client.asked) == ([], "done", 1)
