"""Sizes with units."""

import pytest

from tinyagi.domain.texts import size_text


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (3_449, "3.4 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (1_200_000, "1.2 MB"),
        (5_600_000_000, "5.6 GB"),
        (7_000_000_000_000, "7.0 TB"),
        (70_000_000_000_000_000, "70000.0 TB"),
    ],
)
def test_a_size_is_shown_with_a_fitting_unit(count: int, shown: str) -> None:
    assert size_text(count) == shown
