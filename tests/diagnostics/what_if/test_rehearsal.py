"""A rehearsal has the results of the job, in one go or from the state before any of its batches."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Count, Session, SlidingByRow, TimeInterval, Tumbling, agg
from panekeeper.diagnostics.what_if.on_spark import _Pack, _Run
from panekeeper.diagnostics.what_if.recorded_input import RecordedInput
from panekeeper.diagnostics.what_if.rehearsal import COUNTS, Beginning, Rehearsal
from panekeeper.framework.core.packed_rows import PACKED, from_segment
from panekeeper.framework.testing.memory_intake import MemoryIntake
from panekeeper.framework.testing.memory_job import CheckedBatch, Control, Declared, followed_watermark
from panekeeper.framework.testing.results import as_dicts
from panekeeper.framework.testing.run import declared_job, with_script
from panekeeper.framework.testing.run_in_memory import run_in_memory
from panekeeper.framework.testing.scripted_job import ScriptedJob
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.state.checkpoint.runs import RunRecord
from panekeeper.state.store import MemoryStore
from panekeeper.testing import Clock, Restart

WINDOWS = [
    TimeInterval("10 seconds"),
    TimeInterval("10 seconds", creation_period="4 seconds", discard_age="7 seconds"),
    Session("3 seconds", discard_age="5 seconds"),
    SlidingByRow("4 seconds", discard_age="5 seconds"),
    SlidingByRow("4 seconds", discard_age="5 seconds", emit="on_close"),
    Tumbling(Count(3)),
    {"ten": TimeInterval("10 seconds", discard_age="7 seconds"), "burst": Session("3 seconds")},
]
ROWS = st.fixed_dictionaries({"k": st.sampled_from("ab"), "t": st.integers(1, 60), "v": st.integers(0, 9)})
SCRIPTS = st.lists(st.one_of(st.lists(ROWS, max_size=5), st.just(Clock("3 seconds")), st.just(Restart())), max_size=7)


def scripted(window: Any, script: list[Any], watermark: str) -> ScriptedJob:
    """A job that plays a script."""
    timed: dict[str, Any] = {} if isinstance(window, Tumbling) else {"event_time": "t", "watermark": watermark}
    declared = declared_job(
        **({"windows": window} if isinstance(window, dict) else {"window": window}),
        aggregates={"n": agg.count(), "total": agg.sum("v"), "all": agg.collect("v")},
        schema="k string, t timestamp, v long",
        partition_by="k",
        reject={"a nine": "v = 9"},
        **timed,
    )
    return with_script(declared, script)


def checked(job: ScriptedJob, pipeline: Any) -> list[CheckedBatch]:
    """The micro-batches of a script, as the intake of a job has them."""
    intakes = [
        MemoryIntake(port, declared.arrow_columns) for port, declared in zip(pipeline.ports, job.ports, strict=True)
    ]
    found = []
    for batch in job.batches:
        kinds = [("resume", batch.is_start), ("tick", batch.is_tick and not batch.is_start)]
        control = tuple(Control(kind, batch.now_us, batch.number) for kind, there in kinds if there)
        pairs = zip(intakes, batch.tables, strict=True)
        tables = tuple(intake.check(rows, batch.now_us) for intake, rows in pairs)
        found.append(CheckedBatch(number=batch.number, tables=tables, control=control))
    return found


def rehearsed(pipeline: Any, batches: list[CheckedBatch], beginning: Beginning) -> Rehearsal:
    """What a rehearsal of these batches has."""
    packers = tuple(port.packer((0,), None, has_rest=False) for port in pipeline.ports)
    rehearsal = Rehearsal(pipeline, packers, beginning)
    for batch in batches:
        rehearsal.rehearse(batch)
    return rehearsal


def as_rows(rehearsals: list[Rehearsal]) -> dict[str, list[dict[str, Any]]]:
    """The rows of the log of each window of rehearsals one after the other."""
    return {
        window: [row for one in rehearsals for number, table in one.results[window] for row in as_dicts(table, number)]
        for window in rehearsals[0].results
    }


def require_same_on_spark(pipeline: Any, batches: list[CheckedBatch], whole: Rehearsal) -> None:
    """Rehearse the packed rows, in any order but for the batches, as a task of Spark's does, with the same outcome."""
    packers = [port.packer((0,), None, has_rest=False) for port in pipeline.ports]
    rows: list[dict[str, Any]] = [dict.fromkeys(PACKED.names) | {"g": 0, "kind": "group", "batch": -1}]
    reached = {}
    for batch in batches:
        for port, table in enumerate(batch.tables):
            packed = [
                row for one in _Pack(packers[port], batch.number)(iter(table.to_batches())) for row in one.to_pylist()
            ]
            reached[batch.number, port] = max((us for row in packed if (us := row["latest"]) is not None), default=None)
            rows += reversed(packed)
    control = {batch.number: batch.control for batch in batches}
    ends = {"first": batches[0].number, "last": batches[-1].number}
    given = RecordedInput(**ends, control=control, reached=reached, ports=len(packers))
    latest = given.latest(None)
    timers = pipeline.uses_watermark_timer
    watermarks = {number: followed_watermark(pipeline, us, None) if timers else None for number, us in latest.items()}
    run = _Run(Declared.of(pipeline), RunRecord(), watermarks, control)
    sent = pa.RecordBatch.from_pylist(rows, schema=PACKED.append(pa.field("batch", pa.int64())))
    *found, counts = [row for one in run(iter([sent])) for row in one.to_pylist()]
    for window, written in whole.results.items():
        results = [(one["batch"], from_segment(one["body"])) for one in found if one["window"] == window]
        assert results == list(written)
    counted = json.loads(counts["body"])
    assert {name: counted[name] for name in COUNTS} == whole.counts
    assert (watermarks[given.last] if timers else counted["acted_us"]) == whole.reached_us


def require_same(job: ScriptedJob, half: int) -> Rehearsal:
    """Rehearse a script whole, and with a new beginning before a batch: results and counts are those of the job."""
    expected = run_in_memory(job)
    pipeline = job.computation([ScriptedStream(port.columns) for port in job.ports])._pipeline
    batches = checked(job, pipeline)
    whole = rehearsed(pipeline, batches, Beginning(stores={0: MemoryStore()}))
    if batches:
        require_same_on_spark(pipeline, batches, whole)
    first = rehearsed(pipeline, batches[:half], Beginning(stores={0: MemoryStore()}))
    state = Beginning(stores=first.stores, latest_us=first.latest_us, watermark_us=first.watermark_us)
    second = rehearsed(pipeline, batches[half:], state)
    assert as_rows([whole]) == (expected.windows or {"": list(expected)})
    assert whole.counts == {name: expected.counts[name] for name in whole.counts}
    assert as_rows([first, second]) == (expected.windows or {"": list(expected)})
    return whole


@given(st.sampled_from(WINDOWS), SCRIPTS, st.sampled_from(["0s", "5s", "20s"]), st.data())
def test_a_rehearsal_has_the_results_of_the_job(window: Any, script: list[Any], watermark: str, data: Any) -> None:
    """All of them, and the same counts; and so if it begins with the state of the job before any batch."""
    job = scripted(window, script, watermark)
    require_same(job, data.draw(st.integers(0, len(job.batches))))


@given(st.lists(st.tuples(*[st.lists(ROWS, max_size=4)] * 2), max_size=6), st.sampled_from([0, 5, 20]), st.data())
def test_several_streams_have_the_watermark_that_the_key_groups_keep(script: list[Any], delay: int, data: Any) -> None:
    """A join of panes; rows are behind by the least event time of both streams, less the delay."""
    timed: dict[str, Any] = {"window": TimeInterval(10, discard_age=7), "event_time": "t", "watermark": delay}
    job = with_script(
        declared_job(
            ports={"a": timed, "b": timed},
            join={"how": "full"},
            schema="k string, t timestamp, v long",
            partition_by="k",
        ),
        [{"a": one, "b": other} for one, other in script],
    )
    whole = require_same(job, data.draw(st.integers(0, len(script))))
    behind, latest = 0, [0, 0]
    for batch in script:
        watermark = min(latest) - delay if all(latest) else 0
        behind += sum(row["t"] < watermark for rows in batch for row in rows)
        latest = [max([old, *(row["t"] for row in rows)]) for old, rows in zip(latest, batch, strict=True)]
    assert whole.behind == behind


def test_a_longer_delay_keeps_rows_in_time_and_makes_results_later() -> None:
    """A row of 8 s that comes after one of 14 s is dropped with a delay of 2 s, and in its pane with one of 10 s."""
    script = [[{"k": "a", "t": 14, "v": 1}], [{"k": "a", "t": 8, "v": 2}], [{"k": "a", "t": 40, "v": 3}], []]
    found = {}
    for delay in (2_000_000, 10_000_000):
        job = scripted(TimeInterval("10 seconds"), script, "0s")
        pipeline = job.computation([ScriptedStream(port.columns) for port in job.ports])._pipeline
        changed = replace(pipeline, intake=replace(pipeline.intake, watermark_us=delay))
        one = rehearsed(changed, checked(job, pipeline), Beginning(stores={0: MemoryStore()}))
        rows = [row for number, table in one.results[""] for row in as_dicts(table, number)]
        found[delay] = (one.counts["dropped_late"], [(row["pane_start"].second, row["n"]) for row in rows])
    assert found == {2_000_000: (1, [(10, 1)]), 10_000_000: (0, [(0, 1), (10, 1)])}


@pytest.mark.parametrize("kind", ["flush", "drain"])
def test_commands_are_carried_out(kind: str) -> None:
    """A flush fires what is open after the rows of its batch; a drain leaves the windows as they are."""
    job = scripted(TimeInterval("10 seconds"), [[{"k": "a", "t": 4, "v": 1}]], "0s")
    pipeline = job.computation([ScriptedStream(port.columns) for port in job.ports])._pipeline
    first = checked(job, pipeline)[0]
    commanded = replace(first, control=(*first.control, Control(kind, 5, 7)))
    one = rehearsed(pipeline, [commanded], Beginning(stores={0: MemoryStore()}))
    assert len(one.results[""]) == (1 if kind == "flush" else 0)
