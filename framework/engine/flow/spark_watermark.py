"""Spark's watermark, which it keeps in whole milliseconds: what it says, what it follows, and when it is reached."""

from __future__ import annotations


def watermark_us(milliseconds: int) -> int | None:
    """Return Spark's watermark in us; None while it is unset (0, or -1 without event time).

    >>> watermark_us(0), watermark_us(1001)
    (None, 1001000)
    """
    return milliseconds * 1000 if milliseconds > 0 else None


def watermark_behind(latest_us: int | None, delay_us: int) -> int | None:
    """Return the watermark, us, that Spark has behind rows up to this event time; None before the first."""
    if latest_us is None:
        return None
    return watermark_us(latest_us // 1000 + -delay_us // 1000)  # Spark counts in whole ones, from 0


def ceil_ms(us: int) -> int:
    """Return the first whole millisecond that is not before `us`: Spark's watermark has no finer steps.

    >>> ceil_ms(1_000_001), ceil_ms(1_000_000)
    (1001, 1000)
    """
    return -(-us // 1000)


def is_reached(due_us: int | None, watermark: int | None) -> bool:
    """Return whether Spark's timer for a watermark, us, fires at this one."""
    return due_us is not None and watermark is not None and ceil_ms(due_us) * 1000 <= watermark
