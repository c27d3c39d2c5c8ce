"""The example plugins work, and the documents name every hook and its parameters."""

import re
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.plugins.conftest import CONTEXT, PluginHome
from tinyagi.domain.events import RecordedEvent
from tinyagi.plugins.plugin import Plugins
from tinyagi.plugins.specs import HOOKS, HookContext, LoadedPlugin, PluginContext, Transformed

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/plugins"
REFERENCE = ROOT / "docs/reference/plugins.md"
HOW_TO = ROOT / "docs/howto/write-a-plugin.md"
NAMES = ("channel-style", "daily-log", "redact")


async def load(home: PluginHome, name: str) -> Plugins:
    return await home.load(folder=EXAMPLES, disabled=tuple(other for other in NAMES if other != name))


async def test_every_example_loads(home: PluginHome) -> None:
    loaded = (await home.load(folder=EXAMPLES)).loaded

    assert [(plugin.name, plugin.error) for plugin in loaded] == [(name, None) for name in NAMES]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Write to ada.lovelace+x@mail.example.org.", "Write to [e-mail]."),
        ("<ada@example.org>, bob@example.com", "<[e-mail]>, [e-mail]"),
        ("Card 4111 1111 1111 1111, please.", "Card [card …1111], please."),
        ("4111-1111-1111-1111", "[card …1111]"),
        ("378282246310005", "[card …0005]"),
        ("Order 4111 1111 1111 1112", "Order 4111 1111 1111 1112"),
        ("Call 030 1234567 at 12:30 on 2026-01-31", "Call 030 1234567 at 12:30 on 2026-01-31"),
        ("@coder see a@b and x@y", "@coder see a@b and x@y"),
    ],
)
async def test_redact_masks_addresses_and_card_numbers(home: PluginHome, text: str, masked: str) -> None:
    plugins = await load(home, "redact")

    assert (await plugins.outgoing(text, CONTEXT)).text == masked


@pytest.mark.parametrize("character", ["a", "1", "1 ", "a.", "@", "a@"])
async def test_redact_is_fast_on_long_texts_that_almost_match(
    home: PluginHome, character: str, log: pytest.LogCaptureFixture
) -> None:
    plugins = await load(home, "redact")
    text = character * 100_000

    assert (await plugins.outgoing(text, CONTEXT)).text == text
    assert log.records == []


async def test_daily_log_keeps_answers_by_day(home: PluginHome) -> None:
    plugins = await load(home, "daily-log")
    morning = datetime(2026, 1, 30, 9, 5).astimezone()

    for day, text in [(30, "First.\n\n# Not a heading"), (30, "Second."), (31, "Third.")]:
        created_at = int(morning.replace(day=day).astimezone(UTC).timestamp() * 1000)
        answer = {"agent": "coder", "sender": "Ada\nLovelace", "channel": "telegram", "message": text}
        plugins.dispatch(
            RecordedEvent(1, "response_ready", 1, None, None, None, "coder", {"response": answer}, created_at)
        )
    await plugins.close()

    heading = "## 09:05 · @coder to Ada Lovelace (telegram)\n\n"
    folder = home.path / "logs/daily-log"
    assert {file.name: file.read_text() for file in folder.iterdir()} == {
        "2026-01-30.md": f"{heading}> First.\n>\n> # Not a heading\n\n{heading}> Second.\n\n",
        "2026-01-31.md": f"{heading}> Third.\n\n",
    }


async def test_channel_style_adapts_texts_to_the_channel(home: PluginHome) -> None:
    plugins = await load(home, "channel-style")
    on_web, again = replace(CONTEXT, channel="web"), replace(CONTEXT, attempt=2)

    assert (await plugins.incoming("Hello", CONTEXT)).text.startswith("Hello\n\n(Answer in a few short paragraphs.")
    assert await plugins.incoming("Hello", on_web) == Transformed("Hello")
    assert await plugins.outgoing("Hi", CONTEXT) == Transformed("Hi", {"parseMode": "Markdown"})
    assert await plugins.outgoing("Hi", on_web) == Transformed("Hi")
    assert (await plugins.outgoing("Hi", again)).text == "Hi\n\n(This took 2 attempts.)"


def test_the_reference_names_every_hook_with_its_parameters() -> None:
    section = REFERENCE.read_text().split("## Hooks\n")[1].split("\n## ")[0]

    expected = {f"{name}({', '.join(parameters)})" for name, parameters in HOOKS.items()}
    assert set(re.findall(r"^\| `(\w+\([\w, ]*\))` \|", section, re.MULTILINE)) == expected


@pytest.mark.parametrize("described", [HookContext, LoadedPlugin])
def test_the_reference_names_every_field(described: type[HookContext | LoadedPlugin]) -> None:
    section = REFERENCE.read_text().split(f"## {described.__name__}\n")[1].split("\n## ")[0]

    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [field.name for field in fields(described)]


def test_the_reference_names_every_field_of_the_plugin_context() -> None:
    section = REFERENCE.read_text().split("## PluginContext\n")[1].split("\n## ")[0]

    names = {field.name for field in fields(PluginContext)} - {"subscribe"} | {"on"}
    assert set(re.findall(r"^\| `(\w+)\b", section, re.MULTILINE)) == names


async def test_the_plugin_of_the_how_to_works(home: PluginHome) -> None:
    source = re.findall(r"```python\n(.*?)```", HOW_TO.read_text(), re.DOTALL)[0]
    home.write("polite", source)

    plugins = await home.load()

    assert [plugin.error for plugin in plugins.loaded] == [None]
    assert plugins.wants_events
    assert (await plugins.outgoing("Done.", CONTEXT)).text == "Dear Ada,\n\nDone."
