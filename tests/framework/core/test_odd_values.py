"""Values that Python, Arrow and Spark see differently: float partition keys, tables without rows, times of pandas."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from panekeeper import (
    Count,
    DeclarationError,
    Emit,
    Event,
    EventType,
    InputError,
    LifecycleError,
    Operator,
    StateContext,
    StateHandler,
    TimeInterval,
    Tumbling,
    agg,
)
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.operator_calls import EmitBuffer
from panekeeper.framework.core.steps import Rows, Step, Tick, Watermark
from panekeeper.framework.declarations.windows import Window
from panekeeper.state.store import MemoryStore
from tests.framework.core.handler_batches import rows, run, spec

FLOAT_KEYS = pa.schema([("key", pa.float64())])
OTHER_NAN = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)[0]


def float_keys(*keys: float, time: str) -> Rows:
    """Rows with these keys and the value 1."""
    times = pa.array([1] * len(keys), pa.int64())
    return Rows(pa.table({"key": pa.array(np.array(keys)), "v": pa.array([1] * len(keys)), time: times}))


@pytest.mark.parametrize(
    ("window", "time"), [(TimeInterval(10), EVENT_TIME), (Tumbling(Count(5)), ARRIVAL_TIME)], ids=["panes", "arrival"]
)
@pytest.mark.parametrize("keeps_rows", [False, True])
def test_equal_floats_are_one_partition(window: Window, time: str, keeps_rows: bool) -> None:  # noqa: FBT001
    """0.0 and -0.0 are one key, and so is every NaN, in one batch and in the next, whatever is stored between."""
    columns = pa.schema([*FLOAT_KEYS, ("v", pa.int64())])
    aggregates = {"n": agg.collect("v") if keeps_rows else agg.count()}
    output = pa.schema([("n", pa.list_(pa.int64()) if keeps_rows else pa.int64())])
    job = JobSpec(window=window, keys=FLOAT_KEYS, columns=columns, aggregates=aggregates, output=output)
    store = MemoryStore()
    KeyGroupRunner(job, store).run([Tick(1), float_keys(0.0, -0.0, np.nan, time=time)])
    last: list[Step] = [
        float_keys(-0.0, -np.nan, OTHER_NAN, 0.0, 0.0, OTHER_NAN, np.nan, time=time),
        Watermark(20_000_000),
    ]
    results = KeyGroupRunner(job, store).run(last).results
    assert results is not None
    counts = [len(n) if isinstance(n, list) else n for n in results.column("n").to_pylist()]
    assert counts == [5, 5]
    assert [str(key) for key in results.column("key").to_pylist()] == ["0.0", "nan"]


class EmitNoRows(Operator):
    """Emits a table of no rows, and of one row after the second event."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.EVICTION})

    def handle_event(self, event: Event, emit: Emit) -> None:
        total = event.table.column("v")
        emit.table(pa.table({"total": total}).slice(0, 0 if event.key == "a" else 1))


def test_a_table_of_no_rows_emits_nothing() -> None:
    """An operator that finds nothing may emit its empty table."""
    done = run(spec(operator=EmitNoRows()), MemoryStore(), 0, rows(("a", 1), ("a", 1), ("b", 2), ("b", 2)))
    assert done.results is not None
    assert done.results.column("total").to_pylist() == [2]
    assert run(spec(operator=EmitNoRows()), MemoryStore(), 0, rows(("a", 1), ("a", 1))).results is None


class Keep(StateHandler):
    """Writes one value under one name."""

    def __init__(self, name: Any, value: Any) -> None:
        self.name, self.value = name, value

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write(self.name, self.value)


class _Place(StrEnum):
    HERE = "here"


class _Pair(NamedTuple):
    first: int
    second: int


class _Zone(tzinfo):
    """One of a user's own."""

    def utcoffset(self, when: datetime | None, /) -> timedelta | None:
        return None if when is None else timedelta(hours=1)

    def dst(self, when: datetime | None, /) -> timedelta:
        return timedelta(0)

    def tzname(self, when: datetime | None, /) -> str:
        return "CET"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "seen",
            pd.NaT,
            "the state 'seen' cannot be kept: NaT is a NaTType",
        ),
        ("seen", {"at": [pd.NaT]}, "the state 'seen' cannot be kept: NaT is"),
        ("seen", pd.Timestamp(1), "the state 'seen' cannot be kept: Timestamp"),
        ("seen", pd.Timedelta(1), "cannot be kept: Timedelta"),
        ("seen", pd.Timestamp(np.datetime64("20000-01-01", "s")), "cannot be kept: Timestamp"),
        ("seen", Counter("aab"), "is a Counter; write"),
        ("seen", {"n": defaultdict(int)}, "is a defaultdict; write"),
        ("seen", {_Place.HERE: 1}, "HERE: 'here'> is a _Place; write"),
        ("seen", _Pair(1, 2), "is a _Pair; write"),
        ("seen", datetime(2026, 1, 2, tzinfo=_Zone()), "has no name by which it could be read again; use a zoneinfo"),
        (7, 1, "a state has the name 7, of type int; a name must be a str"),
        (None, 1, "a state has the name None"),
    ],
)
def test_state_that_could_not_be_read_again_is_refused_when_it_is_written(name: Any, value: Any, said: str) -> None:
    """The error names the value; else the checkpoint would be written, and no later batch could read it."""
    with pytest.raises(LifecycleError, match=said):
        run(spec(Keep(name, value)), MemoryStore(), 0, rows(("a", 1)))


def test_a_time_of_pandas_that_python_can_read_is_kept() -> None:
    """A timestamp of whole microseconds."""
    store = MemoryStore()
    run(spec(Keep("seen", pd.Timestamp(datetime(2026, 1, 2, 3)))), store, 0, rows(("a", 1)))  # noqa: DTZ001
    run(spec(Keep("seen", 1)), store, 1, rows(("a", 1)))


def test_a_late_row_of_values_that_python_does_not_have_is_quarantined() -> None:
    """A time in the year 10000, and text that is not UTF-8: each as readable as can be."""
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], "i4")), pa.py_buffer(b"a\xff")])
    until = pa.array([253_402_318_800_000_000]).cast(pa.timestamp("us", tz="UTC"))
    columns = pa.schema([("text", text.type), ("until", until.type), ("v", pa.int64())])
    output = pa.schema([("n", pa.int64())])
    job = JobSpec(
        window=TimeInterval(10), keys=pa.schema([]), columns=columns, aggregates={"n": agg.count()}, output=output
    )
    store = MemoryStore()
    KeyGroupRunner(job, store).run([Watermark(100_000_000)])
    row = pa.table([text, until, pa.array([1]), pa.array([1])], names=[*columns.names, EVENT_TIME])
    done = KeyGroupRunner(job, store).run([Rows(row)])
    assert done.rejected is not None
    (refused,) = done.rejected.to_pylist()
    assert json.loads(refused["row"]) == {"text": "a\ufffd", "until": "10000-01-01 05:00:00.000000Z", "v": 1}
    assert (refused["reason"], done.counts["dropped_late"]) == ("LATE", 1)


@pytest.mark.parametrize(
    ("emit", "error", "said"),
    [
        (lambda emit: emit({"n": 1}), DeclarationError, r"emit\(\) got {'n': 1}, .*; emit\(\*\*row\) emits a dict"),
        (lambda emit: emit(1), DeclarationError, r"emit\(\) got 1, and takes columns by their names; as in emit\(n="),
        (lambda emit: emit.table(pd.DataFrame({"n": [1]})), DeclarationError, r"got a DataFrame, .*from_pandas\("),
        (
            lambda emit: emit.table(None),
            DeclarationError,
            r"emit\.table\(\) got a NoneType, and takes a pyarrow\.Table",
        ),
        (lambda emit: emit(n="x", t="y"), InputError, r"the column 'n' is declared as int64: .*'x'"),
    ],
)
def test_what_cannot_be_emitted_is_an_error_that_says_how(emit: Any, error: type[Exception], said: str) -> None:
    """A value that does not fit names its column: a row has many."""
    emitted = EmitBuffer(pa.schema({"n": pa.int64(), "t": pa.string()}))
    with pytest.raises(error, match=said):  # noqa: PT012 -- a value is looked at when rows are taken
        emit(emitted)
        assert emitted.pop_rows() == []
        raise emitted.pop_misfits()[0][1]


def test_a_record_batch_is_emitted_as_a_table_is() -> None:
    """It has named columns, too."""
    emitted = EmitBuffer(pa.schema({"n": pa.int64(), "t": pa.string()}))
    emitted.table(pa.record_batch({"n": [1, 2]}))
    assert emitted.pop_rows()[0][0].column("n").to_pylist() == [1, 2]
