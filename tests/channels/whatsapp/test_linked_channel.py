"""The linked phone's channel, driven by real events of neonize. A test cannot connect to WhatsApp: there is no server
that speaks its encrypted protocol, and the library knows no other address. What only WhatsApp can show stays untested:
pairing, reconnecting and the library's own deliveries."""

import asyncio
import ctypes
import stat
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from google.protobuf.message import Message as Event
from neonize.proto.Neonize_pb2 import (
    ClientOutdated,
    Connected,
    ConnectFailure,
    ConnectFailureReason,
    Disconnected,
    LoggedOut,
    Node,
    StreamReplaced,
    TemporaryBan,
)
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
from tests.channels.whatsapp.recorded_phone import OWN, OWN_HIDDEN, RecordedPhone, jid, message_event
from tinyagi.channels.chat import Chat
from tinyagi.channels.port import ChannelError, ChannelMessage, DeliveryError, FilePart, NotConfigured, Part
from tinyagi.channels.whatsapp import linked
from tinyagi.channels.whatsapp.channel import whatsapp_channel
from tinyagi.channels.whatsapp.cloud import CloudChannel
from tinyagi.channels.whatsapp.linked import LinkedChannel
from tinyagi.channels.whatsapp.phone import Handlers, NeonizePhone, PhoneError
from tinyagi.channels.whatsapp.qr import half_blocks
from tinyagi.channels.whatsapp.spool import Spool, SpoolFull

ADA = Chat("7")
GROUP = jid("120363041234567890", "g.us")


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


def channel_on(phone: RecordedPhone, state: Path) -> LinkedChannel:
    return LinkedChannel({}, state, lambda database: phone)


async def content_of(message: ChannelMessage) -> bytes:
    return b"".join([chunk async for chunk in message.attachments[0].chunks()])


# Messages in


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


# Answers out


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


# The link


async def test_the_qr_code_is_shown_until_the_phone_is_linked(tmp_path: Path) -> None:
    phone, shown = RecordedPhone(is_linked=False), list[str]()
    channel = channel_on(phone, tmp_path)
    channel.on_qr = shown.append
    connecting = asyncio.create_task(channel.connect())
    await phone.started.wait()
    assert phone.handlers is not None
    phone.handlers.on_qr("2@first")
    phone.handlers.on_qr("2@second")
    file = tmp_path / "qr.txt"

    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("2@second\n", 0o600)
    assert shown == ["2@first", "2@second"]

    phone.play(Connected(status=True))
    assert await connecting == "Nova"
    assert not file.exists()
    assert stat.S_IMODE((tmp_path / "session.db").stat().st_mode) == 0o600
    await channel.close()


async def test_a_code_that_is_not_scanned_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked, "CONNECT_TIME", timedelta(milliseconds=10))
    phone = RecordedPhone(is_linked=False)
    channel = channel_on(phone, tmp_path)
    with pytest.raises(ChannelError, match="scan its QR code"):
        await channel.connect()
    await channel.close()


@pytest.mark.parametrize(
    ("event", "error", "sentence"),
    [
        (
            LoggedOut(OnConnect=False, Reason=ConnectFailureReason.Value("LOGGED_OUT")),
            ChannelError,
            "scan the new QR code",
        ),
        (StreamReplaced(), ChannelError, "Another program"),
        (
            TemporaryBan(Code=TemporaryBan.TempBanReason.Value("BLOCKED_BY_USERS"), Expire=3600),
            NotConfigured,
            "banned this number",
        ),
        (ClientOutdated(), NotConfigured, "pip install -U"),
        (
            ConnectFailure(Reason=ConnectFailureReason.Value("GENERIC"), Message="odd", Raw=Node(Tag="x")),
            ChannelError,
            "refused the connection: odd",
        ),
    ],
)
async def test_the_end_of_the_link_is_a_sentence(
    tmp_path: Path, event: Event, error: type[ChannelError], sentence: str
) -> None:
    async def receive(message: ChannelMessage) -> None:
        pass

    phone = RecordedPhone()
    channel = channel_on(phone, tmp_path)
    await channel.connect()
    phone.play(Disconnected(status=True))
    phone.play(Connected(status=True))
    phone.play(event)
    with pytest.raises(error, match=sentence):
        await channel.receive(receive)
    await channel.close()


async def test_a_library_that_gives_up_at_the_start_is_a_sentence(tmp_path: Path) -> None:
    phone = RecordedPhone(is_linked=False)
    phone.end("dial tcp: no route")
    channel = channel_on(phone, tmp_path)
    with pytest.raises(ChannelError, match="has ended: dial tcp: no route"):
        await channel.connect()
    await channel.close()


# The library, as far as it works without WhatsApp


async def test_the_library_stores_a_message_before_its_callback_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    phone, events = NeonizePhone(tmp_path / "session.db"), list[Event]()
    forever = asyncio.get_running_loop().create_task(asyncio.Event().wait())

    async def connect() -> asyncio.Task[bool]:
        return forever

    monkeypatch.setattr(phone._client, "connect", connect)
    await phone.start(Handlers(lambda code: None, events.append))
    execute = phone._client.event.execute
    event = message_event(Content(conversation="x"))
    buffer = ctypes.create_string_buffer(event.SerializeToString())
    execute(0, ctypes.addressof(buffer), len(buffer) - 1, 17)
    execute(0, ctypes.addressof(buffer), 1, 17)
    execute(0, ctypes.addressof(buffer), 1, 9999)

    assert events == [event]
    assert sorted(phone._client.event.list_func) == [3, 6, 7, 8, 9, 10, 12, 17]
    assert "not understood" in caplog.text
    forever.cancel()
    await phone.stop()


async def test_no_call_reaches_the_library_before_it_is_connected(tmp_path: Path) -> None:
    phone = NeonizePhone(tmp_path / "session.db")
    assert await phone.ended() == "it was not started"
    for call in (
        phone.send(jid("7"), Content()),
        phone.upload(b"", "image"),
        phone.download(Content()),
        phone.show_typing(jid("7")),
    ):
        with pytest.raises(PhoneError, match="not connected"):
            await call
    await phone.stop()


def test_a_spool_has_a_limit(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "inbox", limit=2)
    first = spool.add(b"1")
    spool.add(b"2")
    with pytest.raises(SpoolFull):
        spool.add(b"3")
    spool.remove(first)
    spool.add(b"3")

    assert [content for _, content in Spool(tmp_path / "inbox").waiting()] == [b"2", b"3"]


def test_a_qr_code_is_drawn_in_half_blocks() -> None:
    lines = half_blocks("2@abc").splitlines()
    assert {len(line) for line in lines} == {25}
    assert len(lines) == 13
    assert set("".join(lines)) == set("█▀▄ ")


def test_the_mode_chooses_the_channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"phone_number_id": "1", "access_token": "t", "app_secret": "s", "verify_token": "v"}

    assert isinstance(whatsapp_channel(settings, tmp_path), CloudChannel)
    assert isinstance(whatsapp_channel({"mode": "linked"}, tmp_path), LinkedChannel)
    with pytest.raises(NotConfigured, match="not a mode"):
        whatsapp_channel({"mode": "web"}, tmp_path)
    monkeypatch.setitem(sys.modules, "tinyagi.channels.whatsapp.linked", None)
    with pytest.raises(NotConfigured, match="libmagic"):
        whatsapp_channel({"mode": "linked"}, tmp_path)
