"""What agents did in the range: from `gold.agent_hourly`."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tinyagi.pipeline.report.gold import GoldReader, measured, real, text, whole
from tinyagi.pipeline.report.histograms import BUCKETS, approximate
from tinyagi.pipeline.report.model import AgentFigures, AgentHour, DayCost, Percentiles, Slot

HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR
TOP: Final = 10
"""Rows of a list of the slowest."""

_COUNTS: Final = ("runs", "completed", "failures", "retries", "dead")
_TOKENS: Final = ("input_tokens", "output_tokens", "cache_tokens")
_EXACT: Final = tuple(f"{of}_p{share}" for of in ("wait", "run") for share in (50, 95, 99))
_HISTOGRAMS: Final = ("wait_hist", "run_hist")
_COLUMNS: Final = ("agent", "hour", *_COUNTS, *_TOKENS, "cost", *_EXACT, *_HISTOGRAMS)


class Work:
    """The hours of all agents, read once."""

    def __init__(self, gold: GoldReader) -> None:
        self._hours = gold.rows("gold.agent_hourly", _COLUMNS)

    def total(self, column: str) -> int | float:
        """The sum of a column: a count, tokens or the cost."""
        found = pc.sum(self._hours[column]).as_py()
        return real(found) if column == "cost" else whole(found)

    def agents(self) -> tuple[AgentFigures, ...]:
        """The busiest first."""
        found = [self._agent(row) for row in _grouped(_with_buckets(self._hours), ("agent",), (*_SUMS, *_BUCKETS))]
        return tuple(sorted(found, key=lambda one: (-one.runs, one.agent)))

    def slots(self, start: int, end: int, size: int) -> tuple[Slot, ...]:
        """Every hour or day of the range, also those in which nothing ended."""
        begins = _floor(self._hours["hour"], size)
        hours = self._hours.set_column(self._hours.schema.get_field_index("hour"), "hour", begins)
        found = {whole(row["hour"]): _slot(row) for row in _grouped(hours, ("hour",), _SUMS)}
        return tuple(found.get(at, Slot(at)) for at in range(start, end, size))

    def costs(self) -> tuple[DayCost, ...]:
        days = self._hours.append_column("day", _floor(self._hours["hour"], DAY))
        found = [
            DayCost(whole(row["day"]), text(row["agent"]), real(row["cost"]))
            for row in _grouped(days, ("day", "agent"), ("cost",))
        ]
        return tuple(sorted((one for one in found if one.cost > 0), key=lambda one: (one.day, one.agent)))

    def slowest_hours(self) -> tuple[AgentHour, ...]:
        """Where 95 % of the runs took longest; the figures of a single hour are exact."""
        measurable = self._hours.select(["agent", "hour", "runs", *_EXACT]).filter(pc.is_valid(self._hours["run_p95"]))
        order = pc.sort_indices(
            measurable, sort_keys=[("run_p95", "descending"), ("hour", "ascending"), ("agent", "ascending")]
        )
        return tuple(
            AgentHour(
                text(row["agent"]), whole(row["hour"]), whole(row["runs"]), _exact(row, "wait"), _exact(row, "run")
            )
            for row in measurable.take(order[:TOP]).to_pylist()
        )

    def _agent(self, row: dict[str, object]) -> AgentFigures:
        name = text(row["agent"])
        hours = self._hours.filter(pc.equal(self._hours["agent"], name)) if row["hours"] == 1 else None
        only = None if hours is None else hours.select(list(_EXACT)).to_pylist()[0]
        return AgentFigures(
            agent=name,
            runs=whole(row["runs"]),
            completed=whole(row["completed"]),
            failures=whole(row["failures"]),
            retries=whole(row["retries"]),
            dead=whole(row["dead"]),
            wait=approximate(_counts(row, "wait_hist")) if only is None else _exact(only, "wait"),
            run=approximate(_counts(row, "run_hist")) if only is None else _exact(only, "run"),
            tokens=sum(whole(row[kind]) for kind in _TOKENS),
            cost=real(row["cost"]),
        )


_SUMS: Final = (*_COUNTS, *_TOKENS, "cost")
_BUCKETS: Final = tuple(f"{name}_{bucket}" for name in _HISTOGRAMS for bucket in range(BUCKETS))


def _grouped(rows: pa.Table, keys: tuple[str, ...], sums: tuple[str, ...]) -> Iterator[dict[str, object]]:
    """One row per key: the sums under the names of their columns, and `hours`, how many rows they are from."""
    found = rows.group_by(list(keys)).aggregate([*((name, "sum") for name in sums), ([], "count_all")])
    names = {f"{name}_sum": name for name in sums} | {"count_all": "hours"}
    renamed = found.rename_columns([names.get(name, name) for name in found.column_names])
    yield from renamed.to_pylist()


def _with_buckets(hours: pa.Table) -> pa.Table:
    """Each bucket as a column of its own, so that Arrow can add them up; a histogram of another shape adds nothing."""
    for name in _HISTOGRAMS:
        fits = pc.equal(pc.list_value_length(hours[name]), BUCKETS)
        lists = pc.if_else(pc.fill_null(fits, False), hours[name], pa.scalar([0] * BUCKETS, hours[name].type))
        for bucket in range(BUCKETS):
            hours = hours.append_column(f"{name}_{bucket}", pc.list_element(lists, bucket))
    return hours


def _floor(instants: pa.ChunkedArray, size: int) -> pa.ChunkedArray:
    return pc.multiply(pc.divide(instants, size), size)


def _counts(row: dict[str, object], histogram: str) -> list[int]:
    return [whole(row[f"{histogram}_{bucket}"]) for bucket in range(BUCKETS)]


def _slot(row: dict[str, object]) -> Slot:
    return Slot(
        start=whole(row["hour"]),
        runs=whole(row["runs"]),
        completed=whole(row["completed"]),
        failures=whole(row["failures"]),
        dead=whole(row["dead"]),
        tokens=sum(whole(row[kind]) for kind in _TOKENS),
        cost=real(row["cost"]),
    )


def _exact(row: dict[str, object], of: str) -> Percentiles:
    p50, p95, p99 = (measured(row[f"{of}_p{share}"]) for share in (50, 95, 99))
    return Percentiles(p50, p95, p99, is_exact=True)
