"""The queue on SQLite: each call is one operation for the writer or one short read."""

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Final

from tinyagi.domain.batching import MAX_MESSAGES, Batching, coalesce, joins_thread
from tinyagi.domain.durations import millis
from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import AgentId, ClaimId, TeamId, is_valid_id
from tinyagi.domain.messages import (
    Claim,
    Message,
    NewMessage,
    Outcome,
    RoomPost,
    Status,
)
from tinyagi.domain.responses import ChatMessage
from tinyagi.domain.retry import Failure, RetryPolicy
from tinyagi.domain.texts import check_text
from tinyagi.store.base import ClaimableLane, LaneDepth, PruneReport, QueueDepth, Retention, Withheld
from tinyagi.store.sqlite.operations.adopt import RouteText, adopt
from tinyagi.store.sqlite.operations.claim import ClaimRequest, RenewRequest, claim, renew
from tinyagi.store.sqlite.operations.complete import CompleteRequest, complete, complete_and_claim, release_next
from tinyagi.store.sqlite.operations.enqueue import EnqueueRequest, enqueue
from tinyagi.store.sqlite.operations.finish import (
    EndRequest,
    FailRequest,
    RecoverRequest,
    fail,
    recover,
    release,
    release_orphans,
    stop,
)
from tinyagi.store.sqlite.operations.letters import DeleteRequest, RetryRequest, delete_dead, retry_dead
from tinyagi.store.sqlite.operations.prune import SLICE, prune
from tinyagi.store.sqlite.operations.ready import PROMOTE_SLICE, Unfinished, promote
from tinyagi.store.sqlite.operations.retell import RetellRequest, retell
from tinyagi.store.sqlite.operations.rooms import PostRequest, WithPosts, delivery, enqueue_with_posts
from tinyagi.store.sqlite.operations.rooms import post as say
from tinyagi.store.sqlite.operations.vacate import SLICE as LANE_SLICE
from tinyagi.store.sqlite.operations.vacate import AbandonRequest, MoveRequest, abandon, move
from tinyagi.store.sqlite.readers import Readers
from tinyagi.store.sqlite.writer import Writer
from tinyagi.system.processes import ProcessIdentity

LEASE = timedelta(seconds=60)
NO_TEAMS: Final[frozenset[TeamId]] = frozenset()


class SqliteQueue:
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
        message.check()
        return (await self._writer.write(enqueue, EnqueueRequest((message,))))[0]

    async def enqueue_many(self, messages: Sequence[NewMessage]) -> tuple[Message, ...]:
        for message in messages:
            message.check()
        return await self._writer.write(enqueue, EnqueueRequest(tuple(messages)))

    async def enqueue_parts(
        self, parts: Sequence[NewMessage], *, posts: Sequence[RoomPost] = ()
    ) -> tuple[Message, ...]:
        request = _parts_request(parts)
        if not posts:
            return await self._writer.write(enqueue, request)
        lines = tuple(_post_request(line, parts[0].sender) for line in posts)
        return await self._writer.write(enqueue_with_posts, WithPosts(request, lines))

    async def post(self, post: RoomPost, *, sender: str) -> ChatMessage:
        return await self._writer.write(say, _post_request(post, sender))

    async def claim(
        self,
        agent: AgentId,
        *,
        batching: Batching = Batching.THREAD,
        lease: timedelta = LEASE,
        held_teams: frozenset[TeamId] = NO_TEAMS,
    ) -> Claim | None:
        request = ClaimRequest(agent, batching, millis(lease), held_teams)
        # A long blocked backlog is parked in steps, between which other writes have their turn.
        while isinstance(held := await self._writer.write(claim, request, undo=release_orphans), Unfinished):
            pass
        return held

    async def renew(self, claim: Claim, *, lease: timedelta = LEASE) -> int:
        return await self._writer.write(renew, RenewRequest(claim, millis(lease)))

    async def complete(self, claim: Claim, outcome: Outcome) -> tuple[Message, ...]:
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
        request = (CompleteRequest(claim, outcome), ClaimRequest(claim.agent, batching, millis(lease), held_teams))
        return await self._writer.write(complete_and_claim, request, undo=release_next)

    async def fail(self, claim: Claim, failure: Failure, *, policy: RetryPolicy | None = None) -> None:
        await self._writer.write(fail, FailRequest(claim, failure, policy or self._policy))

    async def stop(self, claim: Claim, *, by: str) -> None:
        await self._writer.write(stop, EndRequest(claim, f"stopped by {by}"))

    async def release(self, claim: Claim, *, reason: str, withheld: Withheld | None = None) -> None:
        await self._writer.write(release, EndRequest(claim, reason, withheld))

    async def lost_claims(self) -> tuple[ClaimId, ...]:
        return tuple([claim_id for _, claim_id in await self._lost()])

    async def recover(self, claims: Collection[ClaimId] | None = None, *, policy: RetryPolicy | None = None) -> int:
        recovered = 0
        for agent, claim_id in await self._lost():
            if claims is None or claim_id in claims:
                request = RecoverRequest(agent, claim_id, policy or self._policy)
                recovered += await self._writer.write(recover, request)
        return recovered

    async def _lost(self) -> list[tuple[AgentId, ClaimId]]:
        return [
            (AgentId(agent), ClaimId(claim_id))
            for agent, claim_id, owner, lease_until in await self._engine_reader.rows("claimed_lanes")
            if self._is_lost(ProcessIdentity.parse(owner), lease_until)
        ]

    def _is_lost(self, owner: ProcessIdentity, lease_until: int) -> bool:
        """A live process of this host keeps its claim even past its lease: it may have slept with the machine."""
        alive = self._is_alive(owner)
        return not alive if alive is not None else lease_until < self._clock()

    async def retry_dead(self, message: int, *, text: str | None = None) -> Message:
        return await self._writer.write(retry_dead, RetryRequest(message, text))

    async def delete_dead(self, message: int, *, reason: str) -> None:
        await self._writer.write(delete_dead, DeleteRequest(message, reason))

    async def abandon(self, agent: AgentId, *, reason: str) -> int:
        total = abandoned = await self._writer.write(abandon, AbandonRequest(agent, reason))
        while abandoned >= LANE_SLICE:
            abandoned = await self._writer.write(abandon, AbandonRequest(agent, reason))
            total += abandoned
        return total

    async def move(self, agent: AgentId, to: AgentId) -> int:
        if not is_valid_id(to):
            raise InvalidInput(f"{to!r} is no agent id: use small letters, digits, - and _.")
        if to == agent:
            return 0
        total = moved = await self._writer.write(move, MoveRequest(agent, to))
        while moved >= LANE_SLICE:
            moved = await self._writer.write(move, MoveRequest(agent, to))
            total += moved
        return total

    async def adopt(self) -> int:
        total = 0
        while adopted := await self._writer.write(adopt, self._route):
            total += adopted
        return total

    async def prune(self, retention: Retention) -> PruneReport:
        total = report = await self._writer.write(prune, retention)
        while report.largest >= SLICE:
            report = await self._writer.write(prune, retention)
            total += report
        return total

    async def retell(self, *, after: int, before: int) -> int:
        total, request = 0, RetellRequest(after, before)
        while (told := await self._writer.write(retell, request)).place != request.place:
            total += told.rows
            request = request._replace(place=told.place)
        return total

    async def claimable_lanes(self) -> tuple[ClaimableLane, ...]:
        rows = await self._engine_reader.rows("claimable_lanes", {"now": self._clock()})
        return tuple([ClaimableLane(agent, pending, bool(is_due)) for agent, pending, is_due in rows])

    async def promote(self, lanes: Sequence[AgentId]) -> bool:
        promoted = [await self._writer.write(promote, agent) for agent in lanes]
        return any(count >= PROMOTE_SLICE for count in promoted)

    async def next_due_at(self) -> int | None:
        row = await self._engine_reader.row("next_due_at", {"now": self._clock()})
        at: int | None = row[0]
        return at

    async def depth(self) -> QueueDepth:
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
        row = await self._readers.row("message_by_id", (message,))
        return None if row is None else _message(row)

    async def newest_follower(self, claim: Claim) -> int | None:
        primary = claim.primary
        if not joins_thread(primary):
            return None
        after = {"agent": claim.agent, "thread": primary.thread, "from": primary.id + 1, "limit": MAX_MESSAGES}
        followers = map(_message, await self._engine_reader.rows("thread_messages", after))
        there = {message.id for message in claim.messages}
        joining = [message for message in coalesce(primary, [*claim.messages, *followers]) if message.id not in there]
        return joining[-1].created_at if joining else None

    async def processing(self) -> tuple[Message, ...]:
        return tuple(map(_message, await self._readers.rows("processing_messages")))

    async def dead(self, *, agent: AgentId | None = None, limit: int = 100) -> tuple[Message, ...]:
        return tuple(map(_message, await self._readers.rows("dead_messages", {"agent": agent, "limit": limit})))


def _parts_request(parts: Sequence[NewMessage]) -> EnqueueRequest:
    if not parts:
        raise InvalidInput("A message has at least one part.")
    for part in parts:
        part.check()
    return EnqueueRequest(tuple(parts), are_parts=True)


def _post_request(line: RoomPost, sender: str) -> PostRequest:
    check_text(f"{line.message}{sender}")
    deliveries = tuple(delivery(line, member, sender) for member in line.members)
    for message in deliveries:
        message.check()
    return PostRequest(line, sender, deliveries)


def _message(row: tuple[object, ...]) -> Message:
    message = Message._make(row)
    return message._replace(status=Status(message.status))
