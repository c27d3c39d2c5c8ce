"""Chat rooms: a line, and the message that brings it to each member."""

from collections.abc import Sequence
from typing import NamedTuple

from tinyagi.domain.batching import MAX_CHARACTERS
from tinyagi.domain.events import ChatPosted
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import PASSIVE_PRIORITY, ROOM_CHANNEL, ROOM_PRIORITY, Message, NewMessage, RoomPost
from tinyagi.domain.responses import ChatMessage
from tinyagi.store.sqlite.operations.enqueue import EnqueueRequest, Inflow, enqueue
from tinyagi.store.sqlite.transaction import Transaction


class PostRequest(NamedTuple):
    """A person's line and its deliveries."""

    post: RoomPost
    sender: str
    deliveries: tuple[NewMessage, ...]


class WithPosts(NamedTuple):
    """A person's message and the room lines that stand in it."""

    message: EnqueueRequest
    posts: tuple[PostRequest, ...]


def enqueue_with_posts(tx: Transaction, requests: Sequence[WithPosts]) -> list[tuple[Message, ...]]:
    """Both or neither: a message that is refused as repeated posts nothing twice."""
    stored = enqueue(tx, [request.message for request in requests])
    post(tx, [line for request in requests for line in request.posts])
    return stored


def post(tx: Transaction, requests: Sequence[PostRequest]) -> list[ChatMessage]:
    inflow = Inflow(tx)
    lines = [new_line(tx, request.post, request.sender) for request in requests]
    rows = []
    for line, request in zip(lines, requests, strict=True):
        rows.append((*line, tx.record_alone(ChatPosted(line._asdict()))))
        if request.deliveries:
            inflow.add_together(request.deliveries)
    tx.connection.executemany(tx.sql["insert_chat_message"], rows)
    inflow.write()
    return lines


def new_line(tx: Transaction, post: RoomPost, sender: str) -> ChatMessage:
    return ChatMessage(tx.next_id("chat_messages"), post.team, sender, post.message, tx.now)


def delivery(post: RoomPost, member: AgentId, sender: str) -> NewMessage:
    """The message that brings the line to one member."""
    # What is too long to fit beside others would wait for ever, and all that follows it in its room as well.
    waits = not post.wakes and len(post.prompt) <= MAX_CHARACTERS // 2
    return NewMessage(
        message=post.prompt,
        agent=member,
        channel=ROOM_CHANNEL,
        sender=sender,
        team=post.team,
        priority=PASSIVE_PRIORITY if waits else ROOM_PRIORITY,
    )
