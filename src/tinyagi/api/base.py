"""What all models of the API have in common. Names are camelCase on the wire; fields that nobody knows are ignored."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

LARGEST: Final = 2**63 - 1
"""The largest number that a database can hold."""

ID: Final = r"^[a-z0-9][a-z0-9_-]{0,63}$"

Id = Annotated[str, Field(pattern=ID)]
"""What people call an agent, a team or a provider."""
Instant = Annotated[int, Field(ge=0, le=LARGEST)]
"""Milliseconds since 1970."""


class Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class Ok(Model):
    """It is done."""

    ok: bool = True


class Error(Model):
    """Why it is not done: a sentence that names the thing and the remedy."""

    error: str
