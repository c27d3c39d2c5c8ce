"""Plugins on the command line: their state with its reason, and the answers they change."""

from pathlib import Path

import pytest

from tests.cli.conftest import Remote, Shell
from tests.server.conftest import Premises
from tinyagi.settings.home import Home

SHOUT = "def transform_outgoing(text, ctx):\n    return text.upper()\n"
BROKEN = "def transform_outgoing(text, ctx)\n    return text\n"
FAILING = "import there_is_no_such_module\n\ndef activate(ctx): ...\n"
NO_HOOK = "def transform_ingoing(text, ctx):\n    return text\n"


def install(home: Home, **sources: str) -> None:
    for name, source in sources.items():
        (home.plugins / name).mkdir(parents=True)
        (home.plugins / name / "plugin.py").write_text(source)


def remote_of(premises: Premises) -> Remote:
    return Remote(Shell(premises.home, str(premises.http.base_url)))


def test_a_plugin_with_a_syntax_error_is_broken_without_a_daemon(shell: Shell) -> None:
    install(shell.home, shout=SHOUT, broken=BROKEN, failing=FAILING)

    listed = {one["name"]: one for one in shell.json("plugin", "list")}

    assert (listed["shout"]["state"], listed["shout"]["reason"], listed["shout"]["enabled"]) == (
        "not checked",
        None,
        True,
    )
    assert (listed["broken"]["state"], listed["broken"]["enabled"]) == ("broken", False)
    assert "line 1" in listed["broken"]["reason"]
    assert listed["failing"]["state"] == "not checked", "listing does not run the plugin"
    result = shell("plugin", "list")
    assert "broken" in result.stdout
    assert "SyntaxError" in result.stdout


def test_a_plugin_that_is_not_text_is_broken(shell: Shell) -> None:
    install(shell.home, odd="")
    (shell.home.plugins / "odd" / "plugin.py").write_bytes(b"\xff\xfe\x00")

    (listed,) = shell.json("plugin", "list")

    assert listed["state"] == "broken"


async def test_the_list_shows_the_daemons_view(closed_premises: Premises) -> None:
    install(closed_premises.home, shout=SHOUT, broken=BROKEN, failing=FAILING, deaf=NO_HOOK, off=SHOUT)
    closed_premises.settings["plugins"] = {"disabled": ["off"]}
    async with closed_premises.serve() as premises:
        install(premises.home, late=SHOUT, worse=BROKEN)
        listed = {one["name"]: one for one in await remote_of(premises).json("plugin", "list")}
        shown = (await remote_of(premises)("plugin", "list")).stdout

    assert {name: one["state"] for name, one in listed.items()} == {
        "shout": "loaded",
        "broken": "broken",
        "failing": "broken",
        "deaf": "broken",
        "off": "disabled",
        "late": "not loaded",
        "worse": "broken",
    }
    assert "there_is_no_such_module" in listed["failing"]["reason"]
    assert "hooks" in listed["deaf"]["reason"]
    assert "tinyagi restart" in listed["late"]["reason"]
    assert "there_is_no_such_module" in shown


async def test_the_api_lists_the_loaded_plugins(closed_premises: Premises) -> None:
    install(closed_premises.home, shout=SHOUT, failing=FAILING)
    async with closed_premises.serve() as premises:
        failing, shout = (await premises.http.get("/api/plugins")).json()

    assert (shout["name"], shout["error"], Path(shout["origin"]).name) == ("shout", None, "plugin.py")
    assert len(shout["sha256"]) == 64
    assert "there_is_no_such_module" in failing["error"]


@pytest.mark.parametrize("words", [1, 2_000])
async def test_a_plugin_changes_the_answer_that_wait_prints(closed_premises: Premises, words: int) -> None:
    install(closed_premises.home, shout=SHOUT)
    closed_premises.settings["responses"]["suffix"] = True
    closed_premises.puppet.plays["coder"] = lambda _: "done " * words + "end"
    async with closed_premises.serve() as premises:
        result = await remote_of(premises)("send", "@coder hello", "--wait")
        output = await remote_of(premises).json("send", "@coder hello", "--wait")

    assert result.stdout == f"{'DONE ' * words}END\n\n"
    assert [one["text"] for one in output["answers"]] == [f"{'DONE ' * words}END"]


async def test_a_refused_attachment_is_reported(remote: Remote, premises: Premises) -> None:
    premises.puppet.plays["coder"] = lambda _: "Here. [send_file: /etc/passwd]"

    result = await remote("send", "@coder hello", "--wait")

    assert "outside the workspace" in result.stdout
    assert "send_file" not in result.stdout
