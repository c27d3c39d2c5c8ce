"""The webhook channel against another system on loopback, which signs and checks by its own code."""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
import pytest

from tests.channels.inbox import Inbox, receiving
from tests.channels.webhook.server import KEY, SECRET, WebhookSystem, running, signature
from tests.support.ports import free_port
from tinyagi.channels.port import ChannelMessage, DeliveryError, FilePart, NotSetUp, Part
from tinyagi.channels.webhook.channel import WebhookChannel
from tinyagi.channels.webhook.manifest import MANIFEST
from tinyagi.domain.chats import Chat

ADA = Chat("7")


@pytest.fixture
async def system() -> AsyncIterator[WebhookSystem]:
    async with running() as started:
        yield started


@contextlib.asynccontextmanager
async def connected(settings: Mapping[str, str], state: Path, inbox: Inbox) -> AsyncIterator[WebhookChannel]:
    channel = WebhookChannel(settings, state)
    async with receiving(channel, inbox):
        yield channel


async def taken(system: WebhookSystem, message: str) -> None:
    async with asyncio.timeout(10), system.taken:
        await system.taken.wait_for(lambda: system.answers.get(message) == 200)


async def post(
    system: WebhookSystem,
    body: bytes,
    *,
    message: str = "msg_x",
    key: bytes = KEY,
    age: int = 0,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    timestamp = str(int(time.time()) - age)
    signed = {
        "webhook-id": message,
        "webhook-timestamp": timestamp,
        "webhook-signature": signature(key, message, timestamp, body),
    }
    async with asyncio.timeout(10), httpx.AsyncClient(trust_env=False) as client:
        while True:
            try:
                return await client.post(system.address, content=body, headers={**signed, **(headers or {})})
            except httpx.ConnectError:
                await asyncio.sleep(0.01)  # The channel is starting.


async def test_a_text_arrives_with_its_sender(system: WebhookSystem, tmp_path: Path) -> None:
    inbox = Inbox()
    async with connected(system.settings, tmp_path, inbox):
        message_id = await system.write("hello", person="42", name="Ada\n Lovelace", place="ops")
        message = await inbox.next()
        await taken(system, message_id)

    assert message == ChannelMessage(message_id, Chat("42", "ops"), "Ada Lovelace", "hello")


async def test_a_file_arrives_with_its_content(system: WebhookSystem, tmp_path: Path) -> None:
    inbox = Inbox()
    async with connected(system.settings, tmp_path, inbox):
        await system.write("", files=[("a.bin", bytes(range(256)) * 4_000), ("b.txt", b"")])
        message = await inbox.next()

    first, second = message.attachments
    assert (first.name, first.size) == ("a.bin", 1_024_000)
    assert b"".join([chunk async for chunk in first.chunks()]) == bytes(range(256)) * 4_000
    assert (second.name, second.size) == ("b.txt", 0)


async def test_a_message_is_confirmed_only_after_it_was_received(system: WebhookSystem, tmp_path: Path) -> None:
    held, inbox = Inbox(), Inbox()
    held.is_open.clear()
    async with connected(system.settings, tmp_path, held):
        message_id = await system.write("important")
        await held.next()

        assert message_id not in system.answers

    async with connected(system.settings, tmp_path, inbox):
        assert (await inbox.next()).id == message_id
        await taken(system, message_id)

    assert held.messages == []


async def test_a_repeated_message_has_the_same_id(system: WebhookSystem, tmp_path: Path) -> None:
    inbox = Inbox()
    async with connected(system.settings, tmp_path, inbox):
        message_id = await system.write("once")
        first = await inbox.next()
        await system.repeat(message_id)
        second = await inbox.next()

    assert first == second
    assert first.id == message_id


async def test_a_waiting_chat_does_not_hold_back_others(system: WebhookSystem, tmp_path: Path) -> None:
    inbox = Inbox()
    inbox.is_open.clear()
    async with connected(system.settings, tmp_path, inbox):
        await system.write("1", person="ada")
        assert (await inbox.next()).chat.person == "ada"
        await system.write("2", person="bob")
        assert (await inbox.next()).chat.person == "bob"


async def test_messages_of_one_chat_are_received_one_after_another(system: WebhookSystem, tmp_path: Path) -> None:
    inbox = Inbox()
    inbox.is_open.clear()
    body = b'{"sender_id": "7", "text": "x"}'
    async with connected(system.settings, tmp_path, inbox):
        first = asyncio.create_task(post(system, body, message="msg_1"))
        assert (await inbox.next()).id == "msg_1"
        second = asyncio.create_task(post(system, body, message="msg_2"))
        other = await post(system, b"{}", message="msg_3")
        assert other.status_code == 400
        assert inbox.is_empty
        inbox.is_open.set()
        assert (await inbox.next()).id == "msg_2"
        assert [(await first).json(), (await second).json()] == [{"id": "msg_1"}, {"id": "msg_2"}]


@pytest.mark.parametrize(
    ("given", "status", "sentence"),
    [
        ({"key": b"x" * 32}, 401, "signature is wrong"),
        ({"age": 301}, 401, "five minutes"),
        ({"age": -301}, 401, "five minutes"),
        ({"headers": {"webhook-signature": ""}}, 401, "are needed"),
        ({"headers": {"webhook-signature": "v1,é".encode()}}, 401, "signature is wrong"),
        ({"headers": {"webhook-timestamp": "soon"}}, 401, "not a number"),
        ({"headers": {"webhook-id": "msg_y"}}, 401, "signature is wrong"),
    ],
)
async def test_a_badly_signed_message_is_refused(
    system: WebhookSystem, tmp_path: Path, given: Mapping[str, object], status: int, sentence: str
) -> None:
    inbox = Inbox()
    async with connected(system.settings, tmp_path, inbox):
        answer = await post(system, b'{"sender_id": "7", "text": "x"}', **given)  # type: ignore[arg-type]

    assert (answer.status_code, sentence in answer.text) == (status, True)
    assert inbox.messages == []


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"hello", "The body is not a message"),
        (b'{"text": "x"}', "sender_id"),
        (b'{"sender_id": 7, "text": "x"}', "sender_id"),
        (b'{"sender_id": "", "text": "x"}', "1 to 100"),
        (b'{"sender_id": "a#b", "text": "x"}', "without #"),
        (b'{"sender_id": "a\\nb", "text": "x"}', "printable"),
        (b'{"sender_id": "a", "place": "b\\nc", "text": "x"}', "place"),
        (b'{"sender_id": "a", "text": " "}', "no text"),
        (b'{"sender_id": "a", "files": [{"name": "a", "base64": "%"}]}', "not in base64"),
        (b'{"sender_id": "a", "text": "\xff"}', "The body is not a message"),
        (b'{"sender_id": "a", "text": "\\ud800"}', "The body is not a message"),
    ],
)
async def test_a_malformed_message_gets_a_sentence(
    system: WebhookSystem, tmp_path: Path, body: bytes, sentence: str
) -> None:
    inbox = Inbox()
    async with connected(system.settings, tmp_path, inbox):
        answer = await post(system, body)

    assert answer.status_code == 400
    assert sentence in answer.text
    assert inbox.messages == []


async def test_any_webhook_id_becomes_an_id_of_a_message(system: WebhookSystem, tmp_path: Path) -> None:
    inbox, body = Inbox(), b'{"sender_id": "a", "text": "x", "from_bot": true}'
    async with connected(system.settings, tmp_path, inbox):
        for webhook_id in ("a" * 200, "a/b c"):
            assert (await post(system, body, message=webhook_id)).status_code == 200
            message = await inbox.next()
            assert len(message.id) == 64
            assert message.is_from_bot


async def test_a_second_secret_is_accepted_and_both_sign(system: WebhookSystem, tmp_path: Path) -> None:
    inbox, new = Inbox(), b"n" * 24
    both = f"whsec_{base64.b64encode(new).decode()} {SECRET}"
    async with connected({**system.settings, "secret": both}, tmp_path, inbox) as channel:
        for key in (KEY, new):
            assert (await post(system, b'{"sender_id": "a", "text": "x"}', key=key)).status_code == 200
        await channel.send(Part(ADA, "still readable with the old secret", "k1"))

    assert [delivered.text for delivered in system.deliveries] == ["still readable with the old secret"]


async def test_an_answer_is_posted_once_for_a_key(system: WebhookSystem, tmp_path: Path) -> None:
    inbox = Inbox()
    async with connected(system.settings, tmp_path, inbox) as channel:
        part = Part(Chat("7", "ops"), "**done**", "resp-1.0", reply_to="msg_1")
        assert await channel.send(part) == await channel.send(part) == "resp-1.0"

    assert system.posts == [
        {"type": "answer", "sender_id": "7", "place": "ops", "text": "**done**", "reply_to": "msg_1", "files": []}
    ]


async def test_a_file_is_posted_in_base64(system: WebhookSystem, tmp_path: Path) -> None:
    inbox, path = Inbox(), tmp_path / "report.md"
    path.write_bytes(b"# Report\n")
    async with connected(system.settings, tmp_path, inbox) as channel:
        await channel.send_file(FilePart(ADA, path, "Bericht ü.md", "a key with ü"))

    (sent,) = system.posts
    assert sent["type"] == "file"
    assert sent["files"] == [{"name": "Bericht ü.md", "base64": base64.b64encode(b"# Report\n").decode()}]


async def test_a_file_above_the_limit_and_a_missing_file_are_final(system: WebhookSystem, tmp_path: Path) -> None:
    inbox, path = Inbox(), tmp_path / "large"
    path.write_bytes(b"x" * (MANIFEST.send_limit + 1))
    async with connected(system.settings, tmp_path, inbox) as channel:
        for missing in (path, tmp_path / "gone"):
            with pytest.raises(DeliveryError, match=r"too large|cannot be read") as caught:
                await channel.send_file(FilePart(ADA, missing, "a.bin", "k"))
            assert caught.value.is_final


@pytest.mark.parametrize(
    ("status", "headers", "retry_after", "is_final"),
    [
        (429, {"retry-after": "7"}, 7.0, False),
        (503, {"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0, False),
        (503, {"retry-after": "soon"}, None, False),
        (500, {}, None, False),
        (401, {}, None, False),
        (404, {}, None, False),
        (302, {"location": "http://127.0.0.1:9/"}, None, False),
        (410, {}, None, True),
    ],
)
async def test_a_refused_answer_tells_when_to_try_again(
    system: WebhookSystem,
    tmp_path: Path,
    status: int,
    headers: Mapping[str, str],
    retry_after: float | None,
    is_final: bool,
) -> None:
    system.refuse_with = (status, headers)
    async with connected(system.settings, tmp_path, Inbox()) as channel:
        with pytest.raises(DeliveryError) as caught:
            await channel.send(Part(ADA, "text", "k"))

    assert (caught.value.retry_after, caught.value.is_final) == (retry_after, is_final)
    assert str(status) in str(caught.value)
    assert system.deliveries == ()


async def test_a_limit_and_failures_of_the_system_pass(system: WebhookSystem, tmp_path: Path) -> None:
    async with connected(system.settings, tmp_path, Inbox()) as channel:
        system.limit_next(3)
        with pytest.raises(DeliveryError) as caught:
            await channel.send(Part(ADA, "text", "k"))
        assert caught.value.retry_after == 3
        system.fail_every(2)
        await channel.send(Part(ADA, "one", "k1"))
        with pytest.raises(DeliveryError):
            await channel.send(Part(ADA, "two", "k2"))
        await channel.send(Part(ADA, "two", "k2"))

    assert [delivered.text for delivered in system.deliveries] == ["one", "two"]


async def test_an_unreachable_system_is_named_without_its_address(system: WebhookSystem, tmp_path: Path) -> None:
    settings = {**system.settings, "url": f"http://127.0.0.1:{free_port()}/hook?token=hidden"}
    async with connected(settings, tmp_path, Inbox()) as channel:
        with pytest.raises(DeliveryError, match=r"127\.0\.0\.1 cannot be reached") as caught:
            await channel.send(Part(ADA, "text", "k"))

    assert "hidden" not in str(caught.value)
    assert not caught.value.is_final


async def test_hostile_texts_pass_unchanged(system: WebhookSystem, tmp_path: Path) -> None:
    inbox, text = Inbox(), "\x00<script>'\"; DROP TABLE \u202e 👩‍👩‍👧 \x1b[31m"
    async with connected(system.settings, tmp_path, inbox) as channel:
        body = json.dumps({"sender_id": "😀'--", "text": text}).encode()
        assert (await post(system, body)).status_code == 200
        message = await inbox.next()
        await channel.send(Part(message.chat, message.text, "k"))

    assert message.text == text
    assert system.posts[0]["text"] == text
    assert system.posts[0]["sender_id"] == "😀'--"


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"secret": ""}, "There is no secret"),
        ({"secret": "whsec_c2hvcnQ="}, "openssl rand"),
        ({"secret": base64.b64encode(KEY).decode()}, "openssl rand"),
        ({"secret": "whsec_%%%"}, "openssl rand"),
        ({"url": ""}, "Set url"),
        ({"url": "ftp://example.com"}, "Set url"),
        ({"url": "http://[::1"}, "Set url"),
        ({"listen_port": "no"}, "Set listen_port"),
        ({"listen_port": "65536"}, "Set listen_port"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_remedy(changed: Mapping[str, str], sentence: str, tmp_path: Path) -> None:
    settings = {"secret": SECRET, "url": "https://example.com/hook"}

    with pytest.raises(NotSetUp, match=sentence) as caught:
        WebhookChannel({**settings, **changed}, tmp_path)

    assert "c2hvcnQ" not in str(caught.value)


async def test_the_account_is_the_host_of_the_system(tmp_path: Path) -> None:
    channel = WebhookChannel({"secret": SECRET, "url": "https://example.com/hook?token=x"}, tmp_path)
    assert await channel.connect() == "example.com"
    await channel.close()
