"""How the command line writes amounts, durations and progress."""

from __future__ import annotations

import sys

from recovery.storage.blobs import ProgressCallback, TransferProgress

_KILO = 1000.0


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


def format_number(number: int | None) -> str:
    """Return a number; "none" if there is none."""
    return "none" if number is None else str(number)


def progress_line() -> ProgressCallback | None:
    """Return a callback that keeps one line of progress on stderr; None if stderr is not a terminal."""
    return _show_progress if sys.stderr.isatty() else None


def _show_progress(progress: TransferProgress) -> None:
    done = progress.sent + progress.reused
    end = "\n" if done >= progress.total else ""
    sent, reused, total = map(format_bytes, (progress.sent, progress.reused, progress.total))
    sys.stderr.write(f"\r{f'{sent} transferred, {reused} reused of {total}':<70}{end}")
    sys.stderr.flush()
