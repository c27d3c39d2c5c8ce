"""The reference of the event stream lists every type with the fields it has there, and nothing else."""

import json
import re
from pathlib import Path

import pytest

from tests.server.sample_events import CLAIM, every_event, recorded
from tests.support.builders import a_message
from tinyagi.domain.events import EVENT_TYPES, AgentProgress
from tinyagi.engine.live_progress import ProgressUpdate
from tinyagi.server.event_fields import PREVIEW_CHARS, REASON_CHARS, TEXT_CHARS
from tinyagi.server.event_frames import ALIASES, EventFilter, Frame, frame_of, frame_of_progress
from tinyagi.server.event_hub import KEEP_ALIVE

PAGE = (Path(__file__).parents[2] / "docs/reference/stream.md").read_text(encoding="utf-8")
ROWS = {row[0]: row[1:] for row in re.findall(r"^\| `(\w+)` \| (?:`([\w:]+)`)? ?\| (.*?) ?\|$", PAGE, re.MULTILINE)}
COMMON_FIELDS = ["type", "timestamp", "messageId", "conversationId", "agentId"]


def sample(event_type: str) -> Frame:
    if event_type == AgentProgress.type:
        return frame_of_progress(ProgressUpdate(a_message(), AgentProgress(CLAIM, "text")), now=1)
    return frame_of(recorded(every_event()[event_type]))


@pytest.mark.parametrize("event_type", sorted(EVENT_TYPES))
def test_every_type_is_documented_with_its_alias_and_its_fields(event_type: str) -> None:
    alias, fields = ROWS[event_type]
    data = json.loads(sample(event_type).canonical.split(b"data: ")[1])

    assert alias == ALIASES.get(event_type, "")
    assert re.findall(r"`(\w+)`", fields) == [name for name in data if name not in COMMON_FIELDS]


def test_every_documented_type_exists() -> None:
    assert set(ROWS) - {"after", "types", "agent", "conversation", "names"} == set(EVENT_TYPES)


def test_every_filter_is_documented() -> None:
    for name in ("types", "agent", "conversation", "names", "after", "Last-Event-ID"):
        assert re.search(rf"^\| `{name}`", PAGE, re.MULTILINE), name
    assert EventFilter.parse({"types": ["response_ready,message_dead"], "names": ["canonical"]}).aliases is False


def test_the_numbers_match_the_code() -> None:
    assert f"shortened to {PREVIEW_CHARS} characters" in PAGE
    assert f"a line of a room to {TEXT_CHARS:,}, a reason to {REASON_CHARS:,}" in PAGE
    assert f"Every {KEEP_ALIVE.seconds} seconds" in PAGE
