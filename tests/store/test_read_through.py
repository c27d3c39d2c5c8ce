"""Reading continues in the archive: no row is lost or doubled by concurrent pruning."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from tests.support.builders import a_message
from tinyagi.domain.errors import NotFound
from tinyagi.domain.ids import AgentId, ConversationId, MessageId, TeamId
from tinyagi.domain.messages import Status
from tinyagi.domain.responses import ChatMessage, HistoryEntry, Role
from tinyagi.domain.traces import Attempt, ConversationSummary, TracedMessage
from tinyagi.store.archive import ArchiveUnreadable, NoArchive
from tinyagi.store.history import ReadThroughHistory, ReadThroughTraces

CODER, DEV = AgentId("coder"), TeamId("dev")
CONVERSATION = ConversationId("c")


def entry(number: int, agent: str = "coder", text: str = "hot") -> HistoryEntry:
    return HistoryEntry(number, AgentId(agent), Role.USER, "web", "Ada", MessageId(f"m{number}"), text, number)


@dataclass
class MemoryHistory(NoArchive):
    """A history in memory: the hot one, or the archive's."""

    entries: list[HistoryEntry] = field(default_factory=list)
    lines: list[ChatMessage] = field(default_factory=list)
    after_reading: Callable[[], None] = lambda: None
    reads: int = 0

    async def of_agent(
        self,
        agent: AgentId | None = None,
        *,
        since: int = 0,
        before: int | None = None,
        limit: int = 100,
        internal: bool = True,
    ) -> tuple[HistoryEntry, ...]:
        found = [
            one
            for one in sorted(self.entries, key=lambda one: one.id, reverse=True)
            if (agent is None or one.agent_id == agent)
            and since < one.id
            and (before is None or one.id < before)
            and (internal or one.from_agent is None)
        ]
        self.reads += 1
        self.after_reading()
        return tuple(found[:limit])

    async def of_room(
        self, team: TeamId, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[ChatMessage, ...]:
        found = [
            one
            for one in sorted(self.lines, reverse=True)
            if one.team_id == team and since < one.id and (before is None or one.id < before)
        ]
        self.reads += 1
        return tuple(found[:limit])


@dataclass
class MemoryTraces(NoArchive):
    """Conversations in memory."""

    messages: tuple[TracedMessage, ...] = ()
    summaries: tuple[ConversationSummary, ...] = ()
    asked: list[int | None] = field(default_factory=list)

    async def conversation(
        self, conversation: ConversationId, *, started_at: int | None = None
    ) -> tuple[TracedMessage, ...]:
        self.asked.append(started_at)
        return self.messages

    async def recent(self, *, limit: int = 50) -> tuple[ConversationSummary, ...]:
        return self.summaries[:limit]


class Damaged(NoArchive):
    async def of_agent(self, *_: object, **__: object) -> tuple[HistoryEntry, ...]:
        raise ArchiveUnreadable("The lake cannot be read.")

    async def conversation(self, *_: object, **__: object) -> tuple[TracedMessage, ...]:
        raise ArchiveUnreadable("The lake cannot be read.")

    async def recent(self, **_: object) -> tuple[ConversationSummary, ...]:
        raise ArchiveUnreadable("The lake cannot be read.")


def ids(page: tuple[HistoryEntry, ...]) -> list[int]:
    return [one.id for one in page]


async def test_a_page_continues_in_the_archive() -> None:
    archive = MemoryHistory([entry(number, text="archived") for number in range(1, 21)])
    history = ReadThroughHistory(MemoryHistory([entry(number) for number in range(15, 31)]), archive)

    page = await history.of_agent(CODER, before=20, limit=10)

    assert ids(page) == [*range(19, 9, -1)]
    assert [one.content for one in page] == ["hot"] * 5 + ["archived"] * 5
    assert ids(await history.of_agent(CODER, before=20, since=12)) == [*range(19, 12, -1)]
    assert ids(await history.of_agent(CODER, before=5)) == [4, 3, 2, 1]


async def test_internal_lines_are_left_out_of_store_and_archive() -> None:
    lines = [entry(number)._replace(from_agent=CODER if number % 2 else None) for number in range(1, 9)]
    history = ReadThroughHistory(MemoryHistory(lines[4:]), MemoryHistory(lines[:4]))

    assert ids(await history.of_agent(CODER, internal=False)) == [8, 6, 4, 2]


async def test_a_full_page_needs_no_archive() -> None:
    archive = MemoryHistory([entry(1)])
    history = ReadThroughHistory(MemoryHistory([entry(2), entry(3)]), archive)

    assert ids(await history.of_agent(limit=2)) == [3, 2]
    assert archive.reads == 0


async def test_a_room_continues_in_the_archive() -> None:
    lines = [ChatMessage(number, DEV, "coder", "x", number) for number in range(1, 6)]
    history = ReadThroughHistory(MemoryHistory(lines=lines[3:]), MemoryHistory(lines=lines[:4]))

    assert [one.id for one in await history.of_room(DEV)] == [5, 4, 3, 2, 1]
    assert [one.id for one in await history.of_room(DEV, since=1, before=5, limit=2)] == [4, 3]
    assert await history.of_room(TeamId("ops")) == ()


async def test_lines_pruned_between_the_two_reads_are_listed_once() -> None:
    everything = [entry(number) for number in range(1, 11)]
    archive = MemoryHistory(everything[:4])

    def prune() -> None:
        # The pipeline archives two more, then the store prunes all archived lines.
        archive.entries = everything[:6]
        hot.entries = everything[6:]

    hot = MemoryHistory(everything[2:], after_reading=prune)

    assert ids(await ReadThroughHistory(hot, archive).of_agent(limit=20)) == [*range(10, 0, -1)]


@pytest.mark.parametrize("seed", range(20))
async def test_pages_list_every_line_once_during_pruning(seed: int) -> None:
    dice = random.Random(seed)
    everything = [entry(number, dice.choice(["coder", "writer"])) for number in range(1, 120)]
    edges = [60, 40]
    archive = MemoryHistory()
    hot = MemoryHistory()

    def move_on() -> None:
        archived, pruned = (dice.randint(edge, max(edge, 119)) for edge in edges)
        edges[:] = [max(archived, pruned), min(archived, pruned)]
        archive.entries, hot.entries = everything[: edges[0]], everything[edges[1] :]

    move_on()
    hot.after_reading = archive.after_reading = move_on
    agent = dice.choice([None, CODER])
    expected = [one.id for one in reversed(everything) if agent is None or one.agent_id == agent]

    seen: list[int] = []
    history = ReadThroughHistory(hot, archive)
    while page := await history.of_agent(agent, before=seen[-1] if seen else None, limit=dice.randint(1, 30)):
        seen += ids(page)

    assert seen == expected


async def test_an_old_line_in_the_store_hides_no_archived_line() -> None:
    hot = MemoryHistory([entry(2), entry(9)])

    page = await ReadThroughHistory(hot, MemoryHistory([entry(number) for number in (1, 3, 4)])).of_agent(limit=4)

    assert ids(page) == [9, 4, 3, 2]


async def test_a_page_is_refused_when_the_archive_is_unreadable() -> None:
    history = ReadThroughHistory(MemoryHistory([entry(1), entry(2)]), Damaged())

    assert ids(await history.of_agent(limit=2)) == [2, 1]
    with pytest.raises(ArchiveUnreadable):
        await history.of_agent(limit=3)


def traced(number: int, *attempts: Attempt, status: Status = Status.COMPLETED, event: int = 10) -> TracedMessage:
    message = a_message(
        id=number, message_id=MessageId(f"m{number}"), conversation_id=CONVERSATION, conversation_started_at=7
    )
    return TracedMessage(message._replace(status=status, last_event_id=event), attempts, None)


def run(claim: str, *, started: int = 100, ended: int | None = 200) -> Attempt:
    outcome = "running" if ended is None else "chain_step_done"
    return Attempt(claim, 1, started, 5, ended, outcome, None, None)


async def join(hot: tuple[TracedMessage, ...], archived: tuple[TracedMessage, ...]) -> tuple[TracedMessage, ...]:
    return await ReadThroughTraces(MemoryTraces(hot), MemoryTraces(archived)).conversation(CONVERSATION)


async def test_pruned_messages_of_a_conversation_come_from_the_archive() -> None:
    hot = (traced(2, status=Status.DEAD), traced(4))

    joined = await join(hot, (traced(1), traced(2, status=Status.DEAD), traced(3, status=Status.DEAD)))

    assert [one.message.id for one in joined] == [1, 2, 3, 4]


async def test_the_archive_is_asked_with_the_start_of_the_conversation() -> None:
    archive = MemoryTraces()
    await ReadThroughTraces(MemoryTraces((traced(1),)), archive).conversation(CONVERSATION)
    await ReadThroughTraces(MemoryTraces(), archive).conversation(CONVERSATION)

    assert archive.asked == [7, None]


async def test_the_newer_version_of_a_message_wins() -> None:
    behind = traced(1, run("a", ended=None), status=Status.PROCESSING, event=5)
    ahead = traced(1, run("a"), event=6)

    assert await join((ahead,), (behind,)) == (ahead,)
    assert await join((behind,), (ahead,)) == (ahead,)


async def test_an_answer_whose_event_is_pruned_comes_from_the_archive() -> None:
    (joined,) = await join((traced(1),), (replace(traced(1), answer="archived"),))
    assert joined.answer == "archived"
    (joined,) = await join((replace(traced(1), answer="hot"),), (replace(traced(1), answer="archived"),))
    assert joined.answer == "hot"


async def test_a_message_open_only_in_the_archive_was_deleted() -> None:
    assert await join((traced(2),), (traced(1, status=Status.PENDING), traced(2))) == (traced(2),)


async def test_archived_attempts_come_before_those_of_the_store() -> None:
    hot = traced(1, run("b", started=200), run("c", started=300, ended=None))
    archived = traced(1, run("a"), run("b", started=150))

    (joined,) = await join((hot,), (archived,))

    # The store has pruned the start of `b`.
    assert [(one.claim_id, one.started_at) for one in joined.attempts] == [("a", 100), ("b", 150), ("c", 300)]


async def test_an_attempt_running_in_the_archive_gets_its_end_from_the_store() -> None:
    (joined,) = await join((traced(1, run("a")),), (traced(1, run("a", ended=None)),))

    assert [one.ended_at for one in joined.attempts] == [200]


async def test_all_messages_get_the_current_team_of_the_conversation() -> None:
    hot = replace(traced(2), message=traced(2).message._replace(conversation_team=DEV))

    joined = await join((hot,), (traced(1),))

    assert [one.message.conversation_team for one in joined] == [DEV, DEV]


def summary(name: str, started_at: int, *, tokens: int = 0, hops: int = 0) -> ConversationSummary:
    return ConversationSummary(
        name, None, "web", "Ada", "coder", "x", 0, 1, 0, hops, tokens, tokens / 2, started_at, started_at
    )


async def test_conversations_of_store_and_archive_are_ordered_by_start() -> None:
    hot = MemoryTraces(summaries=(summary("new", 9), summary("dead long ago", 2)))
    archive = MemoryTraces(summaries=(summary("new", 9), summary("pruned", 5), summary("new", 1)))
    traces = ReadThroughTraces(hot, archive)

    assert [(one.id, one.started_at) for one in await traces.recent()] == [
        ("new", 9),
        ("pruned", 5),
        ("dead long ago", 2),
        ("new", 1),
    ]
    assert [one.id for one in await traces.recent(limit=2)] == ["new", "pruned"]


async def test_usage_of_pruned_runs_comes_from_the_archive() -> None:
    hot = MemoryTraces(summaries=(summary("a", 1, tokens=3),))

    (listed,) = await ReadThroughTraces(hot, MemoryTraces(summaries=(summary("a", 1, tokens=10, hops=2),))).recent()

    assert (listed.tokens, listed.cost, listed.hops) == (10, 5.0, 2)


async def test_a_damaged_archive_leaves_the_rows_of_the_store(caplog: pytest.LogCaptureFixture) -> None:
    traces = ReadThroughTraces(MemoryTraces((traced(1),), (summary("a", 1),)), Damaged())

    with caplog.at_level(logging.WARNING):
        assert await traces.conversation(CONVERSATION) == (traced(1),)
        assert len(await traces.recent()) == 1
    assert caplog.text.count("cannot be read") == 2

    nothing = ReadThroughTraces(MemoryTraces(), Damaged())
    with pytest.raises(ArchiveUnreadable):
        await nothing.conversation(CONVERSATION)
    with pytest.raises(ArchiveUnreadable):
        await nothing.recent()


async def test_only_the_store_is_read_without_an_archive() -> None:
    nothing = NoArchive()

    assert ids(await ReadThroughHistory(MemoryHistory([entry(1)]), nothing).of_agent()) == [1]
    assert await ReadThroughHistory(MemoryHistory(), nothing).of_room(DEV) == ()
    assert await ReadThroughTraces(MemoryTraces((traced(1),)), nothing).conversation(CONVERSATION) == (traced(1),)
    assert await ReadThroughTraces(MemoryTraces(), nothing).recent() == ()
    assert await nothing.tables() == ()
    with pytest.raises(NotFound, match=r"tinyagi\[pipeline\]"):
        await nothing.analytics("agent_hourly")
