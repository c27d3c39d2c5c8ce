"""Texts and files reach people."""

import asyncio
import logging
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.channels.platform import Delivered
from tests.channels.telegram.server import TelegramServer
from tinyagi.channels.port import DeliveryError, FilePart, Part
from tinyagi.channels.telegram.channel import TelegramChannel
from tinyagi.domain.chats import Chat

ADA = Chat("7")
GROUP = Chat("7", "-100")
TOPIC = Chat("7", "-100/5")


def part(text: str, chat: Chat = ADA, reply_to: str | None = None) -> Part:
    return Part(chat, text, "key", reply_to)


@pytest.mark.parametrize(
    ("chat", "person", "place"), [(ADA, "7", ""), (GROUP, "", "-100"), (TOPIC, "", "-100/5")], ids=lambda _: ""
)
async def test_a_text_is_delivered_to_its_chat(
    server: TelegramServer, channel: TelegramChannel, chat: Chat, person: str, place: str
) -> None:
    sent = await channel.send(part("a **b** <c>", chat))
    assert server.deliveries == [Delivered(person, "a b <c>", place, (), sent)]


async def test_markdown_becomes_formatting_without_previews(server: TelegramServer, channel: TelegramChannel) -> None:
    await channel.send(part("**b** https://x.y"))
    call = await server.until_called("sendMessage")
    assert (call["text"], call["parse_mode"]) == ("<b>b</b> https://x.y", "HTML")
    assert call["link_preview_options"] == '{"is_disabled": true}'


async def test_an_answer_replies_to_its_message(server: TelegramServer, channel: TelegramChannel) -> None:
    await channel.send(part("a", GROUP, "-100.12"))
    call = await server.until_called("sendMessage")
    assert call["reply_parameters"] == '{"allow_sending_without_reply": true, "message_id": 12}'


async def test_a_reply_never_points_into_another_chat(server: TelegramServer, channel: TelegramChannel) -> None:
    await channel.send(part("a", GROUP, "7.12"))
    assert "reply_parameters" not in await server.until_called("sendMessage")


async def test_refused_markup_is_sent_as_plain_text(server: TelegramServer, channel: TelegramChannel) -> None:
    server.refuses_markup = True
    sent = await channel.send(part("a **b**"))
    await channel.edit(ADA, sent, "c **d**")
    assert [delivered.text for delivered in server.deliveries] == ["c **d**"]


@pytest.mark.parametrize("text", ["x" * 4096, "😀" * 2048, "**b** " * 682, "&<>" * 1365, "[a](https://x.y)" * 256])
async def test_a_text_as_long_as_the_limit_is_delivered(
    server: TelegramServer, channel: TelegramChannel, text: str
) -> None:
    assert channel.manifest.count(text) <= channel.manifest.text_limit
    await channel.send(part(text))
    assert len(server.deliveries) == 1


@pytest.mark.parametrize(
    "text", ["a\x00b", "a\ud83db", "\x1b[31m", "\u202eabc", "</b>", "&lt;", "{token}", "```", "> "]
)
async def test_a_hostile_text_is_delivered(server: TelegramServer, channel: TelegramChannel, text: str) -> None:
    await channel.send(part(text))
    assert len(server.deliveries) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.text(min_size=1, max_size=200).map(lambda text: f"a{text}"))
async def test_any_text_is_delivered(server: TelegramServer, channel: TelegramChannel, text: str) -> None:
    await channel.send(part(text))
    assert not (await server.until_called("sendMessage"))["text"].startswith("never")


# Files


async def test_a_file_is_delivered_as_it_is(server: TelegramServer, channel: TelegramChannel, tmp_path: Path) -> None:
    path = tmp_path / "stored"
    path.write_bytes(b"\x89PNG" * 50_000)
    sent = await channel.send_file(FilePart(TOPIC, path, 'ü\n "1".png', "key", "-100.12"))
    assert server.deliveries == [Delivered("", "", "-100/5", ("ü '1'.png",), sent)]
    assert server.uploads[0].content == path.read_bytes()
    call = await server.until_called("sendDocument")
    assert call["disable_content_type_detection"] == "true"
    assert "12" in call["reply_parameters"]


async def test_music_gets_its_player(server: TelegramServer, channel: TelegramChannel, tmp_path: Path) -> None:
    path = tmp_path / "song.MP3"
    path.write_bytes(b"ID3")
    await channel.send_file(FilePart(ADA, path, "song.MP3", "key"))
    await server.until_called("sendAudio")
    assert server.deliveries[0].files == ("song.MP3",)


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        (50_000_001, "too large for Telegram. Send a smaller one or a link"),
        (0, "File must be non-empty"),
        (None, "cannot be read"),
    ],
)
async def test_a_file_that_telegram_cannot_take_is_a_sentence(
    server: TelegramServer, channel: TelegramChannel, tmp_path: Path, size: int | None, sentence: str
) -> None:
    path = tmp_path / "file"
    if size is not None:
        with path.open("wb") as file:
            file.truncate(size)
    with pytest.raises(DeliveryError, match=sentence) as caught:
        await channel.send_file(FilePart(ADA, path, "file", "key"))
    assert caught.value.is_final
    assert not server.deliveries


async def test_a_file_is_sent_whole_to_a_group_that_moved(
    server: TelegramServer, channel: TelegramChannel, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    server.migrated[-100] = -1009
    await channel.send_file(FilePart(GROUP, path, "file", "key"))
    assert [upload.content for upload in server.uploads] == [b"content"]


# Groups that change


async def test_a_group_that_became_a_supergroup_is_followed(server: TelegramServer, channel: TelegramChannel) -> None:
    server.migrated[-100] = -1009
    sent = await channel.send(part("a", GROUP, "-100.12"))
    await channel.send(part("b", GROUP))
    await channel.edit(GROUP, sent, "c")
    assert [(delivered.place, delivered.text) for delivered in server.deliveries] == [("-1009", "c"), ("-1009", "b")]
    sends = [parameters for method, parameters in server.calls if method == "sendMessage"]
    assert ["reply_parameters" in parameters for parameters in sends] == [True, False, False]


async def test_an_answer_for_a_deleted_topic_goes_to_its_group(
    server: TelegramServer, channel: TelegramChannel
) -> None:
    server.deleted_topics.add(5)
    await channel.send(part("a", TOPIC))
    assert [delivered.place for delivered in server.deliveries] == ["-100"]


# Edits and typing


async def test_a_sent_text_can_be_changed_and_removed(server: TelegramServer, channel: TelegramChannel) -> None:
    sent = await channel.send(part("one"))
    await channel.edit(ADA, sent, "**two**")
    await channel.edit(ADA, sent, "**two**")
    assert [delivered.text for delivered in server.deliveries] == ["two"]
    await channel.remove(ADA, sent)
    await channel.remove(ADA, sent)
    assert not server.deliveries


async def test_an_unknown_id_cannot_be_edited(channel: TelegramChannel) -> None:
    with pytest.raises(DeliveryError) as caught:
        await channel.edit(ADA, "nonsense", "x")
    assert caught.value.is_final


async def test_typing_is_shown_in_its_topic(server: TelegramServer, channel: TelegramChannel) -> None:
    await channel.show_typing(TOPIC)
    call = await server.until_called("sendChatAction")
    assert call == {"chat_id": "-100", "message_thread_id": "5", "action": "typing"}


async def test_a_failed_typing_sign_is_no_error(server: TelegramServer, channel: TelegramChannel) -> None:
    server.fail_every(1)
    await channel.show_typing(ADA)


# Refusals


async def test_a_rate_limit_says_how_long_to_wait(server: TelegramServer, channel: TelegramChannel) -> None:
    server.limit_next(3)
    with pytest.raises(DeliveryError, match="in 3 s") as caught:
        await channel.send(part("a"))
    assert (caught.value.retry_after, caught.value.is_final) == (3, False)
    await channel.send(part("a"))
    assert len(server.deliveries) == 1


async def test_a_rate_limit_by_a_proxy_is_waited_out_too(server: TelegramServer, channel: TelegramChannel) -> None:
    server.refuse("sendMessage", 429, "slow down")
    with pytest.raises(DeliveryError) as caught:
        await channel.send(part("a"))
    assert caught.value.retry_after == 1


@pytest.mark.parametrize(
    ("status", "description", "sentence", "is_final"),
    [
        (403, "Forbidden: bot was blocked by the user", "bot was blocked by the user. The person must unblock", True),
        (400, "Bad Request: chat not found", "must write to the bot first", True),
        (400, "Bad Request: not enough rights to send text messages", "Not enough rights to send text messages", True),
        (413, "Request Entity Too Large", "too large for Telegram", True),
        (500, "Internal Server Error", "the error 500; it is probably down", False),
        (503, "Service Unavailable", "the error 503", False),
        (401, "Unauthorized", "refuses the bot token. Get a new one from @BotFather", False),
        (418, "I'm a teapot", "cannot be reached", False),
    ],
)
async def test_each_refusal_is_a_sentence(
    server: TelegramServer, channel: TelegramChannel, status: int, description: str, sentence: str, is_final: bool
) -> None:
    server.refuse("sendMessage", status, description)
    with pytest.raises(DeliveryError, match=sentence) as caught:
        await channel.send(part("a"))
    assert (caught.value.is_final, caught.value.retry_after) == (is_final, None)


async def test_a_lost_connection_may_be_tried_again(server: TelegramServer, channel: TelegramChannel) -> None:
    await server.stop()
    with pytest.raises(DeliveryError, match="cannot be reached") as caught:
        await channel.send(part("a"))
    assert not caught.value.is_final


async def test_a_text_whose_outcome_is_unknown_is_not_sent_again(
    server: TelegramServer, channel: TelegramChannel, tmp_path: Path
) -> None:
    await channel.send(part("so that the connection is an old one"))
    server.lost_answers = {"sendMessage", "sendDocument"}
    (tmp_path / "file").write_bytes(b"content")
    for call in (channel.send(part("a")), channel.send_file(FilePart(ADA, tmp_path / "file", "file", "key"))):
        with pytest.raises(DeliveryError, match="cannot be reached") as caught:
            await call
        assert not caught.value.is_final
    assert [method for method, _ in server.calls[-3:]] == ["sendMessage", "sendMessage", "sendDocument"]


@pytest.mark.parametrize("chat", [Chat("ada"), Chat("7", "group"), Chat("7", "-100/x")], ids=lambda chat: chat.address)
async def test_an_address_of_another_platform_is_refused(channel: TelegramChannel, chat: Chat) -> None:
    with pytest.raises(DeliveryError, match="not an address of Telegram") as caught:
        await channel.send(part("a", chat))
    assert caught.value.is_final


async def test_many_texts_are_sent_side_by_side(server: TelegramServer, channel: TelegramChannel) -> None:
    await asyncio.gather(*(channel.send(part(str(number), Chat(str(number + 1)))) for number in range(200)))
    assert {delivered.text for delivered in server.deliveries} == {str(number) for number in range(200)}


async def test_neither_token_nor_text_is_logged(
    server: TelegramServer, channel: TelegramChannel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await channel.send(part("a secret text"))
    server.refuse("sendMessage", 400, f"Bad Request: cannot POST /bot{server.token}/sendMessage")
    with pytest.raises(DeliveryError, match="<token>") as caught:
        await channel.send(part("a secret text"))
    assert server.token not in str(caught.value)
    assert server.token not in caplog.text
    assert "secret" not in caplog.text
