"""Windows in arrival order against the naive model: random rows, times, marks and outages, batched and restarted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panekeeper.framework.core.job_spec import ARRIVAL_TIME
from panekeeper.framework.core.steps import Flush, Rows, Step, Tick
from panekeeper.framework.testing.play_vector import MemoryRun
from panekeeper.framework.testing.steps import split_into_batches
from panekeeper.framework.testing.vector import parse
from panekeeper.state.records import SequenceRecord
from panekeeper.testing import difference, play
from tests.model.arrival_cases import EVERY_KIND, KEYS, Kind, scripts
from tests.model.interval_cases import BATCH_SPLITS, restarts
from tests.model.window_kinds import play_naively

FEW = settings(max_examples=settings().max_examples // 12)
"""For each kind of window."""


@pytest.mark.parametrize("kind", EVERY_KIND, ids=str)
@FEW
@given(data=st.data(), cut=BATCH_SPLITS)
def test_the_core_has_the_events_of_the_model(kind: Kind, cut: Any, data: st.DataObject) -> None:
    """Every event of every kind and pair of policies, in order for each key, whatever the batches and the restarts."""
    vector = data.draw(scripts(kind))
    restart = data.draw(restarts(vector))
    expected = play_naively(vector)
    got = play(vector, cut=cut, restart_after=restart)
    assert difference(expected, got) is None
    assert difference(got, expected) is None


class Declared(MemoryRun):
    """Arrival times come with the rows, as by `arrival_time=`: many instants in one table, with no tick between."""

    def run(self, steps: Iterable[Step]) -> list[dict[str, Any]]:
        return super().run(_merged(steps))


def _merged(steps: Iterable[Step]) -> Iterator[Step]:
    now: int | None = None
    waiting: list[pa.Table] = []
    for step in [*steps, None]:
        match step:
            case Tick(us, False, False):
                now = us
            case Rows(table) if now is not None:
                waiting.append(table.append_column(ARRIVAL_TIME, pa.array([now] * table.num_rows, pa.int64())))
            case _:
                if waiting:
                    yield Rows(pa.concat_tables(waiting))
                    waiting = []
                if now is not None:
                    yield Tick(now)
                if step is not None:
                    yield step


@pytest.mark.parametrize("kind", EVERY_KIND, ids=str)
@FEW
@given(data=st.data(), cut=BATCH_SPLITS)
def test_many_instants_in_one_table_are_taken_one_after_the_other(kind: Kind, cut: Any, data: st.DataObject) -> None:
    """What is due between two rows of a table happens between them, as with a tick between them."""
    vector = data.draw(scripts(kind))
    expected = play_naively(vector)
    run = Declared(parse(vector))
    got = run.play(split_into_batches(run.vector.items, cut, "none"))
    assert difference(expected, got) is None
    assert difference(got, expected) is None


@given(vector=scripts(), cut=BATCH_SPLITS, flushed=st.sampled_from([True, False]))
@settings(max_examples=settings().max_examples // 3)
def test_nothing_is_left_behind(vector: dict[str, Any], cut: Any, flushed: Any) -> None:
    """Once every partition was evicted, or the window flushed, no row and no partition is stored."""
    run = MemoryRun(parse(vector))
    run.play(split_into_batches(run.vector.items, cut, "each"))
    if flushed or not run.vector.partitioned:
        run.run([Flush()])
    else:
        now = max((item.get("at", item.get("advance_clock")) for item in vector["input"]), default=0)
        gone = [{"at": now, "evict_partition": key} for key in KEYS]
        run.play(split_into_batches(parse(vector | {"input": gone}).items, "whole", "none"))
    assert run.store.entries == {}
    assert SequenceRecord.decode(run.store.header).partitions is None


@given(vector=scripts(), cut=BATCH_SPLITS)
@settings(max_examples=settings().max_examples // 3)
def test_every_tuple_is_counted_once(vector: dict[str, Any], cut: Any) -> None:
    """Windows in arrival order take every row: none is late, none is outside."""
    run = MemoryRun(parse(vector))
    run.play(split_into_batches(run.vector.items, cut, "none"))
    tuples = sum("value" in item for item in vector["input"])
    assert run.counts["rows_in"] == run.counts["admitted"] == tuples
