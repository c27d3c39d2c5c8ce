"""What people write arrives, in order, and is confirmed only when it was received."""

import asyncio
from pathlib import Path

import pytest

from tests.channels.telegram.bot_api import BOT
from tests.channels.telegram.conftest import Inbox, receiving
from tests.channels.telegram.server import TelegramServer, mention
from tinyagi.channels.port import ChannelError, NotSetUp
from tinyagi.channels.telegram.channel import TelegramChannel
from tinyagi.domain.chats import Chat


async def test_a_text_arrives_with_its_sender(server: TelegramServer, inbox: Inbox) -> None:
    written = await server.write("hello **you** 😀", person="7", name="Ada")
    (message,) = await inbox.until(1)
    assert (message.id, message.chat, message.name, message.text) == (written, Chat("7"), "Ada", "hello **you** 😀")
    assert message.attachments == ()
    assert not message.is_from_bot


@pytest.mark.parametrize(("name", "shown"), [("Ada\n\x00L\u2028x", "Ada L x"), (" \n ", "7"), ("A\ud83d", "A\ufffd")])
async def test_a_hostile_name_is_one_line(server: TelegramServer, inbox: Inbox, name: str, shown: str) -> None:
    await server.write("hi \ud83d", name=name)
    (message,) = await inbox.until(1)
    assert (message.name, message.text) == (shown, "hi \ufffd")


async def test_other_bots_are_marked_and_the_bot_itself_is_not_heard(server: TelegramServer, inbox: Inbox) -> None:
    own = server.chat(place="-100") | {"from": BOT}
    await server.push(own | {"text": "@office_bot me", "entities": [mention(0)]})
    await server.push(server.chat() | {"from": {"id": 9, "is_bot": True, "first_name": "B"}, "text": "hi"})
    (message,) = await inbox.until(1)
    assert message.is_from_bot
    assert message.chat.person == "9"


async def test_an_edited_message_is_ignored(server: TelegramServer, inbox: Inbox) -> None:
    await server.push_update({"edited_message": server.chat() | {"message_id": 1, "date": 1, "text": "old"}})
    await server.write("new")
    assert [message.text for message in await inbox.until(1)] == ["new"]
    await server.until_confirmed()


async def test_an_update_that_the_library_cannot_read_stops_nothing(server: TelegramServer, inbox: Inbox) -> None:
    await server.push_update({"message": {"message_id": 1, "text": "no chat and no date"}})
    await server.push_update({"a_new_kind": {"x": 1}})
    await server.write("after it")
    assert [message.text for message in await inbox.until(1)] == ["after it"]
    await server.until_confirmed()


async def test_a_change_of_the_group_is_no_message(server: TelegramServer, inbox: Inbox) -> None:
    await server.push(server.chat(place="-100") | {"new_chat_title": "@office_bot"})
    await server.push(server.chat() | {"message_auto_delete_timer_changed": {"message_auto_delete_time": 9}})
    await server.write("hi")
    assert len(await inbox.until(1)) == 1


# Groups and topics


@pytest.mark.parametrize(
    ("text", "entities", "received"),
    [
        ("@office_bot do it", [mention(0)], "do it"),
        ("@Office_Bot, do it", [mention(0)], "do it"),
        ("😀 hey @office_bot do it", [mention(7)], "😀 hey do it"),
        ("do it @office_bot", [mention(6)], "do it"),
        ("@office_bot", [mention(0)], ""),
        ("@office_bot @coder do it", [mention(0), {"type": "mention", "offset": 12, "length": 6}], "@coder do it"),
        ("Office do it", [{"type": "text_mention", "offset": 0, "length": 6, "user": BOT}], "do it"),
        ("/status@office_bot now", [{"type": "bot_command", "offset": 0, "length": 18}], "/status now"),
    ],
)
async def test_in_a_group_the_bot_hears_its_name(
    server: TelegramServer, inbox: Inbox, text: str, entities: list[dict[str, object]], received: str
) -> None:
    await server.push(server.chat(place="-100") | {"text": text, "entities": entities})
    (message,) = await inbox.until(1)
    assert (message.text, message.chat) == (received, Chat("7", "-100"))


async def test_in_a_group_a_caption_names_the_bot(server: TelegramServer, inbox: Inbox) -> None:
    await server.write("look", place="-100", files=[("a.txt", b"a")])
    (message,) = await inbox.until(1)
    assert (message.text, [file.name for file in message.attachments]) == ("look", ["a.txt"])


async def test_in_a_group_the_bot_hears_replies_to_it(server: TelegramServer, inbox: Inbox) -> None:
    group = server.chat(place="-100")
    await server.push(group | {"text": "yes", "reply_to_message": group | {"message_id": 9, "date": 1, "from": BOT}})
    (message,) = await inbox.until(1)
    assert message.text == "yes"


async def test_other_talk_in_a_group_is_not_heard(server: TelegramServer, inbox: Inbox) -> None:
    group = server.chat(place="-100/5")
    made_topic = {"message_id": 5, "date": 1, "forum_topic_created": {"name": "T", "icon_color": 1}, "from": BOT}
    await server.push(group | {"text": "in the bot's topic", "reply_to_message": group | made_topic})
    await server.push(group | {"text": "@other_bot hi", "entities": [{"type": "mention", "offset": 0, "length": 10}]})
    await server.push(group | {"text": "/status", "entities": [{"type": "bot_command", "offset": 0, "length": 7}]})
    await server.push(
        group | {"text": "/x@other_bot", "entities": [{"type": "bot_command", "offset": 0, "length": 12}]}
    )
    await server.write("mine", place="-100/5")
    assert [message.text for message in await inbox.until(1)] == ["mine"]


async def test_a_topic_is_a_place_and_a_thread_of_replies_is_none(server: TelegramServer, inbox: Inbox) -> None:
    await server.write("a", place="-100/5")
    thread = server.chat(place="-100") | {"message_thread_id": 44}
    await server.push(thread | {"text": "@office_bot b", "entities": [mention(0)]})
    assert [message.chat for message in await inbox.until(2)] == [Chat("7", "-100/5"), Chat("7", "-100")]


async def test_a_message_on_behalf_of_a_channel_has_the_id_of_the_channel(server: TelegramServer, inbox: Inbox) -> None:
    channel = {"sender_chat": {"id": -1001, "type": "channel", "title": "News"}}
    await server.push(server.chat(place="-100") | channel | {"text": "@office_bot x", "entities": [mention(0)]})
    (message,) = await inbox.until(1)
    assert (message.chat.person, message.name) == ("-1001", "News")


# Order and confirmation


async def test_a_message_is_confirmed_after_it_was_received(server: TelegramServer, inbox: Inbox) -> None:
    gate = inbox.held["7"] = asyncio.Event()
    await server.write("a")
    await inbox.until_arrived(1)
    assert server.unconfirmed == 1
    gate.set()
    await server.until_confirmed()
    assert len(inbox.messages) == 1


async def test_other_chats_go_on_while_one_waits(server: TelegramServer, inbox: Inbox) -> None:
    gate = inbox.held["7"] = asyncio.Event()
    await server.write("a1", person="7")
    await server.write("a2", person="7")
    await inbox.until_arrived(1)
    for number in range(3):
        await server.write(f"b{number}", person="8")
    assert [message.text for message in await inbox.until(3)] == ["b0", "b1", "b2"]
    assert [message.text for message in inbox.arrived] == ["a1", "b0", "b1", "b2"]
    assert server.unconfirmed == 5
    gate.set()
    assert [message.text for message in await inbox.until(5)] == ["b0", "b1", "b2", "a1", "a2"]
    await server.until_confirmed()


async def test_two_hundred_messages_keep_their_order(server: TelegramServer, inbox: Inbox) -> None:
    server.fail_every(7)
    for number in range(200):
        await server.write(str(number), person=str(7 + number % 3))
    messages = await inbox.until(200)
    for person in range(3):
        own = [int(message.text) for message in messages if message.chat.person == str(7 + person)]
        assert own == list(range(person, 200, 3))
    await server.until_confirmed()
    assert len({message.id for message in messages}) == len(messages) == 200


async def test_an_unconfirmed_message_comes_again(server: TelegramServer, tmp_path: Path) -> None:
    first, second = TelegramChannel(server.settings, tmp_path), TelegramChannel(server.settings, tmp_path)
    held, inbox = Inbox(), Inbox()
    held.held["7"] = asyncio.Event()
    written = [await server.write("a"), await server.write("b")]
    await first.connect()
    async with receiving(first, held):
        await held.until_arrived(1)
    await first.close()
    await second.connect()
    async with receiving(second, inbox):
        assert [message.id for message in await inbox.until(2)] == written
        await server.until_confirmed()
    await second.close()
    assert held.messages == []


async def test_what_the_receiver_raises_ends_receiving(server: TelegramServer, channel: TelegramChannel) -> None:
    async def receive(message: object) -> None:
        raise ValueError("broken")

    await server.write("a")
    await server.write("b")
    with pytest.raises(ValueError, match="broken"):
        await channel.receive(receive)
    assert server.unconfirmed == 2


async def test_lower_numbers_after_a_quiet_week_are_heard(server: TelegramServer, inbox: Inbox) -> None:
    await server.write("before")
    await server.until_confirmed()
    server.quiet_week()
    await server.write("after")
    assert [message.text for message in await inbox.until(2)] == ["before", "after"]


async def test_a_repeated_message_has_the_same_id(server: TelegramServer, inbox: Inbox) -> None:
    written = await server.write("a")
    await server.repeat(written)
    assert [message.id for message in await inbox.until(2)] == [written, written]


# Trouble


async def test_receiving_goes_on_after_the_connection_was_lost(server: TelegramServer, inbox: Inbox) -> None:
    await server.write("a")
    await inbox.until(1)
    await server.stop()
    await server.write("b")
    await server.start()
    assert [message.text for message in await inbox.until(2)] == ["a", "b"]


async def test_receiving_waits_as_long_as_telegram_asks(server: TelegramServer, channel: TelegramChannel) -> None:
    server.refuse("getUpdates", 429, "Too Many Requests: retry after 1", retry_after=0.3)
    await server.write("a")
    inbox, loop = Inbox(), asyncio.get_running_loop()
    start = loop.time()
    async with receiving(channel, inbox):
        await inbox.until(1)
    assert loop.time() - start >= 0.3


async def test_a_withdrawn_token_ends_receiving(server: TelegramServer, channel: TelegramChannel) -> None:
    server.token = "42:another-token-since-then"
    with pytest.raises(NotSetUp, match=r"refuses the bot token.*@BotFather") as caught:
        await channel.receive(Inbox())
    assert "loopback-token" not in str(caught.value)


async def test_a_second_program_with_the_token_is_named(server: TelegramServer, channel: TelegramChannel) -> None:
    other = TelegramChannel(server.settings, Path())
    await other.connect()
    first = asyncio.create_task(channel.receive(Inbox()))
    await server.until_called("getUpdates")
    async with receiving(other, Inbox()):
        with pytest.raises(ChannelError, match="Another program receives messages with this bot's token"):
            await first
    await other.close()


async def test_a_webhook_of_another_program_is_named(server: TelegramServer, channel: TelegramChannel) -> None:
    server.webhook = "https://other.example"
    with pytest.raises(ChannelError, match=r"set a webhook.*restart the channel"):
        await channel.receive(Inbox())
