"""Chat rooms over HTTP, and the files of their conversations."""

import json
import os
from pathlib import Path

import pytest

from tests.server.conftest import Premises


async def test_a_line_reaches_the_room_and_every_member(premises: Premises) -> None:
    answer = await premises.http.post("/api/chatroom/dev", json={"message": "hello all"})

    assert answer.status_code == 200
    await premises.drained()
    (line,) = (await premises.http.get("/api/chatroom/dev")).json()
    assert answer.json() == {"ok": True, "id": line["id"]}
    assert line.keys() == {"id", "team_id", "from_agent", "message", "created_at"}
    assert (line["team_id"], line["from_agent"], line["message"]) == ("dev", "user", "hello all")
    assert {request.agent for request in premises.puppet.requests} == {"coder", "writer", "tester"}


async def test_lines_are_paged_newest_first(premises: Premises) -> None:
    sent = [
        (await premises.http.post("/api/chatroom/dev", json={"message": text, "sender": "Ada"})).json()["id"]
        for text in ("one", "two", "three", "four")
    ]

    async def texts(**query: int) -> list[str]:
        return [line["message"] for line in (await premises.http.get("/api/chatroom/dev", params=query)).json()]

    assert await texts() == ["four", "three", "two", "one"]
    assert await texts(limit=1) == ["four"]
    assert await texts(since=sent[1]) == ["four", "three"]
    assert await texts(since=sent[0], before=sent[3]) == ["three", "two"]


async def test_an_unknown_team_has_no_room(premises: Premises) -> None:
    asked = await premises.http.get("/api/chatroom/nobody")
    said = await premises.http.post("/api/chatroom/nobody", json={"message": "hello"})

    assert (asked.status_code, said.status_code) == (404, 404)
    assert "nobody" in said.json()["error"]


@pytest.mark.parametrize(
    "body", [{}, {"message": ""}, {"message": " \n"}, {"message": "\ud800"}, {"message": "hi", "sender": ""}, []]
)
async def test_an_invalid_line_is_refused(premises: Premises, body: object) -> None:
    answer = await premises.http.post("/api/chatroom/dev", content=json.dumps(body))

    assert answer.status_code == 400
    assert (await premises.http.get("/api/chatroom/dev")).json() == []


@pytest.mark.parametrize(
    "query", [f"since={2**63}", "since=-1", "since=x", "before=0", f"before={2**70}", "limit=1001"]
)
async def test_ids_out_of_bounds_are_refused(premises: Premises, query: str) -> None:
    assert (await premises.http.get(f"/api/chatroom/dev?{query}")).status_code == 400


def a_file(path: Path, seconds: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# Conversation\n")
    os.utime(path, (seconds, seconds))


async def test_chat_files_are_listed_newest_first(premises: Premises) -> None:
    chats = premises.home.chats
    a_file(chats / "dev" / "old.md", 1_000)
    a_file(chats / "ops" / "new.md", 2_000)
    a_file(chats / "dev" / "notes.txt", 3_000)

    listed = (await premises.http.get("/api/chats")).json()

    assert listed == [
        {"teamId": "ops", "file": "new.md", "time": 2_000_000},
        {"teamId": "dev", "file": "old.md", "time": 1_000_000},
    ]
    assert (await premises.http.get("/api/chats", params={"limit": 1})).json() == listed[:1]


async def test_links_and_invalid_names_are_not_listed(premises: Premises) -> None:
    outside = premises.folder / "outside"
    a_file(outside / "secret.md", 1_000)
    chats = premises.home.chats
    a_file(chats / "dev" / "own.md", 1_000)
    (chats / "dev" / "link.md").symlink_to(outside / "secret.md")
    (chats / "linked").symlink_to(outside)
    (chats / "dev" / "folder.md").mkdir()
    a_file(chats / "Not A Team" / "x.md", 1_000)
    os.close(os.open(os.fsencode(chats / "dev") + b"/\xff.md", os.O_CREAT | os.O_WRONLY))

    listed = (await premises.http.get("/api/chats")).json()

    assert [(file["teamId"], file["file"]) for file in listed] == [("dev", "own.md")]


async def test_a_missing_folder_gives_an_empty_list(premises: Premises) -> None:
    premises.home.chats.rmdir()

    assert (await premises.http.get("/api/chats")).json() == []
