"""The way of a chat message through relay, queue, run and back, beside the bare client library that echoes.

Both serve the same Bot API on loopback: 500 messages of 25 people wait there, and the clock runs from the first request
for them until the last one is answered. Ours stores every message durably, runs an agent for it, stores the answer
and acknowledges its delivery; the bare bot keeps nothing. Measured twice: with the settings as installed, where one
answer covers the messages of a person that waited together, and with `batching: none` (`_each`), where each message
gets its own. The last line of stdout is one JSON object.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console

from checkouts import BENCH, CHECKOUT

sys.path.insert(0, str(CHECKOUT))

from tests.channels.telegram.server import TelegramServer
from tests.support.ports import free_port

from tinyagi.client.client import AsyncClient
from tinyagi.client.errors import ClientError

EXAMPLE: Final = """\
example:
  python bench/channel_bench.py --quick
  python bench/channel_bench.py --json-only | jq .relay_vs_bare
"""
MESSAGES: Final = 500
PEOPLE: Final = 25
AGENTS: Final = 8
ROUNDS: Final = 5
QUICK_ROUNDS: Final = 3
PATIENCE: Final = 120.0
_MESSAGE: Final = re.compile(r"message \d+")


async def rate(platform: TelegramServer, messages: int, prefix: str) -> float:
    """Messages per second, from the arrival of all messages at the platform until each is answered."""
    answered: set[str] = set()
    seen = len(platform.deliveries)
    began = time.perf_counter()
    for number in range(messages):
        person = str(100 + number % PEOPLE)
        text = f"message {number}"
        await platform.write(f"@agent-{number % AGENTS} {text}" if prefix else text, person=person)
    async with asyncio.timeout(PATIENCE):
        while len(answered) < messages:
            await asyncio.sleep(0.005)
            for delivered in platform.deliveries[seen:]:
                # One answer may cover several messages of a person.
                answered.update(_MESSAGE.findall(delivered.text))
                seen += 1
    return messages / (time.perf_counter() - began)


@contextlib.asynccontextmanager
async def process(*command: str, **environment: str) -> AsyncIterator[None]:
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, *command),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT / "src"), **environment},
    )
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            running.terminate()
        await running.wait()


@contextlib.asynccontextmanager
async def bare(platform: TelegramServer) -> AsyncIterator[None]:
    settings = platform.settings
    async with process(str(BENCH / "channel_bare.py"), settings["bot_token"], settings["api_url"]):
        await platform.until_called("getMe")
        yield


@contextlib.asynccontextmanager
async def ours(platform: TelegramServer, folder: Path, batching: str) -> AsyncIterator[None]:
    port = free_port()
    write_home(folder, platform, port, batching)
    command = ("-m", "tinyagi", "run", "--quiet")
    async with process(*command, TINYAGI_HOME=str(folder / "home")), AsyncClient(f"http://127.0.0.1:{port}") as client:
        await until_connected(client)
        for number in range(PEOPLE):
            code = (await client.pairing.check("telegram", str(100 + number), "Ada")).code
            await client.pairing.approve(code or "")
        yield


def write_home(folder: Path, platform: TelegramServer, port: int, batching: str) -> None:
    home = folder / "home"
    home.mkdir(parents=True)
    agents = [f"agent-{number}" for number in range(AGENTS)]
    for agent in agents:
        workspace = folder / "workspace" / agent
        workspace.mkdir(parents=True)
        (workspace / "script.toml").write_text('[[reply]]\nsay = "{message}"\n')
    settings = {
        "workspace": {"path": str(folder / "workspace")},
        "agents": {agent: {"provider": "scripted", "batching": batching} for agent in agents},
        "channels": {"enabled": ["telegram"], "telegram": dict(platform.settings)},
        "responses": {"suffix": False},
        "server": {"port": port, "messages_per_minute": 0},
        "pipeline": {"enabled": False},
    }
    (home / "settings.json").write_text(json.dumps(settings))


async def until_connected(client: AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(ClientError):
                telegram = (await client.status()).channels.get("telegram")
                if telegram is not None and telegram.connected:
                    return
            await asyncio.sleep(0.05)


async def compare(rounds: int, console: Console) -> dict[str, float]:
    """Both in every round, in turn, because the machine's pace changes."""
    rates: dict[str, list[float]] = {"bare": [], "thread": [], "none": []}
    for number in range(rounds):
        for which in list(rates)[:: -1 if number % 2 else 1]:
            platform = TelegramServer()
            await platform.start()
            with tempfile.TemporaryDirectory(prefix="tinyagi-bench-") as folder:
                serving = bare(platform) if which == "bare" else ours(platform, Path(folder), which)
                async with serving:
                    prefix = "" if which == "bare" else "@"
                    # The first messages make workspaces and connections.
                    await rate(platform, PEOPLE, prefix)
                    rates[which].append(await rate(platform, MESSAGES, prefix))
            await platform.stop()
        last = {which: found[-1] for which, found in rates.items()}
        console.print(
            f"round {number + 1}: ours {last['thread']:.0f} messages/s, an answer for each {last['none']:.0f}, "
            f"bare {last['bare']:.0f}",
            style="dim",
        )

    def ratio(which: str) -> float:
        return round(median(mine / plain for mine, plain in zip(rates[which], rates["bare"], strict=True)), 3)

    return {
        "relay_vs_bare": ratio("thread"),
        "relay_vs_bare_each": ratio("none"),
        "relay_per_s": round(median(rates["thread"]), 1),
        "relay_per_s_each": round(median(rates["none"]), 1),
        "bare_per_s": round(median(rates["bare"]), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="three rounds: a minute")
    parser.add_argument("--json-only", action="store_true", help="print nothing but the last line")
    options = parser.parse_args()
    console = Console(quiet=options.json_only)
    figures = asyncio.run(compare(QUICK_ROUNDS if options.quick else ROUNDS, console))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
