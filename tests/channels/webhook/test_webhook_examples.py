"""The example and the lines of the page work against the channel as they are printed."""

import asyncio
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.channels.webhook.server import SECRET
from tests.support.ports import free_port
from tinyagi.channels.port import ChannelMessage, Part
from tinyagi.channels.webhook.channel import WebhookChannel

ROOT = Path(__file__).parents[3]


async def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *arguments), env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(30):
        output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode()


async def test_the_example_prints_the_answer(tmp_path: Path) -> None:
    port, answers = free_port(), free_port()
    settings = {"secret": SECRET, "url": f"http://127.0.0.1:{answers}/", "listen_port": str(port)}
    channel = WebhookChannel(settings, tmp_path)
    background = set[asyncio.Task[str]]()

    async def answer(message: ChannelMessage) -> None:
        part = Part(message.chat, f"echo: {message.text}", f"{message.id}-1", reply_to=message.id)
        background.add(asyncio.create_task(channel.send(part)))

    async with asyncio.TaskGroup() as group:
        receiving = group.create_task(channel.receive(answer))
        environment = {
            "WEBHOOK_SECRET": SECRET,
            "WEBHOOK_CHANNEL": f"http://127.0.0.1:{port}/messages",
            "ANSWERS_PORT": str(answers),
        }
        output = await run([str(ROOT / "examples" / "webhook_channel.py"), "hello", "agents"], environment)
        receiving.cancel()
    await asyncio.gather(*background)
    await channel.close()

    assert output == "echo: hello agents\n"


async def test_the_lines_of_the_page_send_a_message(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "connect-webhook.md").read_text()
    (lines,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    port, texts = free_port(), list[str]()
    settings = {"secret": SECRET, "url": "http://127.0.0.1:9/", "listen_port": str(port)}
    channel = WebhookChannel(settings, tmp_path)

    async def receive(message: ChannelMessage) -> None:
        texts.append(message.text)

    async with asyncio.TaskGroup() as group:
        receiving = group.create_task(channel.receive(receive))
        script = lines.replace("127.0.0.1:3780", f"127.0.0.1:{port}")
        output = await run(["-c", script], {"WEBHOOK_SECRET": SECRET})
        receiving.cancel()
    await channel.close()

    assert len(lines.splitlines()) <= 10
    assert texts == ["hello"]
    assert output.startswith('{"id":"msg_')
