"""A batch of a key group, from packed rows to its outcome, the one way by which it is run."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from panekeeper.framework.core.group_batch import BatchRunner
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, REJECTED_SCHEMA
from panekeeper.framework.core.ordering import PortOrdering
from panekeeper.framework.core.packed_rows import (
    AFTER_ALL_PARTITIONS,
    BEFORE_ALL_PARTITIONS,
    PackedRow,
    to_segment,
)
from panekeeper.state.checkpoint.runs import RunRecord
from panekeeper.state.handler import CheckpointReason
from panekeeper.state.store import MemoryStore
from tests.framework.core.handler_batches import COLUMNS, KEYS, spec

RUNNER = BatchRunner(spec=spec(), orderings=(PortOrdering(columns=(*COLUMNS.names, ARRIVAL_TIME), keys=KEYS),))


def segment(pos: int, *pairs: tuple[str, int]) -> PackedRow:
    """Rows of (key, v) at a place of the input."""
    keys, values = zip(*pairs, strict=True)
    table = pa.table({"key": keys, "v": pa.array(values, pa.int64()), ARRIVAL_TIME: [1] * len(keys)})
    return PackedRow(5, 0, "rows", None, 0, pos, len(keys), to_segment(table))


def refused(*reasons: str) -> PackedRow:
    """Rows that the intake has refused."""
    table = pa.Table.from_pylist([{"reason": one, "row": "{}"} for one in reasons], schema=REJECTED_SCHEMA)
    return PackedRow(5, 0, "rejected", None, 0, 0, len(reasons), to_segment(table))


def control(kind: str, us: int) -> PackedRow:
    """A row of the control stream."""
    part = BEFORE_ALL_PARTITIONS if kind in ("resume", "tick") else AFTER_ALL_PARTITIONS
    return PackedRow(5, 0, kind, None, part, 9, us, None)


FIRST = [control("resume", 1), segment(0, ("a", 1), ("b", 2)), refused("BAD", "WORSE")]
SECOND = [segment(2, ("a", 4)), control("drain", 7)]


def totals(*batches: Sequence[Any]) -> tuple[list[Any], dict[str, int], MemoryStore]:
    """What comes of one micro-batch that has come in these parts, in its results, its counts and its store."""
    store = MemoryStore()
    batch, *others = [
        RUNNER.in_order(packed, number=3, group=5, attempt=2, run=RunRecord(number=4)) for packed in batches
    ]
    for one in others:
        batch = batch.followed_by(one)
    outcome = batch.run(RUNNER.spec, store)
    results = [] if outcome.results is None else outcome.results.column("total").to_pylist()
    assert batch.checkpoint is not None
    assert (batch.checkpoint.reason, batch.checkpoint.now_us) == (CheckpointReason.DRAIN, 7)
    assert [one.column("reason").to_pylist() for one in batch.refused_rows(RUNNER.spec)] == [["BAD", "WORSE"]]
    assert sorted(one.kind for one in batch.control) == ["drain", "resume"]
    return results, outcome.counts, store


def test_what_comes_in_parts_is_one_batch() -> None:
    """It has the outcome, the counts, the commands and the state of one that comes at once, in any order."""
    results, counts, store = totals([*SECOND, *FIRST])
    again = totals(FIRST, SECOND)
    assert (results, counts, store.entries, store.header) == (*again[:2], again[2].entries, again[2].header)
    assert results == [5]
    assert (counts["rows_in"], counts["admitted"], counts["quarantined"]) == (5, 3, 2)


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        (["tick"], CheckpointReason.BATCH),
        (["drain"], CheckpointReason.DRAIN),
        (["drain", "savepoint"], CheckpointReason.SAVEPOINT),
        (["savepoint", "flush"], CheckpointReason.FINAL),
    ],
)
def test_the_commands_in_it_say_why_it_is_a_checkpoint(kinds: list[str], reason: CheckpointReason) -> None:
    """The one that ends most comes first; run and attempt are those of the job."""
    found = RUNNER.in_order(
        [control(kind, 7) for kind in kinds],
        number=3,
        group=5,
        attempt=2,
        run=RunRecord(number=4, no_batch_committed=False),
    ).checkpoint
    assert found is not None
    assert (found.checkpoint, found.group, found.reason) == (3, 5, reason)
    assert (found.attempt, found.run, found.no_batch_committed) == (2, 4, False)


def test_a_runner_that_was_sent_runs_as_the_one_that_was_not() -> None:
    """It is sent to the workers."""
    sent: BatchRunner = pickle.loads(pickle.dumps(RUNNER))  # noqa: S301 -- our own bytes
    batch = sent.in_order(FIRST, number=0, group=5)
    again = RUNNER.in_order(FIRST, number=0, group=5)
    outcome, expected = batch.run(sent.spec, MemoryStore()), again.run(RUNNER.spec, MemoryStore())
    assert (outcome.results, outcome.counts) == (expected.results, expected.counts)
