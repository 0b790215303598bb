"""`batch_results`: what a window computes on a few rows, in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from panekeeper import Batched, Count, DeclarationError, InputError, Sliding, TimeInterval, Tumbling, agg
from panekeeper.testing import batch_results

ROWS = [{"key": "a", "v": 1}, {"key": "b", "v": 10}, {"key": "a", "v": 2}]


def test_results_are_those_of_a_job_with_restarts_between_its_batches() -> None:
    """With the partition key, the reason and the columns of the aggregates."""
    found = batch_results(Tumbling(Count(2)), ROWS[:2], ROWS[2:], partition_by=["key"], total=agg.sum("v"))
    assert [(row["key"], row["total"], row["reason"]) for row in found] == [("a", 3, "COUNT")]


def test_a_window_without_partitions_takes_all_rows() -> None:
    """A batch without rows changes nothing."""
    found = batch_results(Sliding(evict=Count(2)), ROWS[:1], [], ROWS[1:], values=agg.collect("v"))
    assert [row["values"] for row in found] == [[1], [1, 10], [10, 2]]


class Raises(agg.UserAggregate):
    """Raises."""

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        raise ValueError("no")

    def result(self, state: int) -> int:
        return state


def test_an_aggregate_that_raises_raises_here() -> None:
    """Nothing is quarantined where nobody looks."""
    with pytest.raises(InputError, match="ValueError: no"):
        batch_results(Tumbling(Count(1)), ROWS, mine=agg.user(Raises(), "v", output="int64"))


REFUSED: dict[str, Callable[[], Any]] = {
    "a time interval": lambda: batch_results(TimeInterval(10), ROWS, n=agg.count()),
    "no aggregate": lambda: batch_results(Tumbling(Count(1)), ROWS),
    "no row": lambda: batch_results(Batched(retain=1, every=1), [], n=agg.count()),
    "no such column": lambda: batch_results(Tumbling(Count(1)), ROWS, total=agg.sum("w")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_computed_is_refused(case: str) -> None:
    """With an error that says what is missing."""
    with pytest.raises(DeclarationError, match=r"takes a window in arrival order|there is no column 'w'"):
        REFUSED[case]()
