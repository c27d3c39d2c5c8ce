"""Chat rooms of teams, and the files of their conversations. Room lines are rows: their names are the table's."""

from typing import Annotated

from pydantic import ConfigDict, Field

from tinyagi.api.base import Model
from tinyagi.api.texts import Person, Text


class RoomLine(Model):
    """A line in a team's chat room."""

    model_config = ConfigDict(alias_generator=None)

    id: int
    team_id: str
    from_agent: Annotated[str, Field(description="The agent or the person who said it.")]
    message: str
    created_at: int


class PostLine(Model):
    """Something to say in a chat room."""

    message: Text
    sender: Person = "user"


class LinePosted(Model):
    """It is in the room and on its way to every member."""

    ok: bool = True
    id: int


class ChatFile(Model):
    """A conversation of a team as a Markdown file."""

    team_id: str
    file: Annotated[str, Field(description="Its name in the team's folder of chats.")]
    time: Annotated[int, Field(description="When it was last written, in ms.")]
