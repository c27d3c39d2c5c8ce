"""What the demo plays: who writes what to whom, and which messages fail. Shared by both of its processes."""

from datetime import timedelta
from typing import Final

from tinyagi.domain.ids import AgentId, MessageId
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.retry import RetryPolicy

LANES: Final = tuple(AgentId(name) for name in ("coder", "writer", "tester"))
PEOPLE: Final = ("ada", "grace", "linus", "guido")

# Seconds instead of minutes, so that the demo shows retries and a dead letter while somebody watches.
POLICY: Final = RetryPolicy(attempts=3, base=timedelta(milliseconds=40), factor=2)

FLAKY: Final = "flaky"
BROKEN: Final = "broken"


def messages(count: int) -> list[NewMessage]:
    """Messages from a few people over three lanes; some fail once, two always fail."""
    return [
        NewMessage(
            message=f"task {number}{_trouble(number, count)}",
            agent=LANES[number % len(LANES)],
            channel="demo",
            sender=PEOPLE[number // len(LANES) % len(PEOPLE)],
            message_id=MessageId(f"demo_{number:08d}"),
        )
        for number in range(count)
    ]


def _trouble(number: int, count: int) -> str:
    if number in {count // 4, count // 2}:
        return f" {BROKEN}"
    return f" {FLAKY}" if number % 37 == 5 else ""
