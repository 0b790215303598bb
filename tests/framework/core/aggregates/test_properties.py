"""Aggregates of random windows against the naive model's trigger contents, from partial sums and from raw rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import agg
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Step, Watermark
from panekeeper.framework.testing.vector import parse
from panekeeper.state.store import MemoryStore
from tests.framework.core.aggregate_rows import VALUES, comparable, merged, spec, step, text_keys, us_of
from tests.framework.core.declared_aggregates import CONTENT, PARTIAL
from tests.model.aggregates import firings
from tests.model.interval_cases import vectors
from tests.model.time_intervals import NaiveTimeInterval, exact

ROUGH = VALUES | {"x": [0.1, None, 1e9 / 3, -2.7e-5, 1e16, -1e16, 7.0]}


def run(spec: JobSpec, steps: list[Step], splits: set[int]) -> tuple[list[dict[str, Any]], MemoryStore]:
    """The result log, batch by batch; each batch has a new runner on a copy of the store."""
    store, first = MemoryStore(), 0
    log: list[dict[str, Any]] = []
    for end in sorted(splits | {len(steps)}):
        store = store.copy()
        outcome = KeyGroupRunner(spec, store).run(merged(steps[first:end]))
        log += outcome.results.to_pylist() if outcome.results is not None else []
        first = end
    return log, store


@pytest.mark.parametrize("aggregates", [PARTIAL, CONTENT], ids=["partial", "content"])
@given(vector=vectors(VALUES).map(text_keys), data=st.data())
def test_aggregates_are_those_of_the_naive_contents(
    aggregates: dict[str, agg.Aggregate], vector: dict[str, Any], data: st.DataObject
) -> None:
    """Every firing has the aggregates of exactly the rows that the model's trigger shows, however batched."""
    expected = firings(NaiveTimeInterval(vector["window"]).play(vector["input"]), list(aggregates))
    steps = [one for item in vector["input"] if (one := step(item))]
    splits = data.draw(st.sets(st.integers(0, len(steps))))
    log, _ = run(spec(parse(vector), aggregates), steps, splits)
    got = [(r.get("key"), us_of(r["pane_start"]), r["refinement"], *(r[name] for name in aggregates)) for r in log]
    assert comparable(got) == comparable(expected)


@pytest.mark.parametrize("aggregates", [PARTIAL, CONTENT], ids=["partial", "content"])
@given(vector=vectors(ROUGH).map(text_keys), data=st.data())
def test_no_split_changes_a_bit(
    aggregates: dict[str, agg.Aggregate], vector: dict[str, Any], data: st.DataObject
) -> None:
    """Sums, means and spreads of rough floats are the same to the last bit for all batches, and nothing is left."""
    rough = aggregates | {"total": agg.sum("x"), "middle": agg.mean("x"), "spread": agg.stddev("x")}
    steps = [one for item in vector["input"] if (one := step(item))] + [Watermark(exact(100_000))]
    declared_job = spec(parse(vector), rough)
    whole, _ = run(declared_job, steps, set())
    split, store = run(declared_job, steps, data.draw(st.sets(st.integers(0, len(steps)))))
    assert comparable([tuple(row.values()) for row in split]) == comparable([tuple(row.values()) for row in whole])
    assert store.entries == {}
