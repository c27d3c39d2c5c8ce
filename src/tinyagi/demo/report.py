"""What happened in the demo, counted from the store itself and not from what the processes believe they did."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from tinyagi.domain.events import RecordedEvent
from tinyagi.store.base import Store


@dataclass(frozen=True, slots=True)
class Report:
    enqueued: int
    runs: int
    completed: int
    retried: int
    recovered: int
    dead: int
    lost: int
    doubled: int
    threads: int
    threads_in_order: int
    seconds: float

    @property
    def is_clean(self) -> bool:
        """True when the queue kept its promises."""
        return self.lost == 0 and self.doubled == 0 and self.threads == self.threads_in_order

    @property
    def per_second(self) -> float:
        return self.enqueued / self.seconds if self.seconds else 0.0


async def read_log(store: Store) -> list[RecordedEvent]:
    events: list[RecordedEvent] = []
    while page := await store.events.read_after(events[-1].id if events else 0):
        events += page
    return events


def summarise(events: list[RecordedEvent], seconds: float) -> Report:
    kinds = Counter(event.type for event in events)
    received = [event.payload["message"] for event in events if event.type == "message_received"]
    dead = {event.payload["id"] for event in events if event.type == "message_dead"}
    finished = [number for event in events if event.type == "chain_step_done" for number in event.payload["ids"]]
    answers = Counter(
        event.message_id for event in events if event.type == "response_ready" and event.payload["response"]["seq"] == 0
    )
    threads: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    place = {message["id"]: (message["agent"], message["thread"]) for message in received}
    for number in finished:
        threads[place[number]].append(number)
    return Report(
        enqueued=len(received),
        runs=kinds["chain_step_start"],
        completed=len(finished),
        retried=kinds["message_failed"],
        recovered=kinds["message_recovered"],
        dead=len(dead),
        lost=len({message["id"] for message in received} - dead - set(finished)),
        doubled=sum(count - 1 for count in answers.values()) + len(finished) - len(set(finished)),
        threads=len(threads),
        threads_in_order=sum(numbers == sorted(numbers) for numbers in threads.values()),
        seconds=seconds,
    )
