"""The lateness of rows, and the smallest delays by it, against a model that tries every delay."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from panekeeper.diagnostics.what_if.lateness import Lateness, lateness_ms
from panekeeper.framework.engine.flow.spark_watermark import watermark_behind

TIMES = st.integers(0, 5_000_000).map(lambda us: us + 10_000_000_000)
SHARES = st.sampled_from([Fraction(99, 100), Fraction(999, 1000), Fraction(1, 2), Fraction(1, 3), Fraction(1)])


def is_late(us: int, latest_us: int | None, delay_ms: int) -> bool:
    """Whether a row is behind the watermark that Spark has behind these rows."""
    watermark = watermark_behind(latest_us, delay_ms * 1000)
    return watermark is not None and us < watermark


@given(st.lists(st.lists(TIMES, max_size=6), max_size=5), SHARES)
def test_the_smallest_delay_is_the_first_one_with_which_enough_rows_are_in_time(
    batches: list[list[int]], share: Fraction
) -> None:
    """As Spark's watermark has it, row by row; one millisecond less is not enough, and counts add up in any cut."""
    found, latest = Lateness(), None
    rows: list[tuple[int, int | None]] = []
    for batch in batches:
        found = found.with_rows(lateness_ms(np.array(batch, dtype=np.int64), latest))
        rows += [(us, latest) for us in batch]
        latest = max([*batch, *([] if latest is None else [latest])], default=None)

    def late(delay_ms: int) -> int:
        return sum(is_late(us, before, delay_ms) for us, before in rows)

    delay = found.smallest_delay_ms(share)
    assert found.rows == len(rows)
    assert found.late_rows(delay) == late(delay)
    assert Fraction(len(rows) - late(delay)) >= share * len(rows)
    if delay:
        assert Fraction(len(rows) - late(delay - 1)) < share * len(rows)


def test_without_rows_no_delay_is_needed() -> None:
    """Nothing is late."""
    assert (Lateness().smallest_delay_ms(Fraction(1)), Lateness().late_rows(0), Lateness().rows) == (0, 0, 0)
