"""People write from chats while the daemon is killed with -9 and the platform fails: each message is answered once."""

import asyncio
import json
import os
import random
import re
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tests.channels.discord.server import DiscordServer
from tests.channels.platform import Platform
from tests.channels.telegram.server import TelegramServer
from tests.channels.webhook.server import WebhookSystem
from tests.channels.whatsapp.server import GraphServer
from tests.e2e.test_daemon import Finished, tinyagi
from tests.support.ports import free_port
from tests.support.waiting import eventually
from tinyagi.channels.registry import MANIFESTS
from tinyagi.client.client import AsyncClient
from tinyagi.client.errors import ClientError
from tinyagi.daemon.channel_process import NEEDS_FIX
from tinyagi.daemon.pidfile import find_daemon
from tinyagi.settings.home import Home

PLATFORMS: tuple[Callable[[], Platform], ...] = (TelegramServer, DiscordServer, GraphServer, WebhookSystem)
PEOPLE = ("7", "8", "9")
AGENT = '[[reply]]\nsay = "heard {message}"\n'
FEW, MANY = (45, 2), (200, 5)
"""Messages and kills."""


@pytest.fixture(params=PLATFORMS, ids=lambda made: made.channel)
async def platform(request: pytest.FixtureRequest) -> AsyncIterator[Platform]:
    platform: Platform = request.param()
    await platform.start()
    yield platform
    await platform.stop()


@pytest.fixture
def home(tmp_path: Path, platform: Platform) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    (tmp_path / "workspace" / "coder").mkdir(parents=True)
    (tmp_path / "workspace" / "coder" / "script.toml").write_text(AGENT)
    settings = {
        "workspace": {"path": str(tmp_path / "workspace")},
        "agents": {"coder": {"provider": "scripted", "batching": "none"}},
        "channels": {"enabled": [platform.channel], platform.channel: dict(platform.settings)},
        "queue": {"recover_seconds": 0.2, "delivery_cap_seconds": 1},
        "responses": {"suffix": False},
        "server": {"port": free_port()},
        "pipeline": {"enabled": False},
    }
    home.settings_file.write_text(json.dumps(settings))
    return home


@asynccontextmanager
async def daemon(home: Home) -> AsyncIterator[asyncio.subprocess.Process]:
    """A daemon in the foreground with its relay; at the end both are killed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tinyagi", "run", "--quiet"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "TINYAGI_HOME": str(home.path)},
    )
    relays: list[psutil.Process] = []
    try:
        yield process
        if process.returncode is None:
            relays = psutil.Process(process.pid).children()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await asyncio.to_thread(psutil.wait_procs, relays, 20)


@asynccontextmanager
async def calling(home: Home, port: str = "") -> AsyncIterator[AsyncClient]:
    port = port or json.loads(home.settings_file.read_text())["server"]["port"]
    async with AsyncClient(f"http://127.0.0.1:{port}") as client:
        yield client


async def connected(home: Home, channel: str, port: str = "") -> None:
    async with calling(home, port) as client:

        async def is_connected() -> bool:
            try:
                found = (await client.status()).channels.get(channel)
            except ClientError:
                return False
            return found is not None and found.connected

        await eventually(is_connected)


async def pair(home: Home, platform: Platform) -> None:
    """Everyone writes once, gets a code, and the owner approves it."""
    for person in PEOPLE:
        await platform.write("hello", person=person)
    async with calling(home) as client:
        await approve(client, len(PEOPLE))


async def approve(client: AsyncClient, people: int) -> None:
    """Wait for so many codes and approve them."""

    async def are_pending() -> bool:
        return len((await client.pairing.all()).pending) >= people

    await eventually(are_pending)
    for one in (await client.pairing.all()).pending:
        await client.pairing.approve(one.code)


def answers_of(platform: Platform) -> dict[str, list[str]]:
    answers = defaultdict(list)
    for one in platform.deliveries:
        # The platform may repeat the `hello` from before the approval, which is then answered, too.
        if one.text.startswith("heard") and one.text != "heard hello":
            answers[one.person].append(one.text)
    return answers


async def until_answered(platform: Platform, messages: int) -> None:
    def answered() -> set[str]:
        """Numbers of messages that an answer covers."""
        texts = (text for texts in answers_of(platform).values() for text in texts)
        return {number for text in texts for number in re.findall(r"number (\d+)", text)}

    await eventually(lambda: len(answered()) >= messages, seconds=300)


async def until_acknowledged(home: Home) -> None:
    async with calling(home) as client:

        async def nothing_waits() -> bool:
            return not (await client.queue.status()).outgoing

        await eventually(nothing_waits)


async def run(home: Home, platform: Platform, messages: int, kills: int) -> None:
    dice = random.Random(5)
    async with daemon(home):
        await connected(home, platform.channel)
        await pair(home, platform)
    platform.fail_every(7)
    written = 0
    for kill in range(kills + 1):
        async with daemon(home) as process:
            upto = messages * (kill + 1) // (kills + 1)
            for number in range(written, upto):
                await platform.write(f"@coder number {number}", person=PEOPLE[number % len(PEOPLE)])
            written = upto
            await connected(home, platform.channel)
            if kill < kills:
                await asyncio.sleep(dice.random())
                process.send_signal(signal.SIGKILL)
                await process.wait()
            else:
                await until_answered(platform, messages)
                platform.fail_every(0)
                await until_acknowledged(home)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("messages", "kills"), [FEW, pytest.param(*MANY, marks=pytest.mark.soak)])
async def test_every_message_is_answered_once_and_in_order(
    home: Home, platform: Platform, messages: int, kills: int
) -> None:
    await run(home, platform, messages, kills)

    answers = answers_of(platform)
    repeated = 0
    for place, person in enumerate(PEOPLE):
        expected = [f"heard number {number}" for number in range(place, messages, len(PEOPLE))]
        assert list(dict.fromkeys(answers[person])) == expected, "lost, or out of order"
        repeated += len(answers[person]) - len(expected)
    if MANIFESTS[platform.channel].is_idempotent:
        assert repeated == 0
    else:
        # A process killed between the platform's yes and its record of it sends that part again.
        assert repeated <= kills
        assert max(Counter(text for texts in answers.values() for text in texts).values()) <= 2


@pytest.mark.timeout(300)
@pytest.mark.parametrize("platform", [TelegramServer], indirect=True, ids=["telegram"])
async def test_with_batching_every_message_is_covered_by_one_answer(home: Home, platform: Platform) -> None:
    settings = json.loads(home.settings_file.read_text())
    # A run takes a while, so that further messages wait and share the next one.
    del settings["agents"]["coder"]["batching"]
    home.settings_file.write_text(json.dumps(settings))
    script = home.path.parent / "workspace" / "coder" / "script.toml"
    script.write_text('[[reply]]\nseconds = 0.3\nsay = "heard {message}"\n')

    await run(home, platform, *FEW)

    answers = {text for texts in answers_of(platform).values() for text in texts}
    covered = Counter(number for text in answers for number in re.findall(r"number (\d+)", text))
    assert covered == Counter(str(number) for number in range(FEW[0]))
    assert len(answers) < FEW[0], "no run was shared"


@pytest.mark.timeout(120)
async def test_a_relay_killed_within_a_delivery_loses_nothing(home: Home, platform: Platform) -> None:
    """The daemon goes on and starts another relay."""
    async with daemon(home) as process:
        await connected(home, platform.channel)
        await pair(home, platform)
        for number in range(60):
            await platform.write(f"@coder number {number}", person=PEOPLE[number % 3])
        for _ in range(2):
            seen = len(platform.deliveries)
            await eventually(lambda: len(platform.deliveries) > seen, pause=0.001)  # noqa: B023 - awaited at once
            for relay in psutil.Process(process.pid).children():
                relay.kill()
            await connected(home, platform.channel)
        await until_answered(platform, 60)
    for place, person in enumerate(PEOPLE):
        texts = answers_of(platform)[person]
        assert list(dict.fromkeys(texts)) == [f"heard number {number}" for number in range(place, 60, 3)]


@pytest.mark.timeout(120)
async def test_setup_from_a_fresh_home_to_the_first_answer(tmp_path: Path, platform: Platform) -> None:
    """As the how-to pages say, without a terminal: every answer is an option."""
    home, name = Home(tmp_path / "fresh"), platform.channel
    port = str(free_port())
    environment = {"TINYAGI_API_PORT": port}
    flags = [word for option, value in platform.settings.items() for word in (f"--{option.replace('_', '-')}", value)]
    secrets = [
        platform.settings[one.name]
        for one in MANIFESTS[name].settings
        if one.is_secret and one.name in platform.settings
    ]
    try:
        setup = await channel(home, "setup", name, *flags, **environment)
        started = await tinyagi(home, "start", **environment)
        async with AsyncClient(f"http://127.0.0.1:{port}") as client:
            await connected(home, name, port)
            await platform.write("hello")
            await approve(client, 1)
            await platform.write("hello again")
            await eventually(lambda: any("hello again" in one.text for one in platform.deliveries))
        listed = await channel(home, "list", **environment)
        doctor = await tinyagi(home, "doctor", **environment)
        stopped = await channel(home, "stop", name, **environment)
        reset = await channel(home, "reset", name, "--yes", **environment)
    finally:
        await tinyagi(home, "stop", **environment)

    assert setup.code == 0, setup
    assert secrets
    assert not any(secret in setup.out + setup.err for secret in secrets)
    assert started.code == 0, started
    assert "connected" in listed.out
    assert f"{name} is connected as" in doctor.out
    assert stopped.code == 0, stopped
    assert reset.code == 0, reset
    assert not any(secret in home.settings_file.read_text() for secret in secrets)
    assert not find_daemon(home).is_up


@pytest.mark.timeout(120)
@pytest.mark.parametrize("platform", [TelegramServer], indirect=True, ids=["telegram"])
async def test_a_refused_token_is_named_and_not_stored(tmp_path: Path, platform: Platform) -> None:
    home = Home(tmp_path / "fresh")
    wrong = await channel(home, "setup", "telegram", "--token", "1:wrong", "--api-url", platform.settings["api_url"])
    missing = await channel(home, "setup", "telegram")
    unknown = await channel(home, "setup", "telegram", "--token", "1:x", "--mode", "cloud")
    flags = ("--token", "1:refused_later", "--api-url", platform.settings["api_url"], "--no-check", "--no-start")
    assert (await channel(home, "setup", "telegram", *flags)).code == 0
    port = str(free_port())
    try:
        await tinyagi(home, "start", TINYAGI_API_PORT=port)
        # As the daemon starts it: the exit code says whether another start can help.
        relay = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tinyagi", "--home", str(home.path), "channel", "run", "telegram", "--owned"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert relay.stderr is not None
        said = await relay.stderr.read()
        await relay.wait()
    finally:
        await tinyagi(home, "stop", TINYAGI_API_PORT=port)

    assert relay.returncode == NEEDS_FIX
    assert b"Traceback" not in said
    assert b"Telegram refuses the bot token" in said
    assert wrong.code == 1
    assert "tinyagi channel setup telegram" in wrong.err
    assert "Traceback" not in wrong.err
    assert "1:wrong" not in wrong.err
    assert not home.settings_file.exists() or "1:wrong" not in home.settings_file.read_text()
    assert (missing.code, unknown.code) == (2, 2)
    assert "--bot-token" in missing.err
    assert "--mode is not a setting of Telegram" in unknown.err


async def channel(home: Home, *arguments: str, **environment: str) -> Finished:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tinyagi", "--home", str(home.path), "channel", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(), err.decode())
