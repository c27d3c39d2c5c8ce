"""The message queue: each call is one write operation or one short read. The operations are in their own modules."""

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec

from tinyagi.domain.board import TaskId
from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import AgentId, ClaimId, TeamId, is_valid_id
from tinyagi.domain.instants import millis
from tinyagi.domain.limits import Retention
from tinyagi.domain.messages import MAX_MESSAGES, Batching, Message, NewMessage, Status, coalesce, joins_thread
from tinyagi.domain.responses import ChatMessage, paths_in
from tinyagi.domain.retry import Failure, RetryPolicy
from tinyagi.domain.runs import Claim, Deferral, Outcome, RoomPost
from tinyagi.domain.texts import check_key, check_text
from tinyagi.store.claim import PROMOTE_SLICE, ClaimRequest, Unfinished, claim, promote, renew
from tinyagi.store.complete import CompleteRequest, complete, complete_and_claim, release_next
from tinyagi.store.enqueue import EnqueueRequest, delivery, enqueue, enqueue_with_posts
from tinyagi.store.enqueue import post as store_post
from tinyagi.store.lanes import (
    LANE_SLICE,
    ClaimableLane,
    LaneDepth,
    QueueDepth,
    abandon,
    cancel,
    move_message,
    move_pending,
)
from tinyagi.store.maintenance import (
    ADOPT_SLICE,
    PRUNE_SLICE,
    Place,
    PruneReport,
    RouteText,
    adopt,
    prune,
    rerecord,
)
from tinyagi.store.readers import Readers
from tinyagi.store.tasks import enqueue_for_task
from tinyagi.store.transaction import Transaction
from tinyagi.store.unanswered import delete_dead, fail, recover, release, release_orphans, retry_dead, stop
from tinyagi.store.writer import Writer
from tinyagi.system.processes import ProcessIdentity

P = ParamSpec("P")

LEASE = timedelta(seconds=60)
NO_TEAMS: Final[frozenset[TeamId]] = frozenset()


class WaitingRow(NamedTuple):
    """A pending message and what blocks it, apart from its lane."""

    message: Message
    waits_for: str | None
    """`time`, `thread` or `team`; the last two only after a claim has found the message blocked."""
    behind: int | None
    """The message of its thread that runs first."""


class Retrying(NamedTuple):
    """Messages in back-off, and when the first of them is due."""

    messages: int
    next_at: int | None


class MessageQueue:
    """Durable messages in lanes: one lane per agent, one claim per lane."""

    def __init__(
        self,
        writer: Writer,
        readers: Readers,
        engine_reader: Readers,
        policy: RetryPolicy,
        route: RouteText,
        clock: Callable[[], int],
        is_alive: Callable[[ProcessIdentity], bool | None],
    ) -> None:
        self._writer = writer
        self._readers = readers
        self._engine_reader = engine_reader
        self._policy = policy
        self._route = route
        self._clock = clock
        self._is_alive = is_alive

    async def enqueue(self, message: NewMessage) -> Message:
        """Store one message; raise DuplicateMessage when its id is already stored."""
        message.check()
        return (await self._writer.write(enqueue, EnqueueRequest((message,))))[0]

    async def enqueue_many(self, messages: Sequence[NewMessage]) -> tuple[Message, ...]:
        """Store independent messages together, all or none."""
        for message in messages:
            message.check()
        return await self._writer.write(enqueue, EnqueueRequest(tuple(messages)))

    async def enqueue_parts(
        self, parts: Sequence[NewMessage], *, posts: Sequence[RoomPost] = ()
    ) -> tuple[Message, ...]:
        """Store the parts of one message together: the first keeps the id and is the root, the next is `<id>.2`.

        The sender's lines in chat rooms are stored in the same transaction, as `post` stores them.
        """
        request = _parts_request(parts)
        if not posts:
            return await self._writer.write(enqueue, request)
        for line in posts:
            _check_post(line, parts[0].sender)
        return await self._writer.run(enqueue_with_posts, request, posts)

    async def enqueue_for_task(self, message: NewMessage, task: TaskId) -> Message:
        """Store a person's message about a task of the board; raise DuplicateMessage.

        If the board dispatched the task to the same agent within the last minute, return that message and store
        nothing. Otherwise this message becomes the dispatch of a move that follows within a minute.
        """
        message.check()
        return await self._writer.run(enqueue_for_task, message, task)

    async def post(self, post: RoomPost, *, sender: str) -> ChatMessage:
        """Store a person's line in a chat room with one message for each member, as one conversation of the team."""
        _check_post(post, sender)
        return await self._writer.run(store_post, post, sender)

    async def claim(
        self,
        agent: AgentId,
        *,
        batching: Batching = Batching.THREAD,
        lease: timedelta = LEASE,
        held_teams: frozenset[TeamId] = NO_TEAMS,
    ) -> Claim | None:
        """Take the lane's next due message and those coalesced with it, or None when the lane is empty, held or busy.

        Messages of held teams are skipped. Passive room posts start no run and block nothing: they join the next run,
        with every kind of batching. A passive post whose run failed is retried like any other room post.
        """
        request = ClaimRequest(agent, batching, millis(lease), held_teams)
        # A long blocked backlog is parked in steps, so that other writes can run in between.
        while isinstance(result := await self._writer.write(claim, request, undo=release_orphans), Unfinished):
            pass
        return result

    async def renew(self, claim: Claim, *, lease: timedelta = LEASE) -> int:
        """Extend the lease and return the instant it ends; raise ClaimLost when the claim is gone."""
        return await self._writer.run(renew, claim, millis(lease))

    async def complete(self, claim: Claim, outcome: Outcome) -> tuple[Message, ...]:
        """Store the outcome in one transaction and return the messages handed on; raise ClaimLost if gone."""
        return await self._writer.write(complete, CompleteRequest(claim, outcome))

    async def complete_and_claim(
        self,
        claim: Claim,
        outcome: Outcome,
        *,
        batching: Batching = Batching.THREAD,
        lease: timedelta = LEASE,
        held_teams: frozenset[TeamId] = NO_TEAMS,
    ) -> tuple[tuple[Message, ...], Claim | None]:
        """Complete, and claim the lane's next message in the same transaction: one durable write per run, not two."""
        request = (CompleteRequest(claim, outcome), ClaimRequest(claim.agent, batching, millis(lease), held_teams))
        return await self._writer.write(complete_and_claim, request, undo=release_next)

    async def fail(self, claim: Claim, failure: Failure, *, policy: RetryPolicy | None = None) -> None:
        """Schedule each message's next attempt, hold the lane, or end the message as dead; raise ClaimLost if gone."""
        await self._writer.run(fail, claim, failure, policy or self._policy)

    async def stop(self, claim: Claim, *, by: str) -> None:
        """End the run on a person's request: its messages are dead; raise ClaimLost if the claim is gone."""
        await self._writer.run(stop, claim, f"stopped by {by}")

    async def release(self, claim: Claim, *, reason: str, withheld: Deferral | None = None) -> None:
        """Return the messages unchanged, with no attempt used; raise ClaimLost if the claim is gone."""
        await self._writer.run(release, claim, reason, withheld)

    async def lost_claims(self) -> tuple[ClaimId, ...]:
        """Claims whose process is dead, or runs on another host and let its lease expire."""
        return tuple([claim_id for _, claim_id in await self._lost()])

    async def recover(self, claims: Collection[ClaimId] | None = None, *, policy: RetryPolicy | None = None) -> int:
        """Take back the messages of lost claims, all or only these, and return their number."""
        recovered = 0
        for agent, claim_id in await self._lost():
            if claims is None or claim_id in claims:
                recovered += await self._writer.run(recover, agent, claim_id, policy or self._policy)
        return recovered

    async def _lost(self) -> list[tuple[AgentId, ClaimId]]:
        return [
            (AgentId(agent), ClaimId(claim_id))
            for agent, claim_id, owner, lease_until in await self._engine_reader.rows("claimed_lanes")
            if self._is_lost(ProcessIdentity.parse(owner), lease_until)
        ]

    def _is_lost(self, owner: ProcessIdentity, lease_until: int) -> bool:
        """A live process of this host keeps its claim past the lease: the machine may have been asleep."""
        alive = self._is_alive(owner)
        return not alive if alive is not None else lease_until < self._clock()

    async def retry_dead(self, message: int, *, text: str | None = None) -> Message:
        """Retry a dead message from attempt one, optionally with a new text; raise NotFound if it is not dead."""
        return await self._writer.run(retry_dead, message, text)

    async def delete_dead(self, message: int, *, reason: str) -> None:
        """Remove a dead message; raise NotFound if it is not dead."""
        await self._writer.run(delete_dead, message, reason)

    async def abandon(self, agent: AgentId, *, reason: str, notice: str | None = None) -> int:
        """End every pending message of a lane as dead and return the number; senders get the notice or the reason."""
        return await self._in_slices(LANE_SLICE, abandon, agent, reason=reason, notice=notice)

    async def move(self, agent: AgentId, to: AgentId) -> int:
        """Move every pending message of a lane to another lane, in order, and return the number."""
        _check_lane(to)
        if to == agent:
            return 0
        return await self._in_slices(LANE_SLICE, move_pending, agent, to=to)

    async def cancel(self, message: int, *, reason: str) -> Message:
        """End a pending message as dead and notify its sender; raise NotFound, or Conflict when it is not pending."""
        return await self._writer.run(cancel, message, reason)

    async def move_message(self, message: int, to: AgentId) -> Message:
        """Move a pending message to another lane; raise NotFound, or Conflict when it is not pending."""
        _check_lane(to)
        return await self._writer.run(move_message, message, to)

    async def adopt(self) -> int:
        """Adopt rows that other tools inserted and return their number."""
        return await self._in_slices(ADOPT_SLICE, adopt, self._route)

    async def prune(self, retention: Retention) -> PruneReport:
        """Delete rows that are old enough and that every durable reader has seen."""
        total = report = await self._writer.run(prune, retention)
        while report.largest >= PRUNE_SLICE:
            report = await self._writer.run(prune, retention)
            total += report
        return total

    async def rerecord(self, *, after: int, before: int) -> int:
        """Record every row again whose last event lies between the two ids, and return their number.

        For a reader that has seen the log through `after`, when the log now begins at `before`.
        """
        total, place = 0, Place()
        while (done := await self._writer.run(rerecord, place, after=after, before=before)).place != place:
            total, place = total + done.rows, done.place
        return total

    async def _in_slices(
        self, size: int, operation: Callable[Concatenate[Transaction, P], int], *args: P.args, **kwargs: P.kwargs
    ) -> int:
        """Run the operation until a slice is not full, one transaction each so that other writes can run in between."""
        total = done = await self._writer.run(operation, *args, **kwargs)
        while done >= size:
            done = await self._writer.run(operation, *args, **kwargs)
            total += done
        return total

    async def claimable_lanes(self) -> tuple[ClaimableLane, ...]:
        """Lanes that are free, not paused and not held, with a due message that starts a run."""
        rows = await self._engine_reader.rows("claimable_lanes", {"now": self._clock()})
        return tuple([ClaimableLane(agent, pending, bool(is_due)) for agent, pending, is_due in rows])

    async def promote(self, lanes: Sequence[AgentId]) -> bool:
        """Move a slice of each lane's due messages into the ready set; True when a lane has more of them.

        A claim promotes only a few; this keeps a lane's order when many messages become due at once.
        """
        promoted = [await self._writer.run(promote, agent) for agent in lanes]
        return any(count >= PROMOTE_SLICE for count in promoted)

    async def next_due_at(self) -> int | None:
        """The next instant at which a delayed message or a held lane becomes due, or None."""
        row = await self._engine_reader.row("next_due_at", {"now": self._clock()})
        at: int | None = row[0]
        return at

    async def depth(self) -> QueueDepth:
        """Counts per status and per lane; the cost does not grow with the rows."""
        lanes = [LaneDepth(*row) for row in await self._readers.rows("depth_by_lane")]
        channels = await self._readers.rows("depth_by_channel")
        conversations = await self._readers.row("count_open_conversations")
        return QueueDepth(
            pending=sum(lane.pending for lane in lanes),
            processing=sum(lane.processing for lane in lanes),
            completed=sum(lane.completed for lane in lanes),
            dead=sum(lane.dead for lane in lanes),
            outgoing=sum(pending for _, pending, _, _ in channels),
            open_conversations=conversations[0],
            lanes=tuple(lanes),
        )

    async def message(self, message: int) -> Message | None:
        """One message by its row id."""
        row = await self._readers.row("message_by_id", (message,))
        return None if row is None else _message(row)

    async def message_named(self, message_id: str) -> Message | None:
        """One message by its `message_id`."""
        row = await self._readers.row("message_by_message_id", (message_id,))
        return None if row is None else _message(row)

    async def waiting(
        self, *, agent: AgentId | None = None, after: int = 0, limit: int = 100, characters: int = 500
    ) -> tuple[WaitingRow, ...]:
        """Pending messages beyond a row id, oldest first, with the beginning of each text."""
        page = {"agent": agent, "after": after, "limit": limit}
        return tuple(await self._readers.each("waiting_messages", page, lambda row: _waiting(row, characters)))

    async def attached(self) -> frozenset[str]:
        """Paths of all files that stored messages refer to."""
        rows = await self._readers.rows("files_of_stored_messages")
        return frozenset(path for (text,) in rows for path in paths_in(text))

    async def retrying(self) -> Retrying:
        """How many messages wait for another attempt."""
        return Retrying._make(await self._readers.row("count_backing_off"))

    async def newest_follower(self, claim: Claim) -> int | None:
        """When the newest message arrived that would share this run if it started now, or None."""
        primary = claim.primary
        if not joins_thread(primary):
            return None
        after = {"agent": claim.agent, "thread": primary.thread, "from": primary.id + 1, "limit": MAX_MESSAGES}
        followers = map(_message, await self._engine_reader.rows("thread_messages", after))
        claimed = {message.id for message in claim.messages}
        joining = [message for message in coalesce(primary, [*claim.messages, *followers]) if message.id not in claimed]
        return joining[-1].created_at if joining else None

    async def processing(self) -> tuple[Message, ...]:
        """Messages that are being run."""
        return tuple(map(_message, await self._readers.rows("processing_messages")))

    async def upcoming(self, *, limit: int = 100) -> tuple[Message, ...]:
        """Pending messages, the next ones of each lane; the cost does not grow with the backlog."""
        return tuple(map(_message, await self._readers.page("upcoming_messages", {"limit": limit})))

    async def dead(self, *, agent: AgentId | None = None, limit: int = 100) -> tuple[Message, ...]:
        """Dead messages, newest first."""
        return tuple(map(_message, await self._readers.page("dead_messages", {"agent": agent, "limit": limit})))


def _parts_request(parts: Sequence[NewMessage]) -> EnqueueRequest:
    if not parts:
        raise InvalidInput("A message has at least one part.")
    for part in parts:
        part.check()
    return EnqueueRequest(tuple(parts), are_parts=True)


def _check_post(post: RoomPost, sender: str) -> None:
    check_text(f"{post.message}{sender}")
    check_key("sender", sender)
    for member in post.members:
        delivery(post, member, sender).check()


def _check_lane(agent: AgentId) -> None:
    if not is_valid_id(agent):
        raise InvalidInput(f"{agent!r} is not an agent id: use lowercase letters, digits, - and _.")


def _waiting(row: Sequence[Any], characters: int) -> WaitingRow:
    *columns, waits_for, behind = row
    message = _message(columns)
    return WaitingRow(message._replace(message=message.message[:characters]), waits_for, behind)


def _message(row: Sequence[object]) -> Message:
    message = Message._make(row)
    return message._replace(status=Status(message.status))
