"""Commands that call the daemon: the queue, rooms, schedules, pairing, traces."""

import asyncio
import json
import sys

import pytest

from tests.cli.conftest import Remote, Shell
from tests.server.conftest import Premises
from tests.support.puppet import Gate
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.providers.base import RunFailed, RunRequest


def failing(request: RunRequest) -> str:
    raise RunFailed(Failure(FailureKind.MESSAGE, "it [b]does\x1b[0m not work"))


async def test_the_queue_is_shown_by_lane(remote: Remote, premises: Premises) -> None:
    premises.puppet.plays["coder"] = gate = Gate()
    await remote("send", "@coder hello")
    await gate.reached.wait()
    await remote("queue", "pause", "writer")

    result = await remote.json("queue", "status")
    shown = (await remote("queue", "status")).stdout

    assert (result["queue"]["processing"], result["processing"][0]["agent"]) == (1, "coder")
    assert {lane["agent"]: lane["paused"] for lane in result["agents"]}["writer"]
    assert "paused" in shown
    gate.open.set()


async def test_a_dead_message_is_listed_retried_and_deleted(remote: Remote, premises: Premises) -> None:
    premises.puppet.plays["coder"] = failing
    await remote("send", "@coder hello")
    await premises.until_event("message_dead")
    (dead,) = await remote.json("queue", "dead", "--agent", "coder")

    shown = (await remote("queue", "dead")).stdout
    assert "it [b]does" in shown
    assert "\x1b" not in shown
    premises.puppet.plays.clear()
    assert (await remote("queue", "retry", str(dead["id"]), "--message", "again")).exit_code == 0
    await premises.drained()
    assert "There are no dead messages." in (await remote("queue", "dead")).stdout
    gone = await remote("queue", "delete", str(dead["id"]), "--yes")
    assert gone.exit_code == 1


async def test_a_run_is_killed(remote: Remote, premises: Premises) -> None:
    premises.puppet.plays["coder"] = gate = Gate()
    await remote("send", "@coder hello")
    await gate.reached.wait()
    (run,) = (await remote.json("queue", "status"))["processing"]

    result = await remote("queue", "kill", str(run["id"]), "--yes")

    assert "The run of @coder was ended." in result.stdout
    assert len(await remote.json("queue", "dead")) == 1


async def test_a_paused_lane_is_resumed(remote: Remote) -> None:
    await remote("queue", "pause", "coder")
    await remote("queue", "resume", "coder")

    assert not any(lane["paused"] for lane in (await remote.json("queue", "status"))["agents"])
    assert (await remote("queue", "pause", "nobody")).exit_code == 1


async def test_a_room_is_read_and_written(remote: Remote) -> None:
    assert "#dev has no messages yet." in (await remote("chatroom", "dev")).stdout
    await remote("chatroom", "dev", "hello [i]all[/i]")

    assert "ada  hello [i]all[/i]" in (await remote("chatroom", "dev")).stdout
    assert [line["message"] for line in await remote.json("chatroom", "dev")] == ["hello [i]all[/i]"]
    assert (await remote("chatroom", "nobody")).exit_code == 1


async def test_a_room_is_followed(remote: Remote, premises: Premises) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-m", "tinyagi", "--url", str(premises.http.base_url)),
        *("chatroom", "dev", "-f", "--json"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        await remote("chatroom", "dev", "one")
        first = json.loads(await process.stdout.readline())
        await remote("chatroom", "dev", "two")
        second = json.loads(await process.stdout.readline())
    finally:
        process.terminate()
        await process.communicate()

    assert [line["message"] for line in (first, second)] == ["one", "two"]


async def test_a_schedule_is_added_disabled_enabled_and_removed(remote: Remote) -> None:
    assert "There are no schedules." in (await remote("schedule", "list")).stdout
    added = await remote.json(
        "schedule", "add", "--cron", "0 9 * * 1-5", "--agent", "@coder", "-m", "Morning", "--label", "morning"
    )
    assert (added["agentId"], added["label"], added["enabled"]) == ("coder", "morning", True)
    await remote("schedule", "disable", "morning")
    assert [one["enabled"] for one in await remote.json("schedule", "list")] == [False]
    await remote("schedule", "enable", added["id"])
    assert "0 9 * * 1-5" in (await remote("schedule", "list")).stdout
    assert (await remote("schedule", "remove", "morning", "--yes")).exit_code == 0
    assert "There are: none." in (await remote("schedule", "enable", "morning")).stderr


async def test_a_time_without_an_offset_is_local(remote: Remote) -> None:
    added = await remote.json("schedule", "add", "--at", "2040-01-31T09:00", "--agent", "coder", "-m", "Now")

    assert added["runAt"].startswith("2040-01-3")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--cron", "* * * * *", "--at", "2040-01-31T09:00"), "either --cron or --at"),
        (("--at", "tomorrow", "--agent", "coder", "-m", "x"), "not a date"),
        (("--agent", "coder", "-m", "x"), "--cron or --at is missing"),
    ],
)
def test_a_schedule_needs_one_time(shell: Shell, arguments: tuple[str, ...], sentence: str) -> None:
    result = shell("schedule", "add", *arguments)

    assert result.exit_code == 2
    assert sentence in result.stderr


async def test_people_are_approved_and_unpaired(remote: Remote, premises: Premises) -> None:
    assert "No people are paired." in (await remote("pairing", "list")).stdout
    await premises.store.pairing.ask("telegram", "77", "Gr\x1bace")
    (waiting,) = await remote.json("pairing", "pending")
    assert waiting["code"] in (await remote("pairing", "pending")).stdout

    approved = await remote("pairing", "approve", waiting["code"].lower())

    assert approved.stdout == "Grace may now write on telegram.\n"
    assert [one["senderId"] for one in await remote.json("pairing", "approved")] == ["77"]
    assert "may write" in (await remote("pairing", "list")).stdout
    assert (await remote("pairing", "unpair", "telegram", "77", "--yes")).exit_code == 0
    assert await remote.json("pairing", "list") == {"pending": [], "approved": []}


async def test_a_conversation_is_drawn(remote: Remote, premises: Premises) -> None:
    premises.puppet.plays["coder"] = lambda request: "Built. [@writer: document it]"
    result = await remote.json("send", "@dev build it", "--wait")

    lines = (await remote("trace", result["conversationId"])).stdout.splitlines()
    listed = (await remote("trace")).stdout

    assert lines[0].startswith(f"{result['conversationId']}  done  2 messages, 1 hop,")
    rows = [line for line in lines if "█" in line]
    assert [row.strip().split("  ")[0] for row in rows] == ["ada → @coder", "└ @writer"]
    assert "Built. @coder → @writer: document it" in rows[0]
    assert result["conversationId"] in listed
    assert (await remote.json("trace", result["conversationId"]))["status"] == "done"
    assert (await remote("trace", "unknown")).exit_code == 1


async def test_a_trace_prints_the_answers_in_full_on_request(remote: Remote, premises: Premises) -> None:
    poem = "\n".join(f"Line {number} of a poem that is too long for a row of the drawing." for number in range(3))
    premises.puppet.plays["coder"] = lambda request: f"{poem}\n[@writer: print it]"
    premises.puppet.plays["writer"] = failing
    result = await remote.json("send", "@dev write a poem")
    await premises.until_event("message_dead")

    short = await remote("trace", "last")
    full = await remote("trace", result["conversationId"], "--full")

    assert (poem in short.stdout, "tinyagi trace last --full" in short.stderr) == (False, True)
    assert f"ada → @coder\n{poem}\n@coder → @writer: print it\n\n" in full.stdout
    assert full.stdout.endswith("@coder → @writer is dead\nit [b]does[0m not work\n\n")
    assert full.stderr == ""


async def test_a_trace_without_conversations_gives_a_hint(remote: Remote) -> None:
    assert "tinyagi send" in (await remote("trace")).stdout


async def test_a_command_not_built_yet_names_the_alternative(remote: Remote) -> None:
    result = await remote("office")

    assert result.exit_code == 1
    assert "not built yet" in result.stderr
    assert f"{remote.shell.url}/docs" in result.stderr


async def test_the_status_shows_channels_and_marks_the_office(remote: Remote, premises: Premises) -> None:
    none = (await remote("status")).stdout
    await premises.engine.settings.save({"channels": {"enabled": ["telegram"]}})

    shown = (await remote("status")).stdout

    assert "connect one: tinyagi channel setup" in none
    assert "telegram stopped" in shown
    assert f"not built yet; the API's page: {remote.shell.url}/docs" in shown


async def test_the_list_of_channels_says_how_to_connect_one(remote: Remote, premises: Premises) -> None:
    assert "tinyagi channel setup telegram" in (await remote("channel", "list")).stdout
    await premises.engine.settings.save({"channels": {"enabled": ["telegram"]}})
    assert "stopped" in (await remote("channel", "list")).stdout
    assert json.loads((await remote("channel", "list", "--json")).stdout)["telegram"]["enabled"] is True


async def test_a_missing_token_is_reported_with_its_variable(closed_premises: Premises) -> None:
    closed_premises.token = "a-token-of-some-length"
    async with closed_premises.serve() as served:
        url = str(served.http.base_url)
        stranger = await Remote(Shell(served.home, url))("queue", "status")
        friend = await Remote(Shell(served.home, url, served.token))("queue", "status")

    assert stranger.exit_code == 1
    assert "TINYAGI_API_TOKEN" in stranger.stderr
    assert friend.exit_code == 0


async def test_the_newest_conversation_is_called_last(remote: Remote) -> None:
    none = await remote("trace", "last")
    await remote.json("send", "@coder first", "--wait")
    newest = await remote.json("send", "@coder second", "--wait")

    assert (none.exit_code, "no conversations yet" in none.stderr) == (2, True)
    assert (await remote.json("trace", "last"))["conversationId"] == newest["conversationId"]
