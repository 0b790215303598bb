"""The report of a job: its figures are those of the tables, and its page is right in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake

from panekeeper import DeclarationError, report
from panekeeper.cli.main import main
from panekeeper.diagnostics.report.figures import Figures, PaneLife, read_figures
from panekeeper.diagnostics.tables.rows import newest_rows
from panekeeper.recovery.drill import DrillResult, Drills
from panekeeper.recovery.storage.files import LocalFiles
from panekeeper.recovery.storage.locations import checkpoint_at
from panekeeper.state.checkpoint.folder import FLUSHED_FILE, JOB_FILE, read_object
from tests.diagnostics.report.conftest import DOWNTIME, LOG, METRICS, NOON, NOW, QUARANTINE, Recorded, Seen

NOW_US = round(NOW.timestamp() * 1_000_000)


def figures(recorded: Recorded, batches: int = 100) -> Figures:
    """The figures of a report made at two o'clock."""
    return read_figures(checkpoint_at(recorded.root), batches=batches, now=NOW_US)


def hours(found: Figures) -> Mapping[int, PaneLife]:
    """The panes by the hour at which they start."""
    return {round(one.start / 3_600_000_000) % 24: one for one in found.panes}


def test_a_pane_is_shown_with_what_has_become_of_it(recorded: Recorded) -> None:
    """All partitions together: a closed pane, one that has fired, and one that was refined."""
    #   watermark                      13:10
    #   10 [   closed at 13:00   )       |
    #   11       [   fired               |
    #   12             [  refined        |
    panes = hours(figures(recorded))
    assert {hour: one.state for hour, one in panes.items()} == {10: "closed", 11: "fired", 12: "refined"}
    ten = panes[10]
    assert (ten.partitions, ten.firings, ten.refinements, ten.first, ten.last) == (2, 3, 1, 1, 2)


def test_each_of_several_windows_has_its_panes(tmp_path: Path) -> None:
    """By its own log and its own discard age, on a card of its own; firings are those of all of them."""
    recorded = Recorded(tmp_path)
    record = read_object(recorded.job.files, JOB_FILE)
    assert record is not None
    ages = {"hour": 0, "slow": 24 * 3600 * 1_000_000}
    windows = {name: {"window.kind": "timeInterval", "window.discard_age_us": age} for name, age in ages.items()}
    recorded.job.put(JOB_FILE, json.dumps({**record, "declaration": {"windows": windows}}))
    recorded.paths |= {f"log_{name}": str(tmp_path / f"log_{name}") for name in ages}
    recorded.job.tables(**{role: path for role, path in recorded.paths.items() if role != "log"})
    for name in ages:
        pane = {"pane_start": NOON, "pane_end": NOON + timedelta(hours=1), "refinement": 0, "reason": "WATERMARK"}
        recorded.put(f"log_{name}", LOG, [{"sensor": "a", "is_final": False, **pane}], 0)
    recorded.batch(0, mark=NOON + timedelta(hours=2), admitted=5)
    found = figures(recorded)
    assert [(one.window, one.state, one.first) for one in found.panes] == [("hour", "closed", 0), ("slow", "fired", 0)]
    assert found.firings == {"WATERMARK": 2}
    page = report(recorded.root, open_panes=False).html
    assert [f"<h2>Panes of {name}</h2>" in page for name in ages] == [True, True]


def test_a_batch_has_its_counts_and_the_time_of_its_stages(recorded: Recorded) -> None:
    """The commit of the metrics, the last of a batch, says when all of it was done; not one that a later start made."""
    *before, last = figures(recorded).batches
    assert [one.tables_seconds for one in before] == [None, None, None]
    assert (last.number, last.rows["dropped_late"], last.open_panes, last.state_bytes) == (3, 1, 13, 3000)
    assert last.plan_seconds == 0.5
    assert last.tables_seconds is not None
    assert last.tables_seconds > 0


def test_refused_rows_are_counted_by_reason_and_late_ones_by_how_late_they_were(recorded: Recorded) -> None:
    """The row of 11 o'clock came when the watermark was at 13:10. Only downtimes of this job are shown."""
    found = figures(recorded)
    assert [(one.reason, one.rows) for one in found.refusals] == [("<script>", 2), ("LATE", 1)]
    assert found.late_seconds == [timedelta(hours=2, minutes=10).total_seconds()]
    assert [(one.batch, one.clean) for one in found.outages] == [(3, False)]
    assert found.firings == {"WATERMARK": 4, "LATE": 2}


def test_late_rows_too_late_rows_and_bad_rows_are_told_apart(recorded: Recorded) -> None:
    """By these words, as status has them: all but the first are in the quarantine."""
    page = report(recorded.root, open_panes=False).html
    words = {"refined_late": "late", "dropped_late": "too late", "quarantined": "bad"}
    rows = {name: sum(one.rows[name] for one in figures(recorded).batches) for name in words}
    for name, word in words.items():
        assert f"<li><b>{rows[name]}</b>{word}</li>" in page
    assert '<li><i class="key-quarantined"></i>bad</li>' in page
    assert '<th class="n">late</th><th class="n">too late</th>' in page
    assert "What came too late, was bad, or could not be computed." in page
    assert not re.search(r">[^<]*\b(dropped|quarantined)\b", page.partition("</style>")[2])


def test_rows_that_were_late_for_some_of_their_panes_are_told(recorded: Recorded) -> None:
    """How many panes lack one; a page without any says nothing of it."""
    assert "missed panes" not in report(recorded.root, open_panes=False).html
    recorded.batch(4, mark=NOON, refined_late=9, missed_panes=12)
    recorded.batch(5, mark=NOON, refined_late=9, missed_panes=1)
    assert {one.number: one.missed_panes for one in figures(recorded).batches if one.missed_panes} == {4: 12, 5: 1}
    page = report(recorded.root, open_panes=False).html
    assert "missed panes" in page
    assert "13 times a row came too late for a pane, and joined its later ones." in page


def test_only_the_last_batches_are_shown_and_the_page_says_so(recorded: Recorded) -> None:
    """Of four batches two."""
    found = figures(recorded, batches=2)
    assert [one.number for one in found.batches] == [2, 3]
    assert found.notes == ["The last 2 batches are shown."]
    assert "The last 2 batches are shown." in report(recorded.root, batches=2, open_panes=False).html


def test_a_batch_that_had_begun_is_named(recorded: Recorded) -> None:
    """Its tables may have been written by a job that was killed before it committed the batch."""
    assert figures(recorded).notes == []
    recorded.job.put("offsets/4", "v1\n{}")
    assert figures(recorded).notes == [
        "Batch 4 had begun: what its tables have of it by now is here, and the next start completes it."
    ]


def test_a_table_that_cannot_be_read_is_left_out_with_a_note(recorded: Recorded) -> None:
    """The others are shown; a start that wrote nothing yet has none of them."""
    (Path(recorded.paths["quarantine"]) / "_delta_log" / f"{0:020}.json").write_text("{")
    found = figures(recorded)
    assert (len(found.batches), found.refusals) == (4, [])
    assert [note.partition(":")[0] for note in found.notes] == ["The quarantine cannot be read without Spark"]
    recorded.job.tables()
    assert "No batch is in the metrics yet." in report(recorded.root, open_panes=False).html


def test_a_flushed_job_has_closed_all_its_panes(recorded: Recorded) -> None:
    """Whatever the watermark is."""
    recorded.job.put(FLUSHED_FILE, '{"batch": 3}')
    assert {one.state for one in figures(recorded).panes} == {"closed"}


def test_many_panes_are_cut_to_the_last_ones(recorded: Recorded) -> None:
    """The page says how many there are on it."""
    rows = [
        {
            "pane_start": NOON + at * timedelta(hours=1),
            "pane_end": NOON + (at + 1) * timedelta(hours=1),
            "refinement": 0,
        }
        for at in range(200)
    ]
    recorded.put("log", LOG, rows, 4)
    found = figures(recorded)
    assert len(found.panes) == 150
    assert found.notes == ["The last 150 panes are shown."]


@pytest.mark.parametrize("batches", [0, -1, 2001, True, 1.5])
def test_a_number_of_batches_that_cannot_be_is_refused(recorded: Recorded, batches: int) -> None:
    """It names the limits."""
    with pytest.raises(DeclarationError, match="from 1 to 2000"):
        report(recorded.root, batches=batches)


def test_the_command_writes_the_page(recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the place of one that is there; a folder that is not there is an error in one line."""
    page = tmp_path / "report.html"
    page.write_text("before")
    assert main(["report", recorded.root, "-o", str(page), "--no-open"]) == 0
    assert capsys.readouterr().out.startswith(f"report of job 'readings': 4 batches and 3 panes, in {page} (")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert main(["report", recorded.root, "-o", str(tmp_path / "no" / "report.html"), "--no-open"]) == 1
    assert "cannot be used" in capsys.readouterr().err


def test_a_page_without_a_name_is_named_after_its_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the current folder; what a file is not called there is a dash."""
    made = Recorded(tmp_path, job="a job/of two")
    made.batch(0, mark=None, admitted=5)
    monkeypatch.chdir(tmp_path)
    assert main(["report", made.root, "--no-open"]) == 0
    assert "in report-a-job-of-two.html (" in capsys.readouterr().out
    assert (tmp_path / "report-a-job-of-two.html").exists()


def drilled(folder: Path, job: str) -> Path:
    """A file with what a drill of a job has printed, one of whose two has failed."""
    results = [
        DrillResult(drill="no fault", outcome="passed", rows=30, seconds=7.5),
        DrillResult(drill="tables away", outcome="failed", rows=30, missing=2, why="the tables differ"),
    ]
    (folder / "drill.json").write_text(json.dumps(Drills(job=job, at="2024-05-01T13:00:00Z", results=results).fields()))
    return folder / "drill.json"


def test_the_last_drill_is_shown_as_it_was_printed(recorded: Recorded, tmp_path: Path) -> None:
    """With when it was, and what came of each. One of another job, or another file, is refused."""
    page = report(recorded.root, open_panes=False, drill=drilled(tmp_path, "readings")).html
    assert "Begun at 2024-05-01T13:00:00Z: 1 of 2 passed" in page
    assert '<td>tables away</td><td>failed</td><td class="n">30</td><td class="n">2</td>' in page
    assert "Last drill" not in report(recorded.root, open_panes=False).html
    with pytest.raises(DeclarationError, match=r"drill.json is of drills of job 'own', and this is job 'readings'"):
        report(recorded.root, open_panes=False, drill=drilled(tmp_path, "own"))
    for text in ("no JSON", "[]", '{"job": "readings", "at": "now", "results": [{}]}'):
        (tmp_path / "drill.json").write_text(text)
        with pytest.raises(DeclarationError, match=r"drill.json is not what a drill has printed .*drill --job JOB.PY"):
            report(recorded.root, open_panes=False, drill=tmp_path / "drill.json")


@pytest.mark.parametrize(("dark", "ground"), [(False, "rgb(246, 248, 250)"), (True, "rgb(13, 17, 23)")])
def test_a_browser_shows_the_page_without_errors(
    recorded: Recorded, tmp_path: Path, look: Callable[..., Seen], *, dark: bool, ground: str
) -> None:
    """On light and dark screens, 1280 and 390 pixels wide: nothing is wider than the page, nothing is logged."""
    made = report(recorded.root, open_panes=False, drill=drilled(tmp_path, "readings"), now=lambda: NOW_US)
    seen = look(made.html, widths=(1280, 390), dark=dark)
    assert seen.widths == {1280: 1280, 390: 390}
    assert seen.console == []
    assert seen.background == ground
    assert "<script>" not in made.html
    assert "http" not in made.html.replace("http://www.w3.org/2000/svg", "")


def test_a_job_whose_tables_are_empty_has_a_page(tmp_path: Path) -> None:
    """As between its start and its first batch."""
    fresh = Recorded(tmp_path)
    for role, schema in {"log": LOG, "metrics": METRICS, "quarantine": QUARANTINE, "downtime": DOWNTIME}.items():
        DeltaTable.create(fresh.paths[role], schema=schema)
    page = report(fresh.root).html
    assert "No batch is in the metrics yet." in page
    assert "cannot be read" not in page


def test_of_a_large_file_the_last_rows_are_read(tmp_path: Path) -> None:
    """A compaction has made one file of all, with many groups of rows."""
    rows = pa.table({"n": pa.array(range(50_000), pa.int64())})
    write_deltalake(tmp_path, rows, writer_properties=WriterProperties(max_row_group_size=10_000))
    found, is_cut = newest_rows(LocalFiles(tmp_path), ["n", "other"], most=15_000)
    assert is_cut
    assert sorted(found.column("n").to_pylist()) == [*range(30_000, 50_000)]
