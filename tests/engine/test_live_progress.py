"""Live text: published at once, then at most four times a second, without gaps."""

import asyncio

from tests.support.builders import a_message
from tinyagi.domain.ids import AgentId, ClaimId
from tinyagi.domain.runs import Claim
from tinyagi.engine.live_progress import PERIOD, SHOWN, ProgressHub

CLAIM = Claim(ClaimId("claim_1"), AgentId("coder"), (a_message(),), started_at=0, lease_until=0, holds=0)


async def test_pieces_in_quick_succession_are_joined() -> None:
    live = ProgressHub()
    with live.listening() as heard, live.speaking(CLAIM) as speaker:
        began = asyncio.get_running_loop().time()
        for number in range(100):
            speaker.say(f"{number} ")
        first, rest = await heard.get(), await heard.get()
        took = asyncio.get_running_loop().time() - began

    assert first.event.text == "0 "
    assert rest.event.text == "".join(f"{number} " for number in range(1, 100))
    assert took >= PERIOD.total_seconds() * 0.9


async def test_a_late_reader_gets_the_end_of_the_text() -> None:
    live = ProgressHub()
    with live.speaking(CLAIM) as speaker:
        speaker.say("a" * SHOWN)
        speaker.say("the end")

        assert live.text_of(CLAIM.id).endswith("the end")
        assert len(live.text_of(CLAIM.id)) == SHOWN
    assert live.text_of(CLAIM.id) == ""


async def test_empty_text_is_not_published() -> None:
    live = ProgressHub()
    with live.listening() as heard, live.speaking(CLAIM) as speaker:
        speaker.say("")

        assert heard.empty()
