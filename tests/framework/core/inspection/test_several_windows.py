"""What is open in one of several windows is what is open in a job with that window alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Calendar, Cumulate, Every, Session, SlidingByRow, TimeInterval
from panekeeper.framework.core.inspection.open_work import open_work, schema_of
from panekeeper.framework.core.inspection.recorded import recorded_ports
from panekeeper.framework.declarations.windows import Window
from panekeeper.state.compatibility import as_recorded
from panekeeper.state.history import WINDOWS
from panekeeper.state.store import MemoryStore
from tests.framework.core.inspection.test_kept_rows import only_kinds
from tests.framework.core.inspection.test_open_panes import UNENDED, port_of
from tests.framework.core.panes.firings import run, spec_of
from tests.framework.core.panes.test_firing_properties import batches_of

CHOICE: list[Window] = [
    TimeInterval(10, creation_period=4, discard_age=7),
    TimeInterval(6, creation_period=9, discard_age=5),
    TimeInterval(12, early=Every("5 seconds"), discard_age=30),
    TimeInterval(8, early=Every(rows=2), refire=Every(rows=2), discard_age=9),
    TimeInterval(5, emit="on_close", discard_age=9),
    Cumulate(3, 9, discard_age=2),
    Calendar("day", zone="Europe/Paris"),
    Session(3, discard_age=6),
    Session(4, max_duration=8, early=Every("4 seconds")),
    SlidingByRow(4, discard_age=9),
    SlidingByRow(6, right=False),
    SlidingByRow(3, discard_age=4, emit="on_update"),
    Session(3, discard_age=9, refire=Every(rows=2), results="retracting"),
]


@given(
    chosen=st.lists(st.integers(0, len(CHOICE) - 1), min_size=1, max_size=4, unique=True),
    script=UNENDED,
    by_partition=st.booleans(),
)
def test_what_is_open_in_a_window_is_what_is_open_in_a_job_with_it_alone(
    chosen: list[int],
    script: list[tuple[Any, ...]],
    by_partition: bool,  # noqa: FBT001 -- a parameter of Hypothesis
) -> None:
    """Of whatever kind it is, and the others are; from the values that are read of it alone."""
    specs = {f"w{number}": spec_of(CHOICE[number]) for number in chosen}
    first = specs[f"w{chosen[0]}"]
    job, store = replace(first, windows=specs, aggregates=None, output=pa.schema([])), MemoryStore()
    run(job, batches_of(script), store)
    declaration = {
        "partition_by": {"k": "string"},
        "event_time": "t",
    }
    recorded = as_recorded(
        {
            WINDOWS: {
                name: {
                    **declaration,
                    "window": one.window.declaration(),
                    "aggregate": {each: made.declaration() for each, made in (one.aggregates or {}).items()},
                    "output": {field.name: str(field.type) for field in one.output},
                }
                for name, one in specs.items()
            }
        },
        1,
    )
    ports = recorded_ports(recorded)
    assert [port.window for port in ports] == [*specs]
    for port in ports:
        alone = MemoryStore()
        run(specs[port.window], batches_of(script), alone)
        expected = open_work(port_of(specs[port.window]), alone, by_partition=by_partition and port.is_by_row)
        found = open_work(port, only_kinds(port, store), by_partition=by_partition and port.is_by_row)
        assert found.schema == schema_of(port, by_partition=by_partition and port.is_by_row)
        assert in_order(found) == in_order(expected)


def in_order(table: pa.Table) -> list[str]:
    """The rows, as texts."""
    return sorted(map(repr, table.to_pylist()))
