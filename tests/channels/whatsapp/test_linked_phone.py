"""The link with a phone: its QR code, its end, and what of the library works without WhatsApp."""

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
from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import Message as Content

from tests.channels.whatsapp.recorded_phone import RecordedPhone, channel_on, jid, message_event
from tinyagi.channels.port import ChannelError, ChannelMessage, NotSetUp
from tinyagi.channels.whatsapp import linked
from tinyagi.channels.whatsapp.channel import whatsapp_channel
from tinyagi.channels.whatsapp.cloud import CloudChannel
from tinyagi.channels.whatsapp.linked import LinkedChannel
from tinyagi.channels.whatsapp.phone import Handlers, NeonizePhone, PhoneError
from tinyagi.channels.whatsapp.qr import half_blocks
from tinyagi.channels.whatsapp.spool import Spool, SpoolFull
from tinyagi.domain.chats import Chat

ADA = Chat("7")
GROUP = jid("120363041234567890", "g.us")


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
            NotSetUp,
            "banned this number",
        ),
        (ClientOutdated(), NotSetUp, "pip install -U"),
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
    with pytest.raises(NotSetUp, match="not a mode"):
        whatsapp_channel({"mode": "web"}, tmp_path)
    monkeypatch.setitem(sys.modules, "tinyagi.channels.whatsapp.linked", None)
    with pytest.raises(NotSetUp, match="libmagic"):
        whatsapp_channel({"mode": "linked"}, tmp_path)
