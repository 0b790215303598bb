"""How often rows came too late for one of their panes, and joined others: as the naive model counts it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from panekeeper import Emit, Event, Operator, Session, SlidingByRow, TimeInterval, agg
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.late_rows import assign
from panekeeper.framework.core.steps import Step
from panekeeper.framework.declarations.windows import Window
from panekeeper.framework.testing.play_vector import MemoryRun
from panekeeper.framework.testing.steps import split_into_batches
from panekeeper.framework.testing.vector import parse
from panekeeper.state.records import NO_WATERMARK
from panekeeper.testing import Watermark, run
from tests.model.interval_cases import BATCH_SPLITS, vectors
from tests.model.time_intervals import NaiveTimeInterval, exact


class CountsMissed(NaiveTimeInterval):
    """The model, which counts the closed panes of the rows that it keeps."""

    missed = 0

    def on_tuple(self, key: Any, value: Any) -> None:
        before = len(self.events)
        super().on_tuple(key, value)
        if all(one["event"] != "drop" for one in self.events[before:]):
            self.missed += sum(self.is_closed(end) for _, end in self.panes_for(exact(value[self.attribute])))


class CountingRun(MemoryRun):
    """A vector on the core, and what its batches say of missed panes."""

    missed = 0

    def run(self, steps: Iterable[Step]) -> list[dict[str, Any]]:
        self.missed += KeyGroupRunner(self.spec, self.store).run(steps).missed_panes
        return []


def missed(vector: dict[str, Any], cut: Any) -> int:
    """What the core counts, with a restart after each micro-batch."""
    parsed = parse(vector)
    found = CountingRun(parsed)
    found.play(split_into_batches(parsed.items, cut, "each"))
    return found.missed


@given(vector=vectors(), cut=BATCH_SPLITS)
def test_the_count_is_that_of_the_model_whatever_the_batches_and_the_key_groups(
    vector: dict[str, Any], cut: Any
) -> None:
    """The sum over key groups, be there one for all keys or one for each."""
    model = CountsMissed(vector["window"])
    model.play(vector["input"])
    assert missed(vector, cut) == model.missed
    of_keys = 0
    for key in {repr(item["key"]): item["key"] for item in vector["input"] if "value" in item}.values():
        own = [item for item in vector["input"] if "value" not in item or repr(item["key"]) == repr(key)]
        of_keys += missed(vector | {"input": own}, cut)
    assert of_keys == model.missed


class Nothing(Operator):
    """Emits nothing."""

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Do nothing."""


HALF_OVERLAPPING = TimeInterval(10, creation_period=5)
LATE = [{"k": "a", "t": 7}] * 40
"""Rows of [0, 10) and of [5, 15)."""
SCRIPT: list[Any] = [[{"k": "a", "t": 1}], Watermark(12), LATE, [{"k": "a", "t": 2}], Watermark(40)]


@pytest.mark.parametrize("computed", [{"aggregates": {"n": agg.count()}}, {"operator": Nothing(), "output": "n long"}])
def test_a_row_that_is_late_for_one_of_its_panes_is_counted_and_joins_the_other(computed: dict[str, Any]) -> None:
    """Rows that are folded on their way count as those they stand for; one that is late for both is dropped."""
    found = run(
        HALF_OVERLAPPING, schema="k string, t timestamp", partition_by="k", event_time="t", script=SCRIPT, **computed
    )
    assert found.counts["missed_panes"] == len(LATE)
    rows = {name: found.counts[name] for name in ("rows_in", "admitted", "refined_late", "dropped_late")}
    assert rows == {"rows_in": 42, "admitted": 41, "refined_late": 0, "dropped_late": 1}
    assert len(found.quarantine) == 1
    if "aggregates" in computed:
        assert [(row["n"], row["pane_start"].second) for row in found] == [(1, 55), (1, 0), (40, 5)]


def test_several_windows_add_up_and_other_windows_count_what_they_know() -> None:
    """A window by row, the rows whose own window is closed; sessions none: one that is closed is not known any more."""
    given: dict[str, Any] = {"schema": "k string, t timestamp", "partition_by": "k", "event_time": "t"}
    count = {"n": agg.count()}
    late: list[Any] = [[{"k": "a", "t": 20}], Watermark(20), [{"k": "a", "t": 17}, {"k": "a", "t": 20}], Watermark(60)]
    by_row = run(SlidingByRow(10), script=late, aggregates=count, **given)
    assert (by_row.counts["missed_panes"], by_row.counts["dropped_late"]) == (1, 0)
    session = run(Session(10), script=late, aggregates=count, **given)
    assert session.counts["missed_panes"] == 0
    windows: dict[str, Window] = {
        "half": HALF_OVERLAPPING,
        "third": TimeInterval(30, creation_period=10),
        "tail": SlidingByRow(10),
    }
    alone = [run(one, script=late, aggregates=count, **given).counts["missed_panes"] for one in windows.values()]
    together = run(windows=windows, script=late, aggregates=count, **given)
    assert alone == [1, 1, 1]
    assert together.counts["missed_panes"] == sum(alone)


def test_nothing_is_computed_where_no_row_can_be_late_for_a_pane() -> None:
    """Rows in time, and panes that only touch, cost no look at each row."""
    times = np.arange(100, 200) * 1_000_000
    for window, watermark, may_miss in (
        (HALF_OVERLAPPING, NO_WATERMARK, False),
        (HALF_OVERLAPPING, 100_000_000, False),
        (HALF_OVERLAPPING, 105_000_000, True),
        (TimeInterval(10), 100_000_000, False),
    ):
        found = assign(window, Geometry.of(window), times, watermark)
        assert found.may_miss == may_miss
        assert found.missed_panes() == (5 if may_miss else 0)
