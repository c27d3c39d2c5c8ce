"""Sums `gold.agent_hourly` over agents, slots and days; percentiles come from histograms."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tinyagi.domain.instants import DAY_MS
from tinyagi.pipeline.report.gold_reader import GoldReader, measured, real, text, whole
from tinyagi.pipeline.report.model import AgentFigures, AgentHour, DayCost, Percentiles, Slot
from tinyagi.pipeline.tables.gold import HISTOGRAM_EDGES

BUCKETS: Final = len(HISTOGRAM_EDGES) + 1

TOP: Final = 10
"""Entries in a list of the slowest."""

_COUNTS: Final = ("runs", "completed", "failures", "retries")
_TOKENS: Final = ("input_tokens", "output_tokens", "cache_tokens")
_EXACT: Final = tuple(f"{of}_p{share}" for of in ("wait", "run") for share in (50, 95, 99))
_HISTOGRAMS: Final = ("wait_hist", "run_hist")
_COLUMNS: Final = ("agent", "hour", *_COUNTS, *_TOKENS, "cost", *_EXACT, *_HISTOGRAMS)

_SUMS: Final = (*_COUNTS, *_TOKENS, "cost")
_BUCKETS: Final = tuple(f"{name}_{bucket}" for name in _HISTOGRAMS for bucket in range(BUCKETS))


class AgentHours:
    """The hours of all agents, read once."""

    def __init__(self, gold: GoldReader) -> None:
        self._hours = gold.rows("gold.agent_hourly", _COLUMNS)

    def total(self, column: str) -> int | float:
        """The sum of a column: a count, tokens or the cost."""
        found = pc.sum(self._hours[column]).as_py()
        return real(found) if column == "cost" else whole(found)

    def agents(self, dead: Mapping[str, int]) -> tuple[AgentFigures, ...]:
        """The busiest first, including agents with dead messages but no run."""
        rows = _grouped(_with_buckets(self._hours), ("agent",), (*_SUMS, *_BUCKETS))
        worked = {text(row["agent"]): row for row in rows}
        found = [self._agent(row, dead.get(name, 0)) for name, row in worked.items()]
        found += [_idle(name, number) for name, number in dead.items() if number and name not in worked]
        return tuple(sorted(found, key=lambda figures: (-figures.runs, figures.agent)))

    def slots(self, start: int, end: int, size: int) -> tuple[Slot, ...]:
        """Every hour or day of the range, including empty ones."""
        starts = _floor(self._hours["hour"], size)
        hours = self._hours.set_column(self._hours.schema.get_field_index("hour"), "hour", starts)
        found = {whole(row["hour"]): _slot(row) for row in _grouped(hours, ("hour",), _SUMS)}
        return tuple(found.get(at, Slot(at)) for at in range(start, end, size))

    def costs(self) -> tuple[DayCost, ...]:
        days = self._hours.append_column("day", _floor(self._hours["hour"], DAY_MS))
        found = [
            DayCost(whole(row["day"]), text(row["agent"]), real(row["cost"]))
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
            AgentHour(
                text(row["agent"]), whole(row["hour"]), whole(row["runs"]), _exact(row, "wait"), _exact(row, "run")
            )
            for row in measurable.take(order[:TOP]).to_pylist()
        )

    def _agent(self, row: dict[str, object], dead: int) -> AgentFigures:
        name = text(row["agent"])
        hours = self._hours.filter(pc.equal(self._hours["agent"], name)) if row["hours"] == 1 else None
        only = None if hours is None else hours.select(list(_EXACT)).to_pylist()[0]
        runs, completed, failures = whole(row["runs"]), whole(row["completed"]), whole(row["failures"])
        return AgentFigures(
            agent=name,
            runs=runs,
            completed=completed,
            failures=failures,
            interrupted=runs - completed - failures,
            retries=whole(row["retries"]),
            dead=dead,
            wait=approximate(_counts(row, "wait_hist")) if only is None else _exact(only, "wait"),
            run=approximate(_counts(row, "run_hist")) if only is None else _exact(only, "run"),
            tokens=sum(whole(row[kind]) for kind in _TOKENS),
            cost=real(row["cost"]),
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


def _grouped(rows: pa.Table, keys: tuple[str, ...], sums: tuple[str, ...]) -> Iterator[dict[str, object]]:
    """One row per key: the sums under their column names, and the number of rows as `hours`."""
    found = rows.group_by(list(keys)).aggregate([*((name, "sum") for name in sums), ([], "count_all")])
    names = {f"{name}_sum": name for name in sums} | {"count_all": "hours"}
    renamed = found.rename_columns([names.get(name, name) for name in found.column_names])
    yield from renamed.to_pylist()


def _with_buckets(hours: pa.Table) -> pa.Table:
    """Add one column per bucket, so that Arrow can sum them. A histogram of another length counts as empty."""
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
        tokens=sum(whole(row[kind]) for kind in _TOKENS),
        cost=real(row["cost"]),
    )


def _exact(row: dict[str, object], of: str) -> Percentiles:
    p50, p95, p99 = (measured(row[f"{of}_p{share}"]) for share in (50, 95, 99))
    return Percentiles(p50, p95, p99, is_exact=True)
