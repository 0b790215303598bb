"""What is said of open panes, sessions and partitions, against naive models that are asked the same."""

from __future__ import annotations

import copy
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import (
    AllOf,
    AnyOf,
    Batched,
    Calendar,
    Count,
    Cumulate,
    DeclarationError,
    Every,
    PartitionAge,
    Session,
    Sliding,
    Time,
    TimeInterval,
    Tumbling,
    agg,
)
from panekeeper.framework.core.inspection.open_work import open_work
from panekeeper.framework.core.inspection.recorded import RecordedPort, recorded_ports
from panekeeper.framework.core.inspection.recorded_windows import panes_of
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, JobSpec
from panekeeper.framework.core.steps import Rows, Step, Tick
from panekeeper.framework.declarations.windows import Window
from panekeeper.state.compatibility import fingerprint
from panekeeper.state.store import MemoryStore
from tests.framework.core.joins.join_batches import Groups, left, right
from tests.framework.core.joins.join_batches import spec as joined
from tests.framework.core.joins.join_batches import watermark as at_watermark
from tests.framework.core.panes.firings import COLUMNS, KEYS, rows, run, spec_of, watermark
from tests.framework.core.panes.test_firing_properties import BY_RULE, batches_of, panes
from tests.model.firing_panes import NaivePanes

US = 1_000_000


def port_of(spec: JobSpec) -> RecordedPort:
    """The one port of a job, as its checkpoint records it."""
    declaration = {
        "window": spec.window.declaration(),
        "partition_by": {"k": "string"},
        "event_time": "t",
        "aggregate": {name: one.declaration() for name, one in (spec.aggregates or {}).items()},
        "output": {field.name: str(field.type) for field in spec.output},
    }
    return recorded_ports(fingerprint(declaration))[0]


def opened(spec: JobSpec, store: MemoryStore) -> dict[tuple[str, float], dict[str, Any]]:
    """What is open, by key and start in seconds."""
    found = open_work(port_of(spec), store).to_pylist()
    return {(one["k"], one["pane_start"] / US): one for one in found}


def fires(model: NaivePanes, key: str, start: float, act: Any) -> bool:
    """Whether something that happens to a copy of the model makes a partition fire in a pane."""
    after = copy.deepcopy(model)
    act(after)
    return any(row[:2] == (key, start) for row in after.log[len(model.log) :])


def declared(options: dict[str, Any]) -> tuple[TimeInterval, dict[str, Any]]:
    """A window, and what the model takes of it."""
    kinds: dict[str, Any] = {
        "rows": lambda n: Every(rows=n),
        "clock": Every,
        "event_time": lambda s: Every(event_time=s),
    }
    every = {name: kinds[by](size) for name in ("early", "refire") if name in options for by, size in [options[name]]}
    condition = {"fires_when": f"sum >= {options['fires_when']}"} if "fires_when" in options else {}
    return TimeInterval(**(options | every | condition)), {"emit": "on_complete"} | options


MOVES = st.one_of(
    st.tuples(st.just("watermark"), st.integers(0, 24)),
    st.tuples(st.just("clock"), st.integers(0, 60)),
    st.just(("end",)),
)
ADDED = st.tuples(st.just("row"), st.sampled_from("ab"), st.integers(5, 40), st.integers(-9, 9))
UNENDED = st.lists(st.one_of(ADDED, ADDED, ADDED, MOVES), min_size=12, max_size=40).map(lambda some: [*some, ("end",)])


@given(
    panes=panes(),
    rules=st.one_of(st.just({}), BY_RULE, st.fixed_dictionaries({"emit": st.sampled_from(("on_close", "on_update"))})),
    script=UNENDED,
    age=st.sampled_from((0, 3, 12, 40)),
)
def test_what_is_said_of_an_open_pane_is_what_then_happens(
    panes: dict[str, Any], rules: dict[str, Any], script: list[tuple[Any, ...]], age: int
) -> None:
    """The rows, the firings; and it fires at that watermark, clock or row, closes at that watermark, and not before."""
    try:
        window, of_model = declared(panes | {"discard_age": age} | rules)
    except DeclarationError:
        return
    spec, store, model = spec_of(window), MemoryStore(), NaivePanes(of_model)
    run(spec, batches_of(script), store)
    model.play(script)
    found = opened(spec, store)
    size = panes["interval_duration"]
    held = {
        (key, model.end_of(pane) - size): (pane, cell)
        for pane, cells in model.cells.items()
        for key, cell in cells.items()
    }
    assert found.keys() == held.keys()
    for (key, start), one in found.items():
        pane, cell = held[key, start]
        assert one["rows"] == len(cell.rows) or window.forgets
        assert one["firings"] == cell.fired
        assert one["unfired"] == (bool(cell.new) or not cell.complete)
        require_that_it_happens(model, key, start, one)
        if one["fires_at"] is None and window.refire is None:
            assert not fires(model, key, start, advance((one["closes_at"] - 1) / US))
        for us, is_open in ((one["closes_at"] - 1, True), (one["closes_at"], False)):
            after = copy.deepcopy(model)
            after.advance(us / US)
            assert (key in after.cells.get(pane, {})) is is_open


def require_that_it_happens(model: NaivePanes, key: str, start: float, one: dict[str, Any]) -> None:
    """It fires at the watermark, at the clock, at the row that it says, and not just before."""
    acts: list[tuple[Any, Any]] = []
    if (us := one["fires_at"]) is not None:
        acts.append((advance((us - 1) / US), advance(us / US)))
    if (us := one["next_clock"]) is not None:
        acts.append((tick(us / US - 1), tick(us / US)))
    if (count := one["next_rows"]) is not None:
        acts.append((add(key, start, count - 1), add(key, start, count)))
    for before, act in acts:
        assert fires(model, key, start, act)
        assert not fires(model, key, start, before)


def advance(seconds: float) -> Any:
    """The watermark advances."""
    return lambda model: model.advance(seconds)


def tick(seconds: float) -> Any:
    """The clock goes on."""
    return lambda model: model.tick(seconds)


def add(key: str, start: float, count: int) -> Any:
    """So many rows join a pane."""
    return lambda model: [model.row(key, int(start), 0) for _ in range(count)]


@pytest.mark.parametrize(
    "window",
    [
        TimeInterval("1 hour", creation_period="20 minutes", discard_age="6 hours", interval_offset=60, late="tuple"),
        TimeInterval(60, early=Every("10 seconds"), refire=Every(rows=2), discard_age=9, results="retracting"),
        TimeInterval(60, early=Every(event_time=5)),
        TimeInterval(60, emit="on_close"),
        TimeInterval(60, fires_when="n >= 3", then="begin_anew"),
        TimeInterval(60, fill="last", fill_for="1 hour"),
        Cumulate("1 hour", "1 day", discard_age=60),
        Calendar("week", zone="Europe/Berlin", starts="sunday 06:00"),
        Calendar("month", zone="UTC", starts="day 15", discard_age="2 days"),
        Calendar("year", zone="UTC", starts="april 00:30"),
        Calendar("day", zone="America/New_York"),
    ],
    ids=str,
)
def test_a_window_is_built_again_from_what_is_recorded(window: TimeInterval) -> None:
    """Whatever its options are, the built one records the same."""
    flat = fingerprint({"window": window.declaration()})
    fields = {name.removeprefix("window."): value for name, value in flat.items()}
    assert panes_of(fields).declaration() == window.declaration()
    assert panes_of(window.declaration()).declaration() == window.declaration()


def test_rows_are_counted_where_rows_are_kept_and_not_told_where_nothing_counts_them() -> None:
    """An aggregate that needs the rows keeps them; a sum alone does not say how many rows it has."""
    batch = [[rows(("a", 1, 5), ("a", 2, 5), ("b", 70, 1)), watermark(3)]]
    for spec, counts in (
        (spec_of(TimeInterval(60), all=agg.collect("v")), {("a", 0): 2, ("b", 60): 1}),
        (spec_of(TimeInterval(60), sum=agg.sum("v")), {("a", 0): None, ("b", 60): None}),
    ):
        store = MemoryStore()
        run(spec, batch, store)
        assert {place: one["rows"] for place, one in opened(spec, store).items()} == counts
    assert port_of(spec_of(TimeInterval(60), n=agg.count(where="v > 2"))).counted_by is None


def test_panes_of_a_group_that_has_seen_nothing_are_none() -> None:
    """Of every kind of window."""
    for window in (TimeInterval(60), TimeInterval(60, early=Every(rows=2)), Session(60), Tumbling(Count(2))):
        assert open_work(port_of(spec_of(window)), MemoryStore()).num_rows == 0


def test_joined_panes_are_those_of_both_ports() -> None:
    """With the rows of both; the partition columns have the names of the first port in the log."""
    window = TimeInterval(10, discard_age=30)
    groups = Groups(joined(window))
    groups.run([left("a", 1), right("a", 2), right("b", 3), at_watermark(10), left("a", 12)])
    sides = {
        prefix: {"window": window.declaration(), "partition_by": {name: "string"}}
        for prefix, name in (("", "key"), ("port_1", "name"))
    }
    declaration = sides[""] | {
        "port_1": sides["port_1"],
        "join": groups.made.join.declaration() if groups.made.join else {},
    }
    (port,) = recorded_ports(fingerprint(declaration))
    found = open_work(port, groups.stores[0]).to_pylist()
    shown = sorted((one["k/0"], one["pane_start"] // US, one["rows"], one["state"]) for one in found)
    assert shown == [("a", 0, 2, "late"), ("a", 10, 1, "open"), ("b", 0, 1, "late")]
    assert (port.log_keys, port.row_keys) == (("key",), ("key",))


def test_a_session_waits_for_its_end_and_then_for_its_close() -> None:
    """With the rows of one that has not fired; one that fired and got a row fires again at any greater watermark."""
    spec, store = spec_of(Session(10, discard_age=30)), MemoryStore()
    run(spec, [[rows(("a", 0, 1), ("a", 8, 1), ("b", 2, 1)), watermark(12)]], store)
    found = opened(spec, store)
    assert (found["a", 0]["rows"], found["a", 0]["fires_at"], found["a", 0]["state"]) == (2, 18 * US, "open")
    assert (found["b", 2]["next"], found["b", 2]["closes_at"], found["b", 2]["state"]) == ("close", 42 * US, "late")
    run(spec, [[rows(("b", 3, 1))]], store)
    one = opened(spec, store)["b", 2]
    assert (one["pane_end"], one["firings"], one["next"], one["fires_at"]) == (13 * US, 1, "refire", 13 * US)


def test_a_session_says_at_which_late_rows_or_when_it_fires_again() -> None:
    """By `refire`; else as it closes. One that a late row has prolonged waits for its end."""
    spec, store = spec_of(Session(10, discard_age=30, refire=Every(rows=3), results="retracting")), MemoryStore()
    run(spec, [[rows(("a", 0, 1)), watermark(12)], [rows(("a", 1, 1))]], store)
    one = opened(spec, store)["a", 0]
    assert (one["firings"], one["next"], one["next_rows"], one["fires_at"]) == (1, "refire", 2, 41 * US)
    run(spec, [[rows(("a", 5, 1))]], store)
    one = opened(spec, store)["a", 0]
    assert (one["state"], one["next_rows"], one["fires_at"]) == ("open", None, 15 * US)
    by_clock, store = spec_of(Session(10, discard_age=30, refire=Every("10 seconds"))), MemoryStore()
    run(by_clock, [[Tick(3 * US), rows(("a", 0, 1)), watermark(12), Tick(15 * US), rows(("a", 1, 1))]], store)
    assert opened(by_clock, store)["a", 0]["next_clock"] == 23 * US


def test_a_session_that_ends_behind_the_watermark_waits_for_no_row() -> None:
    """It is late, and fires at the next watermark; one that the watermark has not reached fires at its third row."""
    spec, store = spec_of(Session(10, discard_age=30, early=Every(rows=3))), MemoryStore()
    run(spec, [[watermark(20), rows(("a", 5, 1), ("b", 15, 1))]], store)
    found = opened(spec, store)
    assert (found["a", 5]["next_rows"], found["a", 5]["fires_at"]) == (None, 20 * US + 1)
    assert (found["b", 15]["next_rows"], found["b", 15]["fires_at"]) == (2, 25 * US)


def arrivals(window: Window, *batch: Any) -> list[dict[str, Any]]:
    """What is said of the partitions after some rows (key, arrival in seconds) and clocks."""
    spec, store = spec_of(window), MemoryStore()
    steps: list[Step] = []
    for one in batch:
        if isinstance(one, tuple):
            table = pa.table([[one[0]], [1]], schema=COLUMNS)
            steps.append(Rows(table.append_column(ARRIVAL_TIME, pa.array([one[1] * US], pa.int64()))))
        else:
            steps.append(Tick(one * US))
    run(spec, [steps], store)
    found: list[dict[str, Any]] = open_work(port_of(spec), store).sort_by("k").to_pylist()
    return found


def test_a_window_of_rows_says_how_many_lack() -> None:
    """Tumbling by its rows, sliding by those since it fired, batched by those that wait; full ones by their room."""
    three = [("a", 1), ("a", 2), ("b", 3)]
    for window, lacking in (
        (Tumbling(Count(4)), [2, 3]),
        (Sliding(evict=Count(9), trigger=Count(2)), [2, 1]),
        (Sliding(evict=Count(9)), [1, 1]),
        (Sliding(evict=Count(4), when_full=True), [2, 3]),
        (Sliding(evict=AllOf(Time(60), Count(4)), when_full=True), [2, 3]),
        (Batched(retain=4, every=3), [1, 2]),
    ):
        found = arrivals(window, *three)
        assert [one["next_rows"] for one in found] == lacking, window
        assert [one["next_clock"] for one in found] == [None, None]


def test_a_window_of_time_says_when_it_is_due_and_when_its_partition_leaves() -> None:
    """From the partition's first row on; it leaves so long after its last one."""
    (found,) = arrivals(Tumbling(Time(30), partition_eviction=PartitionAge(100)), 1, ("a", 1), ("a", 5))
    assert (found["rows"], found["next_clock"], found["evicted_at"]) == (2, 31 * US, 105 * US)
    assert found["next_rows"] is None


def test_a_window_of_rows_or_time_that_has_more_rows_than_a_new_size_fires_with_the_next_one() -> None:
    """As the program that continues with the smaller size does; one by the number alone waits for a multiple."""
    for policy, lacking in ((AnyOf(Count(2), Time(60)), 1), (Count(3), 2)):
        before, store = spec_of(Sliding(evict=Count(9), trigger=Count(9))), MemoryStore()
        table = pa.table([["a"] * 4, [1] * 4], schema=COLUMNS).append_column(ARRIVAL_TIME, pa.array([US] * 4))
        run(before, [[Rows(table)]], store)
        after = spec_of(Sliding(evict=Count(9), trigger=policy))
        (found,) = open_work(port_of(after), store).to_pylist()
        assert found["next_rows"] == lacking
        one = table.slice(0, 1)
        fired = [run(after, [[Rows(one)]], store).num_rows for _ in range(lacking)]
        assert fired == [0] * (lacking - 1) + [1]


def test_a_partition_column_by_which_nothing_can_be_looked_up_is_refused() -> None:
    """With its name and type."""
    with pytest.raises(DeclarationError, match="'k' is of the type struct"):
        recorded_ports({"window.kind": "session", "partition_by.k": "struct<a: int64>"})
    assert len(KEYS) == 1
