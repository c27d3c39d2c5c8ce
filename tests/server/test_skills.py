"""The commands of the bundled skills, run in a shell against the real API."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.server.conftest import TOKEN, Premises
from tinyagi.agents.skills import default_skills
from tinyagi.domain.ids import AgentId
from tinyagi.settings.secrets import agent_token

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Records the answer of every call; the skills' function `api` calls it instead of curl.
NOTING = """
curl() {
  command curl -o body -w '%{http_code}' "$@" > status 2>> errors
  for word in "$@"; do
    case $word in http*) printf '%s %s %s\\n' "$(cat status)" "$word" "$(cat body)" >> calls ;; esac
  done
}
"""
MISSING = "This path does not exist"
SKILLS = {skill.id: skill.text for skill in default_skills() if "api()" in skill.text}


async def known_things(premises: Premises) -> dict[str, str]:
    """Values for the placeholders of the skills."""
    http = premises.http
    task = (await http.post("/api/tasks", json={"title": "Check links"})).json()["task"]["id"]
    project = (await http.post("/api/projects", json={"name": "Manual"})).json()["project"]["id"]
    schedule = {"label": "weekly", "cron": "0 8 * * 1", "agentId": "coder", "message": "hello"}
    sent = (await http.post("/api/message", json={"message": "hello", "agent": "coder"})).json()
    return {
        "TASK_ID": task,
        "PROJECT_ID": project,
        "SCHEDULE_ID": (await http.post("/api/schedules", json=schedule)).json()["schedule"]["id"],
        "CONVERSATION_ID": sent["conversationId"],
        "AGENT_ID": "coder",
        "SENDER_ID": "4711",
        "ROW_ID": "1",
        "HISTORY_ID": "1",
    }


@pytest.mark.parametrize("skill", SKILLS)
async def test_the_server_accepts_every_call_of_a_skill(closed_premises: Premises, tmp_path: Path, skill: str) -> None:
    closed_premises.token = TOKEN
    if skill == "admin":
        closed_premises.settings["agents"]["coder"]["api_access"] = "all"
    closed_premises.settings["agents"]["checker"] = {"name": "Checker", "provider": "scripted"}
    async with closed_premises.serve() as premises:
        script = NOTING + "\n".join(BLOCK.findall(SKILLS[skill]))
        for name, value in (await known_things(premises)).items():
            script = re.sub(rf"\b{name}\b", value, script)
        shell = await asyncio.create_subprocess_exec(
            "sh",
            "-c",
            # A file to send has to exist; the skill's path is only an example.
            script.replace("/full/path/report.pdf", "report.pdf"),
            cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"],
                "TINYAGI_API_PORT": str(premises.port),
                "TINYAGI_API_TOKEN": agent_token(TOKEN, AgentId("coder")),
                "TINYAGI_AGENT_ID": "coder",
            },
            stdout=asyncio.subprocess.DEVNULL,
        )
        await shell.wait()

    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) >= 3
    for call in calls:
        status, _, rest = call.partition(" ")
        # The thing may be gone or not running by then, but the address, the method and the body are valid.
        assert status in {"200", "404", "409"}, call
        assert MISSING not in rest, call
