"""What is open in a real job: the same from its checkpoint, while it runs and not, from a savepoint, and earlier."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from integration_tests.engine.readings import FILES
from integration_tests.recovery.same_state import require_same_state
from panekeeper import (
    CheckpointError,
    DeclarationError,
    Session,
    SlidingByRow,
    TimeInterval,
    agg,
    diff,
    panes,
    partitions,
    ports,
    report,
    savepoint,
    why,
    windowed,
)
from panekeeper.diagnostics.inspector.diff import changes, windows_of
from panekeeper.diagnostics.inspector.opened import opened
from panekeeper.diagnostics.inspector.panes import live_partitions, open_panes
from panekeeper.framework.core.inspection.reasons import Answer, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from integration_tests.engine.conftest import Readings


def shown(found: DataFrame) -> list[tuple[Any, ...]]:
    """Key, start of the pane by the clock, rows, state, firings, what is next and at which watermark; by the first."""
    columns = found.selectExpr(
        *("sensor", "date_format(pane_start, 'HH:mm')", "rows", "state", "firings", "next"),
        "date_format(coalesce(fires_at, closes_at), 'HH:mm')",
    )
    return sorted(tuple(row) for row in columns.collect())


def test_open_panes_are_seen_in_a_job_that_runs_in_a_savepoint_and_as_of_an_earlier_batch(
    readings: Readings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And by one key. Spark reads from the tables what is read without it.

    State that is not kept, or a column that is no key, is refused with what there is.
    """
    spark, place = readings.spark, readings.checkpoint
    for rows in FILES[:2]:
        readings.put(*rows)
    readings.run()
    before = [
        ("a", "10:00", 1, "late", 1, "close", "10:03"),
        ("a", "10:01", 1, "late", 1, "close", "10:04"),
        ("b", "10:02", 1, "open", 0, "fire", "10:03"),
    ]
    assert shown(panes(place, spark=spark)) == before
    page = report(place, spark=spark)
    assert page.panes == len(before)
    assert [text for text in ("not fired yet", "Size of the state") if text not in page.html] == []
    savepoint(place, "one", to=tmp_path / "savepoints", decode=False, spark=spark)
    a, b, c, d = ({"sensor": name} for name in "abcd")
    ten, nine = "2024-05-01T10:00", "2024-05-01T10:09"
    answer = why(place, a, ten, spark=spark)
    assert (answer.verdict, answer.batch) == (Verdict.FIRED, 2)
    assert "less the delay of 0s" in str(answer)
    job = readings.start(trigger="immediate")
    readings.put(*FILES[2])
    job.process_available()
    found, number = panes(place, spark=spark), number_of_open_panes(place)
    assert ("c", "10:02", 1, "open", 0, "fire", "10:03") in shown(found)
    assert (found.count(), number, job.status().open_panes) == (4, 3, 3)
    readings.put(*FILES[3])
    readings.put(("d", "10:00:05", 256), ("a", "10:00:06", 512), ("a", "10:00:26", 512))
    job.process_available()
    assert shown(panes(place, key=a, batch=2, spark=spark)) == before[:2]
    assert shown(panes(tmp_path / "savepoints", savepoint="one", spark=spark)) == before
    found = partitions(place, batch=2, spark=spark).orderBy("sensor").select("sensor", "open", "rows", "unfired")
    assert [tuple(row) for row in found.collect()] == [("a", 2, 2, 0), ("b", 1, 1, 1)]
    answers = [why(place, key, pane, spark=spark) for key, pane in ((a, ten), (c, nine), (d, ten), (b, nine))]
    of_row = why(place, row={"sensor": "d", "at": "2024-05-01T10:00:05"}, spark=spark)
    job.stop()
    assert [one.verdict for one in answers] == [Verdict.CLOSED, Verdict.WAITING, Verdict.DROPPED, Verdict.NOT_YET]
    require_whole(place, answers, spark)
    assert "it waits for a watermark of 2024-05-01T10:10:00Z, with 1 row" in str(answers[1])
    assert of_row == answers[2]
    assert why(tmp_path / "savepoints", a, ten, savepoint="one", spark=spark) == answer
    assert why(place, a, ten, batch=2, spark=spark).verdict is Verdict.FIRED
    with monkeypatch.context() as patch:
        for module in ("partition", "quarantined"):
            patch.setattr(f"panekeeper.diagnostics.inspector.{module}.read_plain_table", lambda *_: None)
        assert [why(place, key, pane, spark=spark) for key, pane in ((a, ten), (d, ten), (b, nine))] == [
            answers[0],
            *answers[2:],
        ]
    with pytest.raises(CheckpointError, match=r"batch 99 of .* is not committed; the last one is"):
        panes(place, batch=99, spark=spark)
    with pytest.raises(DeclarationError, match=r"key names 'sensr', .*; did you mean 'sensor'"):
        panes(place, key={"sensr": "a"}, spark=spark)
    changed = diff(place, 2, job.status().batch or 0, key=a, spark=spark).orderBy("pane_start")
    columns = "change", "firings_before", "firings", "state_before"
    assert [tuple(row) for row in changed.select(*columns).collect()] == [("went", 1, None, "late")] * 2
    savepoint(place, "two", to=tmp_path / "savepoints", decode=False, spark=spark)
    require_results(place, tmp_path / "savepoints", job.status().batch or 0, spark)
    require_same_by_spark(place, spark, monkeypatch, before=2, last=job.status().batch or 0)


def require_same_by_spark(place: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, **between: int) -> None:
    """Spark, which reads what this process does not, gives the same columns of the same types, and the same rows.

    And so are the stored values that both read, of each batch.
    """
    require_same_state(spark, place)
    here = inspected(place, spark, **between)
    require_no_session(place, monkeypatch, **between)
    with monkeypatch.context() as patch:
        patch.setattr("panekeeper.diagnostics.inspector.stored._MOST_BYTES", -1)
        patch.setattr("panekeeper.diagnostics.inspector.diff.read_plain_files", lambda *_: None)
        assert inspected(place, spark, **between) == here


def number_of_open_panes(place: Path) -> int | None:
    """Return how many panes are open, each once."""
    with opened(place) as state:
        return open_panes(state)[1]


def require_no_session(place: Path, monkeypatch: pytest.MonkeyPatch, *, before: int, last: int) -> None:
    """What the commands show needs no session, and so no Java."""
    with monkeypatch.context() as patch:
        patch.setattr("panekeeper.diagnostics.inspector.opened.session_for", lambda *_: pytest.fail("no session"))
        for window in windows_of(place, last) or [""]:
            of = window or None
            with opened(place, window=of) as state:
                assert isinstance(live_partitions(state), pa.Table)
            for results in (False, True):
                assert isinstance(changes(place, before, last, results=results, window=of), pa.Table)
        with suppress(DeclarationError), opened(place) as state:  # there are no panes
            assert isinstance(open_panes(state)[0], pa.Table)
        assert "cannot be read" not in str(report(place))


def inspected(place: Path, spark: SparkSession, *, before: int, last: int) -> list[tuple[Any, ...]]:
    """Columns and rows of what is open, and of what has changed; of each window."""
    found = []
    windows: list[Any] = [*windows_of(place, last)]
    for window in windows or [None]:
        at: dict[str, Any] = {"window": window, "spark": spark}
        found += [partitions(place, **at), diff(place, before, last, **at)]
        found.append(diff(place, before, last, results=True, **at))
    with suppress(DeclarationError):  # there are none
        found.append(panes(place, spark=spark))
    return [(one.dtypes, sorted(map(tuple, one.collect()), key=repr)) for one in found]


def require_whole(place: Path, answers: list[Answer], spark: SparkSession) -> None:
    """What is missing is named, with the command that adds it; what is near it, and called alike; by any of its times.

    The answers are of a pane that closed, one that waits, one whose row was dropped, and one that is to come.
    """
    missing, remedy = answers[0].reasons[-2:]
    assert missing.startswith("2 rows of 2024-05-01T10:00:06Z to 2024-05-01T10:00:26Z came too late in batch ")
    assert missing.endswith(" and are in the quarantine: 9m 4s to 9m 24s behind the watermark")
    assert remedy == f"`panekeeper settle {place} --job JOB.PY --reason LATE` can add them"
    assert answers[3].reasons[-1].endswith("NULL_EVENT_TIME")
    assert "nearest: 2024-05-01T10:02:00Z/2024-05-01T10:03:00Z (closed)" in str(answers[3])
    a, c, unknown = ({"sensor": name} for name in ("a", "c", "A"))
    assert "partitions that are called alike: sensor=a" in str(why(place, unknown, "2024-05-01T10:00", spark=spark))
    assert why(place, c, "10:09", spark=spark) == why(place, c, "2024-05-01T10:09:30", spark=spark) == answers[1]
    at = why(place, row={"sensor": "a", "at": "2024-05-01T10:00:07"}, spark=spark)
    assert "no row of this time is in the quarantine; whether one is in the results is not known" in str(at)
    with pytest.raises(DeclarationError, match="a time of day, and no pane that is known has it; give the day, too"):
        why(place, a, "20:00", spark=spark)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("panekeeper.diagnostics.inspector.opened.session_for", lambda *_: pytest.fail("no session"))
        asked = ((a, "2024-05-01T10:00"), (c, "10:09"), ({"sensor": "d"}, "2024-05-01T10:00"))
        assert [why(place, *one) for one in asked] == answers[:3]


def require_results(place: Path, savepoints: Path, last: int, spark: SparkSession) -> None:
    """The results between two batches, or two savepoints, are those that the log got from these."""
    assert results_of(diff(place, 2, last, results=True, spark=spark)) == LATER
    assert results_of(diff(place, 2, last, results=True, key={"sensor": "a"}, spark=spark)) == LATER[:1]
    assert results_of(diff(savepoints, "one", "two", results=True, spark=spark)) == LATER
    assert diff(savepoints, "one", "one", spark=spark).count() == 0
    with pytest.raises(DeclarationError, match="which is the earlier one; exchange them"):
        diff(place, last, 2, results=True, spark=spark)


LATER = [
    ("a", "10:00", "changed", 1, 1, 17),
    ("b", "10:00", "came", 0, None, 128),
    ("b", "10:02", "came", 0, None, 8),
    ("c", "10:02", "came", 0, None, 32),
]
"""What the batches after 2 have added to the log: key, pane, change, refinement, the sum before and now."""


def results_of(found: DataFrame) -> list[tuple[Any, ...]]:
    """The differences of results."""
    has_before = "total_before" in found.columns
    before = "total_before" if has_before else "cast(null as long)"
    rows = found.selectExpr("sensor", "date_format(pane_start, 'HH:mm')", "change", "refinement", before, "total")
    return sorted(tuple(row) for row in rows.collect())


WINDOWS: dict[str, Any] = {
    "minute": TimeInterval(60, discard_age=120),
    "burst": Session("2 minutes", discard_age="10 minutes"),
    "tail": SlidingByRow("1 minute", discard_age="10 minutes"),
}


@pytest.mark.release  # CI does so in memory
def test_each_of_several_windows_is_looked_at_by_its_name(readings: Readings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or all of them together; sessions that became one have taken back the results of those that they were."""
    spark, place = readings.spark, readings.checkpoint
    stream = windowed(readings.stream(), name="several", partition_by="sensor", event_time="at", key_groups=3)
    job = stream.windows(**WINDOWS).aggregate(total=agg.sum("value"), n=agg.count()).to_delta(readings.folder / "log")
    readings.put(("a", "10:00:00", 1), ("a", "10:03:00", 2), ("b", "10:03:30", 4))
    readings.put(("b", "10:06:00", 8))
    readings.put(("a", "10:01:30", 16))
    readings.put(("b", "10:06:01", 32))
    started = job.start(checkpoint=place, trigger="available_now")
    assert started.await_end(timeout=300)
    everything = panes(place, spark=spark)
    assert everything.columns[:3] == ["sensor", "window", "pane_start"]
    page = report(place, spark=spark).html
    assert [name for name in WINDOWS if f"<h2>Panes of {name}</h2>" not in page] == []
    assert "not fired yet" in page
    counts = {row.window: row["count"] for row in everything.groupBy("window").count().collect()}
    for name in WINDOWS:
        own = panes(place, window=name, spark=spark)
        assert "window" not in own.columns
        assert own.exceptAll(everything.where(f"window = '{name}'").drop("window")).count() == 0
        assert own.count() == counts[name]
    tail = partitions(place, window="tail", key={"sensor": "a"}, spark=spark)
    shown = tail.selectExpr("rows", "date_format(first_row, 'HH:mm')", "date_format(last_row, 'HH:mm')", "waiting")
    assert [tuple(row) for row in shown.collect()] == [(3, "10:00", "10:03", 0)]
    a, b, ten = {"sensor": "a"}, {"sensor": "b"}, "2024-05-01T10:00"
    assert why(place, a, ten, window="burst", spark=spark).verdict is Verdict.REFINED
    of_row = why(place, row={"sensor": "a", "at": "2024-05-01T10:01:30"}, window="tail", spark=spark)
    assert of_row.verdict is Verdict.FIRED
    assert "late rows had come" in str(of_row)
    waits = why(place, row={"sensor": "b", "at": "2024-05-01T10:06:01"}, window="tail", spark=spark)
    assert waits.verdict is Verdict.WAITING
    late = why(place, row={"sensor": "a", "at": "2024-05-01T10:01:30"}, window="minute", spark=spark)
    assert late.verdict is Verdict.DROPPED
    merged = diff(place, 2, started.status().batch or 0, results=True, window="burst", spark=spark)
    found = merged.selectExpr("sensor", "date_format(session_start, 'HH:mm')", "change", "total_before", "total")
    assert sorted(tuple(row) for row in found.collect()) == [
        ("a", "10:00", "changed", 1, 19),
        ("a", "10:03", "went", 2, None),
    ]
    for refused in (
        lambda: why(place, b, ten, spark=spark),
        lambda: diff(place, 1, 2, results=True, spark=spark),
        lambda: partitions(place, spark=spark),
    ):
        with pytest.raises(DeclarationError, match="the job has the windows minute, burst, tail; say which one"):
            refused()
    with pytest.raises(DeclarationError, match="window is 'tale', and the job has no such window; did you mean 'tail'"):
        panes(place, window="tale", spark=spark)
    require_same_by_spark(place, spark, monkeypatch, before=1, last=started.status().batch or 0)


def test_the_rows_of_an_interval_join_say_which_partners_they_have(
    readings: Readings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what they wait for; each side keeps its rows, and the log gets what batches add."""
    spark, place = readings.spark, readings.checkpoint
    (tmp_path / "second").mkdir()
    second = type(readings)(spark, tmp_path / "second")
    streams = [
        windowed(one.stream(), name="joined", partition_by="sensor", event_time="at", key_groups=2)
        for one in (readings, second)
    ]
    joined = ports(*streams).join_within(on=["sensor"], before="2 minutes", after="1 minute", how="left")
    readings.put(("a", "10:00:00", 1), ("b", "10:00:00", 2))
    second.put(("a", "10:01:00", 11), ("a", "10:00:30", 12))
    job = joined.to_delta(readings.folder / "log").start(checkpoint=place, trigger="available_now")
    assert job.await_end(timeout=300)
    found = partitions(place, spark=spark).select("sensor", "port", "rows", "waiting")
    assert sorted(tuple(row) for row in found.collect()) == [("a", 0, 1, 0), ("a", 1, 2, None), ("b", 0, 1, 1)]
    at = "2024-05-01T10:00:00"
    met = why(place, row={"sensor": "a", "at": at}, spark=spark)
    assert (met.verdict, met.reasons[0]) == (
        Verdict.FIRED,
        "it has met 2 rows of port 1: 2024-05-01T10:00:30Z, 2024-05-01T10:01:00Z",
    )
    alone = why(place, row={"sensor": "b", "at": at}, spark=spark)
    assert alone.verdict is Verdict.WAITING
    assert "goes out alone once the watermark" in str(alone)
    assert why(place, {"sensor": "b"}, spark=spark).verdict is Verdict.WAITING
    came = diff(place, 0, job.status().batch or 0, results=True, spark=spark)
    assert {row.change for row in came.collect()} <= {"came"}
    with pytest.raises(DeclarationError, match="within, which has no panes; look at its partitions"):
        panes(place, spark=spark)
    require_same_by_spark(place, spark, monkeypatch, before=0, last=job.status().batch or 0)
