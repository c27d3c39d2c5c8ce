"""Percentiles of histograms, and the format of durations, amounts and shares."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.pipeline.test_report import bucket_of, exact, histogram
from tinyagi.pipeline.report.agent_hours import HISTOGRAM_BUCKETS, bounds, histogram_percentile
from tinyagi.pipeline.report.units import dollars, duration, nearly, share, short
from tinyagi.pipeline.tables.gold import HISTOGRAM_EDGES

times = st.lists(st.integers(0, 10 * HISTOGRAM_EDGES[-1]), min_size=1, max_size=60)


@given(times, st.sampled_from((0.0, 0.5, 0.95, 0.99, 1.0)))
@example([1, 1_000], 0.5)
def test_a_percentile_of_a_histogram_stays_within_the_buckets_of_its_neighbours(
    values: list[int], share: float
) -> None:
    ordered, place = sorted(values), share * (len(values) - 1)
    low, high = ordered[int(place)], ordered[min(int(place) + 1, len(values) - 1)]

    found = histogram_percentile(histogram(values), share)

    assert found is not None
    lowest, highest = bounds(bucket_of(low))[0], bounds(bucket_of(high))[1]
    assert lowest <= found <= highest
    if high <= HISTOGRAM_EDGES[-1]:
        assert lowest <= exact(values, share) <= highest


@given(times, times)
def test_histograms_of_two_hours_add_up_to_that_of_both(first: list[int], second: list[int]) -> None:
    added = [one + other for one, other in zip(histogram(first), histogram(second), strict=True)]

    assert histogram_percentile(added, 0.95) == histogram_percentile(histogram(first + second), 0.95)


@given(times)
def test_percentiles_grow_with_their_share(values: list[int]) -> None:
    found = [histogram_percentile(histogram(values), share) or 0.0 for share in (0.1, 0.5, 0.95, 0.99)]

    assert found == sorted(found)


@pytest.mark.parametrize("wanted", [0.5, 0.95, 0.99])
def test_a_percentile_of_evenly_spread_values_is_nearly_exact(wanted: float) -> None:
    values = range(5, 10_001, 5)

    assert histogram_percentile(histogram(values), wanted) == pytest.approx(exact(values, wanted), rel=0.01)


def test_an_empty_histogram_has_no_percentile() -> None:
    assert histogram_percentile([0] * HISTOGRAM_BUCKETS, 0.5) is None


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "–"),
        (0, "0 ms"),
        (999.4, "999 ms"),
        (999.6, "1 s"),
        (1_540, "1.5 s"),
        (9_960, "10 s"),
        (59_600, "1 min"),
        (81_000, "1 min 21 s"),
        (3_599_700, "1 h"),
        (7_260_000, "2 h 1 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_durations_have_a_fitting_unit(milliseconds: float | None, text: str) -> None:
    assert duration(milliseconds) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(None, "–"), (0.5, "≈ 0.5 ms"), (999.9, "≈ 1 s"), (34_282, "≈ 34 s"), (81_000, "≈ 1.4 min"), (5e7, "≈ 14 h")],
)
def test_an_estimated_duration_has_two_digits(milliseconds: float | None, text: str) -> None:
    assert nearly(milliseconds, is_exact=False) == text


def test_amounts_and_shares_are_short_and_small_values_stay_visible() -> None:
    assert [dollars(amount) for amount in (0, 0.00001, 0.0123, 1, 1_234.5)] == [
        "$0.00",
        "< $0.0001",
        "$0.0123",
        "$1.00",
        "$1,234.50",
    ]
    assert [short(number) for number in (0, 999, 1_000, 34_500, 5_600_000, 7_000_000_000)] == [
        "0",
        "999",
        "1.0k",
        "34k",
        "5.6M",
        "7.0G",
    ]
    assert [share(*of) for of in ((0, 0), (0, 5), (5, 5), (9_999, 10_000), (1, 10_000), (1, 3))] == [
        "–",
        "0 %",
        "100 %",
        "99.9 %",
        "0.1 %",
        "33 %",
    ]
