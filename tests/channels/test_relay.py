"""The relay between a channel and the daemon: pairing, order, files, failures, restarts."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tests.channels.conftest import Front
from tests.channels.memory_channel import MemoryChannel, Sent
from tests.support.puppet import Gate
from tinyagi.api.messages import PendingResponse
from tinyagi.channels.delivery import Delivery
from tinyagi.channels.journal import DeliveryJournal
from tinyagi.channels.port import ChannelError, DeliveryError, NotSetUp
from tinyagi.channels.progress import ProgressMode
from tinyagi.domain.responses import NewResponse, ResponseStatus

pytestmark = pytest.mark.timeout(30)


async def test_a_message_is_answered_once_as_a_reply_to_itself(front: Front) -> None:
    async with front.relaying():
        await front.channel.write("@coder hello", id="7.1")
        (answer,) = await front.channel.until(1)
        assert (answer.chat, answer.text, answer.reply_to) == ("7", "echo: hello", "7.1")
        await front.until(lambda: _acked(front, 1))
    (message,) = await front.messages()
    assert (message.message_id, message.channel, message.sender, message.sender_id) == (
        "telegram_7.1", "telegram", "Ada", "7",
    )  # fmt: skip


async def test_a_repeated_message_is_stored_once(front: Front) -> None:
    async with front.relaying():
        for _ in range(3):
            await front.channel.write("@coder hello", id="7.1")
        await front.channel.until(1)
        await front.drained()
    assert len(await front.messages()) == 1
    assert front.channel.texts == ["echo: hello"]


async def test_an_unknown_person_gets_one_code_and_nothing_is_stored_or_downloaded(front: Front) -> None:
    async with front.relaying():
        for number in range(3):
            await front.channel.write("@coder hello", person="8", id=f"8.{number}", files=(("a.txt", b"x"),))
        (pending,) = await front.store.pairing.pending()
        (told,) = front.channel.sent
        assert pending.code in told.text
        assert "hello" not in told.text
    assert await front.messages() == []
    assert not list(front.home.files.rglob("*.txt"))


async def test_an_approved_person_may_write_at_once_and_their_new_name_is_kept(front: Front) -> None:
    async with front.relaying():
        await front.channel.write("hello", person="8")
        (pending,) = await front.store.pairing.pending()
        await front.store.pairing.approve(pending.code)
        await front.channel.write("@coder hello again", person="8", name="Ada Lovelace")
        assert (await front.channel.until(2))[1].text == "echo: hello again"
    assert {one.sender_id: one.sender for one in await front.store.pairing.approved()}["8"] == "Ada Lovelace"


async def test_any_number_of_strangers_leave_a_hundred_codes(front: Front) -> None:
    async with front.relaying():
        for number in range(300):
            await front.channel.write("hello", person=str(1000 + number))
    assert len(await front.store.pairing.pending()) == 100
    assert len(front.channel.sent) == 100
    assert await front.messages() == []


async def test_answers_of_a_chat_keep_their_order_and_a_failing_chat_holds_no_other(front: Front) -> None:
    await front.pair("8")
    async with front.relaying():
        front.channel.failures = [DeliveryError("the platform is down", retry_after=3_600)]
        await front.channel.write("@coder one", person="7")
        await front.drained()
        await front.until(lambda: _failed_once(front))
        await front.channel.write("@coder two", person="8")
        (other,) = await front.channel.until(1)
        assert (other.chat, other.text) == ("8", "echo: two")


async def test_a_response_that_was_acknowledged_while_it_was_listed_is_not_delivered_again(front: Front) -> None:
    """The list that the relay gets may be older than its own acknowledgement."""
    for number in range(3):
        await front.store.responses.send(NewResponse("telegram", "Ada", f"{number}", "7"))
    front.home.channels.joinpath("telegram").mkdir()
    async with front.client() as client:
        with DeliveryJournal(front.state / "journal.jsonl") as journal:
            delivery = Delivery(front.channel, client, journal, front.state)
            list_pending, lists = client.responses.pending, 0

            async def slow_second_list(channel: str, *, limit: int | None = None) -> list[PendingResponse]:
                nonlocal lists
                lists += 1
                found = await list_pending(channel, limit=limit)
                if lists == 2:
                    assert found, "it lists what is in hand"
                    await front.until(lambda: _acked(front, 3))
                return found

            client.responses.pending = slow_second_list  # type: ignore[method-assign]
            front.channel.after_send = lambda _: delivery.wake()
            delivering = asyncio.create_task(delivery.run())
            await front.until(lambda: _acked(front, 3))
            await front.store.responses.send(NewResponse("telegram", "Ada", "last", "7"))
            delivery.wake()
            await front.channel.until(4)
            delivering.cancel()
            with suppress(asyncio.CancelledError):
                await delivering
    assert front.channel.texts == ["0", "1", "2", "last"]


async def test_a_final_failure_is_not_retried_and_releases_the_chat(front: Front) -> None:
    front.channel.failures = [DeliveryError("blocked by the person", is_final=True)]
    async with front.relaying():
        await front.channel.write("@coder one")
        await front.drained()
        await front.until(lambda: _has_status(front, ResponseStatus.FAILED))
        await front.channel.write("@coder two")
        assert (await front.channel.until(1))[0].text == "echo: two"
    failed = (await front.responses())[0]
    assert (failed.attempts, failed.last_error) == (1, "blocked by the person")


async def test_the_platforms_own_wait_is_sat_out(front: Front) -> None:
    front.channel.failures = [DeliveryError("too many", retry_after=0.01)]
    async with front.relaying():
        await front.channel.write("@coder one")
        assert (await front.channel.until(1))[0].text == "echo: one"
        await front.until(lambda: _acked(front, 1))
    assert (await front.responses())[0].attempts == 0


async def test_a_long_answer_is_delivered_in_parts_once_although_the_relay_dies_between_them(front: Front) -> None:
    front.puppet.plays["coder"] = lambda _: "word " * 150
    died = asyncio.Event()

    def die(sent: Sent) -> None:
        if len(front.channel.sent) == 2:
            died.set()
            raise RuntimeError("killed")

    front.channel.after_send = die
    async with front.relaying() as serving:
        await front.channel.write("@coder tell me")
        await died.wait()
        with pytest.raises(ExceptionGroup):
            await serving
    first = MemoryChannel()
    async with front.relaying(first):
        await front.until(lambda: _acked(front, 1))
    # The part that was on its way when the process died is repeated, the one before it is not.
    texts = [*front.channel.texts[:1], *first.texts]
    assert " ".join(texts).split() == ["word"] * 150
    assert first.sent[0].key == front.channel.sent[1].key


async def test_files_go_both_ways(front: Front, tmp_path: Path) -> None:
    report = tmp_path / "workspace" / "coder" / "report.txt"

    def play(request: object) -> str:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_bytes(b"the report")
        return "Here. [send_file: report.txt]"

    front.puppet.plays["coder"] = play
    async with front.relaying():
        await front.channel.write("@coder look", files=(("../../ev\x07il.png", b"picture"),))
        sent = await front.channel.until(2)
    assert (sent[1].file, sent[1].content) == ("report.txt", b"the report")
    prompt = front.puppet.prompts_of("coder")[0]
    assert "look" in prompt
    (stored,) = front.home.files.rglob("*.png")
    assert stored.name == "ev_il.png"
    assert stored.read_bytes() == b"picture"
    assert str(stored) in prompt
    assert not list((front.state / "downloads").iterdir())


async def test_a_file_above_the_limit_gives_a_sentence_and_the_text_still_goes(front: Front) -> None:
    async with front.relaying():
        await front.channel.write("@coder look", files=(("big.bin", b"x" * 2_000),))
        sent = await front.channel.until(2)
    assert any("big.bin was not taken: it has 0.0 MB" in one.text for one in sent)
    assert any(one.text == "echo: look" for one in sent)


async def test_an_answer_with_a_file_above_the_platforms_limit_says_so(front: Front) -> None:
    big = front.home.files / "big.bin"
    big.write_bytes(b"x" * 2_000)
    await front.store.responses.send(NewResponse("telegram", "Ada", "done", "7", files=(str(big),)))
    async with front.relaying():
        sent = await front.channel.until(2)
    assert sent[0].text == "done"
    assert "big.bin has 0.0 MB, more than" in sent[1].text


async def test_a_message_from_a_place_is_answered_there(front: Front) -> None:
    async with front.relaying():
        await front.channel.write("@coder hello", place="-100/4")
        assert (await front.channel.until(1))[0].chat == "7#-100/4"


async def test_two_bots_cannot_make_each_other_talk_for_ever(front: Front) -> None:
    await front.pair("99")
    async with front.relaying():
        for number in range(30):
            await front.channel.write(f"@coder {number}", person="99", place="-1", is_from_bot=True)
        assert len(await front.messages()) == 10
        await front.channel.write("@coder I am a person", place="-1")
        await front.channel.write("@coder again", person="99", place="-1", is_from_bot=True)
        assert len(await front.messages()) == 12


async def test_a_second_relay_of_the_same_channel_refuses_to_start(front: Front) -> None:
    async with front.relaying():
        await front.channel.write("@coder hello")
        second = MemoryChannel()
        with pytest.raises(ChannelError, match="Another process serves telegram"):
            async with front.relaying(second) as serving:
                await serving
    async with front.relaying(MemoryChannel()):
        assert front.channel.closed


async def test_a_refused_token_ends_the_relay_with_its_sentence(front: Front) -> None:
    class Refused(MemoryChannel):
        async def connect(self) -> str:
            raise NotSetUp("The token is refused. Get a new one.")

    async with front.relaying(Refused()) as serving:
        with pytest.raises(NotSetUp, match="Get a new one"):
            await serving
    assert (await front.http.get("/api/status")).json()["channels"] == {}, "the lease is free again"


async def test_a_waiting_person_sees_that_the_agent_works(front: Front) -> None:
    front.mode = ProgressMode.EDITS
    gate = Gate("the answer")
    front.puppet.plays["coder"] = gate
    async with front.relaying():
        await front.channel.write("@coder think")
        (working,) = await front.channel.until(1)
        assert working.text == "⏳ @coder: coder works on it"
        assert "7" in front.channel.typing
        gate.open.set()
        sent = await front.channel.until(2)
        assert sent[1].text == "the answer"
        while not front.channel.removed:  # noqa: ASYNC110 - the channel has no event for it
            await asyncio.sleep(0.01)
    assert front.channel.removed == ["1"]


async def test_a_held_lane_is_explained_once(front: Front) -> None:
    front.mode = ProgressMode.TYPING
    async with front.client() as client:
        await client.queue.pause("coder")
    async with front.relaying():
        await front.channel.write("@coder hello")
        (said,) = await front.channel.until(1)
        assert said.text == "“@coder hello” waits for @coder: the agent is paused by a person."
        seen = len(front.channel.typing)
        while len(front.channel.typing) < seen + 5:  # noqa: ASYNC110 - five further looks at the queue
            await asyncio.sleep(0.01)
        assert len(front.channel.sent) == 1
    again = MemoryChannel()
    async with front.relaying(again):
        while len(again.typing) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert again.sent == []


async def test_a_journal_survives_a_torn_last_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with DeliveryJournal(path) as journal:
        journal.record("1-0", "a")
        journal.record("1-1", "b")
        journal.record("2-0", "c")
        journal.forget(["1-0", "1-1"])
    with path.open("ab") as file:
        file.write(b'{"key": "3-0", "se')
    with DeliveryJournal(path) as journal:
        assert [journal.sent(key) for key in ("1-0", "1-1", "2-0", "3-0")] == [None, None, "c", None]
        for number in range(10_000):
            journal.record(f"x{number}", "y")
            journal.forget([f"x{number}"])
    assert path.stat().st_size < 500_000


async def _acked(front: Front, count: int) -> bool:
    return sum(one.status is ResponseStatus.ACKED for one in await front.responses()) == count


async def _failed_once(front: Front) -> bool:
    return any(one.attempts == 1 for one in await front.responses())


async def _has_status(front: Front, status: ResponseStatus) -> bool:
    return any(one.status is status for one in await front.responses())
