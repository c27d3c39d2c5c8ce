"""What agents were asked and have answered. Lines are rows: their names are the table's."""

from typing import Literal

from pydantic import ConfigDict

from tinyagi.api.base import Model


class HistoryLine(Model):
    """A line in an agent's history."""

    model_config = ConfigDict(alias_generator=None)

    id: int
    agent_id: str
    role: Literal["user", "assistant"]
    channel: str
    sender: str
    message_id: str
    content: str
    created_at: int
