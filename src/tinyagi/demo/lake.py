"""The end of the demo: what the company did goes into a lake, and the lake tells it."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tinyagi.domain.ids import ConversationId
from tinyagi.domain.traces import TracedMessage
from tinyagi.settings.home import Home
from tinyagi.store.clock import wall_clock

if TYPE_CHECKING:
    from tinyagi.pipeline.progress import Progress, Summary
    from tinyagi.pipeline.report.model import Report


@dataclass(frozen=True, slots=True)
class Archived:
    """The demo as the lake has it."""

    summary: "Summary"
    report: "Report"
    longest: tuple[TracedMessage, ...]
    """The conversation with the slowest chain of messages."""


def can_archive() -> bool:
    """False without the packages of the extra `pipeline`."""
    return find_spec("pyspark") is not None and find_spec("deltalake") is not None


async def archive(home: Home, progress: "Progress") -> Archived:
    """Run the pipeline over the demo's own traffic and read the lake, as the API would."""
    import asyncio  # noqa: PLC0415 - what follows is heavy, and nothing for `tinyagi --help`

    from tinyagi.keeper import Keeper  # noqa: PLC0415
    from tinyagi.pipeline.archive import LakeArchive  # noqa: PLC0415
    from tinyagi.pipeline.lake import Lake  # noqa: PLC0415
    from tinyagi.pipeline.report.figures import read_report  # noqa: PLC0415

    summary = await asyncio.to_thread(Keeper(home).run, progress)
    report = await asyncio.to_thread(read_report, Lake(home.lake), days=1, now=wall_clock())
    longest = ConversationId(report.slowest[0].conversation_id)
    return Archived(summary, report, await LakeArchive(home.lake).conversation(longest))
