"""The security rules, one by one, against a real server on loopback."""

import asyncio
import json
import stat
from pathlib import Path

import pytest

from tests.server.conftest import TOKEN, Premises
from tests.support.raw_http import ask, request, status_of

JSON = {"content_type": "application/json"}
MESSAGE = b'{"message": "hello", "agent": "coder"}'


async def received(premises: Premises) -> int:
    return len(await premises.events("message_received"))


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost:1", "", "127.0.0.1@evil.example"]
)
async def test_a_foreign_host_is_refused(premises: Premises, host: str) -> None:
    for call in (
        request(premises.port, host=host),
        request(premises.port, "POST", "/api/message", MESSAGE, host=host, **JSON),
        request(premises.port, path="/api/events/stream", host=host),
    ):
        assert status_of(await ask(premises.port, call)) == 403
    assert await received(premises) == 0


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LocalHost"])
async def test_the_servers_own_names_are_accepted(premises: Premises, host: str) -> None:
    assert status_of(await ask(premises.port, request(premises.port, host=f"{host}:{premises.port}"))) == 200


async def test_a_missing_or_repeated_host_is_refused(premises: Premises) -> None:
    own = f"127.0.0.1:{premises.port}"
    twice = f"GET /api/status HTTP/1.1\r\nHost: {own}\r\nHost: evil.example\r\n\r\n".encode()
    none = b"GET /api/status HTTP/1.1\r\n\r\n"

    assert status_of(await ask(premises.port, twice)) == 400
    assert status_of(await ask(premises.port, none)) in {400, 403}


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost.evil.example", ""]
)
async def test_a_foreign_origin_is_refused(premises: Premises, origin: str) -> None:
    for call in (
        request(premises.port, origin=origin),
        request(premises.port, "POST", "/api/message", MESSAGE, origin=origin, **JSON),
        request(premises.port, "OPTIONS", "/api/message", origin=origin, access_control_request_method="POST"),
        request(premises.port, path="/api/events/stream", origin=origin),
    ):
        answer = await ask(premises.port, call)
        assert status_of(answer) == 403
        assert b"access-control-allow-origin" not in answer.lower()
    assert await received(premises) == 0


async def test_the_servers_own_pages_may_call(premises: Premises) -> None:
    call = request(premises.port, "POST", "/api/message", MESSAGE, origin=f"http://127.0.0.1:{premises.port}", **JSON)

    assert status_of(await ask(premises.port, call)) == 200


async def test_an_allowed_origin_may_call_and_is_named_alone(closed_premises: Premises) -> None:
    closed_premises.settings["server"] = {"allowed_origins": ["https://office.example"]}
    async with closed_premises.serve() as premises:
        asked = request(
            premises.port,
            "OPTIONS",
            "/api/message",
            origin="https://office.example",
            access_control_request_method="POST",
        )
        preflight = await ask(premises.port, asked)
        answer = await ask(premises.port, request(premises.port, origin="https://office.example"))

    assert status_of(preflight) == 204
    for reply in (preflight, answer):
        assert b"access-control-allow-origin: https://office.example\r\n" in reply.lower()
        assert b"*" not in reply.split(b"\r\n\r\n")[0]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
async def test_a_write_that_is_not_json_is_refused_even_without_an_origin(premises: Premises, kind: str | None) -> None:
    headers = {} if kind is None else {"content_type": kind}
    for path in ("/api/message", "/api/responses", "/api/settings", "/api/queue/agents/coder/pause"):
        method = "PUT" if path == "/api/settings" else "POST"
        assert status_of(await ask(premises.port, request(premises.port, method, path, MESSAGE, **headers))) == 415
    assert await received(premises) == 0


@pytest.mark.parametrize(
    "name", ["..%2F..%2Fevil", "%2e%2e%2fevil", "..", "Evil", "a%00b", "a%20b", "-a", "x" * 65, "%ff"]
)
async def test_an_invalid_id_reaches_no_file(premises: Premises, name: str, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*evil*"))
    body = b'{"name": "Evil", "provider": "scripted"}'
    for method, path in (
        ("PUT", f"/api/agents/{name}"),
        ("DELETE", f"/api/agents/{name}"),
        ("GET", f"/api/agents/{name}/system-prompt"),
        ("PUT", f"/api/agents/{name}/heartbeat"),
        ("PUT", f"/api/teams/{name}"),
        ("PUT", f"/api/custom-providers/{name}"),
        ("POST", f"/api/queue/agents/{name}/pause"),
        ("POST", f"/api/services/channel/{name}/start"),
        ("GET", f"/api/chatroom/{name}"),
        ("GET", f"/api/logs?source={name}"),
    ):
        answer = await ask(
            premises.port, request(premises.port, method, path, body if method == "PUT" else b"", **JSON)
        )
        assert 400 <= status_of(answer) < 500, (method, path, answer)
    assert sorted(tmp_path.rglob("*evil*")) == before
    assert set((await premises.http.get("/api/agents")).json()) == {"coder", "writer", "tester"}


@pytest.mark.parametrize("agent", ["../../evil", "Evil Agent", "coder; rm -rf /", "\u0000"])
async def test_a_message_for_an_invalid_id_is_refused(premises: Premises, agent: str) -> None:
    answer = await premises.http.post("/api/message", json={"message": "hello", "agent": agent})

    assert answer.status_code == 400
    assert await received(premises) == 0


async def test_an_agent_cannot_send_a_file_from_outside_its_workspace(premises: Premises, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    workspace = tmp_path / "workspace" / "coder"
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "link.txt").symlink_to(tmp_path / "secret.txt")
    (workspace / "plan.txt").write_text("plan")
    answer = "[send_file: /etc/passwd] [send_file: link.txt] [send_file: plan.txt]"
    premises.puppet.plays["coder"] = lambda _: answer

    await premises.http.post("/api/message", json={"message": "files, please", "agent": "coder"})
    await premises.drained()
    (response,) = (await premises.http.get("/api/responses")).json()

    assert [Path(file).read_text() for file in response["files"]] == ["plan"]


@pytest.mark.parametrize("file", ["/etc/passwd", "../settings.json", "link.txt"])
async def test_a_message_cannot_attach_a_file_from_outside(premises: Premises, file: str) -> None:
    (premises.home.files / "link.txt").symlink_to(premises.home.settings_file)
    fields = {"message": "read this", "agent": "coder", "files": [file]}
    response = {"channel": "telegram", "sender": "Ada", "message": "look", "files": [file]}

    assert (await premises.http.post("/api/message", json=fields)).status_code == 400
    assert (await premises.http.post("/api/responses", json=response)).status_code == 400


async def test_only_the_owner_can_read_the_home(premises: Premises) -> None:
    await premises.http.put("/api/settings", json={"models": {"openai": {"api_key": "sk-0123456789abcdef"}}})
    home = premises.home

    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
    for file in (home.settings_file, home.database, *home.backups.iterdir()):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


async def test_a_body_of_fifty_megabytes_is_refused(premises: Premises) -> None:
    huge = b'{"message": "' + b"x" * 50_000_000 + b'"}'
    for path in ("/api/message", "/api/responses"):
        answer = await ask(premises.port, request(premises.port, "POST", path, huge, **JSON))
        # The server hangs up without reading the rest; a client that is still sending may miss the answer.
        assert status_of(answer) in {413, 0}
    small = request(premises.port, "POST", "/api/message", b"", content_length="50000000", **JSON)
    assert status_of(await ask(premises.port, small)) == 413
    assert await received(premises) == 0
    assert (await premises.http.get("/api/status")).status_code == 200


async def test_a_chunked_body_is_bounded(premises: Premises) -> None:
    def chunked(size: int) -> bytes:
        body = b'{"message": "' + b"x" * size + b'"}'
        return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)

    for path in ("/api/message", "/api/responses"):
        call = request(premises.port, "POST", path, chunked(2_000_000), transfer_encoding="chunked", **JSON)
        assert status_of(await ask(premises.port, call)) == 413
    fits = request(premises.port, "POST", "/api/message", chunked(1_000), transfer_encoding="chunked", **JSON)
    assert status_of(await ask(premises.port, fits)) == 200


@pytest.mark.parametrize("path", ["/api/message", "/api/responses", "/api/settings", "/api/tasks"])
@pytest.mark.parametrize("bracket", ["[", '{"a":'])
async def test_json_nested_ten_thousand_deep_is_refused(premises: Premises, path: str, bracket: str) -> None:
    closing = "]" if bracket == "[" else "}"
    deep = (bracket * 10_000 + "1" + closing * 10_000).encode()
    inside = b'{"message": "hello", "title": "t", "extra": ' + deep + b"}"
    method = "PUT" if path == "/api/settings" else "POST"

    assert status_of(await ask(premises.port, request(premises.port, method, path, deep, **JSON))) == 400
    answer = await ask(premises.port, request(premises.port, method, path, inside, **JSON))
    assert status_of(answer) in {200, 201, 400}
    assert (await premises.http.get("/api/status")).status_code == 200


@pytest.mark.parametrize(
    "head",
    [
        b"".join(b"x-%d: y\r\n" % number for number in range(10_000)),
        b"x: " + b"y" * 1_000_000 + b"\r\n",
        b"x: y\r\n" * 101,
    ],
)
async def test_an_endless_head_is_refused(premises: Premises, head: bytes) -> None:
    start = f"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1:{premises.port}\r\n".encode()

    assert status_of(await ask(premises.port, start + head + b"\r\n")) in {400, 0}
    assert (await premises.http.get("/api/status")).status_code == 200


async def test_an_endless_address_is_refused(premises: Premises) -> None:
    call = request(premises.port, path="/api/" + "x" * 1_000_000)

    assert status_of(await ask(premises.port, call)) in {400, 0}
    assert (await premises.http.get("/api/status")).status_code == 200


SECRETS = {
    "models": {"anthropic": {"api_key": "sk-ant-SECRET-1"}, "openai": {"api_key": "sk-SECRET-2"}},
    "channels": {"telegram": {"bot_token": "SECRET-3:telegram"}, "discord": {"bot_token": "SECRET-4-discord"}},
    "custom_providers": {"mine": {"harness": "api", "base_url": "http://127.0.0.1:9", "api_key": "SECRET-5-custom"}},
    "server": {"token": TOKEN},
}


async def test_no_answer_contains_a_secret(closed_premises: Premises) -> None:
    closed_premises.settings |= SECRETS
    closed_premises.token = TOKEN
    async with closed_premises.serve() as premises:
        await premises.http.put("/api/settings", json={"models": {"openai": {"api_key": "sk-SECRET-6-new"}}})
        await premises.http.put("/api/custom-providers/mine", json={"api_key": "SECRET-7-custom"})
        paths = (await premises.http.get("/openapi.json")).json()["paths"]
        reads = [path for path, operations in paths.items() if "get" in operations and path != "/api/events/stream"]
        names = {"agent_id": "coder", "team": "dev", "team_id": "dev"}
        for path in reads:
            filled = path
            for name in [part[1:-1] for part in path.split("/") if part.startswith("{")]:
                filled = filled.replace("{" + name + "}", names.get(name, "coder"))
            answer = await premises.http.get(filled)
            assert answer.status_code in {200, 400, 404}, path
            for secret in ("SECRET", TOKEN):
                assert secret not in answer.text, path
    assert len(reads) > 25


async def test_a_masked_secret_keeps_the_stored_one(closed_premises: Premises) -> None:
    closed_premises.settings |= {"models": {"openai": {"api_key": "sk-0123456789abcdef"}}}
    async with closed_premises.serve() as premises:
        shown = (await premises.http.get("/api/settings")).json()
        answer = await premises.http.put("/api/settings", json=shown)

    assert answer.status_code == 200
    assert json.loads(premises.home.settings_file.read_text())["models"]["openai"]["api_key"] == "sk-0123456789abcdef"


async def test_chat_senders_are_rate_limited_and_local_programs_are_not(closed_premises: Premises) -> None:
    closed_premises.settings["server"] = {"messages_per_minute": 3}
    async with closed_premises.serve() as premises:

        async def statuses(**fields: str) -> list[int]:
            calls = [premises.http.post("/api/message", json={"message": "hi", **fields}) for _ in range(5)]
            return sorted(answer.status_code for answer in await asyncio.gather(*calls))

        assert await statuses(channel="telegram", sender="Ada", senderId="1") == [200, 200, 200, 429, 429]
        assert await statuses(channel="telegram", sender="Ada", senderId="2") == [200, 200, 200, 429, 429]
        assert await statuses() == [200] * 5


async def test_administrative_actions_are_audited(closed_premises: Premises) -> None:
    closed_premises.token = TOKEN
    async with closed_premises.serve() as locked:
        await locked.http.post("/api/queue/agents/coder/pause", headers={"x-tinyagi-client": "cli ada"}, json={})
        await locked.http.put("/api/settings", json={"models": {"openai": {"api_key": "sk-SECRET-0123456789"}}})
        await locked.http.delete("/api/queue/dead/4711")
        entries = (await locked.http.get("/api/audit")).json()

    assert [(entry["action"], entry["target"]) for entry in entries] == [("save_settings", ""), ("pause_lane", "coder")]
    assert entries[1]["who"] == "cli ada (token, 127.0.0.1)"
    assert all(entry["at"] > 0 for entry in entries)
    assert "SECRET" not in json.dumps(entries)


async def test_every_answer_has_the_security_headers(premises: Premises) -> None:
    for path in ("/api/status", "/docs", "/metrics", "/nowhere"):
        headers = (await premises.http.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


async def test_hostile_text_is_stored_unchanged(premises: Premises) -> None:
    hostile = "<script>alert(1)</script> '); DROP TABLE messages; -- [red]\x1b[31m\r\nid: 1\n\n{{7*7}} \u2028"
    await premises.http.post("/api/message", json={"message": hostile, "agent": "coder", "sender": hostile[:50]})
    await premises.drained()
    history = (await premises.http.get("/api/agents/coder/messages")).json()

    assert premises.puppet.prompts_of("coder")[0].startswith(hostile.strip())
    assert history[-1]["content"] == hostile


async def test_a_lone_surrogate_is_refused_everywhere(premises: Premises) -> None:
    for method, path, body in (
        ("POST", "/api/message", '{"message": "\\ud800"}'),
        ("POST", "/api/responses", '{"channel": "telegram", "sender": "Ada", "message": "\\ud800"}'),
        ("POST", "/api/tasks", '{"title": "\\ud800"}'),
        ("POST", "/api/chatroom/dev", '{"message": "\\ud800"}'),
        ("PUT", "/api/agents/coder", '{"name": "\\ud800"}'),
        ("PUT", "/api/agents/coder/system-prompt", '{"content": "\\ud800"}'),
    ):
        answer = await premises.http.request(method, path, content=body)
        assert answer.status_code == 400, (path, answer.text)
        assert "error" in answer.json()
