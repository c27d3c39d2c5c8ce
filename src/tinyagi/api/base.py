"""Base classes and field types of the API's models. Names are camelCase in JSON; unknown fields are ignored."""

from collections.abc import Set
from typing import Annotated, ClassVar, Final, Generic, TypeVar, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.texts import KEY_PATTERN, check_text

T = TypeVar("T")

MAX_INTEGER: Final = 2**63 - 1
"""The largest integer that SQLite can store."""

ID: Final = r"^[a-z0-9][a-z0-9_-]{0,63}$"

Id = Annotated[str, Field(pattern=ID)]
"""The id of an agent, a team, a provider or a channel."""
Instant = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
"""Milliseconds since 1970."""

KEY: Final[JsonDict] = {"pattern": KEY_PATTERN}
"""JSON schema of a key without control characters; documentation only, because the engine checks it."""


def _none_if_empty(value: object) -> object:
    return None if value == "" else value


EmptyAsNone = Annotated[T | None, BeforeValidator(_none_if_empty)]
"""Clients of the original send an empty string for no value."""


class Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class PartialUpdate(Model, Generic[T]):
    """New values for some fields of a stored thing; omitted and null fields keep theirs. `T` is the domain's TypedDict
    with fields of the same names and types."""

    removable: ClassVar[Set[str]] = frozenset()
    """Fields whose value null removes."""

    def fields(self) -> T:
        sent = self.model_fields_set & self.removable
        return cast("T", {name: value for name, value in self if value is not None or name in sent})


class Ok(Model):
    """The call succeeded."""

    ok: bool = True


class Error(Model):
    """The call failed: a sentence that names the thing and the remedy."""

    error: str


def _storable(text: str) -> str:
    check_text(text)
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise InvalidInput("a text is needed")
    return text


Storable = Annotated[str, AfterValidator(_storable)]
"""Any text that SQLite can store; it may be empty."""
Text = Annotated[Storable, AfterValidator(_not_blank), Field(json_schema_extra={"minLength": 1, "pattern": r"\S"})]
"""A text that is not blank."""
PersonName = Annotated[Text, Field(max_length=256)]
"""The name of a sender."""
