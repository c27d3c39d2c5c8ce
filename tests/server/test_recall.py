"""An agent's long memory over HTTP."""

import asyncio
import json
import os
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Premises
from tests.support.lakes import write_lake
from tinyagi import api_wiring
from tinyagi.agents.skills import default_skills
from tinyagi.system.clock import wall_clock


def piece(number: int, agent: str, text: str) -> dict[str, Any]:
    words = text.lower().split()
    return {
        "agent": agent,
        "chunk": f"{number}.1",
        "history_id": number,
        "role": "assistant",
        "message_id": f"api_{number}",
        "conversation_id": f"api_{number}",
        "created_at": 1_000 * number,
        "text": text,
        "terms": [{"term": word, "count": words.count(word)} for word in sorted(set(words))],
        "length": len(words),
        "date": date(2026, 1, 5),
    }


async def archived(premises: Premises) -> None:
    """Archive the pasts of two agents, up to the head of the log."""
    pieces = [piece(1, "coder", "Invoice 4711 paid in May"), piece(2, "writer", "Invoice lost in May")]
    head = (await premises.store.events.bounds()).head
    write_lake(premises.home.lake, {"gold.memory_chunks": pieces}, through_id=head)


async def ask(premises: Premises, **query: str | int) -> Any:
    answer = await premises.http.get("/api/recall", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_search_finds_only_the_agents_own_past(premises: Premises) -> None:
    await archived(premises)

    (hit,) = (await ask(premises, agent="coder", q="the invoice of May"))["hits"]

    assert hit.pop("score") > 0
    assert hit == {
        "historyId": 1,
        "role": "assistant",
        "messageId": "api_1",
        "conversationId": "api_1",
        "at": 1_000,
        "text": "Invoice 4711 paid in May",
    }
    assert (await ask(premises, agent="nobody", q="invoice"))["hits"] == []


async def test_the_answer_carries_the_time_of_the_last_archived_event(premises: Premises) -> None:
    await archived(premises)
    began = wall_clock()

    assert (await ask(premises, agent="coder", q="invoice"))["throughAt"] >= began

    await premises.send("later", agent="coder")
    await premises.drained()
    (received, *_) = await premises.events("message_received")
    assert (await ask(premises, agent="coder", q="invoice"))["throughAt"] == received.created_at


async def test_a_home_without_a_lake_is_answered_with_the_remedy(premises: Premises) -> None:
    answer = await premises.http.get("/api/recall", params={"agent": "coder", "q": "invoice"})

    assert (answer.status_code, answer.json()) == (
        404,
        {"error": "There is nothing to recall: the home has no lake yet. Run `tinyagi pipeline run`."},
    )


async def test_missing_pipeline_packages_are_reported(
    closed_premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_wiring, "find_spec", lambda package: None)
    async with closed_premises.serve() as premises:
        answer = await premises.http.get("/api/recall", params={"agent": "coder", "q": "invoice"})

    assert answer.status_code == 404
    assert "Install `tinyagi[pipeline]`" in answer.json()["error"]


@pytest.mark.parametrize(
    "query", [{"agent": "coder"}, {"q": "x"}, {"agent": "coder", "q": ""}, {"agent": "No!", "q": "x"}]
)
async def test_a_search_needs_an_agent_and_words(premises: Premises, query: dict[str, str]) -> None:
    assert (await premises.http.get("/api/recall", params=query)).status_code == 400


async def test_the_skill_finds_the_agents_own_past(premises: Premises, tmp_path: Path) -> None:
    await archived(premises)
    (skill,) = (skill.text for skill in default_skills() if skill.id == "recall")
    function, search, *_ = re.findall(r"^```sh\n(.*?)^```$", skill, re.MULTILINE | re.DOTALL)

    shell = await asyncio.create_subprocess_exec(
        "sh",
        "-euc",
        function + search,
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "NO_PROXY": "*",
            "TINYAGI_API_PORT": str(premises.port),
            "TINYAGI_AGENT_ID": "coder",
        },
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await shell.communicate()

    assert [hit["historyId"] for hit in json.loads(output)["hits"]] == [1]
