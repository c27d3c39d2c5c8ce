"""Answers through the Cloud API's channel, to a Graph server on loopback."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from tests.channels.inbox import Inbox
from tests.channels.loopback import serving
from tests.channels.whatsapp.conftest import connected
from tests.channels.whatsapp.server import NUMBER, TOKEN, GraphServer, Refusal
from tests.support.ports import free_port
from tinyagi.channels.port import ChannelError, DeliveryError, FilePart, NotSetUp, Part
from tinyagi.channels.whatsapp.cloud import CloudChannel
from tinyagi.channels.whatsapp.manifest import MANIFEST
from tinyagi.domain.chats import Chat

ADA = Chat("7")


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
        ({"access_token": "EAAwrong"}, NotSetUp, "set access_token"),
        ({"phone_number_id": "404"}, NotSetUp, "phone_number_id"),
        ({"api_url": "http://127.0.0.1:{free}"}, ChannelError, "cannot be reached"),
        ({"api_url": "http://127.0.0.1:{port}/other"}, NotSetUp, "phone_number_id"),
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

    assert not isinstance(caught.value, NotSetUp)


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
    with pytest.raises(NotSetUp, match=sentence):
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
