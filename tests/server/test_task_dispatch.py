"""A task that moves into progress runs its agent once, even when the client sends the task too."""

from typing import Any

from tests.server.conftest import Premises
from tests.server.test_board_routes import task_of


async def send(premises: Premises, text: str, **fields: object) -> dict[str, Any]:
    answer = await premises.http.post("/api/message", json={"message": text, **fields})
    assert answer.status_code == 200, answer.text
    sent: dict[str, Any] = answer.json()
    return sent


async def move(premises: Premises, task: dict[str, Any], status: str = "in_progress") -> None:
    answer = await premises.http.put(f"/api/tasks/{task['id']}", json={"status": status})
    assert answer.status_code == 200, answer.text


async def test_sending_a_moved_task_returns_the_message_of_the_board(premises: Premises) -> None:
    task = await task_of(premises, assignee="coder")
    await move(premises, task)
    (dispatched,) = await premises.messages()

    sent = await send(premises, f"@coder Build it\n\n[task:{task['id']}]", sender="Web", channel="web")

    assert sent["ok"] is True
    assert sent["messageId"] == dispatched.message_id
    assert sent["conversationId"] == dispatched.conversation_id
    assert len(await premises.messages()) == 1


async def test_moving_a_sent_task_makes_no_second_message(premises: Premises) -> None:
    task = await task_of(premises, assignee="coder")
    sent = await send(premises, f"@coder Build it\n\n[task:{task['id']}]", sender="Web", channel="web")

    await move(premises, task)

    (message,) = await premises.messages()
    assert message.message_id == sent["messageId"]


async def test_dragging_a_sent_task_makes_no_second_message(premises: Premises) -> None:
    task = await task_of(premises, assignee="dev", assigneeType="team")
    await send(premises, f"@dev Build it [task:{task['id']}]", channel="web")

    await premises.http.put("/api/tasks/reorder", json={"columns": {"in_progress": [task["id"]]}})

    assert len(await premises.messages()) == 1


async def test_a_second_message_about_a_task_is_stored(premises: Premises) -> None:
    task = await task_of(premises, assignee="coder")
    await move(premises, task)
    await send(premises, f"@coder Build it [task:{task['id']}]")

    await send(premises, f"@coder Also paint it. [task:{task['id']}]")

    assert len(await premises.messages()) == 2


async def test_a_persons_message_about_a_moved_task_is_stored(premises: Premises) -> None:
    task = await task_of(premises, assignee="coder")
    await move(premises, task)

    await send(premises, f"@coder about [task:{task['id']}]: use Postgres!", channel="telegram", sender="Ada")

    assert [message.channel for message in await premises.messages()] == ["board", "telegram"]


async def test_a_description_may_name_another_task(premises: Premises) -> None:
    task = await task_of(premises, assignee="coder", description="See [task:task_abc123],\n first.")
    await move(premises, task)

    await send(premises, f"@coder Build it\n\nSee [task:task_abc123],\n first.\n\n[task:{task['id']}]")

    assert len(await premises.messages()) == 1


async def test_a_message_about_a_task_for_another_agent_is_stored(premises: Premises) -> None:
    task = await task_of(premises, assignee="coder")
    await move(premises, task)

    await send(premises, f"@tester Watch this one: [task:{task['id']}]")

    assert [message.agent for message in await premises.messages()] == ["coder", "tester"]


async def test_a_message_with_an_id_of_the_client_is_stored_under_it(premises: Premises) -> None:
    task = await task_of(premises, assignee="coder")
    await move(premises, task)

    sent = await send(premises, f"@coder Build it [task:{task['id']}]", messageId="telegram_1")

    assert sent["messageId"] == "telegram_1"
    assert len(await premises.messages()) == 2


async def test_a_task_that_moves_back_and_forth_is_dispatched_each_time(premises: Premises) -> None:
    task = await task_of(premises, assignee="coder")
    for _ in range(2):
        await move(premises, task)
        await send(premises, f"@coder Build it [task:{task['id']}]")
        await move(premises, task, "todo")

    assert len(await premises.messages()) == 2


async def test_a_message_that_names_an_unknown_task_is_stored(premises: Premises) -> None:
    await send(premises, "@coder Build it [task:task_unknown]")

    assert len(await premises.messages()) == 1
