"""Which plugins are found, which are refused and why, and that a broken one does not affect others."""

import asyncio
import hashlib
import os
import sys
from pathlib import Path

import pytest

from tests.plugins.conftest import CONTEXT, SHORT, LogQueue, PluginHome, have_ended
from tinyagi.plugins.plugin import Plugins
from tinyagi.plugins.specs import Transformed

GOOD = """
    def transform_outgoing(text, ctx):
        return f"{text} (good)"
"""


async def test_a_missing_folder_has_no_plugins(home: PluginHome) -> None:
    plugins = await home.load()

    assert plugins.loaded == ()
    assert not plugins.wants_events
    assert await plugins.outgoing("hello", CONTEXT) == Transformed("hello")


def test_a_text_without_plugins_is_returned_without_awaiting() -> None:
    for call in (Plugins.none().incoming("hello", CONTEXT), Plugins.none().outgoing("hello", CONTEXT)):
        with pytest.raises(StopIteration) as returned:
            call.send(None)
        assert returned.value.value == Transformed("hello")


async def test_a_plugin_is_listed_with_its_path_and_the_hash_of_its_source(home: PluginHome) -> None:
    file = home.write("good", GOOD)

    (good,) = (await home.load()).loaded

    assert (good.name, good.origin, good.error) == ("good", str(file), None)
    assert good.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()


async def test_a_changed_module_of_a_plugin_changes_its_hash_and_its_behaviour(home: PluginHome) -> None:
    home.write("good", "from .pack.words import WORD\ndef transform_outgoing(text): return WORD")
    home.write("good", "WORD = 'before'", "pack/words.py")
    before = await home.load()
    home.write("good", "WORD = 'after it'", "pack/words.py")

    after = await home.load()

    assert before.loaded[0].sha256 != after.loaded[0].sha256
    assert (await after.outgoing("hello", CONTEXT)).text == "after it"


async def test_a_plugin_runs_from_its_source_and_not_from_cached_bytecode(
    home: PluginHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = home.write("good", GOOD)
    await home.load()
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    file.write_text(file.read_text().replace("good", "best"))
    os.utime(file, ns=times)

    plugins = await home.load()

    assert (await plugins.outgoing("hello", CONTEXT)).text == "hello (best)"
    assert not (file.parent / "__pycache__").exists()


async def test_activate_gets_name_home_and_log(home: PluginHome, log: pytest.LogCaptureFixture) -> None:
    home.write("curious", "def activate(ctx): ctx.log.info('%s in %s', ctx.name, ctx.home)")

    await home.load()

    (record,) = log.records
    assert record.name == "tinyagi.plugins.curious"
    assert record.getMessage() == f"curious in {home.path}"


async def test_activate_may_be_async_and_runs_before_the_hooks(home: PluginHome) -> None:
    home.write(
        "patient",
        """
        import asyncio
        greeting = None
        async def activate(ctx):
            global greeting
            await asyncio.sleep(0)
            greeting = "welcome"
        def transform_outgoing(text, ctx):
            return greeting
        """,
    )

    plugins = await home.load()

    assert (await plugins.outgoing("hello", CONTEXT)).text == "welcome"


async def test_each_plugin_imports_its_own_modules(home: PluginHome) -> None:
    for name in ("first", "second"):
        home.write(name, "from .pack.words import WORD\ndef transform_outgoing(text): return f'{text} {WORD}'")
        home.write(name, f"WORD = {name!r}", "pack/words.py")

    plugins = await home.load()

    assert (await plugins.outgoing("hello", CONTEXT)).text == "hello first second"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def activate(ctx:", "SyntaxError: '(' was never closed (plugin.py, line 1)"),
        ("raise ValueError('no key')", "ValueError: no key"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("import asyncio; raise asyncio.CancelledError", "CancelledError"),
        ("import there_is_no_such_module", "ModuleNotFoundError: No module named 'there_is_no_such_module'"),
        ("def transform_text(text, ctx): ...", "none of the hooks: activate, transform_incoming, transform_outgoing"),
        ("transform_incoming = 1", "transform_incoming is not a function; write def transform_incoming(text, ctx)"),
        ("def transform_incoming(message, ctx): ...", "write transform_incoming(text, ctx)"),
        ("def transform_outgoing(text, ctx, channel): ...", "write transform_outgoing(text, ctx)"),
        ("def transform_outgoing(text, *, channel): ...", "write transform_outgoing(text, ctx)"),
        ("def transform_outgoing(text, /): ...", "write transform_outgoing(text, ctx)"),
        ("def activate(context): ...", "activate(context) has the wrong parameters; write activate(ctx)"),
        ("def activate(ctx): 1 / 0", "ZeroDivisionError: division by zero"),
        ("async def activate(ctx): 1 / 0", "ZeroDivisionError: division by zero"),
        ("import sys\ndef activate(ctx): sys.exit(3)", "SystemExit: 3"),
        ("import sys\nasync def activate(ctx): sys.exit(3)", "SystemExit: 3"),
        ("def activate(ctx): ctx.on('message_recieved', print)", "did you mean 'message_received'?"),
        ("def activate(ctx): ctx.on('message:incoming', print)", "There is no event 'message:incoming'"),
        ("def activate(ctx): ctx.on('*', lambda: None)", "a function of one argument, the event"),
        ("def activate(ctx): ctx.on('*', 'print')", "a function of one argument, the event"),
    ],
)
async def test_a_broken_plugin_is_logged_and_listed_and_the_others_work(
    home: PluginHome, log: pytest.LogCaptureFixture, source: str, reason: str
) -> None:
    home.write("bad", source)
    home.write("good", GOOD)

    plugins = await home.load()

    bad, good = plugins.loaded
    assert bad.error is not None
    assert reason in bad.error
    assert good.error is None
    assert [record.getMessage() for record in log.records] == [f"Plugin bad is skipped: {bad.error}."]
    assert (await plugins.outgoing("hello", CONTEXT)).text == "hello (good)"
    assert not plugins.wants_events


@pytest.mark.parametrize(
    "source",
    [
        "while True: pass",
        "def activate(ctx):\n    while True: pass",
        "import asyncio\nasync def activate(ctx): await asyncio.sleep(3600)",
        "import time\nasync def activate(ctx):\n    while True: time.sleep(0.01)",
    ],
)
async def test_a_plugin_that_loads_too_slowly_is_skipped(home: PluginHome, source: str) -> None:
    home.write("bad", source)
    home.write("good", GOOD)

    plugins = await home.load(limit=SHORT)

    bad, good = plugins.loaded
    assert bad.error == "it took longer than 1 s (plugins.timeout_seconds)"
    assert good.error is None
    assert (await plugins.outgoing("hello", CONTEXT)).text == "hello (good)"


async def test_handlers_of_a_failed_activation_are_removed(home: PluginHome) -> None:
    home.write("bad", "def activate(ctx):\n    ctx.on('*', print)\n    raise ValueError")

    plugins = await home.load()

    assert not plugins.wants_events


async def test_a_disabled_plugin_is_not_imported(home: PluginHome) -> None:
    home.write("good", GOOD)
    home.write("off", "from pathlib import Path\nPath(__file__).with_name('ran').touch()")

    plugins = await home.load(disabled=("off",))

    assert [plugin.name for plugin in plugins.loaded] == ["good"]
    assert not (home.folder / "off" / "ran").exists()


async def test_invalid_plugin_folders_are_skipped_and_logged(home: PluginHome, log: pytest.LogCaptureFixture) -> None:
    home.write("good", GOOD)
    home.write("Bad Name", GOOD)
    home.write("empty", "Nothing here.", "README.md")
    home.write(".git", GOOD)
    home.write("__pycache__", GOOD)
    (home.folder / "notes.txt").touch()

    plugins = await home.load()

    assert [plugin.name for plugin in plugins.loaded] == ["good"]
    assert [record.getMessage() for record in log.records] == [
        f"Plugin {home.folder / 'Bad Name'} is skipped: name it with lowercase letters, digits, - and _.",
        f"Plugin {home.folder / 'empty'} is skipped: it has no plugin.py.",
    ]


async def test_a_file_in_place_of_the_folder_is_logged(home: PluginHome, log: pytest.LogCaptureFixture) -> None:
    home.folder.write_text("not a folder")

    assert (await home.load()).loaded == ()
    assert [record.getMessage() for record in log.records] == [
        f"No plugin is loaded from {home.folder}: Not a directory."
    ]


async def test_loaded_plugins_are_ended_when_loading_is_cancelled(home: PluginHome, log_queue: LogQueue) -> None:
    home.write("first", GOOD)
    home.write(
        "second",
        """
        import asyncio
        async def activate(ctx):
            ctx.log.info("waiting")
            await asyncio.sleep(3600)
        """,
    )
    loading = asyncio.create_task(home.load())
    assert await log_queue.next() == "waiting"

    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading

    assert await have_ended("first")
    assert await have_ended("second")


def install(folder: Path, *, name: str, module: str, source: str | None) -> None:
    """Write the files of an installed package: a module, and metadata with an entry point."""
    metadata = folder / f"{module}-1.2.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text(f"[tinyagi.plugins]\n{name} = {module}\n")
    if source is not None:
        (folder / f"{module}.py").write_text(source)


async def test_an_installed_package_provides_a_plugin_by_entry_point(
    home: PluginHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "def transform_outgoing(text): return f'{text} (installed)'"
    install(tmp_path / "site", name="shouting", module="entry_point_shouting", source=source)
    monkeypatch.syspath_prepend(tmp_path / "site")

    plugins = await home.load(entry_points=True)

    (shouting,) = plugins.loaded
    assert (shouting.name, shouting.error) == ("shouting", None)
    assert shouting.origin == "entry_point_shouting (entry_point_shouting 1.2)"
    assert shouting.sha256 == hashlib.sha256(source.encode()).hexdigest()
    assert (await plugins.outgoing("hello", CONTEXT)).text == "hello (installed)"
    assert (await home.load(entry_points=False)).loaded == ()


async def test_broken_entry_points_are_skipped(
    home: PluginHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    install(tmp_path / "site", name="gone", module="entry_point_gone", source=None)
    install(
        tmp_path / "site", name="good", module="entry_point_good", source="def transform_outgoing(text): return 'x'"
    )
    install(tmp_path / "site", name="Not an id", module="entry_point_named_badly", source="")
    monkeypatch.syspath_prepend(tmp_path / "site")
    home.write("good", GOOD)

    plugins = await home.load(entry_points=True)

    gone, good = plugins.loaded
    assert (gone.name, gone.error) == ("gone", "ModuleNotFoundError: No module named 'entry_point_gone'")
    assert good.origin == str(home.folder / "good" / "plugin.py")
    assert (await plugins.outgoing("hello", CONTEXT)).text == "hello (good)"
    assert {record.getMessage() for record in log.records} == {
        f"Plugin good of entry_point_good (entry_point_good 1.2) is skipped: {good.origin} takes precedence.",
        "Plugin entry_point_named_badly (entry_point_named_badly 1.2) is skipped: "
        "name it with lowercase letters, digits, - and _.",
        "Plugin gone is skipped: ModuleNotFoundError: No module named 'entry_point_gone'.",
    }
