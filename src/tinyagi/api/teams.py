"""Teams of agents."""

from typing import Annotated, Literal

from pydantic import Field

from tinyagi.api.base import Ok
from tinyagi.api.settings import Stored


class TeamFields(Stored):
    """A team as settings.json has it. A new one needs a name, its agents and a leader among them; of one that is
    there, what is left out stays as it is."""

    name: str | None = None
    agents: list[str] | None = None
    leader_agent: Annotated[
        str | None, Field(description="One of the agents; it answers what is sent to the team.")
    ] = None
    chatroom: Annotated[
        Literal["wake", "passive"] | None, Field(description="Whether a line in the room starts runs.")
    ] = None


class TeamSaved(Ok):
    team: TeamFields
