"""Records of the original are read tolerantly."""

import pytest

from tinyagi.legacy import old_records
from tinyagi.legacy.old_records import OldRow


@pytest.mark.parametrize("row", [{"sender_id": "42"}, {"senderId": "42"}, {"senderId": 42}, {"sender_id": " 42 "}])
def test_a_text_is_found_in_snake_or_camel_case(row: OldRow) -> None:
    assert old_records.text(row, "sender_id") == "42"


@pytest.mark.parametrize(
    ("written", "instant"),
    [
        (1_767_225_600_000, 1_767_225_600_000),
        (1_767_225_600, 1_767_225_600_000),
        (1_767_225_600.5, 1_767_225_600_500),
        ("2026-01-01T00:00:00.000Z", 1_767_225_600_000),
        ("2026-01-01T01:00:00+01:00", 1_767_225_600_000),
        ("tomorrow", None),
        (10**30, None),
        (float("inf"), None),
        (float("nan"), None),
        (None, None),
        (True, None),
        ({}, None),
    ],
)
def test_an_instant_is_a_number_or_an_iso_text(written: object, instant: int | None) -> None:
    assert old_records.milliseconds({"createdAt": written}, "created_at") == instant


@pytest.mark.parametrize(("written", "number"), [(7, 7), (0, 0), ("7", 0), (True, 0), (None, 0), (10**30, 0)])
def test_an_invalid_number_is_read_as_zero(written: object, number: int) -> None:
    assert old_records.number({"sortOrder": written}, "sort_order") == number


@pytest.mark.parametrize(
    ("written", "flag"), [(True, True), (0, False), (1, True), ("false", False), ("yes", True), (None, True)]
)
def test_a_flag_is_read_in_every_format(written: object, flag: bool) -> None:
    assert old_records.flag({"enabled": written}, "enabled", default=True) is flag


def test_entries_are_found_in_a_list_and_in_an_object() -> None:
    assert list(old_records.objects([{"a": 1}, "x"])) == [("entry 1", {"a": 1}), ("entry 2", None)]
    assert list(old_records.objects({"k": {"a": 1}})) == [("k", {"id": "k", "a": 1})]
    assert list(old_records.objects("text")) == []
    assert list(old_records.objects(None)) == []
