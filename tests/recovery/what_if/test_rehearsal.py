"""A rehearsal has the results of the job, in one go or from the state before any of its batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Count, Session, SlidingByRow, TimeInterval, Tumbling, agg
from panekeeper.framework.testing.memory_intake import MemoryIntake
from panekeeper.framework.testing.results import as_dicts
from panekeeper.framework.testing.run import declared_job, with_script
from panekeeper.framework.testing.run_in_memory import run_in_memory
from panekeeper.framework.testing.scripted_job import ScriptedJob
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.recovery.what_if.rehearsal import Beginning, CheckedBatch, Control, Rehearsal
from panekeeper.state.store import MemoryStore
from panekeeper.testing import Clock, Restart

WINDOWS = [
    TimeInterval("10 seconds"),
    TimeInterval("10 seconds", creation_period="4 seconds", discard_age="7 seconds"),
    Session("3 seconds", discard_age="5 seconds"),
    SlidingByRow("4 seconds", discard_age="5 seconds"),
    Tumbling(Count(3)),
]
ROWS = st.fixed_dictionaries({"k": st.sampled_from("ab"), "t": st.integers(1, 60), "v": st.integers(0, 9)})
SCRIPTS = st.lists(st.one_of(st.lists(ROWS, max_size=5), st.just(Clock("3 seconds")), st.just(Restart())), max_size=7)


def scripted(window: Any, script: list[Any], watermark: str) -> ScriptedJob:
    """A job that plays a script."""
    timed: dict[str, Any] = {} if isinstance(window, Tumbling) else {"event_time": "t", "watermark": watermark}
    declared = declared_job(
        window,
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
        MemoryIntake(port.intake, port.carried_columns, declared.arrow_columns)
        for port, declared in zip(pipeline.ports, job.ports, strict=True)
    ]
    found = []
    for batch in job.batches:
        kinds = [("resume", batch.is_start), ("tick", batch.is_tick and not batch.is_start)]
        control = tuple(Control(kind, batch.now_us, batch.number) for kind, there in kinds if there)
        pairs = zip(intakes, batch.tables, strict=True)
        tables = tuple(intake.check(rows, batch.now_us).table for intake, rows in pairs)
        found.append(CheckedBatch(number=batch.number, tables=tables, control=control))
    return found


def rehearsed(pipeline: Any, batches: list[CheckedBatch], beginning: Beginning) -> Rehearsal:
    """What a rehearsal of these batches has."""
    packers = tuple(port.packer((0,), None, has_rest=False) for port in pipeline.ports)
    rehearsal = Rehearsal(pipeline, packers, beginning)
    for batch in batches:
        rehearsal.run(batch)
    return rehearsal


def require_same(job: ScriptedJob, half: int) -> Rehearsal:
    """Rehearse a script whole, and with a new beginning before a batch: results and counts are those of the job."""
    expected = run_in_memory(job)
    pipeline = job.computation([ScriptedStream(port.columns) for port in job.ports])._pipeline
    batches = checked(job, pipeline)
    whole = rehearsed(pipeline, batches, Beginning(stores={0: MemoryStore()}))
    first = rehearsed(pipeline, batches[:half], Beginning(stores={0: MemoryStore()}))
    state = Beginning(stores=first.stores, latest_us=first.latest_us, watermark_us=first.watermark_us)
    second = rehearsed(pipeline, batches[half:], state)
    assert [row for number, table in whole.results for row in as_dicts(table, number)] == list(expected)
    assert whole.counts == {name: expected.counts[name] for name in whole.counts}
    together = [row for number, table in [*first.results, *second.results] for row in as_dicts(table, number)]
    assert together == list(expected)
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
        rows = [row for number, table in one.results for row in as_dicts(table, number)]
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
    assert len(one.results) == (1 if kind == "flush" else 0)
