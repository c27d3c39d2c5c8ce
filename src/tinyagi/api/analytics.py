"""Analytics: the lake's gold tables. Their rows keep the names of the lake."""

from typing import Annotated

from pydantic import Field, JsonValue

from tinyagi.api.base import Model


class AnalyticsTable(Model):
    """A table in the list."""

    table: str
    meaning: Annotated[str, Field(description="What one row is.")]
    rows: int
    through_id: Annotated[int, Field(description="The last event of the log that is part of it.")]
    written_at: Annotated[int, Field(description="When the pipeline last brought the lake up to date, in ms.")]


class AnalyticsColumn(Model):
    name: str
    type: Annotated[str, Field(description="`long`, `int`, `double`, `string`, `date`, or `array<…>` of these.")]
    unit: Annotated[str, Field(description="Empty for what has none.")]
    meaning: str


class AnalyticsRows(Model):
    """Rows of a table, newest first."""

    table: str
    through_id: int
    written_at: int
    columns: tuple[AnalyticsColumn, ...]
    rows: Annotated[tuple[dict[str, JsonValue], ...], Field(description="By the names of the columns.")]
