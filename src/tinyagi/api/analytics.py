"""Models of analytics: the lake's gold tables. Rows keep the column names of the lake."""

from typing import Annotated

from pydantic import Field, JsonValue

from tinyagi.api.base import Model


class AnalyticsTable(Model):
    """A table in the list."""

    table: str
    meaning: Annotated[str, Field(description="What one row is.")]
    rows: int
    through_id: Annotated[int, Field(description="The last event that the table includes.")]
    written_at: Annotated[int, Field(description="When the pipeline last updated the lake, in ms.")]


class AnalyticsColumn(Model):
    name: str
    type: Annotated[str, Field(description="`long`, `int`, `double`, `string`, `date`, or `array<…>` of these.")]
    unit: Annotated[str, Field(description="Empty when there is none.")]
    meaning: str


class AnalyticsRows(Model):
    """Rows of a table, newest first."""

    table: str
    through_id: int
    written_at: int
    columns: tuple[AnalyticsColumn, ...]
    rows: Annotated[tuple[dict[str, JsonValue], ...], Field(description="Values by column name.")]
