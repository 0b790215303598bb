"""Windows in arrival order whose aggregates change between two batches, against lists of rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Count, Event, EventType, Operator, Sliding, TimeInterval, Tumbling, agg
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Rows, Step, Tick, Watermark
from panekeeper.framework.declarations.windows import ArrivalWindow, Window
from panekeeper.state.compatibility import Compatibility, as_recorded, compare_declarations
from panekeeper.state.history import History, upgraded
from panekeeper.state.store import MemoryStore
from tests.framework.core.declared_aggregates import CONTENT
from tests.model.aggregates import NAIVE

if TYPE_CHECKING:
    from panekeeper import Emit

COLUMNS = pa.schema({"key": pa.string(), "n": pa.int64(), "x": pa.float64(), "who": pa.string()})
SIZE = 3
KEEPS_ROWS = ["collect"]
"""With this aggregate a tumbling window keeps its rows."""

TEXT = pa.schema({"text": pa.string()})
Row = dict[str, Any]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["a", "b", None]),
            "n": st.sampled_from([None, 1, 4]),
            "x": st.sampled_from([None, 0.5, 2.0]),
            "who": st.sampled_from([None, "p", "q"]),
        }
    ),
    max_size=12,
)


def declared(window: ArrivalWindow, names: Sequence[str]) -> JobSpec:
    """A job with these aggregates, which carries only the columns that they read, as a builder does."""
    aggregates: dict[str, agg.Aggregate] = {name: CONTENT[name] for name in names}
    read = {"key", *(column for one in aggregates.values() for column in one.columns)}
    columns = pa.schema([field for field in COLUMNS if field.name in read])
    output = pa.schema([(name, bind(one, columns).output) for name, one in aggregates.items()])
    keys = pa.schema([COLUMNS.field("key")])
    return JobSpec(window=window, keys=keys, columns=columns, aggregates=aggregates, output=output)


def recorded(job: JobSpec) -> dict[str, Any]:
    """Its declaration, as a checkpoint records it."""
    declaration = {
        "window": job.window.declaration(),
        "column": {field.name: str(field.type) for field in job.columns},
        "aggregate": {name: one.declaration() for name, one in (job.aggregates or {}).items()},
        "output": {field.name: str(field.type) for field in job.output},
    }
    return as_recorded(declaration, 1)


def compatible(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether the state is kept."""
    return all(one.compatibility is Compatibility.COMPATIBLE for one in compare_declarations(old, new))


def run(parts: Sequence[tuple[JobSpec, list[Row]]]) -> list[Row]:
    """The result rows of a key group; each part is a declaration, and its rows in one batch."""
    store = MemoryStore()
    log: list[Row] = []
    record = recorded(parts[0][0])
    for number, (job, rows) in enumerate(parts):
        if number:
            assert compatible(record, recorded(job))
            record = upgraded(record, recorded(job), committed=number - 1, watermark_us=None)
        table = pa.Table.from_pylist(rows, schema=COLUMNS).select(job.columns.names)
        runner = KeyGroupRunner(replace(job, history=History.of(record)), store)
        outcome = runner.run([Tick(1_000_000 * (number + 1)), Rows(table)])
        log += [] if outcome.results is None else outcome.results.to_pylist()
        store = store.copy()
    return log


def expected(parts: Sequence[tuple[Sequence[str], list[Row]]], *, slides: bool) -> Iterator[Row]:
    """The same, by a list of rows for each key."""
    kept: dict[Any, list[Row]] = {}
    every = {name for names, _ in parts for name in names}
    for names, rows in parts:
        for row in rows:
            content = kept.setdefault(row["key"], [])
            content.append(row)
            if slides or len(content) == SIZE:
                values = {name: NAIVE[name](content[-SIZE:]) if name in names else None for name in sorted(every)}
                yield {"key": row["key"]} | values
                if not slides:
                    content.clear()


FOLDED = ["count", "count_x", "sum", "mean", "max", "first", "last"]


@pytest.mark.parametrize("window", [Tumbling(Count(SIZE)), Sliding(evict=Count(SIZE))], ids=["tumbling", "sliding"])
@given(data=st.data())
def test_fewer_aggregates_keep_the_state_and_are_null_from_then_on(window: ArrivalWindow, data: st.DataObject) -> None:
    """In whatever order they are declared, and with the columns that nothing reads any more gone."""
    names = data.draw(st.permutations(FOLDED))
    fewer = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    fewest = data.draw(st.lists(st.sampled_from(fewer), min_size=1, unique=True))
    parts = [(one, data.draw(ROWS)) for one in (names, fewer, fewest)]
    assert_results(window, parts)


@pytest.mark.parametrize("window", [Tumbling(Count(SIZE)), Sliding(evict=Count(SIZE))], ids=["tumbling", "sliding"])
@given(data=st.data())
def test_more_aggregates_are_computed_from_the_rows_that_are_kept(window: ArrivalWindow, data: st.DataObject) -> None:
    """At once, if their columns were carried; so do those that come back."""
    some = st.lists(st.sampled_from(["count", "mean", "first", "last", "sum"]), unique=True)
    names = [[*KEEPS_ROWS, "sum", *(one for one in data.draw(some) if one != "sum")] for _ in range(3)]
    parts = [(one, data.draw(ROWS)) for one in names]
    assert_results(window, parts)


def assert_results(window: ArrivalWindow, parts: Sequence[tuple[Sequence[str], list[Row]]]) -> None:
    """Compare the job with the lists of rows."""
    log = run([(declared(window, names), rows) for names, rows in parts])
    wanted = [*expected(parts, slides=isinstance(window, Sliding))]
    columns = [*wanted[0]] if wanted else []
    assert sorted(repr([row.get(name) for name in columns]) for row in log) == sorted(
        repr([*row.values()]) for row in wanted
    )


class ShowsRows(Operator):
    """Emits the columns of the rows that it gets, and the values of the last one."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.TRIGGER})

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Emit one row an event."""
        emit(text=json.dumps(event.table.to_pydict(), default=str))


@pytest.mark.parametrize("never_null", [(), ("who",), ("n before",), ("n after",)], ids=str)
@pytest.mark.parametrize("window", [Sliding(evict=Count(SIZE)), TimeInterval(60)], ids=["sliding", "panes"])
def test_an_operator_gets_the_columns_of_its_stream_as_it_is_now(window: Window, never_null: tuple[str, ...]) -> None:
    """Rows that were stored without a column are null in it; a column that is gone is gone from them, too.

    A stream may declare that a column is never null, as a constant, and no longer, or from now on.
    """
    store = MemoryStore()
    n, who = pa.field("n", pa.int64()), pa.field("who", pa.string(), nullable="who" not in never_null)
    before = pa.schema([n.with_nullable("n before" not in never_null), pa.field("x", pa.float64())])
    after = pa.schema([who, n.with_nullable("n after" not in never_null)])
    seen: list[str] = []
    for columns, row in ((before, {"n": 1, "x": 0.5}), (after, {"n": 2, "who": "p"})):
        job = JobSpec(window=window, keys=pa.schema([]), columns=columns, operator=ShowsRows(), output=TEXT)
        placed = columns.append(pa.field(EVENT_TIME, pa.int64())) if job.has_panes else columns
        table = pa.Table.from_pylist([row | {EVENT_TIME: 10}], schema=placed)
        steps: list[Step] = [Tick(1_000_000), Rows(table), *([Watermark(60_000_000)] if columns is after else [])]
        outcome = KeyGroupRunner(job, store).run(steps)
        seen += [] if outcome.results is None else outcome.results.column("text").to_pylist()
    assert json.loads(seen[-1]) == {"who": [None, "p"], "n": [1, 2]}
    old, new = ({"window": window.declaration(), "column": dict.fromkeys(one.names, "t")} for one in (before, after))
    assert compatible(as_recorded(old, 1), as_recorded(new, 1))


LONG: list[Window] = [Sliding(evict=Count(50)), TimeInterval(60, discard_age=60)]
"""They keep rows for more batches than it takes until rows are stored anew."""


@pytest.mark.parametrize("other_type", [False, True])
@pytest.mark.parametrize("batches", [1, 20])
@pytest.mark.parametrize("window", LONG, ids=["sliding", "panes"])
def test_a_column_that_comes_back_is_null_in_the_rows_from_before(
    window: Window, batches: int, *, other_type: bool
) -> None:
    """However many batches there were without it: rows are stored anew by their number. Its type may be another one."""
    with_x, without = pa.schema({"n": pa.int64(), "x": pa.float64()}), pa.schema({"n": pa.int64()})
    again, value = (pa.schema({"x": pa.string(), "n": pa.int64()}), "p") if other_type else (with_x, 2.5)
    store, seen, record = MemoryStore(), list[str](), dict[str, Any]()
    batch_columns = [with_x, *[without] * batches, again]
    for number, columns in enumerate(batch_columns):
        job = JobSpec(window=window, keys=pa.schema([]), columns=columns, operator=ShowsRows(), output=TEXT)
        new = recorded(job)
        assert compatible(record or new, new)
        record = upgraded(record or new, new, committed=number - 1, watermark_us=None)
        placed = columns.append(pa.field(EVENT_TIME, pa.int64())) if job.has_panes else columns
        row: Row = {"n": number, "x": value if columns is again else 0.5, EVENT_TIME: 10}
        steps: list[Step] = [Tick(1_000_000), Rows(pa.Table.from_pylist([row], schema=placed))]
        if number >= batches:  # twice: rows are read, and then a late one joins them
            steps.append(Watermark(60_000_000 + number))
        outcome = KeyGroupRunner(replace(job, history=History.of(record)), store).run(steps)
        seen += [] if outcome.results is None else outcome.results.column("text").to_pylist()
        store = store.copy()
    assert json.loads(seen[-1])["x"] == [None, *[None] * batches, value]


@pytest.mark.parametrize("window", [Tumbling(Count(2)), Sliding(evict=Count(2)), TimeInterval(60)], ids=str)
@pytest.mark.parametrize("nulls_first", [True, False])
def test_a_partition_of_null_lives_on_in_a_stream_that_has_none_any_more(window: Window, nulls_first: bool) -> None:  # noqa: FBT001 -- both orders
    """The stream may have got a coalesce(): the window of null is open, and fires when it is due."""
    store, log, one = MemoryStore(), list[Row](), agg.sum("n")
    for number, may_be_null in enumerate((nulls_first, not nulls_first, nulls_first)):
        key, n = pa.field("key", pa.string(), nullable=may_be_null), pa.field("n", pa.int64())
        columns, keys = pa.schema([key, n]), pa.schema([key])
        output = pa.schema([("total", bind(one, columns).output)])
        job = JobSpec(window=window, keys=keys, columns=columns, aggregates={"total": one}, output=output)
        placed = columns.append(pa.field(EVENT_TIME, pa.int64())) if job.has_panes else columns
        row = {"key": None if may_be_null else "a", "n": 1, EVENT_TIME: 10}
        steps: list[Step] = [Tick(1_000_000 * (number + 1)), Rows(pa.Table.from_pylist([row], schema=placed))]
        outcome = KeyGroupRunner(job, store).run([*steps, *([Watermark(60_000_000)] if number == 2 else [])])
        log += [] if outcome.results is None else outcome.results.to_pylist()
    assert (None if nulls_first else "a", 2) in [(row["key"], row["total"]) for row in log]


def test_what_no_stored_row_has_is_refused() -> None:
    """A column that was not carried; a partial result of rows that are gone; another form of what is kept."""
    tumbling, sliding = Tumbling(Count(SIZE)), Sliding(evict=Count(SIZE))
    for window, before, after in (
        (sliding, ["count"], ["count", "sum"]),
        (tumbling, ["count"], ["count", "count_x"]),
        (tumbling, ["sum"], ["sum", "mean"]),
        (tumbling, ["first"], ["first", "collect"]),
        (tumbling, ["first", "collect"], ["first"]),
    ):
        assert not compatible(recorded(declared(window, before)), recorded(declared(window, after)))
