"""Replays: planned without sending, never sent twice, never answered to the original sender."""

from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.lakes import write_lake
from tinyagi.domain.errors import DuplicateMessage, InvalidInput
from tinyagi.domain.ids import AgentId, MessageId
from tinyagi.domain.messages import NewMessage, Status
from tinyagi.pipeline.instants import time_of
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manage.replay import ReplayMessage, Selection, fingerprint_of, plan_replay, send_replay
from tinyagi.pipeline.transform.gold import dead_by_day, dead_letters
from tinyagi.store.store import Store

DAY = date(2026, 3, 1)
ERRORS = (
    "exit code 7 after 12 s",
    "  Cannot open '/home/ada/notes.txt': no such file\nsecond line",
    "https://example.org/x?y=1 answered 503",
    "claim_0a1b2c3d4e5f6071 was lost, message_ab12cd34 too",
    'Ünïcode “quoted” `text` and "more"\tof it',
    "",
)


def message(number: int, **overrides: Any) -> dict[str, Any]:
    return {
        "id": number,
        "message_id": f"m{number}",
        "conversation_id": f"m{number}",
        "channel": "telegram",
        "sender": "Ada",
        "sender_id": "1",
        "agent": "coder",
        "hop": 0,
        "message": f"text {number}",
        "status": "completed",
        "created_at": number * 1000,
        "date": DAY,
        **overrides,
    }


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    rows = [
        message(1),
        message(2, status="dead", last_error=ERRORS[0], error_kind="message"),
        message(3, status="dead", last_error="exit code 9 after 1 s", error_kind="timeout", agent="tester"),
        message(4, hop=1, from_agent="coder", agent="tester", conversation_id="m1"),
        message(5, channel="chatroom", team="dev"),
        message(6, status="pending"),
        message(7, team="dev"),
        message(8, message=None, sender="erased-0a1b2c3d4e5f", sender_id="erased-0a1b2c3d4e5f"),
        message(9, message=None, conversation_id="m8", sender="Bob"),
        message(10, message=None, files='["/nowhere/file.txt"]'),
        message(11, message=None),
    ]
    erasure = {
        "pseudonym": "erased-0a1b2c3d4e5f",
        "channel": "telegram",
        "marks": [],
        "through_id": 99,
        "conversations": ["m8"],
        "messages": ["m8"],
        "agents": ["coder"],
        "erased_at": 1,
        "date": DAY,
    }
    return write_lake(tmp_path / "lake", {"silver.messages": rows, "ops.erasures": [erasure]})


def chosen(lake: Lake, selection: Selection) -> list[int]:
    plan = plan_replay(lake, selection)
    return sorted([letter.original for letter in plan.letters] + list(plan.refused))


@pytest.mark.parametrize(
    ("selection", "originals"),
    [
        (Selection(ids=(1, 2, 4)), [1, 2]),
        (Selection(ids=(1, 2, 4), handed_on=True), [1, 2, 4]),
        (Selection(conversation="m1"), [1]),
        (Selection(agent="tester"), [3]),
        (Selection(status=Status.DEAD), [2, 3]),
        (Selection(error_kind="timeout"), [3]),
        (Selection(fingerprint=fingerprint_of("exit code 1 after 3 s")), [2, 3]),
        (Selection(since=2000, until=3000), [2]),
        (Selection(status=Status.COMPLETED, agent="coder", until=8000), [1, 7]),
    ],
)
def test_a_selection_combines_all_criteria(lake: Lake, selection: Selection, originals: list[int]) -> None:
    assert chosen(lake, selection) == originals


def test_a_replayed_message_keeps_its_receiver_but_not_its_sender(lake: Lake) -> None:
    plan = plan_replay(lake, Selection(ids=(1, 7)))

    assert [(letter.to, letter.text) for letter in plan.letters] == [("coder", "text 1"), ("dev", "text 7")]
    assert {(letter.channel, letter.sender) for letter in plan.letters} == {("api", "replay")}
    assert len({letter.sender_id for letter in plan.letters}) == 2
    assert [letter.to for letter in plan_replay(lake, Selection(ids=(1, 7)), agent="writer").letters] == ["writer"] * 2


def test_erased_and_empty_messages_are_refused(lake: Lake) -> None:
    plan = plan_replay(lake, Selection(ids=(1, 8, 9, 10, 11)))

    assert [letter.original for letter in plan.letters] == [1]
    assert plan.refused == {
        8: "it was erased",
        9: "it was erased",
        10: "its attachment /nowhere/file.txt is gone",
        11: "it has no text",
    }


def test_too_many_messages_and_an_empty_selection_are_refused(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match="2 messages match, but the limit is 1"):
        plan_replay(lake, Selection(status=Status.DEAD), most=1)
    with pytest.raises(InvalidInput, match="Choose the messages"):
        plan_replay(lake, Selection())
    with pytest.raises(InvalidInput, match="pending cannot be replayed"):
        plan_replay(lake, Selection(status=Status.PENDING))


def test_the_same_selection_gives_the_same_message_ids(lake: Lake) -> None:
    selection = Selection(ids=(1,))
    first = plan_replay(lake, selection)

    assert plan_replay(lake, selection) == first
    others = [
        plan_replay(lake, selection, agent="writer"),
        plan_replay(lake, selection, replay_id="again"),
        plan_replay(lake, replace(selection, conversation="m1")),
    ]
    assert len({first.letters[0].message_id, *(other.letters[0].message_id for other in others)}) == 4


@dataclass
class StoreSender:
    """As the CLI sends without a running daemon: into the queue."""

    store: Store
    broken_after: int = 100
    letters: list[ReplayMessage] = field(default_factory=list)

    async def __call__(self, letter: ReplayMessage) -> bool:
        if len(self.letters) == self.broken_after:
            raise ConnectionError("cut off")
        self.letters.append(letter)
        new = NewMessage(
            letter.text,
            AgentId(letter.to),
            letter.channel,
            letter.sender,
            letter.sender_id,
            message_id=MessageId(letter.message_id),
        )
        try:
            await self.store.queue.enqueue(new)
        except DuplicateMessage:
            return False
        return True


async def test_an_interrupted_or_repeated_replay_sends_nothing_twice(lake: Lake, tmp_path: Path) -> None:
    plan = plan_replay(lake, Selection(ids=(1, 2, 3)))
    async with await Store.open(tmp_path / "tinyagi.db") as store:
        with pytest.raises(ConnectionError):
            await send_replay(plan, StoreSender(store, broken_after=2))

        second = await send_replay(plan, StoreSender(store))
        third = await send_replay(plan, StoreSender(store))
        depth = await store.queue.depth()

        assert (second.sent, second.already) == (1, 2)
        assert (third.sent, third.already) == (0, 3)
        assert depth.pending == 3
        claim = await store.queue.claim(AgentId("coder"))
        assert claim is not None
        assert str(claim.primary.conversation_id) == claim.primary.message_id == plan.letters[0].message_id


def test_an_error_has_the_same_fingerprint_with_and_without_spark(spark: SparkSession) -> None:
    at = time_of(0)
    rows = [(number, "coder", error, "message", "dead", 1, at, at) for number, error in enumerate(ERRORS)]
    columns = "id long, agent string, last_error string, error_kind string, status string, deaths long, "
    messages = spark.createDataFrame(rows, columns + "created_at timestamp, died_at timestamp")

    by_spark = {row["example_id"]: row["fingerprint"] for row in dead_letters(dead_by_day(messages)).collect()}

    assert by_spark == {number: fingerprint_of(error) for number, error in enumerate(ERRORS)}
