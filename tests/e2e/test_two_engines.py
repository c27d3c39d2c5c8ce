"""Two engines on one database: they share the lanes and never a run. (A second daemon on one home is refused.)"""

from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

from tests.e2e.test_run_command import prepare_home, read_until, running
from tests.support.log import read_all
from tinyagi.engine.inbox import Incoming
from tinyagi.wiring import open_engine, open_inbox

MESSAGES = 60


async def test_two_engines_on_one_database_answer_each_message_once_and_in_order(tmp_path: Path) -> None:
    home = prepare_home(tmp_path)
    (tmp_path / "workspace" / "coder" / "script.toml").write_text('[[reply]]\nseconds = 0.005\nsay = "{message}"\n')
    async with AsyncExitStack() as stack:
        store, inbox = await stack.enter_async_context(open_inbox(home))
        await read_until(await stack.enter_async_context(running(home)), "Ctrl-C stops it")
        other = await stack.enter_async_context(open_engine(home))
        await other.start()
        for number in range(MESSAGES):
            await inbox.submit(Incoming(f"task {number}", agent="coder", sender="Ada"))
        seen = store.changes.version
        while (depth := await store.queue.depth()).pending or depth.processing:
            seen = await store.changes.beyond(seen)
        events = await read_all(store.events)
        await other.stop()

    answers = [event.payload["response"] for event in events if event.type == "response_ready"]
    texts = [answer["message"].splitlines()[0] for answer in answers]
    assert texts == [f"task {number}" for number in range(MESSAGES)]
    assert Counter(event.type for event in events)["message_recovered"] == 0
