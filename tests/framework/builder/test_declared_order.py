"""Result columns come in the order in which `aggregate(...)` declares them; what is stored does not follow it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from panekeeper import Count, Cumulate, Session, SlidingByRow, TimeInterval, Tumbling, agg, windowed
from panekeeper.framework.builder.result_columns import declared_columns
from panekeeper.framework.core.inspection.differences import state_difference
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Rows, Watermark
from panekeeper.framework.engine.flow.pipeline import Pipeline, spark_schema
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.state.compatibility import Compatibility, as_recorded, compare_declarations
from panekeeper.state.history import History
from panekeeper.state.store import MemoryStore
from panekeeper.testing import Flush, run

COLUMNS = "k string, at timestamp, s string, v bigint"
DECLARED: dict[str, Any] = {
    "by": agg.min("v"),
    "n": agg.count(),
    "top": agg.max("v"),
    "group_within": agg.first("s"),
    "total": agg.sum("v"),
    "stream": agg.count("v"),
}
"""Results of which some have the name of an option."""
BEFORE = ("n", "total", "stream", "group_within", "top", "by")
"""Their order by earlier builds: those with the name of an option came last, in an order of their own."""
OF_GROUPS = {name: one for name, one in DECLARED.items() if name != "group_within"}


def pipeline(aggregates: dict[str, Any], window: Any = None) -> Pipeline:
    """A job with these results."""
    made: Any = ScriptedStream(spark_schema(declared_columns(COLUMNS)))
    stream = windowed(made, name="readings", partition_by="k", event_time="at", watermark="1 minute")
    return stream.window(window or TimeInterval(60)).aggregate(**aggregates)._pipeline


def in_order_of_before(names: dict[str, Any]) -> dict[str, Any]:
    """The same results, as earlier builds had them; options first, where they were given."""
    return {name: names[name] for name in (*[one for one in names if one not in BEFORE], *BEFORE) if name in names}


@pytest.mark.parametrize(
    "window",
    [
        TimeInterval(60, creation_period=30),
        TimeInterval(60, results="retracting"),
        TimeInterval(60, results="discarding"),
        TimeInterval(60, fill="last", fill_for=120),
        TimeInterval(60, fires_when="top > 1"),
        Cumulate(30, 60),
        Session(60, results="retracting"),
        SlidingByRow(60),
        Tumbling(Count(2)),
    ],
    ids=repr,
)
def test_results_come_in_the_order_in_which_they_are_declared(window: Any) -> None:
    """Also those with the name of an option, and each has its own values."""
    rows = [{"k": "a", "at": 1, "s": "x", "v": v} for v in (2, 3)]
    times: dict[str, Any] = {} if isinstance(window, Tumbling) else {"event_time": "at"}
    results = run(window, aggregates=DECLARED, schema=COLUMNS, partition_by="k", **times, script=[rows, Flush()])
    names = list(results[-1])
    assert [name for name in names if name in DECLARED] == list(DECLARED)
    assert names[names.index("by") :][: len(DECLARED)] == list(DECLARED)
    assert [results[-1][name] for name in DECLARED] == [2, 2, 3, "x", 5, 2]


def test_each_of_several_windows_has_the_order_of_its_own_declaration() -> None:
    """Declared for all of them, or for each."""
    windows = {"a": TimeInterval(60), "b": TimeInterval(30)}
    script = [[{"k": "a", "at": 1, "s": "x", "v": 2}], Flush()]
    stream: dict[str, Any] = {"schema": COLUMNS, "partition_by": "k", "event_time": "at", "script": script}
    other = dict(reversed(DECLARED.items()))
    for aggregates, of_b in ((DECLARED, DECLARED), ({"a": DECLARED, "b": other}, other)):
        results = run(windows=windows, aggregates=aggregates, **stream)
        for name, wanted in (("a", DECLARED), ("b", of_b)):
            assert [one for one in results.windows[name][0] if one in DECLARED] == list(wanted)


def test_groups_have_their_columns_first_then_results_then_the_rank() -> None:
    """In the order of their declaration, and each result has its own values."""
    rows = [{"k": "a", "at": 1, "s": s, "v": v} for s, v in (("x", 2), ("y", 7), ("x", 3))]
    results = run(
        TimeInterval(60),
        aggregates=OF_GROUPS,
        group_within="s",
        schema=COLUMNS,
        partition_by="k",
        event_time="at",
        script=[rows, Flush()],
    )
    shown = ["s", *OF_GROUPS, "rank"]
    assert [name for name in results[0] if name in shown] == shown
    assert [[row[name] for name in shown] for row in results] == [["x", 2, 2, 3, 5, 2, 1], ["y", 7, 1, 7, 7, 1, 2]]


def rows_of(*values: tuple[str, int, int]) -> Rows:
    """Rows of (s, second, v) for a key group of `pipeline`."""
    columns = [["a"] * len(values), *zip(*((s, v, at * 1_000_000) for s, at, v in values), strict=True)]
    schema = pa.schema([("k", pa.string()), ("s", pa.string()), ("v", pa.int64()), (EVENT_TIME, pa.int64())])
    return Rows(pa.table([list(column) for column in columns], schema=schema))


def played(spec: JobSpec, store: MemoryStore, *steps: Any) -> list[dict[str, Any]]:
    """The results of a micro-batch."""
    results = KeyGroupRunner(spec, store).run([*steps]).results
    return [] if results is None else results.to_pylist()


@pytest.mark.parametrize(
    "declared", [DECLARED, {"group_within": "s", **OF_GROUPS}], ids=["results", "results of groups"]
)
@pytest.mark.parametrize("fires_early", [False, True])
def test_a_checkpoint_of_an_earlier_build_goes_on(declared: dict[str, Any], *, fires_early: bool) -> None:
    """Its declaration is no other one, and its partial results are those of the same names.

    A micro-batch of that build that is run again leaves the same state.
    """
    window = TimeInterval(60, emit="on_update") if fires_early else TimeInterval(60)
    now, before = (pipeline(one, window) for one in (declared, in_order_of_before(declared)))
    recorded, declaration = (as_recorded(one.declaration(), 1) for one in (before, now))
    changes = compare_declarations(recorded, declaration)
    assert {(one.compatibility, one.differences) for one in changes} == {(Compatibility.COMPATIBLE, ())}
    history = History.of(recorded)
    old, new = (one.spec.with_history(recorded) for one in (before, now))
    assert new.history == history

    first = rows_of(("x", 1, 2), ("y", 2, 7))
    store, again = MemoryStore(), MemoryStore()
    of_first = played(old, store, first)
    assert played(new, again, first) == of_first
    assert state_difference(store, again) is None
    then = (rows_of(("x", 3, 3)), Watermark(100_000_000))
    whole = store.copy()
    wanted, found = played(old, whole, *then), played(new, store, *then)
    assert found == wanted
    assert [row["total"] for row in found] == ([5, 7] if "rank" in found[0] else [12])
    assert state_difference(whole, store) is None


def test_groups_are_recorded_as_earlier_builds_have_recorded_them() -> None:
    """Their partial results are stored together, in this order, whatever the order of the results."""
    declaration = pipeline({"group_within": "s", **OF_GROUPS}).declaration()["aggregate"]["groups"]
    assert declaration["names"] == ("n", "total", "stream", "top", "by")
    assert [part["kind"] for part in declaration["parts"]] == ["count", "sum", "count", "max", "min"]
