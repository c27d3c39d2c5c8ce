"""What every part of the settings has in common: it is frozen, strict about types, and keeps what it does not know."""

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

DAY = 86_400

Seconds = Annotated[float, Field(ge=0, le=DAY, allow_inf_nan=False)]
Period = Annotated[float, Field(gt=0, le=DAY, allow_inf_nan=False)]
"""Seconds between two things that must not happen without a pause."""
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Names = Annotated[tuple[str, ...], Field(strict=False)]
"""JSON has lists only: the tuple is made from one."""


class Section(BaseModel):
    """An object of the settings file."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_not_set(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        return {name: value for name, value in data.items() if value is not None or name not in cls.model_fields}

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        # A section ends up in logs and traces sooner or later, and its secrets with it: names only.
        return ((None, name) for name in sorted(self.model_fields_set))
