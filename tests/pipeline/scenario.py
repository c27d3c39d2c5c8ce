"""A week in a small home through the real store: every way in which a message can arrive, fail and end."""

import random
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Final

from tests.contract.conftest import CODER, DEV, ROSTER, TESTER, WRITER
from tests.support.clock import FakeClock
from tinyagi.domain.events import TeamChainStart
from tinyagi.domain.ids import AgentId, MessageId
from tinyagi.domain.limits import Usage
from tinyagi.domain.messages import Batching, NewMessage
from tinyagi.domain.responses import NewResponse
from tinyagi.domain.retry import Failure, FailureKind, RetryPolicy
from tinyagi.domain.routing import route
from tinyagi.domain.runs import Claim, Handoff, Outcome, RoomPost
from tinyagi.store.store import Store
from tinyagi.system.processes import ProcessIdentity

LEAVER: Final = AgentId("leaver")
TWICE: Final = RetryPolicy(attempts=2, delivery_attempts=2)
MARK: Final = "zqzq"
"""Part of every personal text."""
HOSTILE: Final = (
    "🚀 🇦🇶 \u2028\u2029 \u202e right to left e\u0301 \ufffd \U0010ffff",
    "\x01 \x08 \x0b \x1b[31m \x1f \x7f \x85",
    ']]> <script>alert("x")</script> &amp; \'; DROP TABLE messages; --',
    '{"id": 99, "status": "dead", "message": null} \\ \\u0041 \\" [1, 2]',
    " \t\r\n line one\nline two\r\n ",
    "__HIVE_DEFAULT_PARTITION__ date=2020-01-01/x.parquet %41%2F",
    f"{MARK} " + "long " * 200_000,
)


class Home:
    """A database with a clock of the test; each opening recovers the claims of the one before."""

    def __init__(self, database: Path, start: int) -> None:
        self.database = database
        self.clock = FakeClock()
        self.clock.now = start
        self._dice = random.Random(3)
        self._generation = 0

    async def open(self) -> AbstractAsyncContextManager[Store]:
        self._generation += 1
        owner = ProcessIdentity("here", "boot", self._generation, 1.0)
        return await Store.open(
            self.database,
            clock=self.clock,
            dice=self._dice,
            policy=TWICE,
            route=lambda text: route(text, ROSTER),
            owner=owner,
            alive=lambda other: str(other) == str(owner),
        )

    def later(self, **units: float) -> None:
        self.clock.advance(timedelta(**units))


async def live(home: Home) -> None:
    """Everything that can happen to a message, over two days."""
    async with await home.open() as store:
        week = _Week(home, store)
        await week.handed_on()
        await week.coalesced()
        await week.failed_and_died()
        await week.stopped_released_moved()
        await week.in_the_room()
        await week.delivered()
        await week.sent_by_the_program()
        await week.hostile()
        await week.ask(WRITER, f"{MARK} crashes with its process")
        await week.claim(WRITER)
    home.later(hours=1)
    async with await home.open() as store:
        assert await store.queue.recover() == 1
        week = _Week(home, store)
        await week.answer(WRITER, f"{MARK} survived")
        await week.left_open()


class _Week:
    def __init__(self, home: Home, store: Store) -> None:
        self._home = home
        self._store = store

    async def ask(self, agent: AgentId, text: str, *, sender: str = "Ada", channel: str = "web") -> int:
        self._home.later(seconds=7)
        name = f"{sender} {MARK}"
        sender_id = None if channel == "web" else f"{MARK}-1"
        return (await self._store.queue.enqueue(NewMessage(text, agent, channel, name, sender_id))).id

    async def claim(self, agent: AgentId, batching: Batching = Batching.THREAD) -> Claim:
        self._home.later(milliseconds=1_234)
        claim = await self._store.queue.claim(agent, batching=batching)
        assert claim is not None
        return claim

    async def answer(self, agent: AgentId, text: str, **more: object) -> None:
        claim = await self.claim(agent)
        self._home.later(milliseconds=3_000 + 17 * len(text) % 9_000)
        usage = Usage(100 + len(text), 20, None, 0.0123456789, "scripted", "m1")
        await self._store.queue.complete(claim, Outcome(text, usage=usage, **more))  # type: ignore[arg-type]

    async def fail(self, agent: AgentId, reason: str, kind: FailureKind = FailureKind.MESSAGE) -> None:
        claim = await self.claim(agent)
        self._home.later(seconds=2)
        usage = Usage(input_tokens=5, cost=0.001)
        await self._store.queue.fail(claim, Failure(kind, f"{reason} {MARK}", usage=usage))
        self._home.later(minutes=20)

    async def handed_on(self) -> None:
        """A chain of two with a fan-out, across midnight."""
        await self.ask(CODER, f"{MARK} build it")
        chain = TeamChainStart(DEV, (CODER, TESTER), CODER)
        mates = (Handoff(TESTER, f"{MARK} test it", DEV), Handoff(WRITER, f"{MARK} write about it", DEV))
        await self.answer(CODER, f"{MARK} handed on", handoffs=mates, chain=chain)
        await self.answer(TESTER, f"{MARK} tested", handoffs=(Handoff(CODER, f"{MARK} mend it", DEV),))
        self._home.later(hours=20)
        await self.answer(CODER, f"{MARK} mended")
        await self.answer(WRITER, f"{MARK} written")

    async def coalesced(self) -> None:
        for text in ("one", "two", "three"):
            await self.ask(CODER, f"{MARK} {text}")
        await self.answer(CODER, f"{MARK} to all three")

    async def failed_and_died(self) -> None:
        await self.ask(CODER, f"{MARK} needs two attempts", sender="Bob")
        await self.fail(CODER, "exit code 7 of /usr/lib/tool/run")
        await self.answer(CODER, f"{MARK} at last")
        await self.ask(TESTER, f"{MARK} provider is away")
        await self.fail(TESTER, "429", FailureKind.UNAVAILABLE)
        await self._store.lanes.resume(TESTER)
        await self.answer(TESTER, f"{MARK} is back")
        for ending in ("retried", "deleted", "stays"):
            number = await self.ask(TESTER, f"{MARK} dies and is {ending}")
            for _ in range(TWICE.attempts):
                await self.fail(TESTER, f"job {number}01 said 'no'")
            if ending == "retried":
                await self._store.queue.retry_dead(number, text=f"{MARK} once more")
                await self.answer(TESTER, f"{MARK} with another text")
            elif ending == "deleted":
                await self._store.queue.delete_dead(number, reason=f"{MARK} was wrong")

    async def stopped_released_moved(self) -> None:
        await self.ask(CODER, f"{MARK} is stopped")
        await self._store.queue.stop(await self.claim(CODER), by="owner")
        await self.ask(CODER, f"{MARK} is released")
        await self._store.queue.release(await self.claim(CODER), reason="shutdown")
        await self.answer(CODER, f"{MARK} after a shutdown")
        await self.ask(LEAVER, f"{MARK} is moved")
        assert await self._store.queue.move(LEAVER, WRITER) == 1
        await self.answer(WRITER, f"{MARK} in another lane")
        await self.ask(LEAVER, f"{MARK} is abandoned")
        assert await self._store.queue.abandon(LEAVER, reason=f"the agent was removed {MARK}") == 1

    async def in_the_room(self) -> None:
        self._home.later(minutes=3)
        line = RoomPost(DEV, f"{MARK} hello room", (CODER, TESTER), f"Ada: {MARK} hello room", wakes=False)
        await self._store.queue.post(line, sender=f"Ada {MARK}")
        post = RoomPost(DEV, f"{MARK} done", (TESTER,), f"coder: {MARK} done")
        await self.ask(CODER, f"{MARK} say it to all")
        await self.answer(CODER, f"{MARK} said", posts=(post,))
        await self.fail(TESTER, "could not read the room")
        await self.answer(TESTER, f"{MARK} read the room")

    async def delivered(self) -> None:
        await self.ask(WRITER, f"{MARK} over telegram", channel="telegram")
        await self.answer(WRITER, f"{MARK} for a phone")
        telegram = (await self._store.responses.pending("telegram"))[-1]
        assert await self._store.responses.fail(telegram.id, f"no network {MARK}")
        self._home.later(seconds=30)
        await self._store.responses.ack(telegram.id)
        notice = await self._store.responses.send(
            NewResponse("telegram", f"Ada {MARK}", f"{MARK} by itself", None, CODER)
        )
        for _ in range(TWICE.delivery_attempts):
            await self._store.responses.fail(notice.id, f"gone {MARK}")
        for response in await self._store.responses.pending("web"):
            self._home.later(milliseconds=250)
            await self._store.responses.ack(response.id)

    async def sent_by_the_program(self) -> None:
        """Heartbeats, schedules and the board: program senders, also on a channel for people."""
        for channel, sender in (("heartbeat", "Heartbeat"), ("schedule", "Scheduler"), ("board", "Board")):
            await self.ask(CODER, f"{MARK} by {channel}", sender=sender, channel=channel)
            await self.answer(CODER, f"{MARK} for {channel}")
        self._home.later(seconds=7)
        due = NewMessage(f"{MARK} due", CODER, "web", f"Scheduler {MARK}", message_id=MessageId("schedule_news_1"))
        await self._store.queue.enqueue(due)
        await self.answer(CODER, f"{MARK} on time")
        await self.ask(TESTER, f"{MARK} a heartbeat dies", sender="Heartbeat", channel="heartbeat")
        for _ in range(TWICE.attempts):
            await self.fail(TESTER, "no heartbeat")

    async def hostile(self) -> None:
        for text in HOSTILE:
            await self.ask(CODER, text)
            await self.answer(CODER, text)

    async def left_open(self) -> None:
        await self.ask(CODER, f"{MARK} is being run")
        await self.claim(CODER)
        await self.ask(TESTER, f"{MARK} waits")
