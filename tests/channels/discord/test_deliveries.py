"""Texts and files out, and what happens when Discord does not take them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.channels.discord.harness import Daemon, connected
from tests.channels.discord.payloads import CHANNEL, THREAD
from tests.channels.discord.server import DiscordServer
from tinyagi.channels.discord.channel import DiscordChannel
from tinyagi.channels.discord.manifest import SEND_LIMIT, TEXT_LIMIT
from tinyagi.channels.port import DeliveryError, FilePart, Part
from tinyagi.domain.chats import Chat

ADA = Chat("7")


@pytest.fixture
async def channel(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> AsyncIterator[DiscordChannel]:
    async with connected(server, tmp_path / "state", daemon) as channel:
        yield channel


async def test_a_text_in_a_direct_chat(server: DiscordServer, channel: DiscordChannel) -> None:
    sent = await channel.send(Part(ADA, "**hello**", "k"))
    (delivered,) = server.deliveries
    assert (delivered.person, delivered.place, delivered.text, delivered.sent) == ("7", "", "**hello**", sent)


async def test_a_text_in_a_channel_and_in_a_thread(server: DiscordServer, channel: DiscordChannel) -> None:
    await channel.send(Part(Chat("7", str(CHANNEL)), "in the channel", "k1"))
    await channel.send(Part(Chat("7", str(THREAD)), "in the thread", "k2"))
    assert [(delivered.place, delivered.text) for delivered in server.deliveries] == [
        (str(CHANNEL), "in the channel"),
        (str(THREAD), "in the thread"),
    ]


async def test_nobody_is_ever_notified_by_a_mention(server: DiscordServer, channel: DiscordChannel) -> None:
    written = await server.write("hello")
    sent = await channel.send(Part(ADA, "@everyone <@7> <@&5>", "k", reply_to=written))
    await channel.edit(ADA, sent, "@everyone")
    assert [body["allowed_mentions"] for body in server.sent] == [{"parse": []}] * 2


async def test_an_answer_is_a_reply(server: DiscordServer, channel: DiscordChannel) -> None:
    written = await server.write("hello")
    await channel.send(Part(ADA, "hi", "k", reply_to=written))
    reference = server.sent[0]["message_reference"]
    assert isinstance(reference, dict)
    assert f"{reference['channel_id']}.{reference['message_id']}" == written
    assert reference["fail_if_not_exists"] is False


@pytest.mark.parametrize("reply_to", ["901.5", "55.c77", "nonsense", "", "1.2.3"])
async def test_an_id_that_is_no_message_of_this_chat_is_not_quoted(
    server: DiscordServer, channel: DiscordChannel, reply_to: str
) -> None:
    await channel.send(Part(ADA, "hi", "k", reply_to=reply_to))
    assert "message_reference" not in server.sent[0]


async def test_without_the_permission_to_quote_the_text_goes_without_a_quote(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    written = await server.write("hello", place=str(CHANNEL))
    server.allows_replies = False
    await channel.send(Part(Chat("7", str(CHANNEL)), "hi", "k", reply_to=written))
    assert "message_reference" not in server.sent[0]
    assert len(server.deliveries) == 1


async def test_the_same_key_is_delivered_once(server: DiscordServer, channel: DiscordChannel) -> None:
    sent = {await channel.send(Part(ADA, "hi", "answer-1/part-1")) for _ in range(3)}
    await channel.send(Part(ADA, "hi", "answer-1/part-2"))
    assert len(sent) == 1
    assert len(server.deliveries) == 2


async def test_a_lost_answer_does_not_double_the_text(server: DiscordServer, channel: DiscordChannel) -> None:
    server.fail_after_next(503)
    with pytest.raises(DeliveryError) as caught:
        await channel.send(Part(ADA, "hi", "k"))
    assert not caught.value.is_final
    await channel.send(Part(ADA, "hi", "k"))
    assert len(server.deliveries) == 1


async def test_the_repeat_of_the_library_does_not_double_the_text(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    server.fail_after_next(500)
    await channel.send(Part(ADA, "hi", "k"))
    assert server.calls.count(f"POST /channels/{server.direct_channel(7)}/messages") == 2
    assert len(server.deliveries) == 1


async def test_a_long_text_and_a_table_fit(server: DiscordServer, channel: DiscordChannel) -> None:
    await channel.send(Part(ADA, "🤖" * TEXT_LIMIT, "k1"))
    await channel.send(Part(ADA, "|a|b|\n|-|-|\n" + "|1|2|\n" * 331, "k2"))
    await channel.send(Part(ADA, "|a|b|\n|-|-|\n|1|2|", "k3"))
    assert server.deliveries[2].text == "```\na | b\n--+--\n1 | 2\n```"
    assert len(server.deliveries) == 3


async def test_a_file(server: DiscordServer, channel: DiscordChannel, tmp_path: Path) -> None:
    (tmp_path / "stored").write_bytes(b"x" * 100_000)
    written = await server.write("send it")
    sent = await channel.send_file(FilePart(ADA, tmp_path / "stored", "report ü.pdf", "k", reply_to=written))
    (delivered,) = server.deliveries
    assert (delivered.files, delivered.sent) == (("report ü.pdf",), sent)
    assert server.uploads == [b"x" * 100_000]
    assert "message_reference" in server.sent[0]


async def test_the_same_file_is_delivered_once(server: DiscordServer, channel: DiscordChannel, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a")
    part = FilePart(ADA, tmp_path / "a.txt", "a.txt", "k")
    server.fail_after_next(500)
    assert await channel.send_file(part) == await channel.send_file(part)
    assert len(server.deliveries) == 1


async def test_a_file_above_the_limit_gives_a_sentence(
    server: DiscordServer, channel: DiscordChannel, tmp_path: Path
) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(30_000_000)
    with pytest.raises(DeliveryError, match=r"big\.iso has 30\.0 MB; Discord takes files of at most 10 MB") as caught:
        await channel.send_file(FilePart(ADA, tmp_path / "big", "big.iso", "k"))
    assert caught.value.is_final
    assert SEND_LIMIT == 10_000_000
    assert not server.deliveries


async def test_a_missing_file_gives_a_sentence(channel: DiscordChannel, tmp_path: Path) -> None:
    with pytest.raises(DeliveryError, match=r"a\.txt cannot be read: No such file") as caught:
        await channel.send_file(FilePart(ADA, tmp_path / "none", "a.txt", "k"))
    assert caught.value.is_final


async def test_a_short_rate_limit_is_waited_out(server: DiscordServer, channel: DiscordChannel) -> None:
    server.limit_next(0.1)
    await channel.send(Part(ADA, "hi", "k"))
    assert len(server.deliveries) == 1


async def test_a_long_rate_limit_is_told(server: DiscordServer, channel: DiscordChannel) -> None:
    server.limit_next(120)
    with pytest.raises(DeliveryError, match="rate limit") as caught:
        await channel.send(Part(ADA, "hi", "k"))
    assert caught.value.retry_after == 120
    assert not caught.value.is_final
    await channel.send(Part(ADA, "hi", "k"))


async def test_the_rate_limit_of_the_network_edge_is_told(server: DiscordServer, channel: DiscordChannel) -> None:
    server.refuse(server.direct_channel(7), 429, 0, "rate limited", headers={"Retry-After": "45"})
    await server.write("so that the chat is known")
    with pytest.raises(DeliveryError, match="rate limit") as caught:
        await channel.send(Part(Chat("7", str(server.direct_channel(7))), "hi", "k"))
    assert caught.value.retry_after == 45


@pytest.mark.parametrize(
    ("status", "code", "is_final", "sentence"),
    [
        (403, 50007, True, "They must share a server with the bot and allow direct messages"),
        (403, 50001, True, "Give it the permission View Channel"),
        (403, 50013, True, "Give it Send Messages"),
        (404, 10003, True, "it was deleted, or the bot was removed"),
        (400, 50035, True, "Discord refuses this .status 400: broken"),
        (403, 40003, False, "no more direct chats for now"),
        (401, 0, False, "Get a new one"),
        (503, 0, False, "problem of its own .status 503"),
    ],
)
async def test_a_refusal_names_its_remedy(
    server: DiscordServer, channel: DiscordChannel, status: int, code: int, is_final: bool, sentence: str
) -> None:
    server.refuse(CHANNEL, status, code, "broken")
    with pytest.raises(DeliveryError, match=sentence) as caught:
        await channel.send(Part(Chat("7", str(CHANNEL)), "hi", "k"))
    assert caught.value.is_final is is_final
    assert server.token not in str(caught.value)


async def test_an_unknown_channel_is_final(channel: DiscordChannel) -> None:
    with pytest.raises(DeliveryError) as caught:
        await channel.send(Part(Chat("7", "12345"), "hi", "k"))
    assert caught.value.is_final


@pytest.mark.parametrize("chat", [Chat("ada"), Chat("7", "general"), Chat("²")])
async def test_an_address_that_is_not_discords_is_final(channel: DiscordChannel, chat: Chat) -> None:
    with pytest.raises(DeliveryError, match="is not the address of a Discord chat") as caught:
        await channel.send(Part(chat, "hi", "k"))
    assert caught.value.is_final


async def test_the_typing_sign(server: DiscordServer, channel: DiscordChannel) -> None:
    await channel.show_typing(ADA)
    await channel.show_typing(Chat("7", str(THREAD)))
    assert server.typing == [server.direct_channel(7), THREAD]


async def test_a_missing_typing_sign_is_no_error(server: DiscordServer, channel: DiscordChannel) -> None:
    server.refuse(CHANNEL, 403, 50013, "Missing Permissions")
    await channel.show_typing(Chat("7", str(CHANNEL)))
    await channel.show_typing(Chat("ada"))


async def test_a_text_is_replaced_and_removed(server: DiscordServer, channel: DiscordChannel) -> None:
    sent = await channel.send(Part(ADA, "working", "k"))
    await channel.edit(ADA, sent, "still working\n|a|b|\n|-|-|")
    assert server.edits == [(sent, "still working\n```\na | b\n--+--\n```")]
    await channel.remove(ADA, sent)
    await channel.remove(ADA, sent)
    assert server.removed == [sent]


async def test_an_id_of_no_message_cannot_be_replaced(channel: DiscordChannel) -> None:
    with pytest.raises(DeliveryError, match="is not the id of a delivered Discord message") as caught:
        await channel.edit(ADA, "nonsense", "text")
    assert caught.value.is_final


async def test_deliveries_to_many_chats_go_side_by_side(server: DiscordServer, channel: DiscordChannel) -> None:
    people = [str(number) for number in range(10, 40)]
    await asyncio.gather(*(channel.send(Part(Chat(person), f"to {person}", f"k{person}")) for person in people))
    assert sorted((delivered.person, delivered.text) for delivered in server.deliveries) == [
        (person, f"to {person}") for person in people
    ]


async def test_every_seventh_call_fails_and_each_text_arrives_once(
    server: DiscordServer, channel: DiscordChannel
) -> None:
    server.fail_every(7)
    failed = 0
    for number in range(30):
        part = Part(ADA, f"{number}", f"k{number}")
        try:
            await channel.send(part)
        except DeliveryError:
            failed += 1
            await channel.send(part)
    assert failed > 3
    assert [delivered.text for delivered in server.deliveries] == [f"{number}" for number in range(30)]


async def test_a_closed_channel_delivers_nothing(channel: DiscordChannel) -> None:
    await channel.close()
    await channel.close()
    with pytest.raises(DeliveryError, match="not connected"):
        await channel.send(Part(ADA, "hi", "k"))


async def test_without_the_server_a_delivery_fails_for_now(server: DiscordServer, channel: DiscordChannel) -> None:
    await server.stop()
    with pytest.raises(DeliveryError) as caught:
        await channel.send(Part(Chat("7", str(CHANNEL)), "hi", "k"))
    assert not caught.value.is_final
