"""A batch of a key group, one step after the other: the same as the whole batch, and what each step did."""

from __future__ import annotations

import json
from typing import Any, cast

import pyarrow as pa
from hypothesis import given

from panekeeper import TimeInterval
from panekeeper.framework.core.inspection.differences import state_difference
from panekeeper.framework.core.inspection.stepping import MOST_SHOWN, each_step
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.testing.play_vector import MemoryRun
from panekeeper.framework.testing.steps import items_to_steps, read_events, split_into_batches
from panekeeper.framework.testing.vector import parse
from panekeeper.state.store import MemoryStore
from panekeeper.testing import difference
from tests.framework.core.panes.firings import rows, spec_of, watermark
from tests.model.interval_cases import BATCH_SPLITS, vectors


@given(vector=vectors(), cut=BATCH_SPLITS)
def test_the_steps_of_each_batch_do_what_the_batch_did(vector: dict[str, Any], cut: Any) -> None:
    """The batch run again from the state before it is equal to the last bit; its steps have its events between them."""
    parsed = parse(vector)
    run = MemoryRun(parsed)
    for batch in split_into_batches(parsed.items, cut, "none"):
        before = run.store.copy()
        events = run.play([batch])
        again = before.copy()
        steps = [*items_to_steps(batch.items, run.spec.columns)]
        outcome = KeyGroupRunner(run.spec, again).run(steps)
        assert state_difference(run.store, again) is None
        assert difference(events, read_events(outcome.results, outcome.rejected)) is None
        done = [*each_step(run.spec, before, steps)]
        of_steps = [event for one in done for event in read_events(one.outcome.results, one.outcome.rejected)]
        assert difference(events, of_steps) is None
        assert all(str(one).startswith(f"{one.number}. ") for one in done)


def test_of_many_rows_the_first_are_shown_and_that_there_are_more() -> None:
    """Of those that came, those that were refused, and results: each a line of its own kind."""
    many = rows(*((f"k{number:03d}", 1, number) for number in range(MOST_SHOWN + 5)))
    came, fired, refused = each_step(spec_of(TimeInterval(10)), MemoryStore(), [many, watermark(20), many])
    assert str(came).splitlines()[-1] == "   and more"
    assert str(fired).splitlines()[-1] == "   -> and more"
    assert [line.partition(":")[0] for line in str(refused).splitlines()[-2:]] == [
        "   -> quarantine LATE (19s behind the watermark",
        "   -> and more",
    ]
    assert all(text not in str(one) for one in (came, fired, refused) for text in ("None", "..."))


def test_of_one_partition_its_own_rows_of_the_quarantine_are_shown() -> None:
    """A null is a partition like any; the other partitions of the key group have theirs."""
    late = rows(*cast("Any", [("acme", 1, 5), ("bolt", 2, 6), (None, 3, 7)]))
    for own, values in (("acme", [5]), (None, [7]), ("zeta", [])):
        key = {"k": pa.scalar(own, pa.string())}
        _, refused = each_step(spec_of(TimeInterval(10)), MemoryStore(), [watermark(20), late], key=key)
        assert [json.loads(one["row"])["v"] for one in refused.rejected] == values
        assert str(refused).count("-> quarantine LATE") == len(values)
