"""Files and other things that people send."""

from errno import EACCES
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.channels.telegram.bot_api import Json
from tests.channels.telegram.conftest import Inbox, receiving
from tests.channels.telegram.server import TelegramServer
from tinyagi.channels.port import Attachment, DeliveryError
from tinyagi.channels.telegram.channel import TelegramChannel


async def content_of(attachment: Attachment) -> bytes:
    return b"".join([chunk async for chunk in attachment.chunks()])


def _denied(path: Path, mode: str) -> BinaryIO:
    raise PermissionError(EACCES, "Permission denied", str(path))


VIDEO: Json = {"width": 1, "height": 1, "duration": 1}
STICKER: Json = {"width": 1, "height": 1, "type": "regular", "emoji": "👍"}


@pytest.mark.parametrize(
    ("kind", "fields", "name"),
    [
        ("document", {"file_name": "a b ü.pdf"}, "a b ü.pdf"),
        ("document", {"mime_type": "application/pdf"}, "document-ufile0.pdf"),
        ("document", {}, "document-ufile0"),
        ("document", {"file_name": "../../etc/pass\nwd"}, "passwd"),
        ("document", {"file_name": "..\\..\\x.exe"}, "x.exe"),
        ("document", {"file_name": ".."}, "document-ufile0"),
        ("audio", {"duration": 1, "file_name": "song.mp3"}, "song.mp3"),
        ("audio", {"duration": 1, "mime_type": "audio/mp4"}, "audio-ufile0.m4a"),
        ("voice", {"duration": 1, "mime_type": "audio/ogg"}, "voice-ufile0.ogg"),
        ("video", {**VIDEO, "file_name": "v.mov"}, "v.mov"),
        ("video", {**VIDEO, "mime_type": "video/mp4"}, "video-ufile0.mp4"),
        ("video_note", {"length": 1, "duration": 1}, "video-ufile0.mp4"),
        ("sticker", {**STICKER, "is_animated": False, "is_video": False}, "sticker-ufile0.webp"),
        ("sticker", {**STICKER, "is_animated": True, "is_video": False}, "sticker-ufile0.tgs"),
        ("sticker", {**STICKER, "is_animated": False, "is_video": True}, "sticker-ufile0.webm"),
    ],
)
async def test_each_kind_of_file_arrives(
    server: TelegramServer, inbox: Inbox, kind: str, fields: Json, name: str
) -> None:
    await server.push(server.chat() | {kind: server.file(b"content", **fields)})
    (message,) = await inbox.until(1)
    (attachment,) = message.attachments
    assert (attachment.name, attachment.size) == (name, 7)
    assert message.text == ("👍" if kind == "sticker" else "")
    assert server.downloads == 0
    assert await content_of(attachment) == b"content"
    assert server.downloads == 1


async def test_a_photo_comes_in_its_largest_size(server: TelegramServer, inbox: Inbox) -> None:
    small = server.file(b"small", width=90, height=60)
    large = server.file(b"large", width=900, height=600)
    await server.push(server.chat() | {"photo": [large, small], "caption": "look"})
    (message,) = await inbox.until(1)
    assert message.text == "look"
    assert [attachment.name for attachment in message.attachments] == ["photo-ufile1.jpg"]
    assert await content_of(message.attachments[0]) == b"large"


async def test_an_animation_is_one_file(server: TelegramServer, inbox: Inbox) -> None:
    animation = server.file(b"gif", **VIDEO, file_name="funny.mp4")
    await server.push(server.chat() | {"animation": animation, "document": animation})
    (message,) = await inbox.until(1)
    assert [attachment.name for attachment in message.attachments] == ["funny.mp4"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"location": {"latitude": 52.5, "longitude": 13.4}}, "[location: 52.5, 13.4]"),
        ({"contact": {"phone_number": "+49", "first_name": "Grace", "last_name": "H"}}, "[contact: Grace H, +49]"),
        ({"dice": {"emoji": "🎲", "value": 4}}, "[dice: 🎲 4]"),
        (
            {
                "location": {"latitude": 1, "longitude": 2},
                "venue": {"location": {"latitude": 1, "longitude": 2}, "title": "Café", "address": "Street 1"},
            },
            "[place: Café, Street 1, 1, 2]",
        ),
        ({"story": {"id": 1, "chat": {"id": 7, "type": "private"}}}, "[story]"),
        (
            {
                "poll": {
                    "id": "1", "question": "Tea?", "total_voter_count": 0, "is_closed": False, "is_anonymous": True,
                    "type": "regular", "allows_multiple_answers": False, "allows_revoting": False,
                    "members_only": False,
                    "options": [
                        {"text": "yes", "voter_count": 0, "persistent_id": "a"},
                        {"text": "no", "voter_count": 0, "persistent_id": "b"},
                    ],
                }
            },
            "[poll: Tea? yes / no]",
        ),
    ],
)  # fmt: skip
async def test_what_is_no_file_becomes_a_text(server: TelegramServer, inbox: Inbox, fields: Json, text: str) -> None:
    await server.push(server.chat() | fields)
    (message,) = await inbox.until(1)
    assert (message.text, message.attachments) == (text, ())


async def test_a_large_file_comes_in_pieces(server: TelegramServer, inbox: Inbox) -> None:
    content = bytes(range(256)) * 4 * 1024
    await server.push(server.chat() | {"document": server.file(content)})
    (message,) = await inbox.until(1)
    chunks = [chunk async for chunk in message.attachments[0].chunks()]
    assert b"".join(chunks) == content
    assert len(chunks) > 1


async def test_a_file_above_the_limit_is_a_sentence(server: TelegramServer, inbox: Inbox) -> None:
    await server.push(server.chat() | {"document": server.file(bytes(20_000_001))})
    (message,) = await inbox.until(1)
    assert message.attachments[0].size == 20_000_001
    with pytest.raises(DeliveryError, match="no file of more than 20 MB") as caught:
        await content_of(message.attachments[0])
    assert caught.value.is_final


async def test_a_failed_download_may_be_tried_again(server: TelegramServer, inbox: Inbox) -> None:
    await server.push(server.chat() | {"document": server.file(b"content")})
    (message,) = await inbox.until(1)
    for number in (1, 2):
        server.fail_every(number)
        with pytest.raises(DeliveryError, match="Telegram answers with the error 50") as caught:
            await content_of(message.attachments[0])
        assert not caught.value.is_final
        assert server.settings["bot_token"] not in str(caught.value)
    server.fail_every(0)
    assert await content_of(message.attachments[0]) == b"content"


async def test_a_file_that_is_gone_is_a_sentence(server: TelegramServer, inbox: Inbox) -> None:
    await server.push(server.chat() | {"document": server.file(b"content")})
    (message,) = await inbox.until(1)
    server.refuse("getFile", 400, "Bad Request: wrong file_id or the file is temporarily unavailable")
    with pytest.raises(DeliveryError, match="no longer there"):
        await content_of(message.attachments[0])
    server.files["file0"] = b""
    server.lost_files.add("file0")
    with pytest.raises(DeliveryError, match="error 404") as caught:
        await content_of(message.attachments[0])
    assert caught.value.is_final


async def test_a_server_on_this_machine_names_its_file(
    server: TelegramServer, inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "on disk.bin"
    path.write_bytes(b"local")
    await server.push(server.chat() | {"document": server.file(b"content")})
    server.local_paths["file0"] = str(path)
    (message,) = await inbox.until(1)
    assert await content_of(message.attachments[0]) == b"local"
    monkeypatch.setattr(Path, "open", _denied)
    with pytest.raises(DeliveryError, match="cannot be read here: Permission denied"):
        await content_of(message.attachments[0])


async def test_a_file_of_this_folder_is_never_taken_for_telegrams(
    server: TelegramServer, channel: TelegramChannel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library takes a relative path from Telegram for a local file if there is one of that name."""
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "file0 ü.bin").write_bytes(b"private")
    monkeypatch.chdir(tmp_path)
    await server.push(server.chat() | {"document": server.file(b"content")})
    inbox = Inbox()
    async with receiving(channel, inbox):
        (message,) = await inbox.until(1)
        assert await content_of(message.attachments[0]) == b"content"
