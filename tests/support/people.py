"""Two people write to a home: texts of one contain `zqzq`, texts of the other `kwkw`."""

from datetime import timedelta
from pathlib import Path
from typing import Final

from tests.contract.conftest import CODER, DEV, TESTER
from tinyagi.domain.ids import AgentId, MessageId
from tinyagi.domain.limits import Usage
from tinyagi.domain.messages import Batching, NewMessage
from tinyagi.domain.responses import NewResponse, Role
from tinyagi.domain.retry import Failure, FailureKind, RetryPolicy
from tinyagi.domain.runs import Claim, Handoff, Outcome, RoomPost, Session, Turn
from tinyagi.domain.schedules import NewSchedule
from tinyagi.store.store import Store

ZORA: Final = "Zora-zqzq"
ZORA_ID: Final = "zqzq-4711"
BERT: Final = "Bert-kwkw"
MARK: Final = b"zqzq"
OTHER_MARK: Final = b"kwkw"
USAGE: Final = Usage(input_tokens=100, output_tokens=20, cache_tokens=3, cost=0.25, provider="scripted", model="m")
AT_ONCE: Final = RetryPolicy(attempts=2)


async def traffic(store: Store, files: Path) -> None:
    """A question with hand-off, post and answer; a failure; a shared run; a dead message; room posts."""
    attachment = files / "zqzq-attachment.md"
    files.mkdir(exist_ok=True)
    attachment.write_text("zqzq attached")
    await ask(store, "m1", "zqzq asks", (str(attachment),))
    await answer(
        store,
        CODER,
        Outcome(
            f"zqzq answer for {ZORA}",
            handoffs=(Handoff(TESTER, f"zqzq handed on for {ZORA}", DEV),),
            posts=(RoomPost(DEV, "zqzq in the room", (TESTER,), "zqzq read this"),),
            metadata={"hook": "zqzq noted"},
            usage=USAGE,
            session=Session("telegram:" + ZORA_ID, "api", None, (Turn(Role.USER, "zqzq turn"),)),
        ),
    )
    claim = await claimed(store, TESTER)
    await store.queue.fail(claim, Failure(FailureKind.UNAVAILABLE, "zqzq broke the provider"))
    await store.lanes.resume(TESTER)
    await answer(store, TESTER, Outcome("zqzq tested, and read what stands in the room", usage=USAGE))
    await ask(store, "m2", "kwkw asks", sender=BERT, sender_id=None, channel="web")
    await answer(store, CODER, Outcome(f"kwkw answer for {BERT}", usage=USAGE))
    # One run for two people: its answer is in the conversation of the other person.
    await ask(store, "m3", "asks again", sender=BERT, sender_id=None, channel="web")
    await ask(store, "m4", "zqzq comes along")
    await answer(store, CODER, Outcome("zqzq merged", usage=USAGE), Batching.ALL)
    await ask(store, "m5", "zqzq dies")
    for _ in range(AT_ONCE.attempts):
        claim = await claimed(store, CODER)
        await store.queue.fail(claim, Failure(FailureKind.CRASH, "zqzq died of it"), policy=AT_ONCE)
    await store.responses.send(NewResponse("telegram", ZORA, "zqzq proactive", ZORA_ID, CODER))
    # In a group the same person has another address.
    await ask(store, "m6", "zqzq asks in a group", sender_id=f"{ZORA_ID}#-100/4")
    await answer(store, CODER, Outcome("zqzq answered in the group", usage=USAGE))
    room = RoomPost(DEV, "zqzq says in the room", (CODER,), f"{ZORA} wrote: zqzq says")
    await store.queue.post(room, sender=ZORA)
    await answer(store, CODER, Outcome("zqzq heard", usage=USAGE))
    await store.queue.post(RoomPost(DEV, "kwkw in the room", (CODER,), "kwkw said"), sender=BERT)
    await answer(store, CODER, Outcome("kwkw heard", usage=USAGE))
    await store.pairing.ask("telegram", ZORA_ID, ZORA)
    await store.schedules.add(
        NewSchedule("daily", CODER, "zqzq remind me", cron="0 9 * * *", channel="telegram", sender=ZORA), next_at=10**15
    )
    await store.audit.record("owner", "pairing.approve", ZORA_ID, f"for {ZORA}")
    await store.audit.record("owner", "agent.add", "kwkw-agent")


async def ask(
    store: Store,
    name: str,
    text: str,
    files: tuple[str, ...] = (),
    *,
    sender: str = ZORA,
    sender_id: str | None = ZORA_ID,
    channel: str = "telegram",
) -> None:
    await store.queue.enqueue(
        NewMessage(text, CODER, channel, sender, sender_id, message_id=MessageId(name), files=files)
    )


async def claimed(store: Store, agent: AgentId, batching: Batching = Batching.THREAD) -> Claim:
    claim = await store.queue.claim(agent, batching=batching, lease=timedelta(hours=1))
    assert claim is not None
    return claim


async def answer(store: Store, agent: AgentId, outcome: Outcome, batching: Batching = Batching.THREAD) -> None:
    await store.queue.complete(await claimed(store, agent, batching), outcome)
