"""`assert_same_for_every_cut` and `assert_survives_restarts`: what depends on the batches is found, and made small."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from panekeeper import (
    AnyOf,
    Batched,
    Calendar,
    Count,
    Cumulate,
    DeclarationError,
    Emit,
    Event,
    EventType,
    Every,
    Operator,
    Session,
    Sliding,
    SlidingByRow,
    StateContext,
    StateHandler,
    Time,
    TimeInterval,
    Tumbling,
    agg,
)
from panekeeper.framework.testing import every_cut
from panekeeper.testing import (
    Clock,
    Flush,
    Restart,
    Watermark,
    assert_same_for_every_cut,
    assert_survives_restarts,
    run,
)

ARRIVAL: dict[str, Any] = {"schema": "k string, v long", "partition_by": "k", "aggregates": {"all": agg.collect("v")}}
TIMED: dict[str, Any] = ARRIVAL | {"schema": "k string, t timestamp, v long", "event_time": "t"}
ROWS = [{"k": "ab"[number % 2], "v": number} for number in range(8)]


class Forgetful(Operator):
    """Counts rows in an attribute, which is lost after a micro-batch."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.TRIGGER})

    def __init__(self) -> None:
        self.rows = 0

    def handle_event(self, event: Event, emit: Emit) -> None:
        self.rows += event.table.num_rows
        emit(rows=self.rows)


class Lasting(Forgetful, StateHandler):
    """Counts the rows of all panes of a partition, and keeps the count."""

    def __init__(self) -> None:
        self.of: dict[Any, int] = {}

    def handle_event(self, event: Event, emit: Emit) -> None:
        self.of[event.key] = self.of.get(event.key, 0) + event.table.num_rows
        emit(rows=self.of[event.key])

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("of", self.of)

    def reset(self, ctx: StateContext) -> None:
        self.of = ctx.read("of")


class Everywhere(Lasting):
    """Counts the rows of tumbles, too."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.TRIGGER, EventType.EVICTION})


class Restless(Lasting):
    """Begins anew after a restart."""

    def reset(self, ctx: StateContext) -> None:
        self.of = {} if ctx.restarted else ctx.read("of")


class Careless(agg.UserAggregate):
    """A count that is kept in an attribute, and so not stored."""

    state = int

    def __init__(self) -> None:
        self.rows = 0

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        self.rows += 1
        return self.rows

    def merge(self, left: int, right: int) -> int:
        return left + right

    def result(self, state: int) -> int:
        return state


class Raising(Operator):
    """Raises at every firing."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.TRIGGER})

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(rows=self.count(event))

    def count(self, event: Event) -> int:
        raise KeyError("fare")


class RaisingHandler(Raising, StateHandler):
    """The same, of a job that fails on it."""


class Kept(agg.UserAggregate):
    """The number of values and their sum; each class below has one mistake."""

    state = list[int]

    def zero(self) -> list[int]:
        return [0, 0]

    def add(self, state: list[int], value: int) -> list[int]:
        return [state[0] + 1, state[1] + value]

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [a[0] + b[0], a[1] + b[1]]

    def result(self, state: list[int]) -> float | None:
        return state[1] / state[0] if state[0] else None


class KeepsTheFirst(Kept):
    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return a


class KeepsTheLast(Kept):
    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return b


class CountsOne(Kept):
    """Right where one value is merged."""

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [a[0] + 1, a[1] + b[1]] if b[0] else a


class NotNeutral(Kept):
    """Right where both sides have values."""

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [a[0] + b[0], a[1] + b[1]] if a[0] else [0, 0]


class Swaps(Kept):
    """Right until something is added to what was merged."""

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return [-(a[0] + b[0]), -(a[1] + b[1])] if a[0] and b[0] else super().merge(a, b)


class Removes(agg.UserAggregate):
    """A sum that slides, and forgets the wrong way."""

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        return state + value

    def remove(self, state: int, value: int) -> int:
        return state + value

    def result(self, state: int) -> int:
        return state


def operator(one: Operator) -> dict[str, Any]:
    """A declaration with an operator in place of aggregates."""
    return {"operator": one, "output": "rows long", "aggregates": None}


def printed(error: pytest.ExceptionInfo[AssertionError], declaration: dict[str, Any]) -> dict[str, Any]:
    """What the program in the message defines when it is run as it is printed."""
    program = str(error.value).partition("shows it:\n\n")[2]
    names: dict[str, Any] = {"declaration": declaration}
    exec(re.sub(r"^ {4}", "", program, flags=re.MULTILINE), names)  # noqa: S102 -- our own text
    return names


def test_an_operator_that_forgets_is_shown_by_two_rows() -> None:
    """The smallest script is printed, and gives two results when it is run as printed."""
    declaration = ARRIVAL | {"window": Sliding(evict=Count(1))} | operator(Forgetful())
    with pytest.raises(AssertionError, match=r"depend on where micro-batches end; .* in k='.':") as error:
        assert_same_for_every_cut(declaration, [*ROWS, Clock(5), ROWS[0]])
    names = printed(error, declaration)
    assert [row["rows"] for row in names["whole"]] == [1, 2]
    assert [row["rows"] for row in names["cut"]] == [1, 1]
    assert "Restart()" not in str(error.value)
    assert str(error.value).count("'v': ") == 4


def test_state_that_a_restart_loses_is_shown_by_a_restart() -> None:
    """Cuts alone would change nothing."""
    declaration, rows = ARRIVAL | {"window": Sliding(evict=Count(1))} | operator(Restless()), ROWS[:5]
    for play, (one, two) in (
        (assert_same_for_every_cut, ("whole", "cut")),
        (assert_survives_restarts, ("unbroken", "broken")),
    ):
        with pytest.raises(AssertionError) as error:
            play(declaration, rows)
        names = printed(error, declaration)
        assert [[row["rows"] for row in names[name]] for name in (one, two)] == [[1, 2], [1, 1]]
        assert str(error.value).count("Restart()") == 1
    assert_same_for_every_cut(declaration | operator(Lasting()), rows)
    assert_survives_restarts(declaration | operator(Forgetful()), rows)


def test_an_aggregate_that_counts_in_an_attribute_is_found() -> None:
    """Of an aggregate of the user; times in the script are printed so that they can be read again."""
    from datetime import UTC, datetime

    declaration = TIMED | {"window": TimeInterval(10), "aggregates": {"total": agg.user(Careless(), "v", output=int)}}
    rows = [{"k": "a", "t": datetime(2024, 5, 1, 10, 0, second, tzinfo=UTC), "v": 1} for second in range(4)]
    with pytest.raises(AssertionError, match="pane_start=") as error:
        assert_same_for_every_cut(declaration, rows)
    names = printed(error, declaration)
    assert [[row["total"] for row in names[name]] for name in ("whole", "cut")] == [[2], [1]]
    assert_survives_restarts(declaration, rows)


def test_panes_that_begin_together_are_told_apart_by_their_ends() -> None:
    """Events are in order within a pane (docs/semantics.md section 1.3); these come pane by pane in a micro-batch."""

    class Entering(Forgetful):
        events: ClassVar[frozenset[EventType]] = frozenset({EventType.INSERTION})

        def handle_event(self, event: Event, emit: Emit) -> None:
            for value in event.column("v").tolist():
                emit(rows=value)

    declaration = TIMED | {"window": Cumulate(1, 2)} | operator(Entering())
    assert_same_for_every_cut(declaration, [{"k": "a", "t": 0, "v": 0}, {"k": "a", "t": 0, "v": 1}], tries=2)


def test_what_fires_by_batches_survives_restarts() -> None:
    """It depends on where batches end, as it is declared to do."""
    declaration = TIMED | {"window": TimeInterval(10, emit="on_update")}
    rows = [{"k": "a", "t": second, "v": second} for second in range(4)]
    with pytest.raises(AssertionError, match=r"whole +all=\[0, 1\]\n +cut +all=\[0\]\n.* fires after each micro-batch"):
        assert_same_for_every_cut(declaration, rows)
    assert_survives_restarts(declaration, [rows[:3], rows[3:]])


def test_an_error_in_one_of_the_ways_is_a_difference() -> None:
    """It is shown in place of the rows."""

    class Failing(Forgetful):
        def handle_event(self, event: Event, emit: Emit) -> None:
            super().handle_event(event, emit)
            if self.rows > 1:
                raise ValueError("more than one")

    declaration = ARRIVAL | {"window": Sliding(evict=Count(1)), "on_error": "fail"} | operator(Failing())
    with pytest.raises(AssertionError, match=r"an error:\n +whole +InputError: .*more than one"):
        assert_same_for_every_cut(declaration, ROWS, allow_errors=True)


@pytest.mark.parametrize("declaration", [operator(Raising()), operator(RaisingHandler())], ids=["kept", "fails"])
def test_an_operator_that_always_raises_turns_every_test_red(declaration: dict[str, Any]) -> None:
    """With the frames of the user, whole, and none of Panekeeper's; a test that expects it says so."""
    declaration = ARRIVAL | {"window": Sliding(evict=Count(1))} | declaration
    for play in (assert_same_for_every_cut, assert_survives_restarts):
        with pytest.raises(AssertionError, match="allow_errors=True") as error:
            play(declaration, ROWS)
        assert "KeyError: 'fare'" in str(error.value)
        play(declaration, ROWS, allow_errors=True)
        said = str(error.value)
        frames = re.findall(r'File "(.*?)", line \d+, in (\w+)', said)
        assert frames == [(__file__, "handle_event"), (__file__, "count")]
        assert 'raise KeyError("fare")' in said
        assert said.count("Traceback") == 1


def test_a_script_with_a_function_that_raises_turns_red_unless_it_is_expected() -> None:
    """Of an operator, of an aggregate, and of a row that it emitted; what else is in the quarantine does not."""

    class Wrong(Forgetful):
        def handle_event(self, event: Event, emit: Emit) -> None:
            emit(rows="many")

    class Failing(Kept):
        def add(self, state: list[int], value: int) -> list[int]:
            raise ZeroDivisionError("of the user")

    failing = ARRIVAL | {"aggregates": {"mine": agg.user(Failing(), "v")}}
    for declaration, words in (
        (ARRIVAL | operator(Raising()), "raised, 8 times.*KeyError: 'fare' in Raising"),
        (ARRIVAL | operator(Wrong()), "a row that Wrong emitted"),
        (failing, "ZeroDivisionError: of the user"),
    ):
        with pytest.raises(AssertionError, match=rf"(?s){words}"):
            run(Sliding(evict=Count(1)), **declaration, script=[ROWS])
        played = run(Sliding(evict=Count(1)), **declaration, script=[ROWS], allow_errors=True)
        assert {row["reason"] for row in played.quarantine} == {"USER_ERROR"}
    over = run(
        Tumbling(Count(2)), script=[[{"v": 2**62}, {"v": 2**62}]], **ARRIVAL | {"aggregates": {"n": agg.sum("v")}}
    )
    assert [row["reason"] for row in over.quarantine] == ["SUM_OVERFLOW"]


@pytest.mark.parametrize("broken", [KeepsTheFirst(), KeepsTheLast(), CountsOne(), NotNeutral(), Swaps(), Removes()])
def test_a_merge_that_is_not_what_add_says_turns_the_test_red(broken: agg.UserAggregate) -> None:
    """Also in panes that touch, which merge nothing: the results of `run` are the same however rows are cut."""
    declaration = TIMED | {"window": TimeInterval(10), "aggregates": {"mine": agg.user(broken, "v", where="v > 1")}}
    rows = [{"k": "a", "t": t, "v": v} for t, v in enumerate((5, 1, 3, 8))]
    with pytest.raises(AssertionError, match=rf"of {type(broken).__name__} is not what add\(\) says: .*\[5, 3, 8\]"):
        assert_same_for_every_cut(declaration, rows)
    assert_same_for_every_cut(declaration, rows, exact_merge=False)
    assert_survives_restarts(declaration, rows)


class RaisesInMerge(Kept):
    def merge(self, a: list[int], b: list[int]) -> list[int]:
        raise ValueError("cannot be merged")


class ReturnsNone(Kept):
    def merge(self, a: list[int], b: list[int]) -> list[int]:  # type: ignore[return]
        a[0] += b[0]


class ReturnsAnotherType(Kept):
    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return "both"  # type: ignore[return-value]


class RaisesInRemove(Removes):
    def remove(self, state: int, value: int) -> int:
        raise ValueError("cannot be removed")


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (RaisesInMerge(), r"merge\(\) of RaisesInMerge fails where add\(\) does not: (?s:.)*, in merge"),
        (
            ReturnsNone(),
            r"merge\(\) of ReturnsNone returns None: merge\(\) of \[\] and \[\], whose states are \[0, 0\]",
        ),
        (ReturnsAnotherType(), r"merge\(\) of ReturnsAnotherType fails where add\(\) does not: (?s:.)*ArrowInvalid"),
        (RaisesInRemove(), r"remove\(\) of RaisesInRemove fails where add\(\) does not: (?s:.)*, in remove"),
    ],
)
def test_a_merge_that_fails_turns_the_test_red(broken: agg.UserAggregate, words: str) -> None:
    """By what it raises, with the frames of the user, or by the None that it returns; also in panes that touch."""
    declaration = TIMED | {"window": TimeInterval(10), "aggregates": {"mine": agg.user(broken, "v")}}
    rows = [{"k": "a", "t": t, "v": v} for t, v in enumerate((5, 1, 3, 8))]
    for allow_errors in (False, True):
        with pytest.raises(AssertionError, match=words) as error:
            assert_same_for_every_cut(declaration, rows, allow_errors=allow_errors)
        frames = re.findall(r'File "(.*?)", line', str(error.value))
        assert {name for name in frames if not name.endswith(".pxi")} <= {__file__}
    assert_same_for_every_cut(declaration, rows, exact_merge=False)


SPREAD = [{"k": "a", "t": t, "v": t} for t in (10, 70, 130, 190)]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 3, 2)], ids=["in_order", "out_of_order"])
def test_state_that_panes_of_event_time_lose_is_found_without_a_watermark(order: tuple[int, ...]) -> None:
    """One follows the rows, so that panes fire in several micro-batches; of a state handler that reads nothing, too."""
    declaration, rows = TIMED | {"window": TimeInterval("1 minute")}, [SPREAD[place] for place in order]
    for one in (Forgetful(), Lists(), Restless()):
        with pytest.raises(AssertionError, match="was lost between micro-batches") as error:
            assert_same_for_every_cut(declaration | operator(one), rows)
        names = printed(error, declaration | operator(one))
        assert [[row["rows"] for row in names[name]] for name in ("whole", "cut")] == [[1, 2], [1, 1]]
    with pytest.raises(AssertionError, match="whether the job was started again"):
        assert_survives_restarts(declaration | operator(Restless()), rows)
    assert_same_for_every_cut(declaration | operator(Lasting()), rows)
    assert_survives_restarts(declaration | operator(Lasting()), rows)


def test_state_that_a_restart_loses_is_found_by_the_watermark_of_several_inputs() -> None:
    """It follows the rows of all of them, where a micro-batch begins in any case."""
    ports = {"ports": {name: {"window": TimeInterval("1 minute")} for name in "ab"}}
    declaration = {name: value for name, value in TIMED.items() if name != "aggregates"} | ports
    rows = [{"a": [one], "b": [one]} for one in SPREAD]
    for play in (assert_same_for_every_cut, assert_survives_restarts):
        with pytest.raises(AssertionError, match="'of' of Restless was lost"):
            play(declaration | operator(Restless()), rows)
        play(declaration | operator(Lasting()), rows)


@example(times=[None, 15, 1, 30, -(10**11), 45])
@settings(max_examples=max(2, settings().max_examples // 12))
@given(times=st.lists(st.none() | st.just(-(10**11)) | st.integers(0, 60), max_size=8))
def test_the_watermark_that_follows_the_rows_makes_none_late(times: list[int | None]) -> None:
    """Whatever their order; rows without a time that a pane may have do not hold it."""
    rows = [{"k": "a", "t": time, "v": place} for place, time in enumerate(times)]
    found = every_cut._read(every_cut._declared(TIMED | {"window": TimeInterval(10)}), rows)
    played = run(TimeInterval(10), **TIMED, script=found.script())
    assert played.counts["dropped_late"] == played.counts["refined_late"] == 0
    marks = [one.us for one in found.items if isinstance(one, Watermark)]
    assert marks == sorted(set(marks))
    to_come = [[one for one in times[place:] if one is not None and one > -(6 * 10**10)] for place in range(1, 9)]
    assert len(marks) == 2 + len({min(later) for later in to_come if later})


@given(values=st.lists(st.floats(-1e9, 1e9), max_size=12))
@settings(max_examples=10)
def test_a_merge_of_floats_may_round(values: list[float]) -> None:
    """Sums in another order are near enough; of several windows each is tried."""

    class Mean(Kept):
        state = list[float]

        def zero(self) -> list[float]:  # type: ignore[override]
            return [0.0, 0.0]

    windows = {"short": TimeInterval(5), "long": Session(7)}
    declaration = {"windows": windows, "schema": "t timestamp, v double", "event_time": "t"}
    rows = [{"t": t, "v": v} for t, v in enumerate(values)]
    mean = agg.user(Mean(), "v")
    assert_same_for_every_cut(declaration | {"aggregates": {"mean": mean}}, rows, tries=1)
    of_each = {"short": {"mean": mean}, "long": {"mean": agg.user(KeepsTheFirst(), "v")}}
    if len(values) > 2:
        with pytest.raises(AssertionError, match="KeepsTheFirst"):
            assert_same_for_every_cut(declaration | {"aggregates": of_each}, rows, tries=1)


class Lists(Lasting):
    """Reads back something else than it wrote."""

    def reset(self, ctx: StateContext) -> None:
        self.of = {}


class OfTheClass(Forgetful):
    """Counts in its class, which all micro-batches share."""

    counted: ClassVar[list[int]] = []

    def handle_event(self, event: Event, emit: Emit) -> None:
        self.counted.append(1)
        emit(rows=len(self.counted))


@pytest.mark.parametrize(
    ("declaration", "words"),
    [
        (operator(Forgetful()), "'rows' of Forgetful was lost between micro-batches; make the class a StateHandler"),
        (operator(Lists()), r"'of' of Lists was lost between micro-batches; checkpoint\(\) must write it"),
        (operator(Restless()), r"'of' of Restless was lost between micro-batches; checkpoint\(\) must write it"),
        (operator(OfTheClass()), "other results when it is played again"),
        (
            {"aggregates": {"n": agg.user(Careless(), "v", int)}, "window": Tumbling(Count(4))},
            "'rows' of Careless was lost between micro-batches; keep what lasts in the state",
        ),
    ],
)
def test_the_likeliest_cause_is_named(declaration: dict[str, Any], words: str) -> None:
    """By what was seen: which attribute is another one in the next micro-batch, or that nothing repeats itself."""
    with pytest.raises(AssertionError, match=f"(?s)Likeliest cause: .*{words}") as error:
        assert_same_for_every_cut(ARRIVAL | {"window": Sliding(evict=Count(1))} | declaration, ROWS)
    assert "fired_at=" not in str(error.value).partition("Likeliest")[0]


def test_rows_of_ports_keep_the_order_in_which_a_batch_has_them() -> None:
    """A row of an earlier port begins a micro-batch; joins of panes and of rows are the same for every cut."""
    of_ports = {name: value for name, value in TIMED.items() if name != "aggregates"}
    rows = [{"a": [{"k": "x", "t": t, "v": t}], "b": [{"k": "x", "t": t + 1, "v": -t}]} for t in (1, 2, 9, 4)]
    assert_same_for_every_cut(
        of_ports | {"ports": {"a": {}, "b": {}}, "join_within": {"before": 2, "after": 2}}, rows, tries=3
    )
    ports = {name: {"window": TimeInterval(5, discard_age=9)} for name in ("a", "b")}
    late = [*rows, Watermark(8), rows[0], Restart(), rows[1], Watermark(30)]
    assert_same_for_every_cut(of_ports | {"ports": ports, "join": {"how": "full"}}, late, tries=3)
    counted = {"ports": {name: {"window": Sliding(evict=Count(1))} for name in "ab"}, **operator(Forgetful())}
    declaration = of_ports | counted
    with pytest.raises(AssertionError) as error:
        assert_same_for_every_cut(declaration, rows[:2])
    names = printed(error, declaration)
    assert [len(names[name]) for name in ("whole", "cut")] == [2, 2]


@pytest.mark.parametrize(
    ("declaration", "rows", "words"),
    [
        (ARRIVAL | {"window": Tumbling(Count(1)), "script": []}, [], "the declaration has script; give the arguments"),
        (ARRIVAL | {"window": Tumbling(Count(1))}, [7], r"script\[0\] is 7; it must be a list of rows"),
        (ARRIVAL | {"window": Tumbling(Count(1))}, [{"w": 1}], r"script\[0\]\[0\] has the unknown column 'w'"),
        (ARRIVAL | {"window": Tumbling(Count(1)), "partition": "k"}, [], "has no option 'partition'"),
        (ARRIVAL, [], "takes a window, or ports"),
        (Tumbling(Count(1)), [], r"the declaration is Tumbling\(.*\); give a dict, such as \{\"window\""),
    ],
)
def test_what_cannot_be_played_is_refused(declaration: Any, rows: list[Any], words: str) -> None:
    """By the errors of `run`."""
    for play in (assert_same_for_every_cut, assert_survives_restarts):
        with pytest.raises(DeclarationError, match=words):
            play(declaration, rows)


ITEM = st.one_of(
    st.fixed_dictionaries({"k": st.sampled_from("ab"), "v": st.integers(0, 9)}),
    st.fixed_dictionaries({"k": st.sampled_from("ab"), "v": st.integers(0, 9)}),
    st.builds(Clock, st.integers(1, 40)),
    st.just(Restart()),
)


@pytest.mark.parametrize(
    "window",
    [
        Tumbling(Count(3)),
        Tumbling(AnyOf(Count(3), Time(30))),
        Sliding(evict=Count(3), trigger=Count(2)),
        Sliding(evict=Time(20), trigger=Time(10)),
        Batched(retain=3, every=2),
    ],
    ids=str,
)
@settings(max_examples=max(2, settings().max_examples // 12))
@given(rows=st.lists(ITEM, max_size=12))
def test_windows_in_arrival_order_are_the_same_for_every_cut(window: Any, rows: list[Any]) -> None:
    """With times between rows, outages and a flush; and so is what an operator with state makes of them."""
    assert_same_for_every_cut(ARRIVAL | {"window": window}, [*rows, Flush()], tries=3)
    assert_same_for_every_cut(ARRIVAL | {"window": window} | operator(Everywhere()), rows, tries=3)


TIMES = st.fixed_dictionaries({"k": st.sampled_from("ab"), "t": st.integers(0, 60), "v": st.integers(0, 9)})


@st.composite
def event_times(draw: st.DrawFn) -> list[Any]:
    """Rows, watermarks that rise, and perhaps a flush in the end."""
    marks = sorted(draw(st.lists(st.integers(1, 70), max_size=3)))
    parts = [draw(st.lists(TIMES, max_size=5)) for _ in range(len(marks) + 1)]
    later = (one for mark, part in zip(marks, parts[1:], strict=True) for one in (Watermark(mark), *part))
    return [*parts[0], *later, *draw(st.sampled_from([[], [Flush()]]))]


@pytest.mark.parametrize(
    "window",
    [
        TimeInterval(20, creation_period=10, discard_age=15),
        TimeInterval(10, discard_age=20, early=Every(rows=2), results="retracting"),
        Cumulate(10, 30, discard_age=5),
        Calendar("day", zone="Europe/Berlin"),
        Session(7, discard_age=20),
        SlidingByRow(7, discard_age=20),
        SlidingByRow(7, discard_age=20, emit="on_close"),
        Session(7, discard_age=20, refire=Every(rows=2), results="retracting"),
    ],
    ids=repr,
)
@settings(max_examples=max(2, settings().max_examples // 12))
@given(rows=event_times())
def test_windows_of_event_time_are_the_same_for_every_cut(window: Any, rows: list[Any]) -> None:
    """With late rows, and rows that are too late."""
    aggregates = {"n": agg.count(), "total": agg.sum("v"), "most": agg.arg_max("v", "t")}
    assert_same_for_every_cut(TIMED | {"window": window, "aggregates": aggregates}, rows, tries=3)


def test_a_script_says_where_the_time_is_an_outage() -> None:
    """A restart that the assertion puts after a time is none."""
    declaration = ARRIVAL | {"window": Tumbling(Time(30))}
    assert_same_for_every_cut(declaration, [ROWS[:2], Clock(45), Restart(), ROWS[2:], Clock(31)])
    assert [row["reason"] for row in run(**declaration, script=[ROWS, Clock(45), Restart()])] == ["OVERDUE"] * 2
