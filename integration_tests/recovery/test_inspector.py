"""What is open in a real job: the same from its checkpoint, while it runs and not, from a savepoint, and earlier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.engine.readings import FILES
from panekeeper import CheckpointError, DeclarationError, diff, panes, partitions, report, savepoint, why
from panekeeper.framework.core.inspection.reasons import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

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
    assert ("c", "10:02", 1, "open", 0, "fire", "10:03") in shown(panes(place, spark=spark))
    readings.put(*FILES[3])
    readings.put(("d", "10:00:05", 256))
    job.process_available()
    assert shown(panes(place, key=a, batch=2, spark=spark)) == before[:2]
    assert shown(panes(tmp_path / "savepoints", savepoint="one", spark=spark)) == before
    found = partitions(place, batch=2, spark=spark).orderBy("sensor").select("sensor", "open", "rows", "unfired")
    assert [tuple(row) for row in found.collect()] == [("a", 2, 2, 0), ("b", 1, 1, 1)]
    answers = [why(place, key, pane, spark=spark) for key, pane in ((a, ten), (c, nine), (d, ten), (b, nine))]
    of_row = why(place, row={"sensor": "d", "at": "2024-05-01T10:00:05"}, spark=spark)
    job.stop()
    assert [one.verdict for one in answers] == [Verdict.CLOSED, Verdict.WAITING, Verdict.DROPPED, Verdict.NEVER]
    assert "it waits for a watermark of 2024-05-01T10:10:00Z, with 1 row" in str(answers[1])
    assert of_row == answers[2]
    assert why(tmp_path / "savepoints", a, ten, savepoint="one", spark=spark) == answer
    assert why(place, a, ten, batch=2, spark=spark).verdict is Verdict.FIRED
    with monkeypatch.context() as patch:
        patch.setattr("panekeeper.recovery.inspector.why.read_plain_table", lambda *_: None)
        assert [why(place, key, pane, spark=spark) for key, pane in ((a, ten), (d, ten))] == [answers[0], answers[2]]
    with pytest.raises(CheckpointError, match=r"batch 99 of .* is not committed; the last one is"):
        panes(place, batch=99, spark=spark)
    with pytest.raises(DeclarationError, match=r"key names 'sensr', .*; did you mean 'sensor'"):
        panes(place, key={"sensr": "a"}, spark=spark)
    with pytest.raises(DeclarationError, match="no pane begins then; those that have this instant"):
        why(place, a, "2024-05-01T10:00:30", spark=spark)
    changed = diff(place, 2, job.status().batch or 0, key=a, spark=spark).orderBy("pane_start")
    columns = "change", "firings_before", "firings", "state_before"
    assert [tuple(row) for row in changed.select(*columns).collect()] == [("went", 1, None, "late")] * 2
    assert diff(tmp_path / "savepoints", "one", "one", spark=spark).count() == 0
