"""Sums `gold.agent_hourly` over agents, slots and days; percentiles come from histograms."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tinyagi.domain.instants import DAY_MS
from tinyagi.pipeline.report.model import AgentFigures, AgentHour, DayCost, Percentiles, Slot
from tinyagi.pipeline.tables.gold import HISTOGRAM_EDGES

Row = dict[str, Any]
"""A row as Arrow gives it; the table declares the types of its values."""

HISTOGRAM_BUCKETS: Final = len(HISTOGRAM_EDGES) + 1

TOP: Final = 10
"""Entries in a list of the slowest."""

_COUNTS: Final = ("runs", "completed", "failures", "retries")
_TOKENS: Final = ("input_tokens", "output_tokens", "cache_tokens")
_EXACT: Final = tuple(f"{of}_p{share}" for of in ("wait", "run") for share in (50, 95, 99))
_HISTOGRAMS: Final = ("wait_hist", "run_hist")
AGENT_HOUR_COLUMNS: Final = ("agent", "hour", *_COUNTS, *_TOKENS, "cost", *_EXACT, *_HISTOGRAMS)

_SUMS: Final = (*_COUNTS, *_TOKENS, "cost")
_BUCKET_COLUMNS: Final = tuple(f"{name}_{bucket}" for name in _HISTOGRAMS for bucket in range(HISTOGRAM_BUCKETS))


class AgentHours:
    """Rows of `gold.agent_hourly` with `AGENT_HOUR_COLUMNS`."""

    def __init__(self, hours: pa.Table) -> None:
        self._hours = hours

    def total(self, column: str) -> int | float:
        """The sum of a column: a count, tokens or the cost."""
        found: int | float | None = pc.sum(self._hours[column]).as_py()
        return found or (0.0 if column == "cost" else 0)

    def agents(self, dead: Mapping[str, int]) -> tuple[AgentFigures, ...]:
        """The busiest first, including agents with dead messages but no run."""
        rows = _grouped(_with_buckets(self._hours), ("agent",), (*_SUMS, *_BUCKET_COLUMNS))
        worked = {row["agent"] or "": row for row in rows}
        found = [self._agent(row, dead.get(name, 0)) for name, row in worked.items()]
        found += [_idle(name, number) for name, number in dead.items() if number and name not in worked]
        return tuple(sorted(found, key=lambda figures: (-figures.runs, figures.agent)))

    def slots(self, start: int, end: int, size: int) -> tuple[Slot, ...]:
        """Every hour or day of the range, including empty ones."""
        starts = _floor(self._hours["hour"], size)
        hours = self._hours.set_column(self._hours.schema.get_field_index("hour"), "hour", starts)
        found = {row["hour"] or 0: _slot(row) for row in _grouped(hours, ("hour",), _SUMS)}
        return tuple(found.get(at, Slot(at)) for at in range(start, end, size))

    def costs(self) -> tuple[DayCost, ...]:
        days = self._hours.append_column("day", _floor(self._hours["hour"], DAY_MS))
        found = [
            DayCost(row["day"] or 0, row["agent"] or "", row["cost"] or 0.0)
            for row in _grouped(days, ("day", "agent"), ("cost",))
        ]
        return tuple(sorted((one for one in found if one.cost > 0), key=lambda one: (one.day, one.agent)))

    def slowest_hours(self) -> tuple[AgentHour, ...]:
        """The hours with the highest p95 of runs. Percentiles of a single hour are exact."""
        measurable = self._hours.select(["agent", "hour", "runs", *_EXACT]).filter(pc.is_valid(self._hours["run_p95"]))
        order = pc.sort_indices(
            measurable, sort_keys=[("run_p95", "descending"), ("hour", "ascending"), ("agent", "ascending")]
        )
        return tuple(
            AgentHour(row["agent"] or "", row["hour"] or 0, row["runs"] or 0, _exact(row, "wait"), _exact(row, "run"))
            for row in measurable.take(order[:TOP]).to_pylist()
        )

    def _agent(self, row: Row, dead: int) -> AgentFigures:
        name = row["agent"] or ""
        hours = self._hours.filter(pc.equal(self._hours["agent"], name)) if row["hours"] == 1 else None
        only = None if hours is None else hours.select(list(_EXACT)).to_pylist()[0]
        runs, completed, failures = row["runs"] or 0, row["completed"] or 0, row["failures"] or 0
        return AgentFigures(
            agent=name,
            runs=runs,
            completed=completed,
            failures=failures,
            interrupted=runs - completed - failures,
            retries=row["retries"] or 0,
            dead=dead,
            wait=approximate(_counts(row, "wait_hist")) if only is None else _exact(only, "wait"),
            run=approximate(_counts(row, "run_hist")) if only is None else _exact(only, "run"),
            tokens=sum(row[kind] or 0 for kind in _TOKENS),
            cost=row["cost"] or 0.0,
        )


def approximate(counts: Sequence[int]) -> Percentiles:
    p50, p95, p99 = (histogram_percentile(counts, share) for share in (0.50, 0.95, 0.99))
    return Percentiles(p50, p95, p99)


def histogram_percentile(counts: Sequence[int], share: float) -> float | None:
    """An approximate percentile, never outside the buckets of its two neighbouring values.

    The definition of the exact percentile, interpolated between neighbours, with the values of a bucket spread evenly.
    """
    total = sum(counts)
    if total == 0:
        return None
    place = share * (total - 1)
    before = int(place)
    low = _value_at(counts, before)
    return low + (place - before) * (_value_at(counts, min(before + 1, total - 1)) - low)


def _value_at(counts: Sequence[int], place: int) -> float:
    """The value at this index of the sorted values."""
    for bucket, count in enumerate(counts):
        if place < count:
            lower, upper = bounds(bucket)
            return lower + (place + 0.5) / count * (upper - lower)
        place -= count
    raise ValueError(f"There are only {sum(counts)} values.")


def bounds(bucket: int) -> tuple[float, float]:
    """The edges of a bucket, in ms. The last one has no upper edge, so both are its lower edge."""
    lower = HISTOGRAM_EDGES[bucket - 1] if bucket else 0
    return float(lower), float(HISTOGRAM_EDGES[bucket] if bucket < len(HISTOGRAM_EDGES) else lower)


def _idle(agent: str, dead: int) -> AgentFigures:
    nothing = Percentiles()
    return AgentFigures(agent, 0, 0, 0, 0, 0, dead, nothing, nothing, 0, 0.0)


def _grouped(rows: pa.Table, keys: tuple[str, ...], sums: tuple[str, ...]) -> Iterator[Row]:
    """One row per key: the sums under their column names, and the number of rows as `hours`."""
    found = rows.group_by(list(keys)).aggregate([*((name, "sum") for name in sums), ([], "count_all")])
    names = {f"{name}_sum": name for name in sums} | {"count_all": "hours"}
    renamed = found.rename_columns([names.get(name, name) for name in found.column_names])
    yield from renamed.to_pylist()


def _with_buckets(hours: pa.Table) -> pa.Table:
    """Add one column per bucket, so that Arrow can sum them. A histogram of another length counts as empty."""
    for name in _HISTOGRAMS:
        fits = pc.equal(pc.list_value_length(hours[name]), HISTOGRAM_BUCKETS)
        lists = pc.if_else(pc.fill_null(fits, False), hours[name], pa.scalar([0] * HISTOGRAM_BUCKETS, hours[name].type))
        for bucket in range(HISTOGRAM_BUCKETS):
            hours = hours.append_column(f"{name}_{bucket}", pc.list_element(lists, bucket))
    return hours


def _floor(instants: pa.ChunkedArray, size: int) -> pa.ChunkedArray:
    return pc.multiply(pc.divide(instants, size), size)


def _counts(row: Row, histogram: str) -> list[int]:
    return [row[f"{histogram}_{bucket}"] or 0 for bucket in range(HISTOGRAM_BUCKETS)]


def _slot(row: Row) -> Slot:
    return Slot(
        start=row["hour"] or 0,
        runs=row["runs"] or 0,
        completed=row["completed"] or 0,
        failures=row["failures"] or 0,
        tokens=sum(row[kind] or 0 for kind in _TOKENS),
        cost=row["cost"] or 0.0,
    )


def _exact(row: Row, of: str) -> Percentiles:
    p50, p95, p99 = (row[f"{of}_p{share}"] for share in (50, 95, 99))
    return Percentiles(p50, p95, p99, is_exact=True)
