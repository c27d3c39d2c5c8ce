"""Messages through the Cloud API's channel, from a Graph server on loopback."""

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.channels.inbox import Inbox
from tests.channels.whatsapp.conftest import connected
from tests.channels.whatsapp.server import VERIFY_TOKEN, GraphServer
from tinyagi.channels.port import ChannelError, ChannelMessage, Part
from tinyagi.channels.whatsapp.manifest import MANIFEST
from tinyagi.domain.chats import Chat


async def posted(graph: GraphServer, body: bytes, signature: str | None = None) -> int:
    """Post once the channel listens; return the answer's status."""
    async with asyncio.timeout(10):
        while not (status := await graph.post(body, signature)):  # noqa: ASYNC110 - the channel is starting
            await asyncio.sleep(0.01)
    return status


async def content(message: ChannelMessage) -> bytes:
    return b"".join([chunk async for chunk in message.attachments[0].chunks()])


async def test_a_text_arrives_with_its_sender(graph: GraphServer, tmp_path: Path, inbox: Inbox) -> None:
    async with connected(graph, tmp_path, inbox):
        message_id = await graph.write("hello", person="393331", name="Ada\nLovelace")
        message = await inbox.next()

    assert message == ChannelMessage(message_id, Chat("393331"), "Ada Lovelace", "hello")
    assert len(message.id) <= 90


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"type": "button", "button": {"text": "Yes", "payload": "y"}}, "Yes"),
        ({"type": "interactive", "interactive": {"type": "button_reply", "button_reply": {"title": "Go"}}}, "Go"),
        (
            {"type": "interactive", "interactive": {"list_reply": {"id": "1", "title": "A", "description": "first"}}},
            "A\nfirst",
        ),
        ({"type": "interactive", "interactive": {"nfm_reply": {"response_json": '{"a": 1}'}}}, '{"a": 1}'),
        (
            {"type": "location", "location": {"latitude": 1.5, "longitude": -2, "name": "Home"}},
            "[location: Home; 1.500000, -2.000000]",
        ),
        (
            {"type": "contacts", "contacts": [{"name": {"formatted_name": "Bo"}, "phones": [{"phone": "+39"}]}]},
            "[contact: Bo, +39]",
        ),
        ({"type": "poll", "poll": {}}, "[a message of the kind 'poll', which cannot be shown here]"),
        ({"type": "unsupported", "errors": [{"code": 131051}]}, "[a message of the kind 'unsupported', which"),
    ],
)
async def test_each_kind_of_message_arrives_as_text(
    graph: GraphServer, tmp_path: Path, inbox: Inbox, message: dict[str, object], text: str
) -> None:
    async with connected(graph, tmp_path, inbox):
        graph.tell(message)
        received = await inbox.next()

    assert received.text.startswith(text)
    assert received.attachments == ()


@pytest.mark.parametrize(
    ("kind", "media", "name"),
    [
        ("image", {"mime_type": "image/jpeg", "caption": "see"}, "image_1001.jpg"),
        ("document", {"mime_type": "application/pdf", "filename": "Q3.pdf", "caption": "see"}, "Q3.pdf"),
        ("audio", {"mime_type": "audio/mpeg"}, "audio_1001.mp3"),
        ("audio", {"mime_type": "audio/ogg; codecs=opus", "voice": True}, "voice_1001.ogg"),
        ("video", {"mime_type": "video/mp4", "caption": "see"}, "video_1001.mp4"),
        ("sticker", {"mime_type": "image/webp", "animated": False}, "sticker_1001.webp"),
    ],
)
async def test_each_kind_of_file_arrives_and_is_fetched_only_when_read(
    graph: GraphServer, tmp_path: Path, inbox: Inbox, kind: str, media: dict[str, object], name: str
) -> None:
    async with connected(graph, tmp_path, inbox):
        media_id = graph.keep("", str(media["mime_type"]), b"\x00\xff" * 100_000)
        graph.tell({"type": kind, kind: {"id": media_id, **media}})
        message = await inbox.next()
        name = name.replace("1001", media_id)

        assert (message.text, [attachment.name for attachment in message.attachments]) == (
            media.get("caption", ""),
            [name],
        )
        assert graph.downloads == 0
        assert await content(message) == b"\x00\xff" * 100_000
        assert graph.downloads == 1


async def test_a_file_above_the_limit_is_not_fetched(graph: GraphServer, tmp_path: Path, inbox: Inbox) -> None:
    graph.announced_size = MANIFEST.receive_limit + 1
    async with connected(graph, tmp_path, inbox):
        await graph.write("", files=[("a.bin", b"x")])
        with pytest.raises(ChannelError, match="larger than 100 MB"):
            await content(await inbox.next())

    assert graph.downloads == 0


async def test_a_file_that_is_larger_than_announced_is_cut_off(
    graph: GraphServer, tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.announced_size = 1
    async with connected(graph, tmp_path, inbox) as channel:
        await graph.write("", files=[("a.bin", b"x" * 200_000)])
        await inbox.next()
        media = graph.keep("a.bin", "text/plain", b"x" * 200_000)
        with pytest.raises(ChannelError, match="larger than"):
            async for _ in channel._graph.download(media, 100_000):
                pass


async def test_a_file_that_is_gone_is_a_sentence(graph: GraphServer, tmp_path: Path, inbox: Inbox) -> None:
    async with connected(graph, tmp_path, inbox):
        for media in ("404", "../../me"):
            graph.tell({"type": "image", "image": {"id": media, "mime_type": "image/png"}})
            with pytest.raises(ChannelError, match=r"does not exist|not one"):
                await content(await inbox.next())


async def test_several_messages_of_one_post_arrive_in_order(graph: GraphServer, tmp_path: Path, inbox: Inbox) -> None:
    people = [("7", "Ada"), ("8", "Bo")]
    messages: list[dict[str, object]] = [
        {"from": person, "id": graph.new_wamid(), "type": "text", "text": {"body": f"{person} {number}"}}
        for number in range(3)
        for person, _ in people
    ]
    async with connected(graph, tmp_path, inbox):
        ids = graph.tell_all(messages, people)
        received = [await inbox.next() for _ in ids]

    assert {message.id for message in received} == set(ids)
    for person, name in people:
        own = [message for message in received if message.chat.person == person]
        assert [message.text for message in own] == [f"{person} {number}" for number in range(3)]
        assert {message.name for message in own} == {name}


async def test_a_post_is_confirmed_only_after_all_its_messages(
    graph: GraphServer, tmp_path: Path, inbox: Inbox
) -> None:
    held = Inbox()
    held.is_open.clear()
    async with connected(graph, tmp_path, held):
        message_id = await graph.write("important")
        await held.next()
        assert 200 not in graph.statuses

    async with connected(graph, tmp_path, inbox):
        assert (await inbox.next()).id == message_id
    assert held.messages == []


async def test_a_repeated_message_has_the_same_id(graph: GraphServer, tmp_path: Path, inbox: Inbox) -> None:
    async with connected(graph, tmp_path, inbox):
        message_id = await graph.write("once")
        first = await inbox.next()
        await graph.repeat(message_id)
        assert await inbox.next() == first


async def test_a_waiting_chat_does_not_hold_back_others(graph: GraphServer, tmp_path: Path, inbox: Inbox) -> None:
    inbox.is_open.clear()
    async with connected(graph, tmp_path, inbox):
        await graph.write("1", person="7")
        await inbox.next()
        await graph.write("2", person="8")
        assert (await inbox.next()).chat.person == "8"


async def test_reactions_groups_other_numbers_and_strange_posts_are_left_out(
    graph: GraphServer, tmp_path: Path, inbox: Inbox
) -> None:
    text = {"from": "7", "type": "text", "text": {"body": "x"}}
    posts = [
        graph.post_of({"messages": [{**text, "id": "wamid.QQ==", "type": "reaction", "reaction": {"emoji": "👍"}}]}),
        graph.post_of({"messages": [{**text, "id": "wamid.QQ==", "group_id": "G"}]}),
        graph.post_of({"messages": [{**text, "id": "wamid.QQ=="}]}, number="1"),
        graph.post_of({"messages": [{"id": 1}, {**text, "id": "wamid.QQ==", "from": "a#b"}, {**text, "id": ""}]}),
        graph.post_of({"statuses": [{"status": "delivered"}, {"status": 7}, {}]}),
        b'{"entry": [{"changes": [{"field": "account_update", "value": 7}]}]}',
        b"{}",
    ]
    async with connected(graph, tmp_path, inbox):
        assert [await posted(graph, body) for body in posts] == [200] * len(posts)
        assert await posted(graph, b'{"entry": 7}') == 400
        assert await posted(graph, b"\xff") == 400

    assert inbox.is_empty


async def test_a_wrong_signature_is_refused(
    graph: GraphServer, tmp_path: Path, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(graph, tmp_path, inbox):
        for signature in ("", "sha256=00", "sha1=abc", "é"):
            assert await posted(graph, graph.post_of({}), signature) == 401

    assert "Check app_secret" in caplog.text


async def test_the_challenge_is_answered_for_the_verify_token_only(
    graph: GraphServer, tmp_path: Path, inbox: Inbox
) -> None:
    query = {"hub.mode": "subscribe", "hub.verify_token": VERIFY_TOKEN, "hub.challenge": "1158201444"}
    async with connected(graph, tmp_path, inbox), httpx.AsyncClient(trust_env=False) as client:
        await posted(graph, graph.post_of({}))
        right = await client.get(graph.webhook, params=query)
        wrong = await client.get(graph.webhook, params={**query, "hub.verify_token": "ü"})
        other = await client.get(graph.webhook)

    assert (right.status_code, right.text) == (200, "1158201444")
    assert (wrong.status_code, other.status_code) == (403, 403)


async def test_a_failed_delivery_is_logged_with_its_reason(
    graph: GraphServer, tmp_path: Path, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    late = {"id": "wamid.X", "status": "failed", "errors": [{"code": 131047, "title": "Re-engagement message"}]}
    other = {"status": "failed", "errors": [{"code": 5, "title": "Odd", "error_data": {"details": "An odd\nreason"}}]}
    async with connected(graph, tmp_path, inbox):
        await posted(graph, graph.post_of({"statuses": [late, other, {"status": "failed"}]}))

    assert "wrote more than 24 hours ago" in caplog.text
    assert "An odd reason (5)" in caplog.text


async def test_a_person_with_a_username_is_answered_by_their_id(
    graph: GraphServer, tmp_path: Path, inbox: Inbox
) -> None:
    message: dict[str, object] = {
        "from_user_id": "IT.39",
        "id": graph.new_wamid(),
        "type": "text",
        "text": {"body": "x"},
    }
    body = graph.post_of({"contacts": [{"user_id": "IT.39", "profile": {"name": "Bo"}}], "messages": [message]})
    async with connected(graph, tmp_path, inbox) as channel:
        asking = asyncio.create_task(posted(graph, body))
        received = await inbox.next()
        await asking
        await channel.send(Part(received.chat, "hi", "k"))

    assert (received.chat, received.name) == (Chat("IT.39"), "Bo")
    assert graph.sent[0]["recipient"] == "IT.39"
    assert "to" not in graph.sent[0]
