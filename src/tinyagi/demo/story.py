"""The story of the demo, built from the event log alone, so that it shows what the queue really did."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from tinyagi.domain.events import RecordedEvent
from tinyagi.domain.tags import render_for_people
from tinyagi.store.store import Store


@dataclass(slots=True)
class Step:
    """One message with its outcome, and the messages that its answer sent."""

    id: int
    agent: str
    who: str
    text: str
    is_room_post: bool
    received_at: int
    started_at: int | None = None
    ended_at: int | None = None
    runs: int = 0
    answer: str | None = None
    troubles: list[str] = field(default_factory=list)
    is_dead: bool = False
    tokens: int = 0
    steps: "list[Step]" = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DemoTotals:
    conversations: int
    messages: int
    runs: int
    completed: int
    retried: int
    recovered: int
    dead: int
    handoffs: int
    room_lines: int
    responses: int
    tokens: int
    lost: int
    doubled: int
    threads: int
    threads_in_order: int
    seconds: float

    @property
    def is_clean(self) -> bool:
        """True when no message was lost or doubled and every thread kept its order."""
        return self.lost == 0 and self.doubled == 0 and self.threads == self.threads_in_order


@dataclass(frozen=True, slots=True)
class Story:
    began_at: int
    conversations: tuple[tuple[Step, ...], ...]
    """Each as its first messages: one per agent that the person addressed."""
    totals: DemoTotals


async def read_log(store: Store) -> list[RecordedEvent]:
    events: list[RecordedEvent] = []
    while page := await store.events.read_after(events[-1].id if events else 0):
        events += page
    return events


def story_of(events: list[RecordedEvent], seconds: float) -> Story:
    """Build the conversations as trees, and the totals."""
    steps: dict[int, Step] = {}
    roots: defaultdict[str, list[Step]] = defaultdict(list)
    by_message_id: dict[str, Step] = {}
    for event in events:
        if event.type == "message_received":
            row = event.payload["message"]
            step = steps[row["id"]] = by_message_id[row["message_id"]] = _step(row, event)
            parent = by_message_id.get(row["parent_message_id"] or "")
            (roots[row["conversation_id"]] if parent is None else parent.steps).append(step)
        else:
            _apply(event, steps)
    began_at = events[0].created_at if events else 0
    return Story(began_at, tuple(tuple(parts) for parts in roots.values()), _totals(events, seconds))


def _step(row: dict[str, Any], event: RecordedEvent) -> Step:
    from_agent, sender = row["from_agent"], f"{row['sender']} on {row['channel']}"
    return Step(
        id=row["id"],
        agent=row["agent"],
        who=sender if from_agent is None else f"@{from_agent}",
        text=row["message"],
        is_room_post=row["channel"] == "chatroom",
        received_at=event.created_at,
    )


def _apply(event: RecordedEvent, steps: dict[int, Step]) -> None:
    payload = event.payload
    match event.type:
        case "chain_step_start":
            for number in payload["ids"]:
                steps[number].runs += 1
                steps[number].started_at = event.created_at
        case "chain_step_done":
            for number in payload["ids"]:
                steps[number].ended_at = event.created_at
            primary = steps[payload["ids"][0]]
            primary.answer = render_for_people(payload["content"], primary.agent)
            primary.tokens += _tokens(payload)
        case "message_failed":
            steps[payload["id"]].troubles.append(f"attempt {payload['attempt']}: {payload['reason']}")
        case "message_recovered":
            steps[payload["id"]].troubles.append(f"attempt {payload['attempt']}: {payload['reason']}, recovered")
        case "message_dead":
            dead = steps[payload["id"]]
            dead.is_dead, dead.ended_at = True, event.created_at
            dead.troubles.append(f"attempt {payload['attempt']}: {payload['reason']}")


def _tokens(payload: Any) -> int:
    usage = payload["usage"] or {}
    return (usage.get("input_tokens") or 0) + (usage.get("output_tokens") or 0)


def _totals(events: list[RecordedEvent], seconds: float) -> DemoTotals:
    kinds = Counter(event.type for event in events)
    received = [event.payload["message"] for event in events if event.type == "message_received"]
    dead = {event.payload["id"] for event in events if event.type == "message_dead"}
    done = [event for event in events if event.type == "chain_step_done"]
    finished = [number for event in done for number in event.payload["ids"]]
    answers = Counter(
        event.message_id for event in events if event.type == "response_ready" and event.payload["response"]["seq"] == 0
    )
    handed = Counter(
        (message["parent_message_id"], message["agent"], message["message"])
        for message in received
        if message["parent_message_id"]
    )
    threads: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    place = {message["id"]: (message["agent"], message["thread"]) for message in received}
    for number in finished:
        threads[place[number]].append(number)
    return DemoTotals(
        conversations=len({message["conversation_id"] for message in received}),
        messages=len(received),
        runs=kinds["chain_step_start"],
        completed=len(finished),
        retried=kinds["message_failed"],
        recovered=kinds["message_recovered"],
        dead=len(dead),
        handoffs=kinds["chain_handoff"],
        room_lines=kinds["chat_posted"],
        responses=kinds["response_ready"],
        tokens=sum(_tokens(event.payload) for event in done),
        lost=len({message["id"] for message in received} - dead - set(finished)),
        doubled=sum(count - 1 for count in (*answers.values(), *handed.values())) + len(finished) - len(set(finished)),
        threads=len(threads),
        threads_in_order=sum(numbers == sorted(numbers) for numbers in threads.values()),
        seconds=seconds,
    )
