"""What a notebook shows of a declaration, of a savepoint, and of values in general."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any, ClassVar

import pytest
from rich.console import Console

import panekeeper
from panekeeper import (
    AllOf,
    AnyOf,
    Batched,
    BatchReport,
    Calendar,
    Count,
    Cumulate,
    Delta,
    Drained,
    Every,
    Job,
    PartitionAge,
    Punctuation,
    Savepoint,
    Session,
    Sliding,
    SlidingByRow,
    Status,
    Time,
    TimeInterval,
    Tumbling,
    UserPolicy,
    agg,
    hours,
    minutes,
    seconds,
)
from panekeeper.framework.declarations.display import Displayed, Part, Printed, Result, TextTable, as_html
from panekeeper.framework.declarations.joins import Within
from panekeeper.framework.engine.job.status import JobState
from panekeeper.framework.testing.run import declared_job
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.recovery.savepoint.manifest import Manifest

AT = datetime(2024, 5, 1, 10, tzinfo=UTC)


def test_values_are_shown_as_text_that_breaks_no_page() -> None:
    """Numbers with separators, mappings one below the other; nothing of what is None."""
    shown = as_html("<job>", {"rows": 1234567, "none": None, "at": AT, "errors": {"<b>": 2}, "is": True})
    assert "&lt;job&gt;" in shown
    assert "1,234,567" in shown
    assert "2024-05-01 10:00:00 UTC" in shown
    assert "&lt;b&gt;: 2" in shown
    assert ">True<" in shown
    assert "none" not in shown


DECLARED = [
    TimeInterval("10 minutes", discard_age="1 hour"),
    TimeInterval(hours(1), creation_period="20 minutes", early=Every("10 seconds")),
    Cumulate("1 hour", "1 day", discard_age=hours(2), late="tuple"),
    Calendar("month", zone="Europe/Berlin", starts="day 15", emit="on_close", discard_age="1 day"),
    Session("30 minutes", max_duration="3 hours"),
    SlidingByRow("1 minute", right=False),
    Tumbling(AnyOf(Count(50), Time(30)), partition_eviction=PartitionAge("1 day"), aligned=True),
    Sliding(evict=AllOf(Time(minutes(1)), Count(100)), trigger=Delta("value", 0.5)),
    Sliding(evict=Count(3)),
    Batched(within=1.5, every=1, retain=3),
    Tumbling(Punctuation()),
    Within("1 minute", "-10 seconds", discard_age="1 hour"),
    TimeInterval(timedelta(days=1, microseconds=1), discard_age="1 day", refire=Every(rows=2)),
    Every(event_time=seconds(90)),
]


@pytest.mark.parametrize("declared", DECLARED)
def test_a_declaration_is_shown_as_the_call_that_makes_it_again(declared: Any) -> None:
    """So what a prompt shows can be pasted back."""
    again = eval(repr(declared), {type(one).__name__: type(one) for one in DECLARED} | vars(panekeeper))  # noqa: S307
    assert again.declaration() == declared.declaration()
    assert repr(again) == repr(declared)


def test_a_declaration_shows_what_was_given() -> None:
    """Without what is the default, a duration as a text, and what needs no name without one; a user's policy, too."""

    @dataclass(frozen=True)
    class Sum(UserPolicy):
        attribute: str
        most: float = 9
        parts: int = field(init=False, default=2)

    class Undeclared(UserPolicy):
        def __init__(self, most: float) -> None:
            self.most = most

    assert [repr(one) for one in (*DECLARED[:4], *DECLARED[6:8], Sum("v"), Undeclared(3))] == [
        "TimeInterval('10 minutes', discard_age='1 hour')",
        "TimeInterval('1h', creation_period='20 minutes', early=Every('10 seconds'))",
        "Cumulate('1 hour', '1 day', discard_age='2h', late='tuple')",
        "Calendar('month', zone='Europe/Berlin', starts='day 15', discard_age='1 day', emit='on_close')",
        "Tumbling(AnyOf(Count(50), Time(30)), partition_eviction=PartitionAge('1 day'), aligned=True)",
        "Sliding(evict=AllOf(Count(100), Time('1m')), trigger=Delta('value', 0.5))",
        "Sum('v')",
        "Undeclared(most=3)",
    ]


def test_a_notebook_shows_an_answer_as_print_does() -> None:
    """With its lines."""

    class Shown(Printed):
        def __str__(self) -> str:
            return "fired\n  row <1>"

    assert ">fired\n  row &lt;1&gt;</pre>" in Shown()._repr_html_()


def test_a_declaration_shows_its_window_and_what_is_computed() -> None:
    """Also with its tables."""
    declared = declared_job(
        TimeInterval("1 hour", discard_age="5 minutes"),
        aggregates={"total": agg.sum("v", where="v < 9")},
        schema="k string, t timestamp, v long",
        partition_by="k",
        event_time="t",
        watermark="90 seconds",
    )
    computation = declared.computation([ScriptedStream(port.columns) for port in declared.ports])
    shown = computation._repr_html_()
    for part in (
        "TimeInterval(&#x27;1 hour&#x27;, discard_age=&#x27;5 minutes&#x27;)",
        ">k<",
        ">t<",
        "1m 30s",
        "v &lt; 9",
        "total: int64",
    ):
        assert part in shown
    assert "log: " in computation.to_delta("/tables/log")._repr_html_()
    assert "/tables/log_metrics" in computation.to_delta("/tables/log")._repr_html_()


def test_a_savepoint_shows_where_it_is_and_of_which_batch() -> None:
    """Without its files one by one."""
    manifest = Manifest(
        name="before-upgrade",
        made_at=AT,
        checkpoint="/c",
        job="fares",
        job_id="1",
        epoch=0,
        state_version=1,
        declaration={},
        batch=1200,
        unfinished=None,
        settings={},
        versions={},
        tables={},
        files=(),
    )
    shown = Savepoint(location="/s", manifest=manifest, bytes_sent=5, bytes_reused=0, values=None)._repr_html_()
    assert "savepoint before-upgrade" in shown
    assert "1,200" in shown
    assert "fares" in shown


class Running(Job):
    """What a job shows of itself, without a query."""

    running, checkpoint = False, "/c"

    def __init__(self) -> None:
        self.error: str | None = None

    def report(self) -> dict[str, Any]:
        return {"progress": {"rows_per_second": 12.5, "state_bytes": 2500}} | (
            {"error": self.error} if self.error else {}
        )

    def status(self) -> Status:
        counts: dict[str, Any] = {
            "late": 3,
            "dropped": 0,
            "outside": 0,
            "quarantined": 0,
            "firings": 7,
            "batches": 2,
            "rows": 12345,
        }
        return Status(name="fares", state=JobState.RUNNING, batch=1, watermark=AT, open_panes=None, **counts)


def test_a_job_shows_how_far_it_is() -> None:
    """Its state, its counts and where it is stored; no errors where there are none."""
    running = Running()
    shown = running._repr_html_()
    for part in ("job fares: running", "/c", "12,345", "12.5", "2.5 kB", "2024-05-01 10:00:00 UTC"):
        assert part in shown
    assert "error" not in shown
    running.error = "no <space>"
    assert "no &lt;space&gt;" in running._repr_html_()


class Many(Displayed):
    """Values of each kind."""

    def _described(self) -> tuple[str, dict[str, Any]]:
        return "[job]", {
            "rows": 1234567,
            "none": None,
            "at": AT,
            "errors": {"A": 2, "B": {"C": 3}},
            "text": "one\n[two]",
        }


def test_text_and_rich_text_have_the_content_of_the_page() -> None:
    """Each line of one is in the others; nothing in a value is taken for a style."""
    shown = Many()
    assert str(shown).splitlines() == [
        "[job]",
        "  rows    1,234,567",
        "  at      2024-05-01 10:00:00 UTC",
        "  errors  A: 2",
        "          B: C: 3",
        "  text    one",
        "          [two]",
    ]
    console = Console(file=StringIO(), width=80)
    console.print(shown)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert [line.split() for line in printed.splitlines()] == [line.split() for line in str(shown).splitlines()]
    cells = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", shown._repr_html_())
    assert [one for cell in cells for one in cell.split("<br>")] == [
        *("rows", "1,234,567", "at", "2024-05-01 10:00:00 UTC", "errors", "A: 2", "B: C: 3", "text", "one", "[two]")
    ]


def test_a_batch_shows_what_it_did_and_how_long_it_took() -> None:
    """Outcomes that no row had are left out."""
    report = BatchReport(
        batch=1200,
        rows=5,
        counts={"admitted": 4, "refined_late": 0, "quarantined": 1},
        watermark=AT,
        open_panes=7,
        firings=3,
        seconds=1.5,
        stages={"plan": 1.25, "tables": 0.25},
        late_seconds=None,
        at=AT,
    )
    lines = [line.split() for line in str(report).splitlines()]
    assert lines[0] == ["batch", "1,200"]
    for line in (["rows", "5"], ["quarantined", "1"], ["took", "1.5s"], ["plan", "1.2s"], ["open", "panes", "7"]):
        assert line in lines
    assert "refined_late" not in str(report)


@dataclass(frozen=True, kw_only=True)
class Found(Result):
    """A result with a table."""

    job: str
    rows: int
    page: str = "<page>"
    _computed: ClassVar[Mapping[str, str]] = {"complete": "is_complete"}
    _not_in_json: ClassVar[Collection[str]] = ("page",)

    @property
    def is_complete(self) -> bool:
        return self.rows > 1

    def _described(self) -> Iterator[Part]:
        yield f"job {self.job}"
        yield TextTable.of(("pane", "rows"), [("a\nb", self.rows), ("c", None)])
        yield "  <done>"


def test_lines_page_and_json_of_a_result_come_from_its_fields() -> None:
    """A table has columns in the text and cells on the page; the JSON lacks only what is declared so."""
    found = Found(job="fares", rows=2)
    assert str(found) == repr(found) == "job fares\npane  rows\na\\nb  2\nc     -\n  <done>"
    assert found.fields() == {"job": "fares", "rows": 2, "complete": True}
    page = found._repr_html_()
    assert "<b>job fares</b><table>" in page
    assert re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", page) == ["pane", "rows", "a\\nb", "2", "c", "-"]
    assert ">  &lt;done&gt;</pre>" in page
    console = Console(file=StringIO(), width=80)
    console.print(found)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert [line.split() for line in printed.splitlines()] == [line.split() for line in str(found).splitlines()]


class Several(Displayed):
    """Shows others."""

    def _described(self) -> Iterator[Part]:
        yield "several"
        yield Found(job="a", rows=1)


def test_what_is_shown_may_show_others() -> None:
    """As if it had described them itself."""
    assert str(Several()).splitlines()[:2] == ["several", "job a"]


def test_a_drained_job_shows_what_it_left_open_as_a_table() -> None:
    """In a notebook, and in lines; nothing of what it does not know."""
    drained = Drained(name="fares", batch=7, open_panes=1234, tuples=None, next_due=AT, next_watermark=None)
    assert str(drained).splitlines() == [
        "job fares drained after batch 7",
        "  open panes  1,234",
        "  next due    2024-05-01 10:00:00 UTC",
    ]
    assert "<table>" in drained._repr_html_()
