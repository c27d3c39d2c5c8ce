"""Parameters that several routes have, checked before any of our code sees them."""

from typing import Annotated, Final

from fastapi import Path, Query

from tinyagi.api.base import ID, LARGEST

Name = Annotated[str, Path(pattern=ID, description="Small letters, digits, - and _; at most 64.")]
"""The id of an agent, a team, a provider or a channel in a path."""
Key = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")]
"""An id that we have made, in a path."""
RowId = Annotated[int, Path(ge=1, le=LARGEST, description="The number `id` of the lists.")]

MOST: Final = 1_000


def limit(default: int) -> int:
    """The default of a parameter that says how many rows at most: `limit: int = limit(100)`."""
    number: int = Query(default, ge=1, le=MOST, description="How many at most.")
    return number


Cursor = Annotated[int, Query(ge=0, le=LARGEST)]
"""A row or event id, or an instant, to begin after."""
Before = Annotated[int | None, Query(ge=1, le=LARGEST)]
