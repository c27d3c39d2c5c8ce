"""The bundled skills: their commands run, and call only routes and commands that exist."""

import json
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from tinyagi.agents.memory import memory_index
from tinyagi.agents.skills import DefaultSkill, default_skills
from tinyagi.agents.workspace_files import HEAD_LIMIT, TEXT_LIMIT, front_matter

ROUTES = {
    "/api/message": "POST",
    "/api/status": "GET",
    "/api/queue/status": "GET",
    "/api/queue/agents": "GET",
    "/api/queue/processing": "GET",
    "/api/queue/processing/:id/kill": "POST",
    "/api/queue/agents/:agent/pause": "POST",
    "/api/queue/agents/:agent/resume": "POST",
    "/api/queue/dead": "GET",
    "/api/queue/dead/:id/retry": "POST",
    "/api/queue/dead/:id": "DELETE",
    "/api/responses": "GET POST",
    "/api/responses/pending": "GET",
    "/api/responses/:id/ack": "POST",
    "/api/agents": "GET",
    "/api/agents/:id": "PUT DELETE",
    "/api/agents/:id/messages": "GET",
    "/api/agent-messages": "GET",
    "/api/agents/:id/skills": "GET",
    "/api/agents/:id/system-prompt": "GET PUT",
    "/api/agents/:id/memory": "GET",
    "/api/agents/:id/heartbeat": "GET PUT",
    "/api/agents/:id/reset": "POST",
    "/api/teams": "GET",
    "/api/teams/:id": "PUT DELETE",
    "/api/settings": "GET PUT",
    "/api/setup": "POST",
    "/api/custom-providers": "GET",
    "/api/custom-providers/:id": "PUT DELETE",
    "/api/chatroom/:team": "GET POST",
    "/api/chats": "GET",
    "/api/logs": "GET",
    "/api/pairing": "GET",
    "/api/pairing/approve": "POST",
    "/api/pairing/pending/:code": "DELETE",
    "/api/pairing/:channel/:senderId": "DELETE",
    "/api/schedules": "GET POST",
    "/api/schedules/:id": "PUT DELETE",
    "/api/tasks": "GET POST",
    "/api/tasks/:id": "GET PUT DELETE",
    "/api/tasks/reorder": "PUT",
    "/api/tasks/:id/comments": "GET POST",
    "/api/comments/:id": "DELETE",
    "/api/projects": "GET POST",
    "/api/projects/:id": "GET PUT DELETE",
    "/api/services/restart": "POST",
    "/api/services/apply": "POST",
    "/api/services/channel/:id/start": "POST",
    "/api/services/channel/:id/stop": "POST",
    "/api/services/channel/:id/restart": "POST",
    "/api/events/stream": "GET",
    "/api/events": "GET",
    "/api/traces/:conversationId": "GET",
    "/api/conversations": "GET",
    "/api/recall": "GET",
    "/api/analytics/:table": "GET",
}

COMMANDS = {
    "provider": {"show", "set", "list", "add", "remove"},
    "pairing": {"list", "pending", "approved", "approve", "unpair"},
    "doctor": set(),
    "restart": set(),
}

FIELDS = {
    "POST /api/schedules": {"label", "cron", "runAt", "agentId", "message", "timezone"},
    "PUT /api/schedules/:id": {"enabled", "cron"},
    "POST /api/responses": {"channel", "sender", "senderId", "message", "agent", "files"},
    "POST /api/tasks": {"title", "description", "status", "assignee", "assigneeType", "projectId"},
    "PUT /api/tasks/:id": {"status"},
    "POST /api/tasks/:id/comments": {"author", "authorType", "content"},
    "POST /api/projects": {"name", "description", "prefix", "color", "status"},
    "PUT /api/projects/:id": {"status"},
    "PUT /api/agents/:id": {"name", "provider", "model"},
    "PUT /api/agents/:id/system-prompt": {"content"},
    "PUT /api/teams/:id": {"name", "agents", "leader_agent"},
    "PUT /api/settings": {"queue"},
}

SHELLS = [shell for shell in ("bash", "dash") if shutil.which(shell)]
CALLING = [skill for skill in default_skills() if skill.id != "memory"]


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    token: str | None
    content_type: str | None
    body: str

    @property
    def route(self) -> str | None:
        """The route that this call reaches; a fixed path takes precedence over a pattern."""
        path = self.path.partition("?")[0]
        patterns = (route for route in ROUTES if re.fullmatch(re.sub(r":\w+", "[^/]+", route), path))
        found = path if path in ROUTES else next(patterns, None)
        return f"{self.method} {found}" if found and self.method in ROUTES[found].split() else None


@dataclass
class Recorder:
    """A server that accepts and records every call."""

    port: int = 0
    calls: list[Call] = field(default_factory=list)
    command_lines: list[str] = field(default_factory=list)
    """Command lines of the calling programs, read while each waits for its answer."""


@pytest.fixture
def server() -> Iterator[Recorder]:
    recorder = Recorder()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            token, content_type = self.headers.get("Authorization"), self.headers.get("Content-Type")
            recorder.calls.append(Call(self.command, self.path, token, content_type, body))
            recorder.command_lines.extend(curl_command_lines())
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            """No output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        recorder.port = http.server_address[1]
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield recorder
        http.shutdown()
        thread.join()


def curl_command_lines() -> list[str]:
    """The command lines of the curls that run below this test."""
    children = psutil.Process().children(recursive=True)
    return [" ".join(child.cmdline()) for child in children if child.name() == "curl"]


def commands_of(skill: DefaultSkill) -> str:
    return "\n".join(re.findall(r"^```sh\n(.*?)^```$", skill.text, re.MULTILINE | re.DOTALL))


def run(skill: DefaultSkill, shell: str, folder: Path, environment: dict[str, str]) -> None:
    subprocess.run(
        [shell, "-eu", "-c", commands_of(skill)],
        cwd=folder,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "NO_PROXY": "*", "TINYAGI_AGENT_ID": "coder", **environment},
        check=True,
        capture_output=True,
        timeout=60,
    )


def test_the_default_skills_are_these() -> None:
    assert [skill.id for skill in default_skills()] == [
        "admin",
        "memory",
        "recall",
        "schedule",
        "send-user-message",
        "tasks",
    ]


@pytest.mark.parametrize("skill", default_skills(), ids=lambda skill: skill.id)
def test_a_skill_has_a_name_a_version_and_a_description(skill: DefaultSkill) -> None:
    said = front_matter(skill.text[:HEAD_LIMIT])

    assert said["name"] == skill.id
    assert skill.version >= 1
    assert 80 < len(said["description"]) <= 1_024
    # YAML parsers reject a colon within a plain value.
    assert ": " not in said["description"]
    assert len(skill.text.encode()) < TEXT_LIMIT // 8


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("skill", CALLING, ids=lambda skill: skill.id)
def test_every_call_of_a_skill_reaches_a_route_with_its_fields(
    skill: DefaultSkill, shell: str, server: Recorder, tmp_path: Path
) -> None:
    run(skill, shell, tmp_path, {"TINYAGI_API_PORT": str(server.port)})

    assert len(server.calls) == len(re.findall(r"^api [A-Z]", commands_of(skill), re.MULTILINE)) > 0
    for call in server.calls:
        assert call.route is not None, call
        assert call.token is None
        assert call.content_type == "application/json"
        if call.body:
            assert json.loads(call.body).keys() <= FIELDS[call.route], call


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("skill", CALLING, ids=lambda skill: skill.id)
def test_a_skill_sends_the_token_of_its_environment(
    skill: DefaultSkill, shell: str, server: Recorder, tmp_path: Path
) -> None:
    run(skill, shell, tmp_path, {"TINYAGI_API_PORT": str(server.port), "TINYAGI_API_TOKEN": "s3 cret"})

    assert {call.token for call in server.calls} == {"Bearer s3 cret"}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("skill", CALLING, ids=lambda skill: skill.id)
def test_no_command_line_shows_the_token(skill: DefaultSkill, shell: str, server: Recorder, tmp_path: Path) -> None:
    run(skill, shell, tmp_path, {"TINYAGI_API_PORT": str(server.port), "TINYAGI_API_TOKEN": "s3cret-of-the-agent"})

    assert len(server.command_lines) == len(server.calls)
    for line in server.command_lines:
        assert "s3cret" not in line


@pytest.mark.parametrize("skill", default_skills(), ids=lambda skill: skill.id)
def test_every_route_named_in_a_skill_exists(skill: DefaultSkill) -> None:
    for path in re.findall(r"/api/[\w/:$-]+", skill.text):
        reached = [Call(method, path, None, None, "").route for method in ("GET", "POST", "PUT", "DELETE")]
        assert any(reached), path


@pytest.mark.parametrize("skill", default_skills(), ids=lambda skill: skill.id)
def test_every_command_named_in_a_skill_exists(skill: DefaultSkill) -> None:
    for named in re.findall(r"(?:`|^)tinyagi ([^`\n]+)", skill.text, re.MULTILINE):
        command, *arguments = shlex.split(named)
        assert command in COMMANDS, named
        assert not COMMANDS[command] or arguments[0] in COMMANDS[command], named


@pytest.mark.parametrize("shell", SHELLS)
def test_the_memory_skill_writes_a_file_for_the_index(shell: str, tmp_path: Path) -> None:
    skill = next(skill for skill in default_skills() if skill.id == "memory")

    run(skill, shell, tmp_path, {})

    assert memory_index(tmp_path / "memory") == (
        "- people/\n  - **Ada** — leads the project; wants short answers; time zone Europe/Berlin"
    )
