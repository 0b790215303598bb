"""Whatever text, value or decision a user's code returns, it fails one event or row, and neither a job nor a worker."""

from __future__ import annotations

import datetime as dt
import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from panekeeper import Count, Emit, Event, EventType, Operator, Sliding, Tumbling, UserPolicy, agg
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.operator_calls import EmitBuffer
from panekeeper.framework.declarations.errors import DeclarationError, InputError, PanekeeperError, utf8_errors
from panekeeper.framework.declarations.windows import Window
from panekeeper.state.store import MemoryStore
from tests.framework.core.quarantine_batches import COLUMNS, KEYS, bad, job, rows, run, values

HALF = json.loads('"\\ud83d"')
"""Half a surrogate pair: JSON may hold it, UTF-8 has nothing for it."""
PAIRS = pa.map_(pa.string(), pa.int64())


def raises(value: int) -> None:
    """Raise for odd values, with a text that no table can hold."""
    if value % 2:
        raise ValueError(f"unknown kind {HALF}")


class Raising(Operator):
    """Raises for each event with an odd value."""

    events = frozenset({EventType.EVICTION})

    def handle_event(self, event: Event, emit: Emit) -> None:
        for row in event.rows():
            raises(row["v"])
            emit(v=row["v"])


class RaisingAggregate(agg.UserAggregate):
    """A number of values, none of them odd."""

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        raises(value)
        return state + 1

    def result(self, state: int) -> int:
        return state


@dataclass(frozen=True)
class RaisingPolicy(UserPolicy):
    """Fires after each even value."""

    attribute: str

    def fire(self, _: float | None, value: float) -> tuple[bool, None]:
        raises(int(value))
        return True, None


OPERATOR = JobSpec(
    window=Tumbling(Count(1)), keys=KEYS, columns=COLUMNS, operator=Raising(), output=pa.schema([("v", pa.int64())])
)
JOBS = {
    "operator": OPERATOR,
    "aggregate": job(Tumbling(Count(1)), x=agg.user(RaisingAggregate(), "v", output=int)),
    "policy": job(Sliding(evict=Count(1), trigger=RaisingPolicy("v")), x=agg.count()),
}


@pytest.mark.parametrize("spec", JOBS.values(), ids=JOBS)
def test_an_error_whose_text_has_half_a_surrogate_pair_is_in_the_quarantine(spec: JobSpec) -> None:
    """With its escape: a table holds UTF-8 only."""
    done = run(replace(spec, on_error="quarantine"), MemoryStore(), rows(("a", 1), ("a", 2)))
    (refused,) = bad(done)
    assert refused["detail"].startswith(r"ValueError: unknown kind \ud83d in ")
    assert done.results is not None


@pytest.mark.parametrize("spec", JOBS.values(), ids=JOBS)
def test_it_can_be_sent_where_the_job_fails_on_errors(spec: JobSpec) -> None:
    """Spark's worker sends the traceback as UTF-8; if it cannot, the query waits for ever."""
    with pytest.raises(InputError, match=r"unknown kind \\ud83d; fix the function") as raised, utf8_errors():
        run(replace(spec, on_error="fail"), MemoryStore(), rows(("a", 1)))
    "".join(traceback.format_exception(raised.value)).encode()


def test_errors_that_pass_the_quarantine_can_be_sent_too() -> None:
    """Those of code that contradicts its declaration, and of handlers; others stay what they are."""
    contradiction = DeclarationError(f"column {HALF}")
    contradiction.add_note(f"  in {HALF}")
    with pytest.raises(DeclarationError, match=r"column \\ud83d") as wrong, utf8_errors():
        raise contradiction
    assert wrong.value.__notes__ == [r"  in \ud83d"]
    cause = ValueError(HALF)
    cause.__cause__ = KeyError(1)
    with pytest.raises(PanekeeperError, match=r"(?s)KeyError.*ValueError: \\ud83d") as raised, utf8_errors():
        raise cause
    "".join(traceback.format_exception(raised.value)).encode()
    with pytest.raises(ZeroDivisionError), utf8_errors():
        raise ZeroDivisionError


MISFITS: dict[str, tuple[pa.DataType, Callable[[], Any]]] = {
    "null in a map": (PAIRS, lambda: [None]),
    "null after a pair": (PAIRS, lambda: [("a", 1), None]),
    "null in a tuple": (PAIRS, lambda: (None,)),
    "null in an array": (PAIRS, lambda: np.array([None])),
    "NaT in a map": (PAIRS, lambda: [pd.NaT]),
    "null in a map of texts": (pa.map_(pa.string(), pa.string()), lambda: [None]),
    "null in a map in a list": (pa.list_(PAIRS), lambda: [[None]]),
    "null in a map in a struct": (pa.struct([("m", PAIRS)]), lambda: {"m": [None]}),
    "a frame for a list": (pa.list_(pa.int64()), lambda: pd.DataFrame({"v": [1]})),
    "a masked value": (pa.timestamp("us", "UTC"), lambda: np.ma.masked_less(np.array([1]), 5).max()),
    "a signalling NaN": (pa.int64(), lambda: Decimal("sNaN")),
    "nanoseconds": (pa.timestamp("us", "UTC"), lambda: pd.Timestamp(1_704_067_200_123_456_789, tz="UTC")),
    "nanoseconds of a duration": (pa.duration("us"), lambda: pd.Timedelta(1500)),
    "a time of day for a date": (pa.date32(), lambda: dt.datetime(2026, 3, 1, 10, 30, tzinfo=dt.UTC)),
}


@pytest.mark.parametrize(("kind", "value"), MISFITS.values(), ids=MISFITS)
def test_an_emitted_value_that_its_column_does_not_take_is_left_out_alone(
    kind: pa.DataType, value: Callable[[], Any]
) -> None:
    """A null in place of a pair would end the process within Arrow."""
    emit = EmitBuffer(pa.schema([("x", kind)]))
    emit(x=None)
    emit(x=value())
    emit(x=None)
    assert sum(table.num_rows for table, _ in emit.pop_rows()) == 2
    assert len(emit.pop_misfits()) == 1


def test_maps_and_dates_that_fit_are_taken() -> None:
    """Pairs, a dict, or none; and midnight, as pandas has for a date."""
    emit = EmitBuffer(pa.schema([("m", PAIRS), ("day", pa.date32())]))
    for pairs in ([("a", 1)], {"a": 1}, [{"key": "a", "value": 1}], (("a", 1),)):
        emit(m=pairs, day=pd.Timestamp("2026-03-01"))
    emit(m=[], day=dt.date(2026, 3, 1))
    tables = [table for table, _ in emit.pop_rows()]
    assert [row["m"] for row in pa.concat_tables(tables).to_pylist()] == [[("a", 1)]] * 4 + [[]]
    assert emit.pop_misfits() == []


@dataclass(frozen=True)
class Undecided(UserPolicy):
    """Returns a decision without a truth value."""

    attribute: str

    def fire(self, state: float | None, value: float) -> tuple[bool, None]:
        return (np.array([True, False]) if value > 1 else pd.NA), None  # type: ignore[return-value]  # that is the point

    def tumble(self, state: float | None, value: float) -> tuple[bool, None]:
        return self.fire(state, value)


@pytest.mark.parametrize(
    "window", [Sliding(evict=Count(2), trigger=Undecided("v")), Tumbling(Undecided("v"))], ids=["fire", "tumble"]
)
def test_a_decision_that_is_neither_true_nor_false_decides_nothing(window: Window) -> None:
    """It is in the quarantine, as if the policy had raised."""
    done = run(job(window, "quarantine", n=agg.count()), MemoryStore(), rows(("a", 1), ("a", 2)))
    assert done.results is None
    assert [row["detail"].partition(":")[0] for row in bad(done)] == ["TypeError", "ValueError"]


class Cents(agg.UserAggregate):
    """A sum of half cents, declared as whole ones."""

    state = pa.decimal128(10, 2)

    def zero(self) -> Decimal:
        return Decimal(0)

    def add(self, state: Decimal, value: int) -> Decimal:
        return state + Decimal(value) / 1000

    def merge(self, a: Decimal, b: Decimal) -> Decimal:
        return a + b

    def result(self, state: Decimal) -> int:
        return int(state * 1000)


@pytest.mark.parametrize("batches", [[(("a", 5), ("a", 5))], [(("a", 5),), (("a", 5),)]], ids=["together", "apart"])
def test_a_decimal_state_that_would_be_rounded_is_refused_however_the_rows_are_cut(
    batches: list[tuple[tuple[str, int], ...]],
) -> None:
    """Two half cents are a whole one; stored between two batches, each would be none."""
    spec, store = job(Tumbling(Count(2)), "quarantine", x=agg.user(Cents(), "v", output=int)), MemoryStore()
    done = [run(spec, store, rows(*one)) for one in batches]
    assert values(done[-1], "x") == {"a": [0]}
    assert sum(len(bad(one)) for one in done) == 2


@pytest.mark.parametrize(
    "kind", [pa.timestamp("ms"), pa.duration("s"), pa.time32("ms"), pa.struct([("last", pa.timestamp("ms"))])]
)
def test_a_state_of_coarse_times_is_refused(kind: pa.DataType) -> None:
    """Python's times are of microseconds, and would be cut off between two batches."""

    class Last(Cents):
        state = kind

    with pytest.raises(DeclarationError, match=r"storing would round it between batches.*in microseconds"):
        agg.user(Last(), "v", output=int)


@dataclass(frozen=True)
class Emptying(UserPolicy):
    """Evicts by changing the content that it gets, which is its own, and then says more or less what it did."""

    attribute: str
    more: int = 0

    def evict(self, content: Any, value: float) -> int:
        evicted = 0
        while len({*content, value}) > 2:
            content.pop(0)
            evicted += 1
        content.extend([0] * self.more)
        return evicted + self.more


def test_a_policy_may_change_the_content_that_it_gets() -> None:
    """It is a copy; what counts is how many rows it had."""
    done = run(
        job(Sliding(evict=Emptying("v")), "fail", x=agg.count()),
        MemoryStore(),
        rows(*[("a", n) for n in (1, 2, 3, 3, 4)]),
    )
    assert values(done, "x") == {"a": [1, 2, 2, 3, 3]}


def test_a_policy_that_evicts_more_rows_than_there_are_is_refused_whatever_it_did_to_them() -> None:
    """The stored window would end before it begins, and each later batch would fail."""
    spec, store = job(Sliding(evict=Emptying("v", more=3)), "quarantine", x=agg.count()), MemoryStore()
    first, second = (run(spec, store, rows(("a", 1))) for _ in range(2))
    for done in (first, second):
        (refused,) = bad(done)
        assert "InputError: Emptying.evict() returned 3 for a content of" in refused["detail"]
    assert values(second, "x") == {"a": [2]}


@pytest.mark.parametrize("zero", [lambda _: float("inf"), lambda _: 1 / 0, lambda _: 0.5])
def test_a_zero_that_cannot_be_stored_is_refused_where_it_is_declared(zero: Callable[[Any], Any]) -> None:
    """A cell whose values are all null would fail the batch, be it after weeks."""
    least = type("Least", (Cents,), {"state": int, "zero": zero})
    with pytest.raises(DeclarationError, match=r"agg.user\(Least, 'v'\): zero\(\) gives no state of the type int64"):
        agg.user(least(), "v", output=int)


@pytest.mark.parametrize("depth", [lambda kind: kind, pa.list_, lambda kind: pa.struct([("s", kind)])])
def test_a_table_with_a_field_that_is_not_declared_is_refused(depth: Callable[[pa.DataType], pa.DataType]) -> None:
    """As a column is; a cast would leave it out silently."""
    emit = EmitBuffer(pa.schema([("x", depth(pa.struct([("a", pa.int64()), ("b", pa.int64())])))]))
    emit.table(pa.table({"x": pa.array([None], depth(pa.struct([("a", pa.int32())])))}))
    with pytest.raises(DeclarationError, match="'c' is no field of struct<a: int64, b: int64>"):
        emit.table(pa.table({"x": pa.array([None], depth(pa.struct([("a", pa.int64()), ("c", pa.int64())])))}))
