"""Sessions of agents: what a completion stores, and resets."""

from tests.contract.conftest import CODER, DEV, WRITER
from tests.contract.test_claim import STUMBLE, say, take
from tests.support.log import read_all
from tinyagi.domain.ids import AgentId
from tinyagi.domain.responses import Role
from tinyagi.domain.runs import Outcome, Session, Turn
from tinyagi.store.store import Store

CLAUDE, API = "anthropic", "api"


async def run(store: Store, session: Session, agent: AgentId = CODER) -> None:
    await say(store, "x", agent)
    await store.queue.complete(await take(store, agent), Outcome("done", session=session))


def turns(*texts: str) -> tuple[Turn, ...]:
    return tuple(Turn(Role.USER if n % 2 == 0 else Role.ASSISTANT, text) for n, text in enumerate(texts))


async def test_the_last_session_is_stored(store: Store) -> None:
    await run(store, Session("", CLAUDE, "s1"))
    await run(store, Session("", CLAUDE, "s2"))

    assert await store.sessions.find(CODER, "", CLAUDE) == "s2"


async def test_a_session_belongs_to_one_agent_thread_and_provider(store: Store) -> None:
    await run(store, Session("web:ada", CLAUDE, "s1"))

    assert await store.sessions.find(CODER, "web:ada", CLAUDE) == "s1"
    assert await store.sessions.find(CODER, "", CLAUDE) is None
    assert await store.sessions.find(CODER, "web:ada", API) is None
    assert await store.sessions.find(WRITER, "web:ada", CLAUDE) is None


async def test_a_run_without_a_session_keeps_the_stored_one(store: Store) -> None:
    await run(store, Session("", CLAUDE, "s1"))
    await say(store, "y")
    await store.queue.complete(await take(store), Outcome("done"))
    await run(store, Session("", CLAUDE, None, turns("q")))

    assert await store.sessions.find(CODER, "", CLAUDE) == "s1"


async def test_turns_are_listed_oldest_first_per_thread(store: Store) -> None:
    await run(store, Session("web:ada", API, None, turns("q1", "a1")))
    await run(store, Session("web:ada", API, None, turns("q2", "a2")))
    await run(store, Session("web:bob", API, None, turns("other")))

    assert await store.sessions.turns(CODER, "web:ada") == (
        Turn(Role.USER, "q1"),
        Turn(Role.ASSISTANT, "a1"),
        Turn(Role.USER, "q2"),
        Turn(Role.ASSISTANT, "a2"),
    )
    assert [turn.content for turn in await store.sessions.turns(CODER, "web:ada", limit=3)] == ["a1", "q2", "a2"]
    assert await store.sessions.turns(WRITER, "web:ada") == ()
    assert await store.sessions.find(CODER, "web:ada", API) is None


async def test_a_thread_keeps_its_last_four_hundred_turns(store: Store) -> None:
    await run(store, Session("long", API, None, turns(*(str(n) for n in range(399)))))
    await run(store, Session("short", API, None, turns("kept")))
    await run(store, Session("long", API, None, turns("399", "400", "401")))

    kept = await store.sessions.turns(CODER, "long", limit=1000)

    assert [turn.content for turn in kept] == [str(n) for n in range(2, 402)]
    assert len(await store.sessions.turns(CODER, "short")) == 1


async def test_a_failed_run_leaves_no_session(store: Store) -> None:
    await say(store, "x")
    await store.queue.fail(await take(store), STUMBLE)

    assert await store.sessions.find(CODER, "", CLAUDE) is None


async def test_a_reset_forgets_every_session_and_turn_of_one_agent(store: Store) -> None:
    await run(store, Session("", CLAUDE, "s1", turns("q")))
    await run(store, Session("web:ada", CLAUDE, "s2"))
    await run(store, Session("", CLAUDE, "theirs", turns("q")), WRITER)

    assert await store.sessions.reset(CODER, by="Ada") == 2

    assert await store.sessions.find(CODER, "", CLAUDE) is None
    assert await store.sessions.find(CODER, "web:ada", CLAUDE) is None
    assert await store.sessions.turns(CODER, "") == ()
    assert await store.sessions.find(WRITER, "", CLAUDE) == "theirs"
    assert len(await store.sessions.turns(WRITER, "")) == 1
    event = (await read_all(store.events))[-1]
    assert (event.type, event.agent, event.payload) == ("session_reset", CODER, {"by": "Ada"})


async def test_a_reset_without_sessions_is_recorded(store: Store) -> None:
    assert await store.sessions.reset(CODER, by="Ada") == 0

    assert [event.type for event in await read_all(store.events)] == ["session_reset"]


async def test_a_run_that_was_active_at_the_reset_does_not_store_its_session(store: Store) -> None:
    await say(store, "x")
    claim = await take(store)
    await store.sessions.reset(CODER, by="Ada")
    await store.queue.complete(claim, Outcome("done", session=Session("", CLAUDE, "old", turns("q"))))

    assert await store.sessions.find(CODER, "", CLAUDE) is None
    assert await store.sessions.turns(CODER, "") == ()
    await run(store, Session("", CLAUDE, "new"))
    assert await store.sessions.find(CODER, "", CLAUDE) == "new"


async def test_turns_can_be_stored_after_a_reset(store: Store) -> None:
    await run(store, Session("", API, None, turns("a", "b")))
    await store.sessions.reset(CODER, by="Ada")
    await run(store, Session("", API, None, turns("c", "d", "e")))

    assert [turn.content for turn in await store.sessions.turns(CODER, "")] == ["c", "d", "e"]


async def test_a_claim_carries_the_sessions_that_its_run_may_resume(store: Store) -> None:
    await run(store, Session("", CLAUDE, "for all"))
    await run(store, Session("api:ada", CLAUDE, "with ada"))
    await run(store, Session("api:bob", CLAUDE, "with bob"))
    await run(store, Session("", CLAUDE, "theirs"), WRITER)
    await say(store, "x", sender="ada")

    claim = await take(store)

    assert len(claim.sessions) == 2
    assert claim.session("", CLAUDE) == ("", CLAUDE, "for all", None)
    assert claim.session("api:ada", CLAUDE) == ("api:ada", CLAUDE, "with ada", None)
    assert claim.session("api:ada", API) is None


async def test_a_claim_carries_the_session_of_the_message_it_takes(store: Store) -> None:
    """The full search may take another message than the first look at the lane found."""
    await run(store, Session("api:ada", CLAUDE, "with ada"))
    await run(store, Session("api:bob", CLAUDE, "with bob"))
    await say(store, "passed over", sender="ada", team="dev")
    await say(store, "taken", sender="bob")

    claim = await store.queue.claim(CODER, held_teams=frozenset({DEV}))

    assert claim is not None
    assert [session.session_id for session in claim.sessions] == ["with bob"]


async def test_complete_and_claim_carries_the_new_session(store: Store) -> None:
    await say(store, "one")
    await say(store, "two")

    outcome = Outcome("done", session=Session("", CLAUDE, "s1", state="3 tokens"))
    _, following = await store.queue.complete_and_claim(await take(store), outcome)

    assert following is not None
    assert following.session("", CLAUDE) == ("", CLAUDE, "s1", "3 tokens")


async def test_a_run_that_starts_with_a_reset_stores_its_session(store: Store) -> None:
    await say(store, "x")
    claim = await take(store)

    await store.sessions.reset(CODER, by="reset_flag", starting=claim.id)
    await store.queue.complete(claim, Outcome("done", session=Session("", CLAUDE, "new")))

    assert await store.sessions.find(CODER, "", CLAUDE) == "new"
