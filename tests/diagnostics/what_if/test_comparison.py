"""Two runs are compared by the newest result of each pane, and by when results came."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Session, SlidingByRow, TimeInterval
from panekeeper.diagnostics.tables.written import BATCH
from panekeeper.diagnostics.what_if.comparison import Compared, Comparison, Run, Shape, compare, delays_us, refinements
from panekeeper.diagnostics.what_if.on_spark import _by_batch
from panekeeper.framework.core.job_spec import TIMESTAMP, JobSpec

START = datetime(2024, 5, 1, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SHAPE = Shape(keys=("k", "pane_start", "pane_end"), end="pane_end")
TIMES = ("pane_start", "pane_end")


def at(minute: int) -> int:
    """A minute as microseconds since the epoch."""
    return int((START + minute * MINUTE).timestamp()) * 1_000_000


def firing(k: str, minute: int, n: Any, **more: Any) -> dict[str, Any]:
    """A row of the log, of a pane of one minute."""
    pane = {"pane_start": START + minute * MINUTE, "pane_end": START + (minute + 1) * MINUTE}
    return {"k": k, **pane, "n": n, "refinement": 0, "reason": "WATERMARK"} | more


def run(*rows: dict[str, Any], **more: Any) -> Run:
    """A run with these rows in its log, each of a batch of its own."""
    tables = [pa.Table.from_pylist([row]) for row in rows]
    cast = [
        one.set_column(one.schema.get_field_index(name), name, one.column(name).cast(TIMESTAMP))
        for one in tables
        for name in TIMES[:1]
    ]
    return Run(written=[*enumerate(cast)], **more)


def test_the_newest_results_are_compared_and_what_came_of_each_is_counted() -> None:
    """A refined one is the same in the end; one may differ, one may lack, and one is not complete in one run."""
    before = run(
        firing("a", 0, 1), firing("a", 0, 2, refinement=1), firing("a", 1, 5), firing("b", 1, 6), watermark_us=at(2)
    )
    after = run(firing("a", 0, 2), firing("a", 1, 4), firing("c", 1, 7), firing("c", 2, 8), watermark_us=at(3))
    found = compare(before, after, SHAPE)
    counts = found.same, found.changed, found.only_before, found.only_after, found.open_before, found.open_after
    assert counts == (1, 1, 1, 1, 1, 0)
    assert found.differs
    assert [(one.place["k"], one.before, one.after) for one in found.first] == [
        ("a", {"n": 5}, {"n": 4}),
        ("b", {"n": 6}, None),
        ("c", None, {"n": 7}),
    ]
    assert (refinements(before), refinements(after)) == (1, 0)


def test_a_result_that_only_comes_later_is_no_difference() -> None:
    """The watermark of the second run has not come so far; after a flush it never comes."""
    before, later = run(firing("a", 0, 1), watermark_us=at(1)), Run(written=[], watermark_us=at(0))
    assert compare(before, later, SHAPE) == Comparison(open_after=1)
    assert compare(before, Run(written=[], is_flushed=True), SHAPE).only_before == 1
    on_close = Shape.of(spec(TimeInterval("1 minute", discard_age="5 minutes", emit="on_close")))
    assert on_close.waits_us == 300_000_000
    assert Shape.of(spec(SlidingByRow("1 minute"))).waits_us == 1, "the watermark must be past the end of such a window"
    assert Shape.of(spec(SlidingByRow("1 minute", discard_age=1, emit="on_close"))).waits_us == 1_000_001


def test_a_column_that_only_one_run_has_is_named_and_not_compared() -> None:
    """So a new aggregate changes no result; NaN is the same as NaN."""
    before, after = run(firing("a", 0, float("nan"))), run(firing("a", 0, float("nan"), more=3))
    assert compare(before, after, SHAPE) == Comparison(same=1, columns_after=("more",))


def test_a_session_that_takes_others_back_stands_for_them() -> None:
    """In one run two sessions are merged later, in the other they were one from the beginning."""
    shape = Shape.of(spec(Session("1 minute")))
    assert shape == Shape(keys=("session_start",), end="session_end")

    def session(first: int, last: int, n: int, *replaces: int) -> pa.Table:
        row = {
            "session_start": START + first * MINUTE,
            "session_end": START + last * MINUTE,
            "n": n,
            "replaces": [START + one * MINUTE for one in replaces],
            "reason": "LATE" if replaces else "WATERMARK",
            "refinement": len(replaces),
        }
        return pa.Table.from_pylist([row])

    before = Run(written=[(1, session(0, 2, 1)), (2, session(3, 5, 1)), (3, session(0, 5, 3, 0, 3))])
    assert compare(before, Run(written=[(9, session(0, 5, 3))]), shape) == Comparison(same=1)


def test_delays_are_those_of_first_results_on_completion() -> None:
    """By how far event time had come in the batches before; late and flushed ones do not count."""
    one = run(firing("a", 0, 1), firing("a", 0, 2, reason="LATE"), firing("a", 1, 3), firing("a", 2, 3, reason="FLUSH"))
    assert delays_us(one, {0: at(4), 1: at(5), 2: None, 3: at(9)}, SHAPE).tolist() == [180_000_000]


ONE = st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 2), st.integers(0, 1))


@given(st.lists(ONE, max_size=8), st.lists(ONE, max_size=8), st.integers(0, 4), st.integers(0, 3))
def test_what_is_compared_by_partition_is_together_what_is_compared_at_once(
    before: list[Any], after: list[Any], reached: int, limit: int
) -> None:
    """Counts, delays and the first differences, in whichever order the rows of a batch are found."""

    def table(rows: list[Any], keys: str) -> pa.Table:
        found = [firing(k, minute, n, refinement=place, **{BATCH: batch}) for place, (k, minute, n, batch) in rows]
        fields = pa.Table.from_pylist([firing("a", 0, 0, **{BATCH: 0})]).schema
        fields = fields.set(fields.get_field_index("pane_start"), pa.field("pane_start", TIMESTAMP))
        return pa.Table.from_pylist([row for row in found if row["k"] in keys], schema=fields)

    def found(keys: str, step: int) -> Compared:
        one, other = (
            Run(written=_by_batch(table(sorted(enumerate(rows), reverse=step < 0), keys)), watermark_us=at(reached))
            for rows in (sorted(before, key=lambda row: row[3]), sorted(after, key=lambda row: row[3]))
        )
        return Compared.of(one, other, SHAPE, {0: at(2), 1: at(5)}, limit=limit)

    whole, parts = found("abc", 1), Compared.together([found(key, -1) for key in "cab"], limit=limit)
    assert parts.results == whole.results
    for one, other in ((parts.before, whole.before), (parts.after, whole.after)):
        assert (one.results, one.refinements) == (other.results, other.refinements)
        assert sorted(one.delays_us) == sorted(other.delays_us)


@given(st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 2))), st.lists(st.integers(0, 2)))
def test_rows_without_panes_are_counted(before: list[tuple[str, int]], after: list[int]) -> None:
    """How often each row is there is compared, in any order."""
    old = Run(written=[(n, pa.table({"k": [k], "v": [v]})) for n, (k, v) in enumerate(before)])
    new = Run(written=[(n, pa.table({"k": ["x"], "v": [v], "firing": [n]})) for n, v in enumerate(after)])
    found = compare(old, new, Shape())
    left = [("x", v) for v in after]
    same = 0
    for row in before:
        if row in left:
            left.remove(row)
            same += 1
    assert (found.same, found.only_before, found.only_after) == (same, len(before) - same, len(left))


def spec(window: Any) -> JobSpec:
    """A job with a window and a count."""
    empty = pa.schema([])
    return JobSpec(window=window, keys=empty, columns=empty, aggregates={}, output=pa.schema([("n", pa.int64())]))
