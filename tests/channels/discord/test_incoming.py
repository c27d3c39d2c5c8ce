"""Each kind of message that a person can send."""

from pathlib import Path

import pytest

from tests.channels.discord import payloads
from tests.channels.discord.harness import Daemon, connected
from tests.channels.discord.payloads import BOT, BOT_ROLE, CHANNEL, OTHER_CHANNEL, THREAD
from tests.channels.discord.server import DiscordServer
from tinyagi.channels.discord.library import discord
from tinyagi.channels.port import Attachment, ChannelError, Part
from tinyagi.domain.chats import Chat

ADA = payloads.user(7, "Ada")


async def content(attachment: Attachment) -> bytes:
    return b"".join([chunk async for chunk in attachment.chunks()])


async def test_a_direct_message(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    async with connected(server, tmp_path, daemon):
        written = await server.write("hello\nthere")
        (message,) = await daemon.until(1)
    assert message.id == written
    assert message.chat == Chat("7")
    assert message.name == "Ada"
    assert message.text == "hello\nthere"
    assert message.attachments == ()
    assert not message.is_from_bot


async def test_a_mention_in_a_chosen_channel_has_the_channel_as_its_place(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon):
        await server.post(CHANNEL, ADA, f"please <@{BOT}>  @writer do it <@8>")
        (message,) = await daemon.until(1)
    assert message.chat == Chat("7", str(CHANNEL))
    assert message.text == "please @writer do it <@8>"


async def test_a_mention_in_a_thread_of_a_chosen_channel_has_the_thread_as_its_place(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon):
        await server.write("old thread", place=str(THREAD))
        await server.add_thread(990)
        await server.write("new thread", place="990")
        messages = await daemon.until(2)
    assert {message.chat.place for message in messages} == {str(THREAD), "990"}


async def test_a_mention_of_the_role_of_the_bot_counts(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    async with connected(server, tmp_path, daemon):
        await server.post(CHANNEL, ADA, f"<@&{BOT_ROLE}> hello")
        (message,) = await daemon.until(1)
    assert message.text == "hello"


async def test_a_reply_to_the_bot_counts_without_a_mention(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon) as channel:
        sent = await channel.send(Part(Chat("7", str(CHANNEL)), "an answer", "k"))
        await server.post(CHANNEL, ADA, "and then?", reply_to=sent)
        (message,) = await daemon.until(1)
    assert message.text == "and then?"


async def test_what_is_not_for_the_bot_is_not_handed_over(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon):
        other = await server.post(CHANNEL, ADA, "just talking")
        await server.post(CHANNEL, ADA, "a reply to a person", reply_to=other)
        await server.post(CHANNEL, ADA, f"<@{BOT}> joined", type=7)
        await server.post(CHANNEL, server.bot, f"<@{BOT}> my own")
        await server.post(OTHER_CHANNEL, ADA, f"<@{BOT}> elsewhere")
        await server.add_thread(991, parent=OTHER_CHANNEL)
        await server.post(991, ADA, f"<@{BOT}> elsewhere")
        await server.write("for the bot", place=str(CHANNEL))
        messages = await daemon.until(1)
    assert [message.text for message in messages] == ["for the bot"]


async def test_without_chosen_channels_only_direct_messages_count(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon, guild_channels=""):
        await server.write("in a server", place=str(CHANNEL))
        await server.write("direct")
        messages = await daemon.until(1)
    assert [message.text for message in messages] == ["direct"]


async def test_another_bot_is_marked(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    robot = payloads.user(8, "Robot", is_bot=True)
    async with connected(server, tmp_path, daemon):
        await server.post(CHANNEL, robot, f"<@{BOT}> hello")
        await server.post(CHANNEL, payloads.user(9, "Hook"), f"<@{BOT}> hello", webhook_id="9")
        messages = await daemon.until(2)
    assert [message.is_from_bot for message in messages] == [True, True]


async def test_files_are_downloaded_when_they_are_read_and_not_before(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    large = bytes(range(256)) * 1_000
    async with connected(server, tmp_path, daemon):
        files = [("photo.jpg", b"jpeg"), ("voice-message.ogg", b"opus"), ("clip.mp4", large)]
        await server.write("see", files=files)
        (message,) = await daemon.until(1)
        assert message.text == "see"
        assert [(file.name, file.size) for file in message.attachments] == [(name, len(data)) for name, data in files]
        assert server.downloads == 0
        assert [await content(file) for file in message.attachments] == [data for _, data in files]
    assert server.downloads == 3


async def test_a_file_without_text_has_an_empty_text(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    async with connected(server, tmp_path, daemon):
        await server.write("", files=[("a.txt", b"a")])
        (message,) = await daemon.until(1)
    assert message.text == ""
    assert len(message.attachments) == 1


async def test_a_file_is_read_after_its_address_has_expired(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon):
        await server.write("see", files=[("a.txt", b"still here")])
        (message,) = await daemon.until(1)
        server.expire_files()
        assert await content(message.attachments[0]) == b"still here"


async def test_a_file_that_is_gone_gives_a_sentence(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    async with connected(server, tmp_path, daemon):
        await server.write("see", files=[("a.txt", b"a")])
        (message,) = await daemon.until(1)
        server.remove_files()
        with pytest.raises(ChannelError, match=r"Discord does not hand over the file a\.txt \(status 404\)"):
            await content(message.attachments[0])


async def test_a_sticker_is_a_file(
    server: DiscordServer, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discord.Asset, "BASE", server.add_file("stickers/55.png", b"wave"))
    async with connected(server, tmp_path, daemon):
        sticker = {"id": "55", "name": "Wave", "format_type": 1}
        await server.post(server.direct_channel(7), ADA, "", sticker_items=[sticker])
        (message,) = await daemon.until(1)
        assert message.attachments[0].name == "Wave.png"
        assert await content(message.attachments[0]) == b"wave"


async def test_a_forwarded_message_brings_its_text_and_files(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    snapshot = payloads.message(5, 6, ADA, "the original")
    snapshot["attachments"] = [payloads.attachment(5, "a.txt", 1, "http://127.0.0.1/a")]
    reference = {"type": 1, "channel_id": "6", "message_id": "5"}
    async with connected(server, tmp_path, daemon):
        await server.post(
            server.direct_channel(7), ADA, "", message_snapshots=[{"message": snapshot}], message_reference=reference
        )
        (message,) = await daemon.until(1)
    assert message.text == "the original"
    assert [file.name for file in message.attachments] == ["a.txt"]


async def test_a_poll_is_its_question_and_answers(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    answers = [{"answer_id": number, "poll_media": {"text": text}} for number, text in ((1, "tea"), (2, "coffee"))]
    poll = {
        "question": {"text": "Which?"},
        "answers": answers,
        "expiry": "2026-01-02T00:00:00+00:00",
        "allow_multiselect": False,
        "layout_type": 1,
    }
    async with connected(server, tmp_path, daemon):
        await server.post(server.direct_channel(7), ADA, "", poll=poll)
        (message,) = await daemon.until(1)
    assert message.text == "Which?\n- tea\n- coffee"


@pytest.mark.parametrize(
    "text",
    [
        "@everyone @here <@&1> <#901> <:name:1> <t:0>",
        "```\nunclosed",
        "\u202eright to left\u202c \u0000 \ufffd",
        "🤖" * 1_000,
        "{} %s $(rm -rf /) '; DROP TABLE x; --",
        "<@1" * 600,
    ],
)
async def test_hostile_texts_pass_unchanged(server: DiscordServer, daemon: Daemon, tmp_path: Path, text: str) -> None:
    async with connected(server, tmp_path, daemon):
        await server.write(text)
        (message,) = await daemon.until(1)
    assert message.text == text


async def test_one_waiting_chat_does_not_hold_back_another(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    daemon.holds = "7"
    async with connected(server, tmp_path, daemon):
        await server.write("waits", person="7")
        await server.write("waits too", person="7")
        await server.write("goes on", person="8")
        messages = await daemon.until(1)
        assert [message.text for message in messages] == ["goes on"]
        await daemon.let_go()
        messages = await daemon.until(3)
    assert [message.text for message in messages] == ["goes on", "waits", "waits too"]
