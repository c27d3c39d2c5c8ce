"""Ports of the store: what the engine and the server may ask of a database, whichever it is."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import timedelta
from typing import NamedTuple, Protocol

from tinyagi.domain.batching import Batching
from tinyagi.domain.events import Event, RecordedEvent
from tinyagi.domain.ids import AgentId, ClaimId, TeamId
from tinyagi.domain.messages import Claim, Message, NewMessage, Outcome, RoomPost
from tinyagi.domain.responses import ChatMessage, HistoryEntry, NewResponse, Response
from tinyagi.domain.retry import Failure, RetryPolicy
from tinyagi.domain.sessions import Turn
from tinyagi.domain.spending import Spent
from tinyagi.store.changes import Changes
from tinyagi.store.records import AuditLog, Board, Pairing, Schedules, Traces


@dataclass(frozen=True, slots=True)
class LaneDepth:
    agent: str
    pending: int = 0
    processing: int = 0
    completed: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many messages and responses stand where; counted by the database, not by looking at them."""

    pending: int
    processing: int
    completed: int
    dead: int
    outgoing: int
    open_conversations: int
    lanes: tuple[LaneDepth, ...]


class ClaimableLane(NamedTuple):
    agent: AgentId
    pending: int
    has_due: bool
    """Messages whose time has come are not in the ready set yet: `promote` moves them there."""


@dataclass(frozen=True, slots=True)
class Lane:
    agent: AgentId
    paused: bool
    hold_until: int
    hold_reason: str | None
    holds: int
    claim_id: str | None
    owner: str | None
    lease_until: int | None


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Ids of the log: the oldest that is still there (0 when empty) and the newest that was ever given."""

    oldest: int
    head: int


@dataclass(frozen=True, slots=True)
class Retention:
    """How long rows stay once they are archived."""

    completed: timedelta = timedelta(hours=24)
    acked: timedelta = timedelta(hours=24)
    events: timedelta = timedelta(days=7)
    unfetched: timedelta = timedelta(days=7)
    history: timedelta = timedelta(days=30)
    """Lines of histories and rooms; without a lake they stay for ever."""
    dead: timedelta = timedelta(days=90)
    """Dead messages and failed responses; without a lake they stay for ever."""


@dataclass(frozen=True, slots=True)
class PruneReport:
    """How many rows went, and how many responses failed because nobody fetched them."""

    messages: int
    responses: int
    events: int
    unfetched: int
    history: int = 0
    rooms: int = 0

    def __add__(self, other: "PruneReport") -> "PruneReport":
        return PruneReport(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))

    @property
    def largest(self) -> int:
        largest: int = max(astuple(self))
        return largest


@dataclass(frozen=True, slots=True)
class Withheld:
    """Why messages were given back without a run: recorded, told to the primary's sender, and held until an instant."""

    fact: Event
    notice: str
    hold_until: int | None = None
    """Hold the whole lane as well."""


class Queue(Protocol):
    """Durable messages in lanes: one lane per agent, one claim per lane."""

    async def enqueue(self, message: NewMessage) -> Message:
        """Store one message; raise DuplicateMessage when its id is stored already."""

    async def enqueue_many(self, messages: Sequence[NewMessage]) -> tuple[Message, ...]:
        """Store independent messages together, all or none."""

    async def enqueue_parts(
        self, parts: Sequence[NewMessage], *, posts: Sequence[RoomPost] = ()
    ) -> tuple[Message, ...]:
        """Store the parts of one message together: the first keeps the id and is the root, the next is `<id>.2`.

        With them go the lines that their sender says in chat rooms, as `post` stores them.
        """

    async def post(self, post: RoomPost, *, sender: str) -> ChatMessage:
        """Store a person's line in a chat room with one message for each member, as one conversation of the team."""

    async def claim(
        self,
        agent: AgentId,
        *,
        batching: Batching = Batching.THREAD,
        lease: timedelta = timedelta(seconds=60),
        held_teams: frozenset[TeamId] = frozenset(),
    ) -> Claim | None:
        """Take the lane's next due message and what is coalesced with it, or None when it is empty, held or busy.

        Messages of held teams are passed over. Room posts that wake nobody start no run and hold back nothing: they
        come along with the next one, whatever the batching. One whose run failed is tried again like any room post.
        """

    async def renew(self, claim: Claim, *, lease: timedelta = timedelta(seconds=60)) -> int:
        """Extend the lease and return the instant it ends; raise ClaimLost when the claim is gone."""

    async def complete(self, claim: Claim, outcome: Outcome) -> tuple[Message, ...]:
        """Store all that the run leaves in one transaction and return what it handed on; raise ClaimLost if gone."""

    async def complete_and_claim(
        self,
        claim: Claim,
        outcome: Outcome,
        *,
        batching: Batching = Batching.THREAD,
        lease: timedelta = timedelta(seconds=60),
        held_teams: frozenset[TeamId] = frozenset(),
    ) -> tuple[tuple[Message, ...], Claim | None]:
        """Complete, and claim the lane's next message in the same transaction: one durable write per run, not two."""

    async def fail(self, claim: Claim, failure: Failure, *, policy: RetryPolicy | None = None) -> None:
        """Return each message for its own next attempt, hold the lane, or end it as dead; raise ClaimLost if gone."""

    async def stop(self, claim: Claim, *, by: str) -> None:
        """End the run for good on a person's word: its messages are dead; raise ClaimLost if the claim is gone."""

    async def release(self, claim: Claim, *, reason: str, withheld: Withheld | None = None) -> None:
        """Give the messages back as they were, with no attempt used; raise ClaimLost if the claim is gone."""

    async def lost_claims(self) -> tuple[ClaimId, ...]:
        """Claims whose process is dead, or was on another host and let its lease end."""

    async def recover(self, claims: Collection[ClaimId] | None = None, *, policy: RetryPolicy | None = None) -> int:
        """Take back what lost claims hold, all or only these, and return the number of messages."""

    async def retry_dead(self, message: int, *, text: str | None = None) -> Message:
        """Send a dead message again with a fresh budget, perhaps another text; raise NotFound if it is not dead."""

    async def delete_dead(self, message: int, *, reason: str) -> None:
        """Remove a dead message; raise NotFound if it is not dead."""

    async def abandon(self, agent: AgentId, *, reason: str) -> int:
        """End every pending message of a lane as dead, tell the senders, and return the number."""

    async def move(self, agent: AgentId, to: AgentId) -> int:
        """Give every pending message of a lane to another lane, in its order, and return the number."""

    async def adopt(self) -> int:
        """Take in rows that other tools inserted and return their number."""

    async def prune(self, retention: Retention) -> PruneReport:
        """Remove what is old enough and seen by every durable reader."""

    async def retell(self, *, after: int, before: int) -> int:
        """Record every row again whose last event lies between the two, and return their number.

        For a reader that has seen what is up to `after`, when the log begins at `before`.
        """

    async def claimable_lanes(self) -> tuple[ClaimableLane, ...]:
        """Lanes that are free, not paused, not held, and have something due that starts a run."""

    async def promote(self, lanes: Sequence[AgentId]) -> bool:
        """Make a slice of each lane's due messages ready to be claimed; True when a lane has more of them.

        A claim promotes a few of its lane; this keeps a lane's order when many become due at once.
        """

    async def next_due_at(self) -> int | None:
        """The next instant at which waiting time alone makes something claimable."""

    async def depth(self) -> QueueDepth:
        """Counts per status and per lane, in a time that does not grow with the rows."""

    async def message(self, message: int) -> Message | None:
        """One message by its row id."""

    async def newest_follower(self, claim: Claim) -> int | None:
        """When the newest message came that would share this run if it started now, or None without such."""

    async def processing(self) -> tuple[Message, ...]:
        """Messages that are being run."""

    async def dead(self, *, agent: AgentId | None = None, limit: int = 100) -> tuple[Message, ...]:
        """Dead messages, newest first."""


class Lanes(Protocol):
    """Lanes under a person's or a budget's hand."""

    async def pause(self, agent: AgentId) -> bool:
        """Let the current run finish and take no further claim; False when it was paused already."""

    async def resume(self, agent: AgentId) -> bool:
        """Lift pause and hold; False when there was none."""

    async def hold(self, agent: AgentId, *, until: int, reason: str) -> None:
        """Take no claim before this instant; 0 lifts the hold, and the reason says why."""

    async def all(self) -> tuple[Lane, ...]:
        """Every lane that was ever claimed, paused or held."""


class Responses(Protocol):
    """Answers on their way to people."""

    async def send(self, response: NewResponse) -> Response:
        """Store a response that answers no message."""

    async def pending(self, channel: str, *, limit: int = 20) -> tuple[Response, ...]:
        """Oldest first; what follows a failing response in the same chat waits with it."""

    async def recent(self, *, limit: int = 20) -> tuple[Response, ...]:
        """Newest first."""

    async def ack(self, response: int) -> None:
        """It was delivered; to say so twice is no error; raise NotFound when it is unknown."""

    async def fail(self, response: int, reason: str, *, policy: RetryPolicy | None = None) -> bool:
        """It was not delivered; True when it is tried again later."""


class History(Protocol):
    """What agents and rooms have said, page by page."""

    async def of_agent(
        self, agent: AgentId | None = None, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[HistoryEntry, ...]:
        """Newest first, between two ids; of one agent or of all."""

    async def of_room(
        self, team: TeamId, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[ChatMessage, ...]:
        """Lines of a chat room, newest first."""


class Sessions(Protocol):
    """Where agents go on; written by `Queue.complete`."""

    async def find(self, agent: AgentId, thread: str, provider: str) -> str | None:
        """The id that this provider gave its last session, or None to start a new one."""

    async def turns(self, agent: AgentId, thread: str, *, limit: int = 200) -> tuple[Turn, ...]:
        """The last turns of a thread, oldest first, for providers that keep none."""

    async def reset(self, agent: AgentId, *, by: str, starting: ClaimId | None = None) -> int:
        """Forget every session and turn of an agent and return how many sessions there were.

        A run that is going on leaves none either, unless it is the one that starts afresh with this reset.
        """


class Spending(Protocol):
    """What was spent, kept by `Queue.complete` and `Queue.fail`."""

    async def of_day(self, day: str) -> Mapping[str, Spent]:
        """What each scope has spent on this day."""


class EventLog(Protocol):
    """The ordered log of every fact; readers keep a cursor."""

    async def append(self, event: Event, *, agent: AgentId | None = None) -> int:
        """Record a fact that no queue operation records."""

    async def read_after(
        self, cursor: int, *, event_type: str | None = None, limit: int = 1000
    ) -> tuple[RecordedEvent, ...]:
        """Events beyond the cursor in their order."""

    async def bounds(self) -> LogBounds:
        """The oldest and the newest id."""

    async def acknowledge(self, consumer: str, cursor: int) -> None:
        """This reader has durably taken everything up to the cursor; it never moves back."""

    async def cursor(self, consumer: str) -> int | None:
        """Where this reader stands, or None when it has never acknowledged."""

    async def detach(self, consumer: str) -> None:
        """Forget the reader: nothing waits for it any more."""


class Store(Protocol):
    """One open database: its ports, and the wake-ups that go with them."""

    @property
    def queue(self) -> Queue: ...

    @property
    def lanes(self) -> Lanes: ...

    @property
    def responses(self) -> Responses: ...

    @property
    def history(self) -> History: ...

    @property
    def sessions(self) -> Sessions: ...

    @property
    def spending(self) -> Spending: ...

    @property
    def events(self) -> EventLog: ...

    @property
    def board(self) -> Board: ...

    @property
    def schedules(self) -> Schedules: ...

    @property
    def pairing(self) -> Pairing: ...

    @property
    def audit(self) -> AuditLog: ...

    @property
    def traces(self) -> Traces: ...

    @property
    def changes(self) -> Changes:
        """Wakes those who wait for a change, made here or by another process."""

    @property
    def clock(self) -> Callable[[], int]:
        """The time of every row, in ms: it never runs backwards, so it may be ahead of the wall clock."""

    async def close(self) -> None:
        """Finish what is being written and let go of the file."""
