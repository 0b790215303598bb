"""A user's own policies in a real job: declared, sent to the workers, and compared with the checkpoint's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pytest

from panekeeper import (
    Batched,
    DeclarationError,
    IncompatibleCheckpoint,
    PartitionUse,
    Sliding,
    Tumbling,
    UserPolicy,
    agg,
    windowed,
)
from panekeeper.framework.declarations.policies import Policy, Role

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings
    from panekeeper import Job


@dataclass(frozen=True)
class DistinctValues(UserPolicy):
    """Keep the newest rows that have no more than `size` distinct values."""

    attribute: str
    size: int

    def evict(self, content: Sequence[float], value: float) -> int:
        count = 0
        while len({*content[count:], value}) > self.size:
            count += 1
        return count


@dataclass(frozen=True)
class Budget(UserPolicy):
    """Fire with the row by which the values add up to `limit`."""

    attribute: str
    limit: int

    def fire(self, state: float | None, value: float) -> tuple[bool, float | None]:
        total = (state or 0) + value
        return (True, 0) if total >= self.limit else (False, total)


@dataclass(frozen=True)
class RowsInEach(UserPolicy):
    """Evict a partition once it has more than `size` rows."""

    size: int

    def evict_partitions(self, partitions: Sequence[PartitionUse]) -> Sequence[int]:
        return [position for position, use in enumerate(partitions) if use.rows > self.size]


@dataclass(frozen=True)
class Unregistered(Policy):
    """A policy without an implementation."""

    policy_roles: ClassVar = frozenset(Role)


def run(readings: Readings, window: Sliding) -> Job:
    """Run a job over the readings to the end of its input."""
    stream = windowed(readings.stream(), name="own", partition_by="sensor", key_groups=2).window(window)
    job = stream.aggregate(values=agg.collect("value")).to_delta(readings.folder / "log")
    started = job.start(checkpoint=readings.checkpoint, trigger="available_now")
    assert started.await_end(timeout=300)
    return started


def test_a_job_runs_a_users_policies_and_resumes_with_their_state(readings: Readings) -> None:
    """The second run goes on with the sum and the content of the first; another size is another job.

    Partition `a` is evicted with its third row, the second 1, and begins again.
    """
    limit = RowsInEach(2)
    window = Sliding(evict=DistinctValues("value", 2), trigger=Budget("value", 10), partition_eviction=limit)
    readings.put(("a", None, 4), ("b", None, 9), ("a", None, 5))
    run(readings, window)
    assert readings.rows("log") == []

    readings.put(("a", None, 1), ("a", None, 1), ("a", None, 9), ("b", None, 1), ("a", None, 1))
    run(readings, window)
    log = sorted((row["sensor"], row["values"], row["reason"]) for row in readings.rows("log"))
    assert log == [("a", [5, 1], "POLICY"), ("a", [9, 1], "POLICY"), ("b", [9, 1], "POLICY")]

    for changed in (replace(window, evict=DistinctValues("value", 3)), replace(window, partition_eviction=None)):
        with pytest.raises(IncompatibleCheckpoint):
            run(readings, changed)


def test_a_policy_of_a_column_without_numbers_is_refused(readings: Readings) -> None:
    """Where the window is declared; the error names the policy and the column."""
    stream = windowed(readings.stream(), name="own", partition_by="sensor")
    with pytest.raises(DeclarationError, match="DistinctValues computes with 'sensor', which is a string"):
        stream.window(Sliding(evict=DistinctValues("sensor", 2)))


def test_a_policy_without_an_implementation_is_refused(readings: Readings) -> None:
    """Where the window is declared, in every place that takes a policy: no job starts whose window never fires."""
    stream = windowed(readings.stream(), name="own", partition_by="sensor")
    unknown = Unregistered()
    for window in (Tumbling(unknown), Sliding(evict=unknown), Batched(retain=2, every=2, partition_eviction=unknown)):
        with pytest.raises(DeclarationError, match=r"Unregistered\(\) has no implementation"):
            stream.window(window)
