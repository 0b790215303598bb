"""What cannot be computed goes to the quarantine, one firing or one row at a time, and the others are computed."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa
import pytest

from panekeeper import (
    Count,
    Emit,
    Event,
    EventType,
    Operator,
    Sliding,
    StateContext,
    StateHandler,
    TimeInterval,
    Tumbling,
    UserPolicy,
    agg,
)
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, REST, JobSpec
from panekeeper.framework.core.steps import Rows, Tick, Watermark
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.errors import (
    DeclarationError,
    InputError,
    LifecycleError,
    PanekeeperError,
    utf8_errors,
    without_own_frames,
)
from panekeeper.framework.declarations.windows import Window
from panekeeper.framework.engine.session.spark_errors import translate
from panekeeper.state.store import MemoryStore
from tests.framework.core import handler_batches
from tests.framework.core.quarantine_batches import COLUMNS, END, KEYS, S, bad, job, rows, run, values


class Picky(agg.UserAggregate):
    """A sum that raises for negative values, and for the result 13."""

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        if value < 0:
            raise ValueError(f"{value} is negative")
        return state + value

    def result(self, state: int) -> int:
        if state == 13:
            raise RuntimeError("13 brings bad luck")
        return state


class PickyPartial(Picky):
    """The same, of which partial results are stored."""

    state = int

    def merge(self, a: int, b: int) -> int:
        return a + b


PANES = TimeInterval(10)
WINDOWS = {
    "panes": PANES,
    "overlapping": TimeInterval(10, creation_period=5),
    "tumbling": Tumbling(Count(2)),
    "sliding": Sliding(evict=Count(2), trigger=Count(2)),
}
NO_MERGE = {"kept": agg.collect("v")}


def test_errors_are_counted_by_reason_and_kind() -> None:
    """The first of each kind has its stack. Late rows are none."""
    spec = job(PANES, picky=agg.user(Picky(), "v", output="int64"), total=agg.sum("v"))
    outcome = run(spec, MemoryStore(), rows(("a", -1), ("b", -2), ("c", 13), ("d", 2**62), ("d", 2**62)), END)
    assert [(one.reason, one.kind, one.count) for one in outcome.errors] == [
        ("USER_ERROR", "ValueError in the result column 'picky'", 2),
        ("USER_ERROR", "RuntimeError in the result column 'picky'", 1),
        ("USER_ERROR", "InputError in the result column 'picky'", 1),
        ("SUM_OVERFLOW", "InputError in the result column 'total'", 1),
    ]
    assert "-1 is negative" in outcome.errors[0].first
    assert "raise ValueError" in outcome.errors[0].first
    assert run(spec, MemoryStore(), END, rows(("a", 1))).errors == []


@pytest.mark.parametrize("more", [{}, NO_MERGE], ids=["partial", "content"])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_a_sum_beyond_64_bits_is_null_and_in_the_quarantine(window: Window, more: dict[str, Aggregate]) -> None:
    """Only that column of that firing; the job goes on, in this batch and from the stored state."""
    spec = job(window, total=agg.sum("v"), n=agg.count(), **more)
    store = MemoryStore()
    assert bad(run(spec, store, Tick(S), rows(("a", 2**62), ("b", 3)))) == []
    done = run(spec, store, Tick(S), rows(("a", 2**62), ("b", 4)), END)

    assert set(values(done, "total")["a"]) == {None}
    assert set(values(done, "total")["b"]) == {7}
    assert set(values(done, "n")["a"]) == {2}
    refused = bad(done)
    assert len(refused) == len(values(done, "total")["a"])
    assert refused[0]["reason"] == "SUM_OVERFLOW"
    assert "'total': agg.sum('v'): the sum of a window is 9223372036854775808" in refused[0]["detail"]
    assert json.loads(refused[0]["row"])["key"] == "a"
    again = run(spec, store, Tick(200 * S), rows(("a", 1), ("a", 1), at=200 * S), Watermark(300 * S))
    assert set(values(again, "total")["a"]) == {2}


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_more_distinct_values_than_are_kept_are_null_and_in_the_quarantine(window: Window) -> None:
    """Or estimated, if it is declared so; the other partition has its result."""
    few = agg.count_distinct("v", at_most=1)
    about = agg.count_distinct("v", at_most=1, beyond="approximate")
    done = run(
        job(window, few=few, about=about), MemoryStore(), Tick(S), rows(("a", 1), ("a", 2), ("b", 3), ("b", 3)), END
    )
    assert set(values(done, "few")["a"]) == {None}
    assert set(values(done, "few")["b"]) == {1}
    assert min(values(done, "about")["a"]) >= 1
    assert {row["reason"] for row in bad(done)} == {"DISTINCT_OVERFLOW"}
    assert "a window has more than 1 distinct values" in bad(done)[0]["detail"]


@pytest.mark.parametrize("aggregate", [Picky(), PickyPartial()], ids=["content", "partial"])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_a_result_that_raises_is_null_and_in_the_quarantine_with_its_stack(
    window: Window, aggregate: agg.UserAggregate
) -> None:
    """The other partitions fire, and the counts balance."""
    spec = job(window, mine=agg.user(aggregate, "v", output="int64"), n=agg.count())
    given = rows(("a", 6), ("b", 6), ("c", 1), ("a", 7), ("b", 1), ("c", 1))
    done = run(spec, MemoryStore(), Tick(S), given, END)

    assert {key: set(own) for key, own in values(done, "mine").items()} == {"a": {None}, "b": {7}, "c": {2}}
    assert set(values(done, "n")["a"]) == {2}
    for refused in bad(done):
        assert refused["reason"] == "USER_ERROR"
        assert refused["detail"].startswith("RuntimeError: 13 brings bad luck in the result column 'mine'")
        assert 'raise RuntimeError("13 brings bad luck")' in refused["detail"]
        assert json.loads(refused["row"])["key"] == "a"
    assert bad(done)


@pytest.mark.parametrize("window", [PANES, Tumbling(Count(3))], ids=["panes", "tumbling"])
def test_a_row_that_a_partial_result_cannot_take_is_left_out_and_in_the_quarantine(window: Window) -> None:
    """With its columns, and once: the other rows of the window are added, in this batch and the next."""
    spec = job(window, mine=agg.user(PickyPartial(), "v", output="int64"), n=agg.count())
    store = MemoryStore()
    first = run(spec, store, Tick(S), rows(("a", 1), ("b", 1), ("a", -5), ("b", 2)))
    assert [(one["reason"], json.loads(one["row"])) for one in bad(first)] == [("USER_ERROR", {"key": "a", "v": -5})]
    done = run(spec, store, rows(("a", 4), ("b", 4)), END)
    assert bad(done) == []
    assert values(done, "mine") == {"a": [5], "b": [7]}
    assert values(done, "n") == {"a": [3], "b": [3]}


@pytest.mark.parametrize("window", [PANES, Sliding(evict=Count(2), trigger=Count(2))], ids=["panes", "sliding"])
def test_a_firing_with_a_row_that_add_refuses_is_null(window: Window) -> None:
    """Where the rows are kept the whole firing cannot be computed, and the others can."""
    aggregate = PickyPartial() if isinstance(window, Sliding) else Picky()
    spec = job(window, mine=agg.user(aggregate, "v", output="int64"))
    done = run(spec, MemoryStore(), Tick(S), rows(("a", 1), ("b", 1), ("a", -5), ("b", 2)), END)
    assert values(done, "mine") == {"a": [None], "b": [3]}
    assert [json.loads(one["row"])["key"] for one in bad(done)] == ["a"]


def test_with_on_error_fail_the_first_error_fails_the_batch() -> None:
    """The error says what was raised, in which column, of which partition and pane; and what to do."""
    said = r"'mine', .*\"key\":\"a\",\"pane_start\":\"1970.*13 brings bad luck.* on_error=\"quarantine\""
    with pytest.raises(InputError, match=said) as raised:
        run(job(PANES, "fail", mine=agg.user(Picky(), "v", output="int64")), MemoryStore(), rows(("a", 13)), END)
    worker = f"Traceback (most recent call last):\nframework.declarations.errors.InputError: {raised.value}\n"
    error = translate(RuntimeError(worker), "x")
    assert (type(error), str(error)) == (InputError, str(raised.value))
    with pytest.raises(InputError, match="beyond 64 bits"):
        run(job(PANES, "fail", mine=agg.sum("v")), MemoryStore(), rows(("a", 2**62), ("a", 2**62)), END)


class PickyOperator(Operator):
    """Emits a row and a table; for b what does not fit before it, and then it raises; for c what does not fit later."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.TRIGGER, EventType.EVICTION})

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(total=1)
        if event.key == "b":
            emit(total="two")
        emit.table(pa.table({"total": [2]}))
        if event.key == "b":
            raise ZeroDivisionError("b is bad")
        emit(total="three" if event.key == "c" else 3)


@pytest.mark.parametrize("window", [PANES, Tumbling(Count(2))], ids=["panes", "tumbling"])
def test_what_an_operator_raises_takes_the_place_of_what_it_emitted_for_that_event(window: Window) -> None:
    """Nothing that was emitted for the event is in a table; all of the others is, what does not fit with its reason."""
    output = pa.schema([("total", pa.int64())])
    spec = JobSpec(window=window, keys=KEYS, columns=COLUMNS, operator=PickyOperator(), output=output)
    given = [(key, n) for key in "abcd" for n in (1, 2)]
    done = run(spec, MemoryStore(), Tick(S), rows(*given), END)

    assert values(done, "total") == {"a": [1, 2, 3], "c": [1, 2], "d": [1, 2, 3]}
    assert sorted(json.loads(one["row"])["key"] for one in bad(done)) == ["b", "c"]
    by_key = {json.loads(one["row"])["key"]: one for one in bad(done)}
    assert by_key["b"]["detail"].startswith("ZeroDivisionError: b is bad in PickyOperator, which handled ")
    assert 'raise ZeroDivisionError("b is bad")' in by_key["b"]["detail"]
    assert "a row that PickyOperator emitted" in by_key["c"]["detail"]
    with pytest.raises(InputError, match=r'PickyOperator.*"key":"b".*: ZeroDivisionError: b is bad;'):
        run(replace(spec, on_error="fail"), MemoryStore(), Tick(S), rows(*given), END)


class Unknown(Operator):
    """Emits a column that it does not declare."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.TRIGGER})

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(share=1)


def test_code_that_contradicts_its_declaration_fails_the_batch() -> None:
    """It is wrong for every pane, so no pane is to blame."""
    output = pa.schema([("total", pa.int64())])
    spec = JobSpec(window=PANES, keys=KEYS, columns=COLUMNS, operator=Unknown(), output=output)
    with pytest.raises(DeclarationError, match="the operator emitted the column 'share'"):
        run(spec, MemoryStore(), rows(("a", 1)), END)


class PickyTotal(handler_batches.StatefulTotal, StateHandler):
    """A running total that raises for 13, after it has changed its state."""

    def handle_event(self, event: Event, emit: Emit) -> None:
        super().handle_event(event, emit)
        if 13 in event.column("v"):
            raise RuntimeError("13 brings bad luck")

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("total", self.total)


def test_an_operator_with_state_fails_the_batch_unless_on_error_is_quarantine() -> None:
    """Its state may have changed by half: the error names the firing. With quarantine its state stays as it is."""
    spec = handler_batches.spec(operator=PickyTotal())
    given = handler_batches.rows(("a", 13), ("a", 0), ("b", 1), ("b", 1))
    with pytest.raises(InputError, match=r'PickyTotal, which handled eviction.*"key":"a".*13 brings bad luck;'):
        handler_batches.run(spec, MemoryStore(), 0, given)
    done = handler_batches.run(replace(spec, on_error="quarantine"), MemoryStore(), 0, given)
    assert values(done, "total") == {"b": [15]}
    assert [one["reason"] for one in bad(done)] == ["USER_ERROR"]


class WrongPhase(PickyTotal):
    """Writes state where it may only read it."""

    def drain(self, ctx: StateContext) -> None:
        ctx.write("total", self.total)


WRONG_OUTPUT = JobSpec(
    window=PANES, keys=KEYS, columns=COLUMNS, operator=Unknown(), output=pa.schema([("total", pa.int64())])
)
FAILING: dict[str, tuple[Callable[[], object], type[PanekeeperError], str]] = {
    "an aggregate": (
        lambda: run(
            job(PANES, "fail", mine=agg.user(Picky(), "v", output="int64")), MemoryStore(), rows(("a", 13)), END
        ),
        InputError,
        "result",
    ),
    "an operator with state": (
        lambda: handler_batches.run(
            handler_batches.spec(operator=PickyTotal()), MemoryStore(), 0, handler_batches.rows(("a", 13), ("a", 0))
        ),
        InputError,
        "handle_event",
    ),
    "an operator that contradicts its declaration": (
        lambda: run(WRONG_OUTPUT, MemoryStore(), rows(("a", 1)), END),
        DeclarationError,
        "handle_event",
    ),
    "a method of a state handler": (
        lambda: handler_batches.run(
            handler_batches.spec(operator=WrongPhase()), MemoryStore(), 0, handler_batches.rows(("a", 1), ("a", 0))
        ),
        LifecycleError,
        "drain",
    ),
}


@pytest.mark.parametrize(("fails", "kind", "function"), FAILING.values(), ids=FAILING)
def test_what_fails_a_batch_says_where_in_the_code_of_the_user_it_was_raised(
    fails: Callable[[], object], kind: type[PanekeeperError], function: str
) -> None:
    """In the text that leaves Spark's worker, without a frame of ours, and in what a program prints of the error."""
    with pytest.raises(kind) as raised, utf8_errors():
        fails()
    worker = "".join(traceback.format_exception(raised.value))
    with pytest.raises(kind) as bare:
        without_own_frames(fails)()
    told = {str(translate(RuntimeError(worker), "x")), "\n".join([str(bare.value), *bare.value.__notes__])}
    (text,) = told
    frames = text.removeprefix(f"{raised.value}\n")
    assert re.fullmatch(rf'(  File "{re.escape(__file__)}", line \d+, in {function}(\n    .*)+)+', frames)


@dataclass(frozen=True)
class PickyPolicy(UserPolicy):
    """Fires, tumbles or evicts one row at each row; raises for negative values, whatever its role is."""

    attribute: str
    tumbles_after = True

    def tumble(self, state: float | None, value: float) -> tuple[bool, float | None]:
        return self.fire(state, value)

    def fire(self, state: float | None, value: float) -> tuple[bool, float | None]:
        if value < 0:
            raise ValueError(f"{value} is negative")
        return True, (state or 0) + 1

    def evict(self, content: Sequence[float], value: float) -> int:
        self.fire(None, value)
        return min(1, len(content))


@pytest.mark.parametrize(
    ("window", "method", "fired"),
    [
        (Tumbling(PickyPolicy("v")), "tumble", {"a": [[1], [-2, 3]], "b": [[1]]}),
        (Sliding(evict=Count(2), trigger=PickyPolicy("v")), "fire", {"a": [[1], [-2, 3]], "b": [[1]]}),
        (Sliding(evict=PickyPolicy("v")), "evict", {"a": [[1], [1, -2], [-2, 3]], "b": [[1]]}),
    ],
)
def test_a_policy_that_raises_for_a_row_decides_nothing_for_it(
    window: Window, method: str, fired: dict[str, list[list[int]]]
) -> None:
    """The row is in the window, the error in the quarantine, and the next rows and batches are decided as ever."""
    spec = job(window, kept=agg.collect("v"))
    store = MemoryStore()
    first = run(spec, store, Tick(S), rows(("a", 1), ("a", -2), ("b", 1)))
    last = run(spec, store, rows(("a", 3)))
    found = values(first, "kept")
    found["a"] += values(last, "kept")["a"]
    assert found == fired
    (refused,) = bad(first)
    assert refused["detail"].startswith(f"ValueError: -2 is negative in PickyPolicy.{method}() for the value -2")
    assert json.loads(refused["row"])["key"] == "a"
    others = run(spec, MemoryStore(), Tick(S), rows(("a", -3), ("b", -4)))
    kinds = [(one.kind, one.count) for one in others.errors]  # one, whatever the rows are
    assert kinds == [(f"ValueError in PickyPolicy.{method}()", 2)]
    with pytest.raises(InputError, match="-2 is negative"):
        run(replace(spec, on_error="fail"), MemoryStore(), Tick(S), rows(("a", 1), ("a", -2)))


def test_a_late_row_of_kafka_says_where_it_is_from() -> None:
    """By columns that the job reads or that came along; where a row has not all of them nothing is said."""
    spec = replace(job(TimeInterval(10), n=agg.count()), origin=("topic", "partition", "offset"))
    table = rows(("a", 1), ("b", 2)).table
    told = {"topic": ["t", "t"], "partition": [3, None], "offset": [7, 8]}
    rest = pa.StructArray.from_arrays([pa.array(values) for values in told.values()], [*told])
    for late in (table.append_column(REST, rest), table):
        done = run(spec, MemoryStore(), END, Rows(late))
        expected = ["t-3@7", None] if REST in late.column_names else [None, None]
        assert [(row["reason"], row["source"]) for row in bad(done)] == [("LATE", one) for one in expected]


def test_a_late_row_of_which_the_job_reads_no_column_ends_no_job() -> None:
    """Without a quarantine of its own, as of `transform()` or in a capsule, nothing of the row travels but its time."""
    nothing = pa.schema([])
    output = pa.schema([("n", pa.int64())])
    spec = JobSpec(window=TimeInterval(10), keys=nothing, columns=nothing, aggregates={"n": agg.count()}, output=output)
    done = run(spec, MemoryStore(), END, Rows(pa.table({EVENT_TIME: [1, 2], ARRIVAL_TIME: [1, 1]})))
    assert [(row["reason"], row["row"]) for row in bad(done)] == [("LATE", "{}")] * 2
