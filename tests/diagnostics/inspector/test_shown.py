"""What the commands of the inspector take and print, without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from panekeeper import CheckpointError, DeclarationError
from panekeeper.diagnostics.inspector.opened import opened, require_kept
from panekeeper.diagnostics.inspector.shown import ChangedResults, Changes, OpenPanes
from panekeeper.diagnostics.inspector.why import read_row, time_of
from panekeeper.framework.core.inspection.reasons import Answer, Verdict
from panekeeper.recovery.rows_as_json import FirstRows, as_fields
from tests.fake_checkpoint import FakeCheckpoint

PANE = {
    "sensor": "a",
    "pane_start": "10:00",
    "pane_end": "10:01",
    "rows": None,
    "state": "open",
    "firings": 0,
    "unfired": True,
    "next": "fire",
    "fires_at": "10:01",
    "closes_at": "10:03",
    "next_clock": None,
    "next_rows": 1,
    "watermark": "10:00",
}


def test_panes_are_printed_as_a_table() -> None:
    """With what each waits for; what is not known is a dash."""
    assert str(OpenPanes(rows=[PANE], more=True, open_panes=1234)).splitlines() == [
        "sensor  pane         rows  state  firings  waits for",
        "a       10:00/10:01  -     open   0        watermark 10:01 to fire, or 1 more row",
        "and more; --limit N prints them",
        "open panes: 1,234, each once, whichever partitions have rows in it",
    ]
    none = OpenPanes(rows=[], more=False, open_panes=0)
    assert str(none) == "no open panes"
    assert none.fields() == {"rows": [], "more": False, "open_panes": 0}
    asked = replace(none, states=("late", "overdue"))
    assert str(replace(asked, open_panes=8)) == "none is late or overdue; open panes: 8"
    assert str(asked) == "none is late or overdue; open panes: 0"
    assert asked.fields()["states"] == ("late", "overdue")
    by_row = OpenPanes(rows=[PANE], more=False, open_panes=None)
    assert "open panes" not in str(by_row)
    partitions = FirstRows(rows=[], more=False, if_none="no live partitions")
    assert str(partitions) == "no live partitions"
    assert partitions.fields() == {"rows": [], "more": False}


def test_a_difference_is_printed_with_what_was_before() -> None:
    """Of a pane that went, what it had."""
    rows: list[dict[str, Any]] = [
        {"k": "a", "change": "changed", "rows": 2, "rows_before": 1, "state": "late", "state_before": "late"},
        {"k": "b", "change": "went", "rows": None, "rows_before": 1, "state": None, "state_before": "late"},
    ]
    results = [
        {"k": "a", "change": "changed", "batch": 3, "n": 5, "n_before": 4},
        {"k": "a", "change": "went", "batch": 3, "n": None, "n_before": 4},
    ]
    of_one = ChangedResults(window=None, rows=results, more=False)
    shown = Changes(rows=rows, more=False, results=(of_one,))
    assert shown.fields() == {
        "rows": rows,
        "more": False,
        "results": [{"window": None, "rows": results, "more": False}],
    }
    assert str(shown).splitlines()[1:] == [
        "a  changed  1 -> 2  late",
        "b  went     1       late",
        "",
        "results",
        "k  change   batch  n",
        "a  changed  3      4 -> 5",
        "a  went     3      4",
    ]
    ended = replace(shown, end="closed")
    assert ended.fields() == shown.fields()
    assert str(ended).splitlines()[:3] == [
        "k  change   rows    state",
        "a  changed  1 -> 2  late",
        "b  went     1       late -> closed",
    ]
    hour = ChangedResults(window="hour", rows=[], more=False)
    day = replace(hour, window="day", why_not="they are gone")
    assert day.fields() == {"window": "day", "rows": [], "more": False, "why_not": "they are gone"}
    assert str(Changes(rows=[], more=False, results=(hour, day))).split("\n\n") == [
        "no differences in what is open",
        "no results of hour",
        "results of day are not shown: they are gone",
    ]


def test_an_answer_is_printed_with_its_reasons() -> None:
    """A line each."""
    answer = Answer(verdict=Verdict.WAITING, reasons=("one", "two"))
    assert str(answer) == "waiting\n  one\n  two"
    assert answer.fields() == {"verdict": "waiting", "batch": None, "reasons": ["one", "two"]}


def test_values_of_json_are_in_utc() -> None:
    """Times without a zone stay without one."""
    values = {"at": datetime(2024, 5, 1, tzinfo=UTC), "local": datetime(2024, 5, 1), "day": date(2024, 5, 1), "n": None}  # noqa: DTZ001 -- as Spark has one without a zone
    assert as_fields(values) == {
        "at": "2024-05-01T00:00:00Z",
        "local": "2024-05-01T00:00:00",
        "day": "2024-05-01",
        "n": None,
    }


def test_a_batch_that_is_not_kept_is_refused_with_those_that_are() -> None:
    """One that is to come, too."""
    assert require_kept("c", 5, 3, 9) == 5
    with pytest.raises(CheckpointError, match="no longer kept; give a batch from 3 to 9, or a savepoint"):
        require_kept("c", 2, 3, 9)
    with pytest.raises(CheckpointError, match="batch 10 of c is not committed; the last one is 9"):
        require_kept("c", 10, 3, 9)


def test_a_checkpoint_without_a_batch_is_refused(tmp_path: Path) -> None:
    """There is nothing to show yet; no session is started."""
    job = FakeCheckpoint(tmp_path / "c")
    with pytest.raises(CheckpointError, match=r"no batch of .* was committed yet"), opened(job.root):
        pass


def test_times_and_rows_are_read_as_they_are_written() -> None:
    """A time without a zone is in UTC; what is neither is refused."""
    assert time_of("2024-05-01T10:00", "pane") == time_of("2024-05-01T12:00+02:00", "pane")
    with pytest.raises(DeclarationError, match="pane is 'ten', which is no time"):
        time_of("ten", "pane")
    assert read_row('{"a": 1}') == {"a": 1}
    for text, why in (("{", "no JSON"), ("[]", "write an object")):
        with pytest.raises(DeclarationError, match=why):
            read_row(text)
