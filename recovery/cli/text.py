"""How the command line writes amounts, durations and progress."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from panekeeper.recovery.storage.blobs import ProgressCallback, TransferProgress

_KILO = 1000.0
_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


def format_bytes(size: float) -> str:
    """Return a number of bytes with a decimal unit.

    >>> format_bytes(5), format_bytes(2_500_000)
    ('5 B', '2.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < _KILO:
            return f"{size:.3g} {unit}"
        size /= _KILO
    return f"{size:.3g} TB"


def format_seconds(seconds: float) -> str:
    """Return a duration in seconds.

    >>> format_seconds(12.3)
    '12.3 s'
    """
    return f"{seconds:g} s"


def format_number(number: float | None) -> str:
    """Return a number; "none" if there is none.

    >>> format_number(1234567), format_number(None)
    ('1,234,567', 'none')
    """
    return "none" if number is None else f"{number:,}"


def format_age(seconds: float | None) -> str:
    """Return how long ago something was, in the largest unit that fits; "none" if that is not known.

    >>> format_age(12.3), format_age(90), format_age(7_200), format_age(200_000)
    ('12s', '90s', '2h', '2d')
    """
    if seconds is None:
        return "none"
    for unit, size in _UNITS.items():
        if abs(seconds) >= 2 * size or size == 1:
            return f"{seconds / size:.0f}{unit}"
    raise AssertionError("seconds always fit")


def format_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines with columns of equal width, but for the last.

    >>> print(format_table(("a", "b"), [("12", "3")]))
    a   b
    12  3
    """
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return "\n".join(
        "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *rows)
    )


def progress_line() -> ProgressCallback | None:
    """Return a callback that keeps one line of progress on stderr; None if stderr is not a terminal."""
    return _show_progress if sys.stderr.isatty() else None


def _show_progress(progress: TransferProgress) -> None:
    done = progress.sent + progress.reused
    end = "\n" if done >= progress.total else ""
    sent, reused, total = map(format_bytes, (progress.sent, progress.reused, progress.total))
    sys.stderr.write(f"\r{f'{sent} transferred, {reused} reused of {total}':<70}{end}")
    sys.stderr.flush()
