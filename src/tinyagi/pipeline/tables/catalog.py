"""Every table of the lake, in the order in which they are brought up to date."""

from collections.abc import Mapping
from typing import Final

from tinyagi.domain.errors import NotFound
from tinyagi.pipeline.tables import ops
from tinyagi.pipeline.tables.bronze import EVENTS, QUARANTINE
from tinyagi.pipeline.tables.gold import GOLD
from tinyagi.pipeline.tables.model import Table
from tinyagi.pipeline.tables.silver import SILVER

TABLES: Final[Mapping[str, Table]] = {
    table.name: table for table in (EVENTS, *SILVER, QUARANTINE, *GOLD, ops.RUNS, ops.ERASURES)
}


def find_table(name: str) -> Table:
    """The table of this name; raise NotFound with the names there are."""
    if name not in TABLES:
        raise NotFound(f"There is no table {name!r} in the lake. There are {', '.join(TABLES)}.")
    return TABLES[name]
