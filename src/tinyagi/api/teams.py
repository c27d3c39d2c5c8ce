"""Models of teams: settings, chat rooms and chat files."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from tinyagi.api.base import Model, Ok, PersonName, Text
from tinyagi.api.settings import StoredObject


class TeamFields(StoredObject):
    """A team as in settings.json. A new one needs a name, agents and a leader among them; in a change, omitted fields
    keep their values."""

    name: str | None = None
    agents: list[str] | None = None
    leader_agent: Annotated[str | None, Field(description="One of the agents; it answers messages to the team.")] = None
    chatroom: Annotated[
        Literal["wake", "passive"] | None, Field(description="Whether a post in the room starts runs.")
    ] = None


class TeamSaved(Ok):
    team: TeamFields


class RoomLine(Model):
    """A post in a team's chat room."""

    model_config = ConfigDict(alias_generator=None)

    id: int
    team_id: str
    from_agent: Annotated[str, Field(description="The agent or person that posted it.")]
    message: str
    created_at: int


class PostLine(Model):
    """A new post for a chat room."""

    message: Text
    sender: PersonName = "user"


class LinePosted(Model):
    """The post is stored and queued for every member."""

    ok: bool = True
    id: int


class ChatFile(Model):
    """A Markdown file of a team's conversation."""

    team_id: str
    file: Annotated[str, Field(description="Name in the team's folder of chats.")]
    time: Annotated[int, Field(description="When it was last written, in ms.")]
