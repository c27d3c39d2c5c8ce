"""Valid and invalid requests, generated from the OpenAPI document: a running daemon answers as documented."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.result import Ok

Operation = schemathesis.APIOperation[Any, Any, Any, Any]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ELSEWHERE = ["/api/events/stream", "/api/services/restart", "/api/services/apply"]
"""One never ends and the others stop the daemon; other files test them."""
EXAMPLES = pytest.mark.parametrize("examples", [5, pytest.param(50, marks=pytest.mark.soak)])
"""Requests for each operation."""
PATHS = ("working_directory", "prompt_file", "workspace")
"""Settings that make the daemon write to a path; a generated one must not point outside the test's folder."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a daemon with a fresh home."""
    folder = tmp_path_factory.mktemp("fuzzed")
    home = folder / "home"
    home.mkdir()
    agents = {name: {"name": name, "provider": "scripted"} for name in ("coder", "writer")}
    raw = {
        "workspace": {"path": str(folder / "workspace")},
        "agents": agents,
        "teams": {"dev": {"name": "Dev", "agents": list(agents), "leader_agent": "coder"}},
        "monitoring": {"heartbeat_interval": 0},
        "server": {"port": 0, "messages_per_minute": 0},
    }
    (home / "settings.json").write_text(json.dumps(raw), encoding="utf-8")
    command = [sys.executable, "-m", "tinyagi", "run", "--quiet", "--home", str(home)]
    with (folder / "daemon.txt").open("wb") as output:
        process = subprocess.Popen(command, stderr=output, env={**os.environ, "HOME": str(folder)})
    try:
        yield f"http://127.0.0.1:{_port(home / 'tinyagi.pid', process)}"
    finally:
        process.terminate()
        process.wait(30)


def _port(pid_file: Path, process: subprocess.Popen[bytes]) -> int:
    while process.poll() is None:
        if pid_file.exists() and (text := pid_file.read_text()) and (port := json.loads(text).get("port")):
            return int(port)
        time.sleep(0.05)
    raise AssertionError(f"the daemon ended with {process.returncode}")


@pytest.fixture(scope="module")
def known(daemon: str) -> dict[str, str]:
    """One existing id for each path parameter."""

    def add(path: str, body: dict[str, str]) -> Any:
        answer = requests.request("PUT" if "custom" in path else "POST", f"{daemon}{path}", json=body, timeout=30)
        answer.raise_for_status()
        return answer.json()

    task = add("/api/tasks", {"title": "A task"})["task"]["id"]
    comment = add(f"/api/tasks/{task}/comments", {"author": "Ada", "content": "A comment"})["comment"]["id"]
    project = add("/api/projects", {"name": "A project"})["project"]["id"]
    schedule = {"label": "daily", "cron": "0 8 * * *", "agentId": "coder", "message": "Good morning"}
    add("/api/custom-providers/mine", {"harness": "api", "base_url": "http://127.0.0.1:9"})
    return {
        "task": task,
        "comment": comment,
        "project": project,
        "schedule": add("/api/schedules", schedule)["schedule"]["id"],
        "conversation": add("/api/message", {"message": "hello", "agent": "writer"})["conversationId"],
        "provider": "mine",
        "agent": "coder",
        "team": "dev",
        "message": "1",
        "response": "1",
    }


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", list(GenerationMode))
@EXAMPLES
def test_every_answer_matches_the_document(daemon: str, mode: GenerationMode, examples: int) -> None:
    for operation in _operations(daemon):
        _try(operation, daemon, mode, {}, examples)


@pytest.mark.timeout(1800)
@EXAMPLES
def test_answers_about_existing_things_match_the_document(daemon: str, known: dict[str, str], examples: int) -> None:
    # Deletes come last.
    for operation in sorted(_operations(daemon), key=lambda operation: operation.method.lower() == "delete"):
        _try(operation, daemon, GenerationMode.POSITIVE, known, examples)


def _operations(daemon: str) -> list[Operation]:
    document = schemathesis.openapi.from_url(f"{daemon}/openapi.json").exclude(path=ELSEWHERE)
    operations = [found.ok() for found in document.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) > 60
    return operations


def _try(operation: Operation, daemon: str, mode: GenerationMode, known: dict[str, str], examples: int) -> None:
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def answer_matches_the_document(case: schemathesis.Case[Any]) -> None:
        if isinstance(case.body, dict):
            for name in PATHS:
                case.body.pop(name, None)
        case.path_parameters.update({name: known[name] for name in case.path_parameters if name in known})
        case.headers["content-type"] = "application/json"
        case.call_and_validate(base_url=daemon, checks=CHECKS, timeout=30)

    # Some operations have no request of this mode: a route without parameters has no invalid ones.
    with contextlib.suppress(Unsatisfiable):
        answer_matches_the_document()


def test_the_daemon_still_works_afterwards(daemon: str) -> None:
    assert requests.get(f"{daemon}/api/status", timeout=30).json()["ok"] is True
