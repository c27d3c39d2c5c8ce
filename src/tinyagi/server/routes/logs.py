"""The log files of the daemon, for those who are not in front of it."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query

from tinyagi.api.base import ID
from tinyagi.api.logs import LogLines
from tinyagi.server.errors import responses
from tinyagi.server.log_tail import ALL, tail
from tinyagi.server.parameters import limit
from tinyagi.server.services import Use

router = APIRouter(tags=["logs"])

Source = Annotated[str, Query(pattern=ID, description="`queue`, `daemon`, the id of a channel, or `all`.")]


@router.get("/api/logs", response_model=LogLines, responses=responses(404))
async def read_logs(services: Use, source: Source = ALL, limit: int = limit(100)) -> LogLines:
    """Show the last lines of the logs, oldest first; secrets are masked before they are written."""
    return LogLines(lines=tuple(await asyncio.to_thread(tail, services.home.logs, source, limit)))
