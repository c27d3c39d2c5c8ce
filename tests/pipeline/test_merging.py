"""The merge rules on Arrow batches, without Spark: any split gives the same rows."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyagi.pipeline.tables.model import Merge
from tinyagi.pipeline.transform.fold import MergeRows

SHAPE: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("first", pa.string()),
        ("ids", pa.list_(pa.int64())),
        ("last", pa.string()),
        ("cost", pa.float64()),
        ("total", pa.int64()),
        ("most", pa.int32()),
        ("is_done", pa.bool_()),
        ("all", pa.list_(pa.struct([("id", pa.int64()), ("why", pa.string())]))),
    ]
)
MERGING: Final = MergeRows(
    "id",
    (
        ("first", Merge.FIRST),
        ("ids", Merge.FIRST),
        ("last", Merge.LAST),
        ("cost", Merge.LAST),
        ("total", Merge.SUM),
        ("most", Merge.MAX),
        ("is_done", Merge.MAX),
        ("all", Merge.GATHER),
    ),
)

Row = dict[str, Any]

texts = st.none() | st.text(max_size=3)
numbers = st.none() | st.integers(-5, 5)
update_rows = st.fixed_dictionaries(
    {
        "id": st.integers(0, 4),
        "first": texts,
        "ids": st.none() | st.lists(st.integers(0, 9), max_size=2),
        "last": texts,
        "cost": st.none() | st.floats(0, 9),
        "total": numbers,
        "most": numbers,
        "is_done": st.none() | st.booleans(),
        "all": st.none() | st.lists(st.fixed_dictionaries({"id": st.integers(0, 9), "why": texts}), max_size=2),
    }
)


@settings(deadline=None)
@given(st.lists(update_rows, max_size=30), st.lists(st.integers(0, 30), max_size=6))
def test_rows_merge_by_the_rules_for_any_batches(rows: list[Row], cuts: list[int]) -> None:
    ordered = sorted(rows, key=lambda row: row["id"])

    found = merged(ordered, cuts)

    assert found == [by_hand([row for row in ordered if row["id"] == key]) for key in sorted({r["id"] for r in rows})]


@settings(deadline=None)
@given(st.lists(update_rows, max_size=20), st.integers(0, 20))
def test_a_merged_row_replaces_its_rows(rows: list[Row], cut: int) -> None:
    earlier, later = rows[:cut], rows[cut:]

    stored = merged(sorted(earlier, key=lambda row: row["id"]))

    # Sorting is stable: stored rows of a key come before later ones.
    assert merged(sorted([*stored, *later], key=lambda row: row["id"])) == merged(
        sorted(rows, key=lambda row: row["id"])
    )


def test_a_key_that_spans_many_batches_is_one_row() -> None:
    rows = [blank(id=7, total=1, last=str(number)) for number in range(1000)]

    (row,) = merged(rows, cuts=range(1000))

    assert (row["total"], row["last"]) == (1000, "999")


def test_a_long_text_is_kept_in_its_row_only() -> None:
    rows = [blank(id=0, last="x" * 2**20), *(blank(id=number) for number in range(1, 4_000))]

    found = merged(rows)

    assert [len(row["last"] or "") for row in found[:2]] == [2**20, 0]


def test_empty_batches_give_no_rows() -> None:
    assert merged([]) == []
    assert merged([blank(id=1)], cuts=[0, 0, 1, 1]) == [blank(id=1, all=[])]


def merged(rows: Sequence[Row], cuts: Iterable[int] = ()) -> list[Row]:
    batch = pa.RecordBatch.from_pylist(list(rows), schema=SHAPE)
    places = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    batches = (batch.slice(start, end - start) for start, end in pairwise(places))
    return [row for one in MERGING(batches) for row in one.to_pylist()]


def by_hand(rows: list[Row]) -> Row:
    """Merge the rows of one key, in the order of their events."""

    def known(name: str) -> list[Any]:
        return [row[name] for row in rows if row[name] is not None]

    def latest(values: list[Any]) -> Any:
        return values[-1] if values else None

    return {
        "id": rows[0]["id"],
        "first": next(iter(known("first")), None),
        "ids": next(iter(known("ids")), None),
        "last": latest(known("last")),
        "cost": latest(known("cost")),
        "total": sum(known("total")) if known("total") else None,
        "most": max(known("most"), default=None),
        "is_done": max(known("is_done"), default=None),
        "all": [one for gathered in known("all") for one in gathered],
    }


def blank(**values: Any) -> Row:
    return {**dict.fromkeys(SHAPE.names), **values}
