"""One partition in one batch as a file: of any batch, it has the same results; what it cannot hold is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import (
    Calendar,
    Count,
    Cumulate,
    DeclarationError,
    Listener,
    Operator,
    Session,
    Sliding,
    SlidingByRow,
    StateContext,
    StateHandler,
    TimeInterval,
    Tumbling,
    agg,
)
from panekeeper.diagnostics.replay.capsule import case_of_group, masked, require_maskable
from panekeeper.diagnostics.replay.replay import RecordedGroup
from panekeeper.framework.core.group_batch import GroupBatch
from panekeeper.framework.core.inspection.differences import rows_difference
from panekeeper.framework.core.inspection.one_key import rows_of
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.core.steps import Rows, Step, Tick, Watermark
from panekeeper.framework.declarations.events import Event
from panekeeper.framework.declarations.operator import Emit, OperatorWithListeners
from panekeeper.framework.testing.results import as_dicts
from panekeeper.framework.testing.run import declared_job
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.state.store import MemoryStore
from panekeeper.testing import run_capsule
from tests.framework.core.handler_batches import StatefulTotal, rows, run, spec

SECOND = 1_000_000


class Names(Operator):
    """Emits the names of a pane."""

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Join them, in order of arrival."""
        emit(names=" ".join(map(str, event.column("name"))), n=len(event.column("name")))


class ListeningCount(Listener, StateHandler):
    """Counts the events across batches."""

    def __init__(self) -> None:
        self.events_seen = 0

    def handle_event(self, event: Event) -> None:
        self.events_seen += 1

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("seen", self.events_seen)

    def reset(self, ctx: StateContext) -> None:
        self.events_seen = ctx.read("seen")


AGGREGATES = {
    "total": agg.sum("v"),
    "mean": agg.mean("v"),
    "n": agg.count(),
    "first": agg.first("name"),
    "odd": agg.count_if("v % 2 = 1"),
}
DECLARED: dict[str, dict[str, Any]] = {
    "tumbling panes": {"window": TimeInterval(10, discard_age=5), "aggregates": AGGREGATES},
    "overlapping panes": {"window": TimeInterval(10, creation_period=3, discard_age=20), "aggregates": AGGREGATES},
    "operator": {
        "window": TimeInterval(10, discard_age=5),
        "operator": Names(),
        "output": "names string, n long",
    },
    "cumulating": {"window": Cumulate(5, 20), "aggregates": AGGREGATES},
    "calendar": {"window": Calendar("day", zone="Europe/Berlin"), "aggregates": AGGREGATES},
    "sessions": {"window": Session(4, discard_age=5), "aggregates": AGGREGATES},
    "windows by row": {"window": SlidingByRow(5, discard_age=10), "aggregates": AGGREGATES},
    "tumbling": {"window": Tumbling(Count(3)), "aggregates": AGGREGATES},
    "sliding": {"window": Sliding(evict=Count(3), trigger=Count(2)), "aggregates": AGGREGATES},
    "several windows": {
        "windows": {"panes": TimeInterval(10, discard_age=5), "bursts": Session(4), "rows": SlidingByRow(5)},
        "aggregates": {
            "panes": AGGREGATES,
            "bursts": {"n": agg.count(), "first": agg.first("name")},
            "rows": {"total": agg.sum("v")},
        },
    },
}


def spec_of(declared: dict[str, Any]) -> JobSpec:
    """The job spec of a declaration as `run` takes it."""
    options = declared | {"schema": "k string, name string, t timestamp, v long", "partition_by": "k"}
    if not isinstance(declared.get("window"), Tumbling | Sliding):
        options["event_time"] = "t"
    script = declared_job(**options)
    return script.computation([ScriptedStream(port.columns) for port in script.ports])._pipeline.spec


def step_of_code(spec: JobSpec, code: int, number: int, now: int) -> Step:
    """A few rows around a time, or the time itself, read off a number."""
    code, kind = divmod(code, 4)
    if kind == 0:
        return Watermark(now * SECOND) if spec.uses_event_time else Tick(now * SECOND)
    rows = []
    while code:
        code, key = divmod(code, 3)
        code, before = divmod(code, 12)
        at = (now + 3 - before) * SECOND
        rows.append({"k": [None, "a", "b"][key], "name": f"n{code % 5}", "t": at, "v": code % 7, EVENT_TIME: at})
    table = pa.table({name: [row[name] for row in rows] for name in ("k", "name", "t", "v", EVENT_TIME)})
    columns = [_column(table, field, number) for field in spec.columns]
    time = spec.time_column
    at = table.column(EVENT_TIME) if time == EVENT_TIME else pa.array([now * SECOND] * len(rows), pa.int64())
    return Rows(pa.table([*columns, at.cast(pa.int64())], schema=spec.columns.append(pa.field(time, pa.int64()))))


def _column(table: pa.Table, field: pa.Field, number: int) -> pa.Array:
    if field.name in table.column_names:
        return table.column(field.name).cast(field.type)
    return pa.array([(place + number) % 2 == 0 for place in range(table.num_rows)], field.type)  # a condition


def batches_of(spec: JobSpec, codes: Sequence[int]) -> list[list[Step]]:
    """Batches of steps read off numbers; time goes on, most often."""
    now, batches = 100, [list[Step]()]
    for number, code in enumerate(codes):
        rest, ends = divmod(code, 3)
        rest, more = divmod(rest, 5)
        now += more
        batches[-1].append(step_of_code(spec, rest, number, now))
        if ends == 0:
            batches.append([])
    return [one for one in batches if one]


def recorded(
    spec: JobSpec, store: MemoryStore, steps: list[Any], *, number: int = 0, checkpoint: BatchCheckpoint | None = None
) -> RecordedGroup:
    """A key group with this state, and what it gets in a batch."""
    batch = GroupBatch(number=number, group=0, steps=steps, checkpoint=checkpoint)
    return RecordedGroup(spec=spec, store=store, batch=batch)


CODES = st.lists(st.integers(0, 10**9), min_size=1, max_size=12)


@given(name=st.sampled_from([*DECLARED]), codes=CODES, key=st.sampled_from([None, "a", "b"]), data=st.data())
def test_a_capsule_of_any_batch_has_its_results(name: str, codes: list[int], key: str | None, data: Any) -> None:
    """Through its JSON; of one partition as the whole key group had it, whatever the window."""
    spec = spec_of(DECLARED[name])
    batches = batches_of(spec, codes)
    chosen = data.draw(st.integers(0, len(batches) - 1))
    store = MemoryStore()
    for steps in batches[:chosen]:
        KeyGroupRunner(spec, store).run(steps)
    group = recorded(spec, store, batches[chosen], number=chosen)
    values = {"k": pa.scalar(key, pa.string())}
    case = case_of_group(group, values, job="j")
    ran = run_capsule(json.loads(json.dumps(case.to_json())))
    assert ran.differences == ()
    for window, part in group.run()[0].parts.items():
        names = [one for one in spec.parts[window].results_schema.names if one != "firing"]
        expected = None if part.results is None else rows_of(part.results, values).select(names)
        assert rows_difference(expected, rows_of(case.results[window], values).select(names)) is None
        assert ran.results.windows.get(window, ran.results) == as_dicts(case.results[window], chosen)
    assert str(ran).endswith("equal")
    hidden = masked(case, ["k"], "salt")
    assert run_capsule(json.loads(json.dumps(hidden.to_json()))).is_equal
    assert {name: one.num_rows for name, one in hidden.results.items()} == {
        name: one.num_rows for name, one in case.results.items()
    }
    assert '"a"' not in json.dumps(hidden.to_json())


def case_with_rows(name: str = "tumbling panes", **more: Any) -> Any:
    """A case with a row and a watermark that fires it."""
    spec = spec_of({**DECLARED[name], **more})
    group = recorded(spec, MemoryStore(), [step_of_code(spec, 4 * 41 + 1, 0, 100)])
    return case_of_group(group, {"k": pa.scalar("a", pa.string())}, job="j")


def test_state_handlers_are_in_a_capsule_with_what_they_have_stored() -> None:
    """All that the batch does follows from its end; such a capsule cannot be masked."""
    made, store = spec(), MemoryStore()
    run(made, store, 0, rows(("a", 1), ("b", 2), ("a", 4)))
    checkpoint = BatchCheckpoint(checkpoint=1, group=0, attempt=2)
    steps = [rows(("a", 8)), rows(("a", 16), ("b", 32))]
    group = recorded(made, store, steps, number=1, checkpoint=checkpoint)
    case = case_of_group(group, {"key": pa.scalar("a")}, job="j")
    ran = run_capsule(json.loads(json.dumps(case.to_json())))
    assert ran.is_equal
    assert [(row["key"], row["total"]) for row in ran.results] == [("a", 29), ("b", 63)]
    assert [[row["total"] for row in step.results] for step in ran.steps()] == [[], [], [29]]
    assert case.has_others
    with pytest.raises(DeclarationError, match="mask names key, and what state handlers have stored"):
        require_maskable(made, ["key"])


def test_an_operator_with_listeners_is_one_object_with_its_state() -> None:
    """The handler that writes the state is the one that the events change, as in the job; so of a listener."""
    operator, listener = StatefulTotal(), ListeningCount()
    made, store = spec(listener, operator=operator), MemoryStore()
    made = replace(made, operator=OperatorWithListeners(operator, (listener,)))
    run(made, store, 0, rows(("a", 1), ("a", 2)))
    checkpoint = BatchCheckpoint(checkpoint=1, group=0)
    group = recorded(made, store, [rows(("a", 4), ("a", 8))], number=1, checkpoint=checkpoint)
    case = case_of_group(group, {"key": pa.scalar("a")}, job="j")
    ran = run_capsule(json.loads(json.dumps(case.to_json())))
    assert ran.differences == ()
    assert [row["total"] for row in ran.results] == [15]


def test_a_capsule_that_was_changed_says_what_differs(tmp_path: Path) -> None:
    """As the code of an aggregate does: the first row that is not as expected is named."""
    case = case_with_rows("operator")
    stored = case.to_json()
    stored["expected"]["results"][""]["rows"] = 0
    assert stored["needs"] == ["tests.diagnostics.replay.test_capsule:Names"]
    stored["expected"]["state"]["header"] = None
    (tmp_path / "case.json").write_text(json.dumps(stored))
    ran = run_capsule(tmp_path / "case.json")
    assert not ran.is_equal
    assert "state: header 0/0 is not stored, and is stored when run again" in str(ran)


def test_other_versions_and_what_is_no_capsule_are_refused(tmp_path: Path) -> None:
    """With the version that it has, and the one that is run here."""
    stored = case_with_rows().to_json()
    with pytest.raises(DeclarationError, match=r"the capsule has version 2, and state of version 1; this Panekeeper"):
        run_capsule({**stored, "capsule": 2})
    with pytest.raises(DeclarationError, match="this is no capsule"):
        run_capsule({"name": "x"})
    with pytest.raises(DeclarationError, match="the capsule is damaged"):
        run_capsule({name: one for name, one in stored.items() if name != "steps"})
    (tmp_path / "case.json").write_text("x")
    with pytest.raises(DeclarationError, match="is no capsule: it is no JSON"):
        run_capsule(tmp_path / "case.json")


def test_code_that_cannot_be_imported_is_refused() -> None:
    """A class inside a function, and an object that is more than its attributes."""

    class Local(Names):
        """Not at the top level."""

    with pytest.raises(DeclarationError, match=r"Local of tests\..* cannot be imported by a name; move it to a module"):
        case_with_rows("operator", operator=Local()).to_json()
    holder = Names()
    holder.lock = iter([1])  # type: ignore[attr-defined]
    with pytest.raises(DeclarationError, match=r"a capsule cannot hold .*, which is more than its attributes"):
        case_with_rows("operator", operator=holder).to_json()
    gone = case_with_rows("operator").to_json()
    gone = json.loads(json.dumps(gone).replace("test_capsule:Names", "test_capsule:Gone"))
    with pytest.raises(DeclarationError, match=r"the capsule needs Gone of the module tests\.diagnostics"):
        run_capsule(gone)


def test_what_cannot_be_masked_is_refused() -> None:
    """Numbers, columns that the job does not read, and those whose values are in partial results."""
    spec = spec_of(DECLARED["tumbling panes"])
    with pytest.raises(DeclarationError, match="mask names 'v', which is of the type int64"):
        require_maskable(spec, ["v"])
    with pytest.raises(DeclarationError, match="mask names 'x', which the job does not read"):
        require_maskable(spec, ["x"])
    with pytest.raises(DeclarationError, match="mask names 'name', which the aggregate 'first' may read"):
        require_maskable(spec, ["name"])
    with pytest.raises(DeclarationError, match="mask names 'name', which the aggregate 'first' may read"):
        require_maskable(spec_of(DECLARED["several windows"]), ["name"])
    require_maskable(spec, ["k"])
    require_maskable(spec_of(DECLARED["operator"]), ["name"])
