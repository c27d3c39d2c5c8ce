"""Formats durations, money, counts and dates for people; escapes texts for HTML."""

import html
from datetime import UTC, datetime
from typing import Final

from tinyagi.domain.instants import DAY_MS, HOUR_MS
from tinyagi.domain.texts import one_line

_MINUTE: Final = 60_000


def duration(milliseconds: float | None) -> str:
    """ms up to a second, seconds up to a minute, then two units."""
    if milliseconds is None:
        return "–"
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 9_950:
        return f"{milliseconds / 1_000:.1f} s".replace(".0 ", " ")
    whole = round(milliseconds / 1_000) * 1_000
    if whole < _MINUTE:
        return f"{whole // 1_000} s"
    if whole < HOUR_MS:
        return _two(whole, _MINUTE, "min", 1_000, "s")
    return _two(whole, HOUR_MS, "h", _MINUTE, "min") if whole < DAY_MS else _two(whole, DAY_MS, "d", HOUR_MS, "h")


def nearly(milliseconds: float | None, *, is_exact: bool) -> str:
    """A duration; one from a histogram is marked with ≈ and rounded to what is known."""
    if milliseconds is None or is_exact:
        return duration(milliseconds)
    sizes = ((DAY_MS, "d"), (HOUR_MS, "h"), (_MINUTE, "min"), (1_000, "s"))
    size, unit = next(((size, unit) for size, unit in sizes if milliseconds >= size * 0.995), (1, "ms"))
    scaled = milliseconds / size
    return f"≈ {scaled:.1f} {unit}".replace(".0 ", " ") if scaled < 9.95 else f"≈ {scaled:.0f} {unit}"


def dollars(amount: float) -> str:
    """Two decimals from a dollar on; four below, so that small costs are visible."""
    if amount == 0 or amount >= 0.995:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.00005 else "< $0.0001"


def count(number: int) -> str:
    return f"{number:,}"


def short(number: int) -> str:
    """A count in a few characters: 1.2k, 34k, 5.6M."""
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            scaled = number / size
            return f"{scaled:.1f}{letter}" if scaled < 9.95 else f"{scaled:,.0f}{letter}"
    return str(number)


def share(part: int, whole: int) -> str:
    """In per cent; 0 % and 100 % only when exact."""
    if whole == 0:
        return "–"
    rate = 100 * part / whole
    if part not in (0, whole):
        rate = min(99.9, max(0.1, rate))
    return f"{rate:.0f} %" if rate in (0, 100) or 1 <= rate <= 99 else f"{rate:.1f} %"


def stamp(instant: int) -> str:
    """Day and minute, in UTC."""
    return f"{datetime.fromtimestamp(instant / 1_000, UTC):%Y-%m-%d %H:%M}"


def _two(whole: int, size: int, name: str, rest_size: int, rest_name: str) -> str:
    units, rest = divmod(whole, size)
    rest //= rest_size
    return f"{units} {name} {rest} {rest_name}" if rest else f"{units} {name}"


def escaped(value: object, longest: int = 160) -> str:
    return html.escape(one_line(str(value), longest))
