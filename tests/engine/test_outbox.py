"""Proactive messages: rendered and confined like answers, stored for their channel."""

import json
from pathlib import Path

import pytest

from tests.engine.conftest import House
from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import AgentId
from tinyagi.domain.responses import NewResponse

CODER = AgentId("coder")


def to_ada(text: str, agent: AgentId | None = CODER, files: tuple[str, ...] = ()) -> NewResponse:
    return NewResponse("telegram", "Ada", text, sender_id="4711", agent=agent, files=files)


async def test_a_proactive_message_is_rendered_and_not_signed(house: House) -> None:
    house.settings["responses"]["suffix"] = True
    async with house.open(start=False):
        sent = await house.engine.outbox.send(to_ada("The build is green. [#dev: hurray]"))
        (waiting,) = await house.store.responses.pending("telegram")

    assert sent == waiting
    assert sent.message_id.startswith("proactive_")
    assert sent.message == "The build is green. @coder → #dev: hurray"


async def test_a_message_without_an_agent_is_sent_unchanged(house: House) -> None:
    async with house.open(start=False):
        sent = await house.engine.outbox.send(to_ada("Disk almost full.", agent=None))

    assert (sent.message, sent.agent) == ("Disk almost full.", None)


async def test_plugins_transform_the_message_and_add_metadata(house: House) -> None:
    plugin = house.home.plugins / "shout" / "plugin.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("def transform_outgoing(text, ctx):\n    return text.upper(), {'parseMode': 'Markdown'}\n")
    async with house.open(start=False):
        sent = await house.engine.outbox.send(to_ada("done"))

    assert sent.message == "DONE"
    assert json.loads(sent.metadata or "{}") == {"parseMode": "Markdown"}


async def test_two_long_messages_are_two_files(house: House) -> None:
    house.settings["responses"]["long_answer_characters"] = 10
    async with house.open(start=False):
        one = await house.engine.outbox.send(to_ada("first " * 10))
        two = await house.engine.outbox.send(to_ada("second " * 10))

    texts = [Path(json.loads(sent.files or "[]")[0]).read_text() for sent in (one, two)]
    assert [text.split()[0] for text in texts] == ["first", "second"]


@pytest.mark.parametrize("agent", [CODER, None])
async def test_a_file_outside_the_workspace_is_refused(house: House, agent: AgentId | None) -> None:
    async with house.open(start=False):
        with pytest.raises(InvalidInput, match="outside the workspace"):
            await house.engine.outbox.send(to_ada("look", agent=agent, files=("/etc/passwd",)))

        assert await house.store.responses.pending("telegram") == ()


async def test_a_file_of_the_workspace_is_sent_as_a_copy(house: House) -> None:
    folder = house.folder / "workspace" / "coder"
    folder.mkdir(parents=True)
    (folder / "plan.txt").write_text("plan")
    async with house.open(start=False):
        sent = await house.engine.outbox.send(to_ada("look", files=("plan.txt",)))

    (copy,) = json.loads(sent.files or "[]")
    assert Path(copy).is_relative_to(house.home.files)
    assert Path(copy).read_text() == "plan"


@pytest.mark.parametrize(("text", "agent"), [(" ", "coder"), ("hello", "ghost")])
async def test_an_empty_text_or_unknown_agent_is_refused(house: House, text: str, agent: str) -> None:
    async with house.open(start=False):
        with pytest.raises(InvalidInput):
            await house.engine.outbox.send(to_ada(text, agent=AgentId(agent)))
