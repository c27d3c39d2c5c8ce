"""The Cloud API's channel against a Graph server on loopback."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from tests.channels.inbox import Inbox, receiving
from tests.channels.loopback import free_port, serving
from tests.channels.whatsapp.server import NUMBER, TOKEN, VERIFY_TOKEN, GraphServer, Refusal, running
from tinyagi.channels.chat import Chat
from tinyagi.channels.port import ChannelError, ChannelMessage, DeliveryError, FilePart, NotConfigured, Part
from tinyagi.channels.whatsapp.cloud import CloudChannel
from tinyagi.channels.whatsapp.manifest import MANIFEST

ADA = Chat("7")


@pytest.fixture
async def graph() -> AsyncIterator[GraphServer]:
    async with running() as server:
        yield server


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@contextlib.asynccontextmanager
async def connected(graph: GraphServer, state: Path, inbox: Inbox) -> AsyncIterator[CloudChannel]:
    channel = CloudChannel(graph.settings, state)
    async with receiving(channel, inbox):
        yield channel


async def posted(graph: GraphServer, body: bytes, signature: str | None = None) -> int:
    """Post once the channel listens; return the answer's status."""
    async with asyncio.timeout(10):
        while not (status := await graph.post(body, signature)):  # noqa: ASYNC110 - the channel is starting
            await asyncio.sleep(0.01)
    return status


async def content(message: ChannelMessage) -> bytes:
    return b"".join([chunk async for chunk in message.attachments[0].chunks()])


# Messages in


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


# Answers out


async def test_an_answer_is_formatted_and_quotes_the_message(graph: GraphServer, tmp_path: Path, inbox: Inbox) -> None:
    wamid = graph.new_wamid()
    async with connected(graph, tmp_path, inbox) as channel:
        graph.tell_all([{"from": "7", "id": wamid, "type": "text", "text": {"body": "x"}}], [("7", "Ada")])
        message = await inbox.next()
        sent = await channel.send(Part(message.chat, "**Done**: [log](https://a.b)", "k", reply_to=message.id))

    assert graph.deliveries[0].sent == sent
    assert graph.sent == [
        {
            "messaging_product": "whatsapp",
            "recipient_type": "individual",
            "to": "7",
            "context": {"message_id": wamid},
            "type": "text",
            "text": {"body": "*Done*: log (https://a.b)", "preview_url": False},
        }
    ]


@pytest.mark.parametrize("wamid", ["wamid." + "QUJD" * 40, "ABGGFlA5Fpa", "wamid.not base64 é"])
async def test_a_long_or_strange_id_is_quoted_while_the_channel_runs(
    graph: GraphServer, tmp_path: Path, inbox: Inbox, wamid: str
) -> None:
    async with connected(graph, tmp_path, inbox) as channel:
        graph.tell_all([{"from": "7", "id": wamid, "type": "text", "text": {"body": "x"}}], [("7", "Ada")])
        message = await inbox.next()
        await channel.send(Part(message.chat, "a", "k1", reply_to=message.id))
        await channel.send(Part(message.chat, "b", "k2", reply_to="h.unknown"))

    assert len(message.id) <= 90
    assert graph.sent[0]["context"] == {"message_id": wamid}
    assert "context" not in graph.sent[1]


async def test_a_text_at_the_limit_and_hostile_texts_are_delivered(
    graph: GraphServer, tmp_path: Path, inbox: Inbox
) -> None:
    texts = ["**" + "x" * (MANIFEST.text_limit - 4) + "**", "😀" * MANIFEST.text_limit, "\u202e<b>\x1b[0m", "# "]
    async with connected(graph, tmp_path, inbox) as channel:
        for number, text in enumerate(texts):
            await channel.send(Part(ADA, text, str(number)))

    assert [delivered.text for delivered in graph.deliveries] == ["*" + "x" * 4_092 + "*", *texts[1:]]


@pytest.mark.parametrize(
    ("name", "body", "kind", "media_type"),
    [
        ("chart.png", b"\x89PNG\x00", "image", "image/png"),
        ("talk.mp3", b"ID3\x00", "audio", "audio/mpeg"),
        ("clip.mp4", b"\x00", "video", "video/mp4"),
        ("report.pdf", b"%PDF\x00", "document", "application/pdf"),
        ("notes ü.md", "# Ü".encode(), "document", "text/plain"),
        ("data", b"a,b\n" * 40_000, "document", "text/plain"),
    ],
)
async def test_a_file_is_uploaded_and_sent_by_its_id(
    graph: GraphServer, tmp_path: Path, inbox: Inbox, name: str, body: bytes, kind: str, media_type: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(body)
    async with connected(graph, tmp_path, inbox) as channel:
        await channel.send_file(FilePart(ADA, path, name, "k"))

    (sent,) = graph.sent
    media = sent[kind]
    assert isinstance(media, dict)
    assert sent["type"] == kind
    assert media.get("filename") == (name if kind == "document" else None)
    assert graph.content_of(media["id"]) == (name, media_type, body)
    assert graph.deliveries[0].files == (name,)


async def test_a_file_that_whatsapp_does_not_take_is_final(graph: GraphServer, tmp_path: Path, inbox: Inbox) -> None:
    binary, large = tmp_path / "a.zip", tmp_path / "large.png"
    binary.write_bytes(b"PK\x00\x01")
    with large.open("wb") as file:
        file.truncate(5_000_001)
    async with connected(graph, tmp_path, inbox) as channel:
        for path, reason in ((binary, "no file like"), (large, "takes 5 MB as image"), (tmp_path / "no", "be read")):
            with pytest.raises(DeliveryError, match=reason) as caught:
                await channel.send_file(FilePart(ADA, path, path.name, "k"))
            assert caught.value.is_final

    assert graph.sent == []


async def test_typing_is_shown_by_the_last_message_of_the_chat(
    graph: GraphServer, tmp_path: Path, inbox: Inbox
) -> None:
    first, second = graph.new_wamid(), graph.new_wamid()
    async with connected(graph, tmp_path, inbox) as channel:
        await channel.show_typing(ADA)
        for wamid in (first, second):
            graph.tell_all([{"from": "7", "id": wamid, "type": "text", "text": {"body": "x"}}], [("7", "Ada")])
            await inbox.next()
        await channel.show_typing(ADA)
        graph.fail_every(1)
        await channel.show_typing(ADA)

    assert graph.typing == [second]


# Errors


@pytest.mark.parametrize(
    ("refusal", "sentence", "retry_after", "is_final"),
    [
        (Refusal(429, 130429, headers={"retry-after": "7"}), "limits", 7.0, False),
        (Refusal(400, 80007), "limits", 300.0, False),
        (Refusal(400, 131056), "limits", 10.0, False),
        (Refusal(429, -1), "limits", 30.0, False),
        (
            Refusal(400, 80007, headers={"X-Business-Use-Case-Usage": '{"1":[{"estimated_time_to_regain_access":2}]}'}),
            "limits",
            120.0,
            False,
        ),
        (Refusal(400, 80007, headers={"X-Business-Use-Case-Usage": "odd"}), "limits", 300.0, False),
        (Refusal(400, 131047), "24 hours", None, True),
        (Refusal(400, 131026), "has blocked the business", None, True),
        (Refusal(400, 131030), "allowed recipients", None, True),
        (Refusal(400, 100, "Param text is odd"), "refuses this message: Param text is odd", None, True),
        (Refusal(401, 190, f"Malformed access token {TOKEN}"), "set access_token", None, False),
        (Refusal(403, 10), "whatsapp_business_messaging", None, False),
        (Refusal(400, 131031), "locked the business account", None, False),
        (Refusal(500, 131000, f"Odd {TOKEN}"), "answered 500: no reason given", None, False),
        (Refusal(503, 2, "Service temporarily unavailable"), "Service temporarily unavailable", None, False),
    ],
)
async def test_a_refused_answer_is_a_sentence(
    graph: GraphServer,
    tmp_path: Path,
    inbox: Inbox,
    refusal: Refusal,
    sentence: str,
    retry_after: float | None,
    is_final: bool,
) -> None:
    graph.refuse_next(refusal)
    async with connected(graph, tmp_path, inbox) as channel:
        with pytest.raises(DeliveryError, match=sentence) as caught:
            await channel.send(Part(ADA, "text", "k"))
        await channel.send(Part(ADA, "again", "k"))

    assert (caught.value.retry_after, caught.value.is_final) == (retry_after, is_final)
    assert TOKEN not in str(caught.value)
    assert [delivered.text for delivered in graph.deliveries] == ["again"]


async def test_server_errors_and_limits_pass(graph: GraphServer, tmp_path: Path, inbox: Inbox) -> None:
    async with connected(graph, tmp_path, inbox) as channel:
        graph.fail_every(2)
        await channel.send(Part(ADA, "one", "k1"))
        with pytest.raises(DeliveryError):
            await channel.send(Part(ADA, "two", "k2"))
        graph.fail_every(0)
        graph.limit_next(3)
        with pytest.raises(DeliveryError) as caught:
            await channel.send(Part(ADA, "two", "k2"))

    assert caught.value.retry_after == 3
    assert [delivered.text for delivered in graph.deliveries] == ["one"]


@pytest.mark.parametrize(
    ("changed", "error", "sentence"),
    [
        ({"access_token": "EAAwrong"}, NotConfigured, "set access_token"),
        ({"phone_number_id": "404"}, NotConfigured, "phone_number_id"),
        ({"api_url": "http://127.0.0.1:{free}"}, ChannelError, "cannot be reached"),
        ({"api_url": "http://127.0.0.1:{port}/other"}, NotConfigured, "phone_number_id"),
    ],
)
async def test_a_refused_start_names_the_remedy(
    graph: GraphServer, tmp_path: Path, changed: Mapping[str, str], error: type[ChannelError], sentence: str
) -> None:
    port = graph.settings["api_url"].split(":")[2].split("/")[0]
    changed = {name: value.format(free=free_port(), port=port) for name, value in changed.items()}
    channel = CloudChannel({**graph.settings, **changed}, tmp_path)
    with pytest.raises(error, match=sentence) as caught:
        await channel.connect()
    await channel.close()

    assert "EAAwrong" not in str(caught.value)


async def test_a_failing_server_is_no_wrong_setting(graph: GraphServer, tmp_path: Path) -> None:
    graph.fail_every(1)
    channel = CloudChannel(graph.settings, tmp_path)
    with pytest.raises(ChannelError, match="answered 500") as caught:
        await channel.connect()
    await channel.close()

    assert not isinstance(caught.value, NotConfigured)


async def test_the_account_is_the_name_and_number(graph: GraphServer, tmp_path: Path) -> None:
    channel = CloudChannel(graph.settings, tmp_path)
    assert await channel.connect() == "Nova +1 555 0001"
    await channel.close()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"app_secret": "", "verify_token": ""}, "needs app_secret, verify_token"),
        ({"phone_number_id": "+1 555"}, "digits only"),
        ({"access_token": "EAA\n"}, "Copy it again"),
        ({"listen_port": "x"}, "listen_port"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_remedy(changed: Mapping[str, str], sentence: str, tmp_path: Path) -> None:
    settings = {"phone_number_id": NUMBER, "access_token": TOKEN, "app_secret": "s", "verify_token": "v"}
    with pytest.raises(NotConfigured, match=sentence):
        CloudChannel({**settings, **changed}, tmp_path)


async def test_a_strange_answer_of_the_api_is_a_sentence(graph: GraphServer, tmp_path: Path) -> None:
    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("<html>")(scope, receive, send)

    port = free_port()
    channel = CloudChannel({**graph.settings, "api_url": f"http://127.0.0.1:{port}"}, tmp_path)
    async with serving(page, port):
        with pytest.raises(ChannelError, match="Check api_url"):
            await channel.connect()
        with pytest.raises(DeliveryError, match="Check api_url"):
            await channel.send(Part(ADA, "text", "k"))
    await channel.close()


def test_the_posts_of_the_fake_are_those_of_meta() -> None:
    body = json.loads(GraphServer().post_of({"messages": []}))
    assert body["object"] == "whatsapp_business_account"
    assert body["entry"][0]["changes"][0]["value"]["metadata"]["phone_number_id"] == NUMBER
