"""The linked phone's channel, driven by real events of neonize. A test cannot connect to WhatsApp: there is no server
that speaks its encrypted protocol, and the library knows no other address. What only WhatsApp can show stays untested:
pairing, reconnecting and the library's own deliveries."""

import stat
from pathlib import Path

import pytest
from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import (
    AudioMessage,
    ContactMessage,
    ContextInfo,
    DocumentMessage,
    ExtendedTextMessage,
    FutureProofMessage,
    ImageMessage,
    LocationMessage,
    PollCreationMessage,
    ProtocolMessage,
    ReactionMessage,
    StickerMessage,
    VideoMessage,
)
from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import Message as Content

from tests.channels.inbox import Inbox, receiving
from tests.channels.whatsapp.recorded_phone import OWN, OWN_HIDDEN, RecordedPhone, channel_on, jid, message_event
from tinyagi.channels.port import ChannelError, ChannelMessage, DeliveryError, FilePart, Part
from tinyagi.channels.whatsapp import linked
from tinyagi.domain.chats import Chat

ADA = Chat("7")
GROUP = jid("120363041234567890", "g.us")


async def content_of(message: ChannelMessage) -> bytes:
    return b"".join([chunk async for chunk in message.attachments[0].chunks()])


async def test_a_text_arrives_with_its_sender(tmp_path: Path, inbox: Inbox) -> None:
    phone = RecordedPhone()
    async with receiving(channel_on(phone, tmp_path), inbox):
        phone.play(message_event(Content(conversation="hello"), name="Ada\nLovelace"))
        message = await inbox.next()

    assert message == ChannelMessage("7.3EB0C0FFEE", ADA, "Ada Lovelace", "hello")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (Content(extendedTextMessage=ExtendedTextMessage(text="see https://a.b")), "see https://a.b"),
        (Content(ephemeralMessage=FutureProofMessage(message=Content(conversation="gone soon"))), "gone soon"),
        (
            Content(locationMessage=LocationMessage(degreesLatitude=1.5, degreesLongitude=-2, name="Home")),
            "[location: Home; 1.500000, -2.000000]",
        ),
        (Content(contactMessage=ContactMessage(displayName="Bo")), "[contact: Bo]"),
        (Content(pollCreationMessage=PollCreationMessage(name="?")), "[a message of the kind 'pollCreation', which"),
    ],
)
async def test_each_kind_of_message_arrives_as_text(tmp_path: Path, inbox: Inbox, content: Content, text: str) -> None:
    phone = RecordedPhone()
    async with receiving(channel_on(phone, tmp_path), inbox):
        phone.play(message_event(content))
        assert (await inbox.next()).text.startswith(text)


@pytest.mark.parametrize(
    ("content", "name", "text"),
    [
        (Content(imageMessage=ImageMessage(mimetype="image/jpeg", caption="see")), "image_3EB0C0FFEE.jpg", "see"),
        (Content(documentMessage=DocumentMessage(mimetype="application/pdf", fileName="Q3.pdf")), "Q3.pdf", ""),
        (Content(audioMessage=AudioMessage(mimetype="audio/mpeg")), "audio_3EB0C0FFEE.mp3", ""),
        (Content(audioMessage=AudioMessage(mimetype="audio/ogg; codecs=opus", PTT=True)), "voice_3EB0C0FFEE.ogg", ""),
        (Content(videoMessage=VideoMessage(mimetype="video/mp4", caption="see")), "video_3EB0C0FFEE.mp4", "see"),
        (Content(stickerMessage=StickerMessage(mimetype="image/webp")), "sticker_3EB0C0FFEE.webp", ""),
    ],
)
async def test_each_kind_of_file_arrives_and_is_fetched_only_when_read(
    tmp_path: Path, inbox: Inbox, content: Content, name: str, text: str
) -> None:
    phone, data = RecordedPhone(), b"\x00\xff" * 200_000
    media = getattr(content, content.ListFields()[0][0].name)
    media.fileSHA256, media.fileLength, phone.files[b"hash"] = b"hash", len(data), data
    wrapped = Content(documentWithCaptionMessage=FutureProofMessage(message=content))
    async with receiving(channel_on(phone, tmp_path), inbox):
        phone.play(message_event(wrapped))
        message = await inbox.next()

        assert [(file.name, file.size) for file in message.attachments] == [(name, len(data))]
        assert (message.text, phone.downloads) == (text, 0)
        assert await content_of(message) == data


async def test_a_large_file_and_a_failed_download_are_sentences(tmp_path: Path, inbox: Inbox) -> None:
    phone = RecordedPhone()
    async with receiving(channel_on(phone, tmp_path), inbox):
        phone.play(message_event(Content(imageMessage=ImageMessage(fileLength=64_000_001))))
        with pytest.raises(ChannelError, match="larger than 64 MB"):
            await content_of(await inbox.next())
        phone.error = "gone"
        phone.play(message_event(Content(imageMessage=ImageMessage(fileLength=1))))
        with pytest.raises(ChannelError, match="could not be fetched"):
            await content_of(await inbox.next())

    assert phone.downloads == 0


async def test_what_is_no_message_to_us_is_left_out(tmp_path: Path, inbox: Inbox) -> None:
    phone, text = RecordedPhone(), Content(conversation="x")
    async with receiving(channel_on(phone, tmp_path), inbox):
        for event in (
            message_event(text, is_from_me=True),
            message_event(text, is_edit=True),
            message_event(text, chat=jid("status", "broadcast")),
            message_event(text, chat=jid("120363", "newsletter")),
            message_event(text, sender=jid("a#b")),
            message_event(Content()),
            message_event(Content(protocolMessage=ProtocolMessage())),
            message_event(Content(reactionMessage=ReactionMessage(text="👍"))),
            message_event(text, chat=GROUP),
            message_event(Content(extendedTextMessage=ExtendedTextMessage(text="@1")), chat=GROUP),
        ):
            phone.play(event)
        phone.play(message_event(Content(conversation="last")))
        assert (await inbox.next()).text == "last"

    assert inbox.is_empty
    assert list((tmp_path / "inbox").iterdir()) == []


async def test_a_mention_and_a_reply_in_a_group_are_for_us(tmp_path: Path, inbox: Inbox) -> None:
    phone = RecordedPhone()
    mention = ContextInfo(mentionedJID=["1@s.whatsapp.net", f"{OWN_HIDDEN}@lid"])
    reply = ContextInfo(participant=f"{OWN}:3@s.whatsapp.net", quotedMessage=Content(conversation="?"))
    async with receiving(channel_on(phone, tmp_path), inbox):
        for text, context in ((f"@{OWN_HIDDEN} do @1 it", mention), ("yes", reply)):
            content = Content(extendedTextMessage=ExtendedTextMessage(text=text, contextInfo=context))
            phone.play(message_event(content, chat=GROUP, stanza="3EB01"))
        first, second = await inbox.next(), await inbox.next()

    assert (first.text, second.text) == ("do @1 it", "yes")
    assert first.chat == Chat("7", "120363041234567890")
    assert first.id == "120363041234567890.3EB01"


async def test_a_hidden_sender_has_their_number_or_their_hidden_id(tmp_path: Path, inbox: Inbox) -> None:
    phone, text = RecordedPhone(), Content(conversation="x")
    channel = channel_on(phone, tmp_path)
    async with receiving(channel, inbox):
        phone.play(message_event(text, sender=jid("55", "lid"), sender_alt=jid("39333")))
        phone.play(message_event(text, sender=jid("55", "lid"), name=""))
        known, hidden = await inbox.next(), await inbox.next()
        if known.chat.person != "39333":
            known, hidden = hidden, known
        await channel.send(Part(hidden.chat, "hi", "k"))

    assert (known.chat, hidden.chat, hidden.name) == (Chat("39333"), Chat("lid.55"), "lid.55")
    assert phone.sent[0].to == "55@lid"


async def test_a_long_id_of_a_message_is_hashed(tmp_path: Path, inbox: Inbox) -> None:
    phone = RecordedPhone()
    async with receiving(channel_on(phone, tmp_path), inbox):
        phone.play(message_event(Content(conversation="x"), stanza="a/b" * 40))
        assert len((await inbox.next()).id) == 64


async def test_a_message_outlives_a_channel_that_did_not_pass_it_on(tmp_path: Path, inbox: Inbox) -> None:
    held, phone = Inbox(), RecordedPhone()
    held.is_open.clear()
    async with receiving(channel_on(phone, tmp_path), held):
        for number in range(3):
            phone.play(message_event(Content(conversation=str(number)), stanza=f"3EB0{number}"))
        await held.next()
    (stored, *_) = sorted((tmp_path / "inbox").iterdir())
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600

    (tmp_path / "inbox" / "000000000009.message").write_bytes(b"\xff")
    async with receiving(channel_on(RecordedPhone(), tmp_path), inbox):
        received = [await inbox.next() for _ in range(3)]

    assert [message.text for message in received] == ["0", "1", "2"]
    assert held.messages == []
    assert list((tmp_path / "inbox").iterdir()) == []


async def test_a_waiting_chat_holds_back_its_own_messages_only(tmp_path: Path, inbox: Inbox) -> None:
    phone = RecordedPhone()
    inbox.is_open.clear()
    async with receiving(channel_on(phone, tmp_path), inbox):
        for text, person in (("1", "7"), ("2", "7"), ("3", "8")):
            phone.play(message_event(Content(conversation=text), sender=jid(person)))
        assert [(await inbox.next()).text, (await inbox.next()).text] == ["1", "3"]
        assert inbox.is_empty
        inbox.is_open.set()
        assert (await inbox.next()).text == "2"


async def test_a_failed_relay_ends_the_channel(tmp_path: Path) -> None:
    async def receive(message: ChannelMessage) -> None:
        raise ValueError("broken")

    phone = RecordedPhone()
    channel = channel_on(phone, tmp_path)
    await channel.connect()
    phone.play(message_event(Content(conversation="x")))
    with pytest.raises(ChannelError, match="could not be passed on: broken"):
        await channel.receive(receive)
    await channel.close()


async def test_an_answer_quotes_the_message(tmp_path: Path, inbox: Inbox) -> None:
    phone = RecordedPhone()
    channel = channel_on(phone, tmp_path)
    async with receiving(channel, inbox):
        content = Content(
            extendedTextMessage=ExtendedTextMessage(
                text=f"@{OWN} status", contextInfo=ContextInfo(mentionedJID=[f"{OWN}@s.whatsapp.net"])
            )
        )
        phone.play(message_event(content, chat=GROUP, sender=jid("55", "lid"), sender_alt=jid("7")))
        message = await inbox.next()
        sent = await channel.send(Part(message.chat, "**ok**", "k", reply_to=message.id))
        await channel.send(Part(ADA, "later", "k", reply_to="7.unknown"))

    quoted, plain = phone.sent
    assert sent == "3EB01"
    assert (quoted.to, plain.to) == ("120363041234567890@g.us", "7@s.whatsapp.net")
    assert quoted.content.extendedTextMessage.text == "*ok*"
    context = quoted.content.extendedTextMessage.contextInfo
    assert (context.stanzaID, context.participant) == ("3EB0C0FFEE", "55@lid")
    assert context.quotedMessage.conversation == "status"
    assert not plain.content.extendedTextMessage.HasField("contextInfo")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.png", "image"), ("a.mp4", "video"), ("a.mp3", "audio"), ("a.zip", "document"), ("a", "document")],
)
async def test_a_file_is_uploaded_and_sent(tmp_path: Path, inbox: Inbox, name: str, kind: str) -> None:
    phone, path = RecordedPhone(), tmp_path / name
    path.write_bytes(b"data")
    channel = channel_on(phone, tmp_path / "state")
    async with receiving(channel, inbox):
        await channel.send_file(FilePart(ADA, path, name, "k"))

    message = getattr(phone.sent[0].content, f"{kind}Message")
    assert phone.uploads == [(kind, b"data")]
    assert (message.URL, message.mediaKey, message.fileLength) == ("https://mmg.whatsapp.net/f", b"k", 4)
    assert getattr(message, "fileName", "") == (name if kind == "document" else "")


async def test_a_large_or_missing_file_is_final(tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked, "LINKED_MANIFEST", linked.LINKED_MANIFEST.__class__("w", "W", (), (), send_limit=3))
    path = tmp_path / "a"
    path.write_bytes(b"data")
    channel = channel_on(RecordedPhone(), tmp_path / "state")
    async with receiving(channel, inbox):
        for missing in (path, tmp_path / "b"):
            with pytest.raises(DeliveryError, match=r"larger than|cannot be read") as caught:
                await channel.send_file(FilePart(ADA, missing, "a", "k"))
            assert caught.value.is_final


@pytest.mark.parametrize(
    ("error", "retry_after", "is_final"),
    [
        ("server returned error 429", 60.0, False),
        ("info query returned status 403: forbidden", None, True),
        ("no LID found for 7@s.whatsapp.net from server", None, True),
        ("websocket disconnected", None, False),
    ],
)
async def test_a_refused_answer_is_a_sentence(
    tmp_path: Path, inbox: Inbox, error: str, retry_after: float | None, is_final: bool
) -> None:
    phone = RecordedPhone()
    channel = channel_on(phone, tmp_path)
    async with receiving(channel, inbox):
        phone.error = error
        with pytest.raises(DeliveryError, match="WhatsApp") as caught:
            await channel.send(Part(ADA, "text", "k"))
        with pytest.raises(DeliveryError, match="not a chat"):
            await channel.send(Part(Chat("7", "no group"), "text", "k"))
        await channel.show_typing(ADA)
        phone.error = None
        await channel.show_typing(ADA)

    assert (caught.value.retry_after, caught.value.is_final) == (retry_after, is_final)
    assert phone.typing == ["7@s.whatsapp.net"]
