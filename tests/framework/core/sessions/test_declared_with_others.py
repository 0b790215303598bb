"""Sessions beside other windows of an operator, with state handlers, and under a changed declaration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from panekeeper import Session, StateContext, TimeInterval, agg
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec, PortSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.core.steps import Watermark
from panekeeper.state.compatibility import Compatibility, compare_declarations
from panekeeper.state.handler import StateHandler
from panekeeper.state.history import History
from panekeeper.state.store import MemoryStore
from tests.framework.core.panes.test_upgrades import recorded
from tests.framework.core.sessions.session_runs import SECOND, SessionRecorder, SessionRun, aggregate_spec, seconds
from tests.framework.core.two_port_batches import KEYS, OUTPUT, rows


class LastWords(SessionRecorder, StateHandler):
    """Emits the events, and one row in each drain."""

    def drain(self, ctx: StateContext) -> None:
        """Emit a row of a partition, which belongs to no session."""
        ctx.emit("a", event="drained")


def test_sessions_and_panes_are_ports_of_one_operator() -> None:
    """Result rows have the bounds of their own window, and null in those of the other."""

    class Counts(SessionRecorder):
        def handle_event(self, event: Any, emit: Any) -> None:
            emit(kind=event.type.value, own=event.table.num_rows)

    columns = [keys.append(rows(0, ("a", 1)).table.schema.field("v")) for keys in KEYS]
    job = JobSpec(
        window=Session(10),
        keys=KEYS[0],
        columns=columns[0],
        operator=Counts(),
        output=OUTPUT,
        other_ports=(PortSpec(window=TimeInterval(10), keys=KEYS[1], columns=columns[1]),),
    )
    steps = [rows(port, ("a", 1), at=5 * SECOND, time=EVENT_TIME) for port in (0, 1)]
    outcome = KeyGroupRunner(job, MemoryStore()).run([*steps, *(Watermark(50 * SECOND, port) for port in (0, 1))])
    assert outcome.results is not None
    fired = [one for one in outcome.results.to_pylist() if one["kind"] == "trigger"]
    assert [(one["port"], one["pane_start"] is None, one["session_start"] is None) for one in fired] == [
        (0, True, False),
        (1, False, True),
    ]
    assert [one["replaces"] for one in fired] == [[], None]


def test_a_state_handler_emits_in_a_drain() -> None:
    """Its row is of a partition and of no session."""
    operator = LastWords()
    spec = aggregate_spec(Session(10), n=agg.count())
    output = pa.schema([("event", pa.string())])
    job = replace(spec, aggregates=None, operator=operator, handlers=(operator,), output=output)
    checkpoint = BatchCheckpoint(checkpoint=0, group=0, run=1, no_batch_committed=True)
    outcome = KeyGroupRunner(job, MemoryStore(), checkpoint).run([])
    assert outcome.results is not None
    (row,) = outcome.results.to_pylist()
    assert (row["k"], row["session_start"], row["replaces"], row["reason"]) == ("a", None, [], "DRAIN")


@pytest.mark.parametrize(
    ("window", "kept"),
    [
        (Session(10), True),
        (Session(11), False),
        (Session("g"), False),
        (Session(10, max_duration=50), False),
        (Session(10, discard_age=5), False),
        (Session(10, emit="on_close"), False),
        (TimeInterval(10), False),
    ],
)
def test_what_a_session_is_cannot_change(window: Any, kept: bool) -> None:  # noqa: FBT001 -- a case
    """What is stored was gathered by the window as it was."""
    before = recorded(aggregate_spec(Session(10), n=agg.count()))
    changes = compare_declarations(before, recorded(replace(aggregate_spec(Session(10), n=agg.count()), window=window)))
    found = {one.item: one.compatibility for one in changes if one.differences}
    assert found == ({} if kept else {"window": Compatibility.NEEDS_FLUSH})


def test_an_aggregate_may_be_removed_and_none_added() -> None:
    """Partial results that sessions hold of the others stay what they are."""
    both = aggregate_spec(Session(10, discard_age=50), n=agg.count(), total=agg.sum("v"))
    one = aggregate_spec(Session(10, discard_age=50), total=agg.sum("v"))
    changes = {change.item: change for change in compare_declarations(recorded(both), recorded(one))}
    assert changes["aggregate n"].compatibility is Compatibility.COMPATIBLE
    changes = {change.item: change for change in compare_declarations(recorded(one), recorded(both))}
    assert changes["aggregate n"].compatibility is Compatibility.NEEDS_FLUSH
    run = SessionRun(both)
    run.batch([("row", "a", 0, 3, None)])
    run.spec = replace(one, history=History(numbers={"total": 1}, retired={"n": "int64"}))
    run.batch([("row", "a", 5, 4, None), ("watermark", 99)])
    assert [(row["total"], row["n"]) for row in seconds(run.results)] == [(7, None)]
