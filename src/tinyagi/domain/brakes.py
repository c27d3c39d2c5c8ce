"""Loop brakes: how far and how fast agents may hand work to each other before somebody has to look."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Brake:
    """The limit that refused a message."""

    reason: str
    limit: int


@dataclass(frozen=True, slots=True)
class Brakes:
    hops: int = 10
    """Hand-offs in a row, counted from the person's message."""
    conversation: int = 50
    """Messages in one conversation, the person's included."""
    per_minute: int = 30
    """Messages from agents into one lane within a minute."""

    def refuse(self, *, to: str, hop: int, total: int, recent: int) -> Brake | None:
        """Judge one more message for `to`; `total` and `recent` count what is there already."""
        if hop > self.hops:
            return Brake(f"more than {self.hops} hand-offs in a row", self.hops)
        if total >= self.conversation:
            return Brake(f"more than {self.conversation} messages in one conversation", self.conversation)
        if recent >= self.per_minute:
            return Brake(f"more than {self.per_minute} messages from agents to @{to} within a minute", self.per_minute)
        return None


def loop_notice(agent: str, refused: tuple[str, ...], brake: Brake) -> str:
    """What a person reads when a brake refused what an agent wanted to hand on."""
    names = ", ".join(f"@{name}" for name in dict.fromkeys(refused))
    return f"@{agent} wanted to hand on to {names}, but a limit stopped it: {brake.reason}. Write again to go on."
