"""Texts in the hooks: the order of hooks, their parameters and their results."""

import pytest

from tests.plugins.conftest import CONTEXT, PluginHome
from tinyagi.plugins.specs import HookContext, Transformed

UPPER = "def transform_outgoing(text, ctx): return text.upper()"


async def test_hooks_are_chained_in_the_order_of_names(home: PluginHome) -> None:
    for name in ("c", "a", "b"):
        home.write(name, f"def transform_outgoing(text, ctx): return text + {name!r}")

    plugins = await home.load()

    assert [plugin.name for plugin in plugins.loaded] == ["a", "b", "c"]
    assert (await plugins.outgoing("", CONTEXT)).text == "abc"


async def test_sync_and_async_hooks_are_chained_alike(home: PluginHome) -> None:
    home.write("a", "def transform_incoming(text, ctx): return text + 'sync'")
    home.write(
        "b",
        "import asyncio\nasync def transform_incoming(text):\n    await asyncio.sleep(0)\n    return text + ' async'",
    )
    home.write("c", "async def late(text): return text + ' late'\ndef transform_incoming(text): return late(text)")

    plugins = await home.load()

    assert (await plugins.incoming("", CONTEXT)).text == "sync async late"


async def test_incoming_and_outgoing_are_different_hooks(home: PluginHome) -> None:
    home.write("a", "def transform_incoming(text): return 'in'\ndef transform_outgoing(text): return 'out'")

    plugins = await home.load()

    assert (await plugins.incoming("", CONTEXT)).text == "in"
    assert (await plugins.outgoing("", CONTEXT)).text == "out"


async def test_metadata_is_merged_and_the_later_plugin_wins(home: PluginHome) -> None:
    home.write("a", "def transform_outgoing(text): return text + 'a', {'parseMode': 'HTML', 'a': '1'}")
    home.write("b", "def transform_outgoing(text): return text + 'b', {'parseMode': 'Markdown', 'b': '2'}")

    plugins = await home.load()

    assert await plugins.outgoing("", CONTEXT) == Transformed("ab", {"parseMode": "Markdown", "a": "1", "b": "2"})


async def test_none_leaves_the_text_unchanged(home: PluginHome) -> None:
    home.write("a", "def transform_outgoing(text, ctx): pass")
    home.write("b", UPPER)

    plugins = await home.load()

    assert await plugins.outgoing("hello", CONTEXT) == Transformed("HELLO")


async def test_an_empty_text_replaces_the_text(home: PluginHome) -> None:
    home.write("a", "def transform_outgoing(text, ctx): return ''")

    plugins = await home.load()

    assert await plugins.outgoing("hello", CONTEXT) == Transformed("")


@pytest.mark.parametrize(
    ("definition", "result"),
    [
        ("def transform_outgoing(): return 'nothing'", "nothing"),
        ("def transform_outgoing(ctx): return ctx.sender", "Ada"),
        ("def transform_outgoing(ctx, text): return text + ctx.sender", "helloAda"),
        ("def transform_outgoing(text, ctx=None): return text + ctx.sender", "helloAda"),
        ("def transform_outgoing(text, *, ctx): return text + ctx.sender", "helloAda"),
        ("def transform_outgoing(text, suffix='!'): return text + suffix", "hello!"),
        ("def transform_outgoing(text, **rest): return text + str(len(rest))", "hello0"),
    ],
)
async def test_a_hook_gets_the_parameters_it_names(home: PluginHome, definition: str, result: str) -> None:
    home.write("a", definition)

    plugins = await home.load()

    assert (await plugins.outgoing("hello", CONTEXT)).text == result


async def test_a_hook_gets_the_context_and_the_home(home: PluginHome) -> None:
    fields = sorted(set(HookContext.__dataclass_fields__) - {"home"})
    home.write(
        "a", f"def transform_outgoing(text, ctx): return repr(([getattr(ctx, f) for f in {fields}], str(ctx.home)))"
    )

    plugins = await home.load()

    expected = repr(([getattr(CONTEXT, field) for field in fields], str(home.path)))
    assert (await plugins.outgoing("", CONTEXT)).text == expected


async def test_a_hook_cannot_change_its_context(home: PluginHome) -> None:
    home.write("a", "def transform_outgoing(text, ctx): ctx.agent = 'mallory'")
    home.write("b", "def transform_outgoing(text, ctx): return ctx.agent")

    plugins = await home.load()

    assert (await plugins.outgoing("", CONTEXT)).text == "coder"


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("42", "It returned int; return a text, (text, metadata) or None"),
        ("b'bytes'", "It returned bytes"),
        ("['text', {}]", "It returned list"),
        ("('text',)", "It returned (str)"),
        ("('text', 'more')", "It returned (str, str)"),
        ("('text', {}, {})", "It returned (str, dict, dict)"),
        ("(None, {'parseMode': 'HTML'})", "It returned (NoneType, dict)"),
        ("('text', {'parseMode': 1})", "Its metadata holds int; keys and values must be texts"),
        ("('text', {1: 'HTML'})", "Its metadata holds int; keys and values must be texts"),
        ("'x' * 1_000_001", "It returned 1,000,001 characters; 1,000,000 is the most"),
        ("'\\ud800'", "half of a character"),
        ("('text', {'parseMode': '\\ud800'})", "half of a character"),
        ("(yield)", "It returned generator"),
    ],
)
async def test_an_invalid_result_is_a_failure_and_the_text_stays(
    home: PluginHome, log: pytest.LogCaptureFixture, result: str, reason: str
) -> None:
    home.write("bad", f"def transform_outgoing(text, ctx): return {result}")
    home.write("good", UPPER)

    plugins = await home.load()

    assert await plugins.outgoing("hello", CONTEXT) == Transformed("HELLO")
    (line,) = [record.getMessage() for record in log.records]
    assert line.startswith("Plugin bad failed in transform_outgoing: ")
    assert reason in line


async def test_unreadable_metadata_is_a_failure_of_its_plugin_only(home: PluginHome) -> None:
    home.write(
        "bad",
        """
        import collections
        class Trap(collections.UserDict):
            def items(self): raise SystemExit
        def transform_outgoing(text): return 'bad', Trap()
        """,
    )
    home.write("good", UPPER)

    plugins = await home.load()

    assert await plugins.outgoing("hello", CONTEXT) == Transformed("HELLO")


async def test_a_text_above_the_limit_may_keep_its_length(home: PluginHome) -> None:
    home.write("a", UPPER)

    plugins = await home.load()

    assert (await plugins.outgoing("x" * 1_500_000, CONTEXT)).text == "X" * 1_500_000


async def test_a_str_subclass_becomes_a_plain_str(home: PluginHome) -> None:
    home.write(
        "a",
        """
        class Text(str):
            def __str__(self): return "something else"
        def transform_outgoing(text): return Text("héllo"), {Text("key"): Text("value")}
        """,
    )

    plugins = await home.load()
    transformed = await plugins.outgoing("", CONTEXT)

    assert transformed == Transformed("héllo", {"key": "value"})
    assert {type(text) for text in (transformed.text, *transformed.metadata, *transformed.metadata.values())} == {str}
