"""How a duration is shown, in messages, reports and tables: `57m 48s`. What is shown can be given again.

Here and not beside the durations of declarations, as what a checkpoint differs in is shown, too.
"""

from __future__ import annotations

from itertools import pairwise

UNITS_US = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
"""By the words of units."""
_SHOWN = {
    "d": UNITS_US["day"],
    "h": UNITS_US["hour"],
    "m": UNITS_US["minute"],
    "s": UNITS_US["second"],
    "ms": UNITS_US["millisecond"],
    "us": UNITS_US["microsecond"],
}
"""How units are shown, the largest first."""


def duration_text(seconds: float) -> str:
    """Return a duration as messages and reports show it: in two units, of less than a minute in one, rounded.

    >>> [duration_text(one) for one in (0, 0.25, 1.5, 59.7, 90, 3468, 4934, 604_800, 23_406_728.9)]
    ['0s', '250ms', '1.5s', '1m', '1m 30s', '57m 48s', '1h 22m', '7d', '270d 22h']
    """
    return rounded_us_text(round(seconds * 1_000_000))


def rounded_us_text(us: int) -> str:
    """Return microseconds as `duration_text` does seconds.

    >>> rounded_us_text(57 * 60_000_000 + 48_200_000)
    '57m 48s'
    """
    units, sizes = [*_SHOWN], [*_SHOWN.values()]
    if round(abs(us) / 1e6) >= UNITS_US["minute"] // UNITS_US["second"]:
        smaller = next(low for high, low in pairwise(sizes) if abs(us) >= high or high == UNITS_US["minute"])
        rounded = (abs(us) + smaller // 2) // smaller * smaller
        return us_text(rounded if us > 0 else -rounded)
    place = next((place for place, size in enumerate(sizes) if us and abs(us) >= size), 0)
    exact = f"{us // sizes[place]}{units[place]}" if us else "0s"
    if us % sizes[place] == 0:
        return exact
    unit, in_unit = units[place], us / sizes[place]
    digits = 1 if round(abs(in_unit), 1) < 10 else 0  # noqa: PLR2004 -- 9.5 and 10 have two digits each
    return f"{in_unit:.{digits}f}".removesuffix(".0") + unit


def us_text(us: int) -> str:
    """Return microseconds exactly, as a duration that can be given: in as many units as it needs.

    >>> [us_text(one) for one in (0, 5_400_000_000, 3_468_000_000, 1_500_000, -7)]
    ['0s', '1h 30m', '57m 48s', '1s 500ms', '-7us']
    """
    parts, rest = [], abs(us)
    for unit, size in _SHOWN.items():
        number, rest = divmod(rest, size)
        parts += [f"{'-' if us < 0 else ''}{number}{unit}"] if number else []
    return " ".join(parts) or "0s"
