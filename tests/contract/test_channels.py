"""Every channel between its platform on loopback and a daemon: the same behaviour, with the real client libraries."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.channels.conftest import Front
from tests.channels.discord.server import DiscordServer
from tests.channels.platform import Delivered, Platform
from tests.channels.telegram.server import TelegramServer
from tests.channels.webhook.server import WebhookSystem
from tests.channels.whatsapp.server import GraphServer
from tests.support.waiting import eventually
from tinyagi.channels.registry import MANIFESTS, open_channel

pytestmark = pytest.mark.timeout(120)

PLATFORMS: tuple[Callable[[], Platform], ...] = (TelegramServer, DiscordServer, GraphServer, WebhookSystem)


@pytest.fixture(params=PLATFORMS, ids=lambda made: made.channel)
async def platform(request: pytest.FixtureRequest) -> AsyncIterator[Platform]:
    platform: Platform = request.param()
    await platform.start()
    yield platform
    await platform.stop()


@pytest.fixture
async def front(tmp_path: Path, platform: Platform) -> AsyncIterator[Front]:
    front = Front(tmp_path)
    front.settings["queue"] |= {"delivery_cap_seconds": 1}
    async with front.serve():
        await front.pair("7", platform.channel)
        yield front


@asynccontextmanager
async def relaying(front: Front, platform: Platform) -> AsyncIterator[None]:
    channel = open_channel(platform.channel, platform.settings, front.home.channels / platform.channel)
    async with front.relaying(channel), front.client() as client:

        async def is_connected() -> bool:
            found = (await client.status()).channels.get(platform.channel)
            return found is not None and found.connected

        await eventually(is_connected)
        yield


async def delivered(platform: Platform, count: int) -> list[Delivered]:
    """Wait until the platform has so many messages of the bot."""
    await eventually(lambda: len(platform.deliveries) >= count)
    return list(platform.deliveries)


async def test_a_message_is_answered_in_its_chat(front: Front, platform: Platform) -> None:
    async with relaying(front, platform):
        await platform.write("@coder hello")
        (answer,) = await delivered(platform, 1)
    assert (answer.person, answer.text) == ("7", "echo: hello")
    (message,) = await front.messages()
    assert (message.channel, message.sender, message.sender_id) == (platform.channel, "Ada", "7")


async def test_a_message_that_the_platform_repeats_is_stored_once(front: Front, platform: Platform) -> None:
    async with relaying(front, platform):
        message = await platform.write("@coder hello")
        await delivered(platform, 1)
        await platform.repeat(message)
        await platform.write("@coder and again")
        answers = await delivered(platform, 2)
    assert [answer.text for answer in answers] == ["echo: hello", "echo: and again"]
    assert len(await front.messages()) == 2


async def test_a_stranger_gets_one_code_and_nothing_else(front: Front, platform: Platform) -> None:
    async with relaying(front, platform):
        for number in range(3):
            await platform.write(f"secret {number}", person="8", name="Eve", files=(("a.txt", b"data"),))
        await platform.write("@coder hello")
        answers = await delivered(platform, 2)
    (pending,) = await front.store.pairing.pending()
    (told,) = [answer for answer in answers if answer.person == "8"]
    assert pending.code in told.text
    assert platform.downloads == 0
    assert len(await front.messages()) == 1
    assert not list(front.home.files.rglob("*.txt"))


async def test_files_go_both_ways(front: Front, platform: Platform) -> None:
    workspace = front.folder / "workspace" / "coder"

    def play(_: object) -> str:
        workspace.mkdir(parents=True, exist_ok=True)
        (workspace / "report.txt").write_bytes(b"the report")
        return "Here. [send_file: report.txt]"

    front.puppet.plays["coder"] = play
    async with relaying(front, platform):
        await platform.write("@coder look", files=(("picture.dat", b"pixels"),))
        answers = await delivered(platform, 2)
    assert [name for answer in answers for name in answer.files] == ["report.txt"]
    (file,) = front.home.files.rglob("*.dat")
    assert file.read_bytes() == b"pixels"


async def test_a_long_answer_arrives_whole_and_in_order(front: Front, platform: Platform) -> None:
    front.settings["responses"] = {"suffix": False, "long_answer_characters": 100_000}
    front.write_settings()
    words = [f"word{number}" for number in range(900)]
    front.puppet.plays["coder"] = lambda _: "\n".join(words)
    async with relaying(front, platform):
        await stored_settings(front)
        await platform.write("@coder tell me")
        await front.until_event("response_acked")
    said = " ".join(answer.text for answer in platform.deliveries)
    assert [word for word in said.split() if word.startswith("word")] == words
    limit = MANIFESTS[platform.channel].text_limit
    assert all(len(answer.text) <= limit for answer in platform.deliveries)


async def test_the_platforms_rate_limit_is_honoured(front: Front, platform: Platform) -> None:
    async with relaying(front, platform):
        platform.limit_next(1)
        await platform.write("@coder hello")
        (answer,) = await delivered(platform, 1)
        await front.until_event("response_acked")
    assert answer.text == "echo: hello"
    assert [one.attempts for one in await front.responses()] == [0], "a wait is not a failure"


async def test_every_third_call_fails_and_every_answer_arrives_once_in_order(front: Front, platform: Platform) -> None:
    front.settings["agents"]["coder"]["batching"] = "none"
    front.write_settings()
    async with relaying(front, platform):
        await stored_settings(front)
        platform.fail_every(3)
        for number in range(6):
            await platform.write(f"@coder number {number}")
        answers = await delivered(platform, 6)
        platform.fail_every(0)
    assert [answer.text for answer in answers] == [f"echo: number {number}" for number in range(6)]


async def test_a_message_written_while_the_relay_is_away_is_answered_later(front: Front, platform: Platform) -> None:
    async with relaying(front, platform):
        await platform.write("@coder first")
        await delivered(platform, 1)
    await platform.write("@coder second")
    async with relaying(front, platform):
        answers = await delivered(platform, 2)
    assert [answer.text for answer in answers] == ["echo: first", "echo: second"]


async def stored_settings(front: Front) -> None:
    """Wait until the engine has read the changed settings."""
    wanted = (
        front.settings["responses"].get("long_answer_characters", 4_000),
        front.settings["agents"]["coder"].get("batching"),
    )

    def current() -> tuple[object, object]:
        settings = front.engine.settings.current
        batching = settings.agents["coder"].batching
        return settings.responses.long_answer_characters, None if wanted[1] is None else str(batching)

    await eventually(lambda: current() == wanted)
